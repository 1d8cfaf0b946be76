//! Several ranks of an MPI program find each other by their launcher: without it each would be the only one in its
//! MPI_COMM_WORLD, and compute all that they were to share. So `yod -n 4 ./a.out` becomes `mpirun -n 4 yod ./a.out`, by
//! execve(2): signals, the terminal, stdin, time limits and the status are the launcher's.
//!
//! The launcher is found in PATH, by its name and by what it says to `--version`. A script is not started, whatever its name: one that
//! starts yod again would do so for ever, and only the user knows what else it does.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use machine::ready;
use rustix::event::PollFlags;
use rustix::fs::Access;

use crate::cli::{Cli, LAUNCHED_BY};
use crate::console;
use crate::dry_run::quoted;
use crate::failure::{Failure, status};
use crate::mpi::{Linked, Mpi};
use crate::place::Place;
use crate::program::{Found, IS_DIRECTORY, NOT_EXECUTABLE};
use crate::ps::printable;
use crate::setup::oversubscribes;

/// The options that only print: the command line that they print is without.
const DRY_RUN: &str = "--dry-run";
const DRY_RUN_JSON: &str = "--dry-run=json";
/// A launcher gets so long to say what it is.
const VERSION_LIMIT: Duration = Duration::from_secs(20);
/// No launcher says more in its first line.
const VERSION_BYTES: u64 = 4096;
/// To launchers this word begins another program with its arguments.
const NEXT_PROGRAM: &str = ":";

/// Becomes the launcher that the program's ranks need, if they need one. A yod that it starts has no `-n`, and an option that says
/// who has started it: it never becomes a launcher, and is no rank unless that has given it a number. With `--dry-run` it only gives the
/// launcher's command line.
///
/// # Errors
/// There is none, or it cannot do what was requested.
pub fn if_needed(
    cli: &Cli,
    place: &Place,
    inherited: proxy::Inherited,
) -> Result<Option<String>, Failure> {
    if let (Some(launcher), None) = (&cli.launched_by, &place.launched) {
        let launcher = launcher.display();
        let line = format_args!("{launcher} has not set which rank this yod is: is it a launcher?");
        return Err(Failure::new(status::UNAVAILABLE, line));
    }
    if place.ranks.len() < 2 {
        return Ok(None);
    }
    // What is wrong with the program is said where all programs are checked.
    let Ok(found) = Found::of(&cli.command) else {
        return Ok(None);
    };
    let Some(linked) = Linked::of(&found.file) else {
        return Ok(None);
    };
    let (mpi, ranks) = (&linked.mpi, cli.ranks);
    let refused = |why: String| {
        let (program, name) = (found.path.display(), mpi.name);
        let line = format_args!(
            "-n {ranks}: {program} is linked with {name}, whose ranks find each other by their launcher; {why}"
        );
        Err(Failure::new(status::USAGE, line))
    };
    if let Some(launched) = &place.launched {
        let launcher = launched.launcher;
        return refused(format!(
            "{launcher} has started this yod for one, leave -n out"
        ));
    }
    if cli.command.iter().any(|word| word == NEXT_PROGRAM) {
        let why = format!("an argument {NEXT_PROGRAM:?} would end the arguments there");
        return refused(why);
    }
    let origin = found.path.parent().unwrap_or(Path::new("."));
    let is_debians = linked.is_debians(origin, &ld_library_path(cli));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let launcher = match find(mpi, is_debians, &path) {
        Ok(launcher) => launcher,
        Err(passed_over) => {
            let package = mpi.package;
            return refused(format!(
                "there is none in PATH{passed_over}: install it (Debian's package is {package}) or add its directory to PATH"
            ));
        }
    };
    let command = CommandLine::new(cli, mpi, launcher)?;
    if cli.dry_run.is_some() {
        return Ok(Some(command.to_string()));
    }
    if !cli.quiet {
        let (program, name) = (found.path.display(), mpi.name);
        console::say(format_args!(
            "{program} is linked with {name}: starting {command}"
        ));
    }
    Err(command.exec(inherited))
}

/// Where ranks look for libraries before the system's directories.
fn ld_library_path(cli: &Cli) -> OsString {
    let name = "LD_LIBRARY_PATH";
    let mut given = cli.variables.iter().rev();
    let given = given.find(|(key, _)| key == name).map(|(_, v)| v.clone());
    given.or_else(|| std::env::var_os(name)).unwrap_or_default()
}

/// The launcher in the directories of `path`; else one that was passed over and why, in parentheses, if any was.
fn find(mpi: &Mpi, is_debians: bool, path: &OsStr) -> Result<PathBuf, String> {
    let mut names = [mpi.debians, mpi.others];
    if !is_debians {
        names.reverse();
    }
    let mut passed_over = String::new();
    for name in names.concat() {
        for directory in std::env::split_paths(path) {
            let file = Path::new(".").join(directory).join(name);
            match usable(&file, mpi) {
                Some(Ok(())) => return Ok(file),
                Some(Err(why)) if passed_over.is_empty() => {
                    passed_over = format!(" ({}: {why})", file.display());
                }
                _ => {}
            }
        }
    }
    Err(passed_over)
}

/// Whether a file is the launcher; `None`: there is no file.
fn usable(file: &Path, mpi: &Mpi) -> Option<Result<(), String>> {
    let meta = std::fs::metadata(file).ok()?;
    let mut magic = [0; 4];
    let mut begins = || std::fs::File::open(file)?.read_exact(&mut magic);
    let why = if meta.is_dir() {
        IS_DIRECTORY.into()
    } else if !meta.is_file() || rustix::fs::access(file, Access::EXEC_OK).is_err() {
        NOT_EXECUTABLE.into()
    } else if begins().is_err() || magic != object::elf::ELFMAG {
        "a script, which only you can start".into()
    } else {
        let said = version(file);
        if mpi.version_words.iter().any(|name| said.contains(name)) {
            return Some(Ok(()));
        }
        format!("its version is no {}'s", mpi.name)
    };
    Some(Err(why))
}

/// The first line that a program says to `--version`, as far as it comes in time.
fn version(file: &Path) -> String {
    let mut command = Command::new(file);
    command
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let Ok(mut child) = machine::sys::spawn_bound(&mut command, &[], &[]) else {
        return String::new();
    };
    let mut said = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        let mut stdout = stdout.take(VERSION_BYTES);
        let end = Instant::now() + VERSION_LIMIT;
        while !said.contains(&b'\n') && is_readable(stdout.get_ref(), end) {
            let mut some = [0; 256];
            match stdout.read(&mut some) {
                Ok(bytes) if bytes > 0 => said.extend(&some[..bytes]),
                _ => break,
            }
        }
    }
    let _ = child.kill();
    let _ = child.wait();
    let said = String::from_utf8_lossy(&said);
    said.lines().next().unwrap_or_default().to_owned()
}

fn is_readable(fd: &impl std::os::fd::AsFd, end: Instant) -> bool {
    let left = end.saturating_duration_since(Instant::now());
    ready::within(left, fd, PollFlags::IN)
}

/// What yod becomes.
struct CommandLine<'a> {
    launcher: PathBuf,
    options: Vec<OsString>,
    yod: PathBuf,
    cli: &'a Cli,
}

impl CommandLine<'_> {
    fn new<'a>(cli: &'a Cli, mpi: &Mpi, launcher: PathBuf) -> Result<CommandLine<'a>, Failure> {
        let own = "/proc/self/exe";
        let yod = std::fs::read_link(own)
            .map_err(|error| Failure::os("find yod's own file", format_args!("{own}: {error}")))?;
        let mut options = vec!["-n".into(), cli.ranks.to_string().into()];
        options.extend(mpi.options.iter().map(OsString::from));
        let oversubscribe = mpi.oversubscribe.filter(|_| oversubscribes(cli));
        options.extend(oversubscribe.map(OsString::from));
        Ok(CommandLine {
            launcher,
            options,
            yod,
            cli,
        })
    }

    /// Returns only if it cannot.
    fn exec(&self, inherited: proxy::Inherited) -> Failure {
        let mut command = Command::new(&self.launcher);
        command
            .args(&self.options)
            .arg(&self.yod)
            .args(&self.cli.given)
            .arg(format!("--{LAUNCHED_BY}"))
            .arg(&self.launcher)
            .arg("--")
            .args(&self.cli.command);
        let error =
            machine::sys::become_program(&mut command, inherited.ignored, inherited.blocked);
        let launcher = self.launcher.display();
        Failure::new(status::CANNOT_RUN, format_args!("{launcher}: {error}"))
    }
}

/// In one line, as a user would type it, without the program's arguments.
impl std::fmt::Display for CommandLine<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let words = [self.launcher.as_os_str()].into_iter();
        let words = words.chain(self.options.iter().map(OsString::as_os_str));
        let words = words.chain([OsStr::new("yod")]);
        let given = self.cli.given.iter().map(OsString::as_os_str);
        let words = words.chain(given.filter(|word| *word != DRY_RUN && *word != DRY_RUN_JSON));
        let words = words.chain(self.cli.command.first().map(OsString::as_os_str));
        let words = words.map(|word| quoted(&printable(&word.to_string_lossy())));
        f.write_str(&words.collect::<Vec<_>>().join(" "))
    }
}
