//! The program: finding it as a shell does, and refusing early what cannot run.
//!
//! The file, that of what runs it if it is a script, and that of its interpreter (PT_INTERP) if it is dynamically linked, are
//! opened once; what was checked is what the ranks load, whatever happens to their names meanwhile. Only a script itself is
//! opened once more, by its interpreter.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use abi::image::Image;
use abi::map;
use proxy::program::{self, NoProgram, Unloadable, interpreter_path, read_image};
use rustix::fs::Access;

use crate::failure::{Failure, status};
use crate::launcher::Settings;
use crate::mpi::Linked;
use crate::place::Place;

pub const IS_DIRECTORY: &str = "is a directory";
pub const NOT_EXECUTABLE: &str = "not executable (chmod +x makes it so)";

/// A variable and its value.
type Variable = (OsString, OsString);

/// What a command line names.
pub struct Found {
    /// What is to be loaded: the program, or what runs it if it is a script.
    pub file: File,
    /// Where the program is.
    pub path: PathBuf,
    argv: Vec<CString>,
}

impl Found {
    /// Looks for `command[0]` as a shell does.
    ///
    /// # Errors
    /// It is not there, or cannot be run.
    pub fn of(command: &[OsString]) -> Result<Found, Failure> {
        let name = command.first().map_or(OsStr::new(""), OsString::as_os_str);
        let path = if name.as_bytes().contains(&b'/') {
            PathBuf::from(name)
        } else {
            search(name, &std::env::var_os("PATH").unwrap_or_default())?
        };
        let mut argv = command.iter().cloned().map(c_string).collect();
        let file = behind_scripts(open(&path)?, &path, &mut argv)?;
        Ok(Found { file, path, argv })
    }
}

/// A program that can be loaded.
#[derive(Debug)]
pub struct Program {
    file: File,
    interpreter: Option<File>,
    started_as: CString,
    real_path: CString,
    argv: Vec<CString>,
    inherited: Vec<CString>,
    set: Vec<Variable>,
    mpi: Option<&'static str>,
}

impl Program {
    /// Finds and checks `command[0]`; `variables` are set in addition to this process's environment and what ranks of MPIs
    /// need.
    pub fn find(
        command: &[OsString],
        variables: &[Variable],
        place: &Place,
    ) -> Result<Program, Failure> {
        let Found { file, path, argv } = Found::of(command)?;
        let interpreter = check(&file, &path)?;
        // Under the launcher of another MPI the program still needs what its own does.
        let mpi = Linked::of(&file).map(|linked| linked.mpi);
        let of_launcher = place.launched.as_ref().map(|launched| launched.settings);
        let settings = [of_launcher, mpi.as_ref().map(|mpi| mpi.settings)];
        let real_path = std::fs::read_link(format!(
            "/proc/self/fd/{}",
            std::os::fd::AsRawFd::as_raw_fd(&file)
        ))
        .unwrap_or_else(|_| path.clone());
        Ok(Program {
            file,
            interpreter,
            started_as: c_string(path.into_os_string()),
            real_path: c_string(real_path.into_os_string()),
            argv,
            inherited: inherited_environment()?,
            set: [needed(settings.into_iter().flatten()), variables.to_vec()].concat(),
            mpi: mpi.map(|mpi| mpi.name),
        })
    }

    /// What the user called it.
    pub fn name(&self) -> String {
        String::from_utf8_lossy(self.started_as.as_bytes()).into_owned()
    }

    /// The MPI that it is linked with, for people.
    pub fn mpi(&self) -> Option<&'static str> {
        self.mpi
    }

    /// Sets what ranks need on a machine, unless the user has.
    pub fn set_for_machine(&mut self, settings: Settings) {
        let needed = needed(std::iter::once(settings));
        self.set.splice(0..0, needed);
    }

    /// A copy for the proxy of `rank`, from 0, of `size`, which the program finds in its environment.
    pub fn for_proxy(&self, rank: usize, size: usize) -> std::io::Result<proxy::Program> {
        let place = [("MARGAY_RANK", rank), ("MARGAY_SIZE", size)];
        let place = place.map(|(name, number)| (name.into(), number.to_string().into()));
        Ok(proxy::Program {
            file: self.file.try_clone()?.into(),
            interpreter: match &self.interpreter {
                Some(file) => Some(file.try_clone()?.into()),
                None => None,
            },
            started_as: self.started_as.clone(),
            real_path: self.real_path.clone(),
            argv: self.argv.clone(),
            env: environment(&self.inherited, &[&self.set[..], &place].concat()),
        })
    }
}

/// What MPIs need and the user has not set.
fn needed(settings: impl Iterator<Item = Settings>) -> Vec<Variable> {
    let all = settings.flatten();
    let unset = all.filter(|(name, _)| std::env::var_os(name).is_none());
    unset
        .map(|&(name, value)| (name.into(), value.into()))
        .collect()
}

/// No argument, variable or path that Linux hands to a process has a NUL inside.
fn c_string(text: OsString) -> CString {
    let mut bytes = text.into_vec();
    bytes.retain(|&byte| byte != 0);
    CString::new(bytes).unwrap_or_default()
}

/// The environment that yod was started with, as it is: an entry need not have a `=`.
fn inherited_environment() -> Result<Vec<CString>, Failure> {
    let file = "/proc/self/environ";
    let bytes = std::fs::read(file)
        .map_err(|error| Failure::os("read the environment", format_args!("{file}: {error}")))?;
    Ok(entries(&bytes))
}

fn entries(bytes: &[u8]) -> Vec<CString> {
    let entries = bytes.split_inclusive(|&byte| byte == 0);
    entries
        .filter_map(|entry| CString::from_vec_with_nul(entry.to_vec()).ok())
        .collect()
}

fn environment(inherited: &[CString], set: &[Variable]) -> Vec<CString> {
    let join = |(key, value): &Variable| {
        let mut entry = key.clone();
        entry.push("=");
        entry.push(value);
        c_string(entry)
    };
    // The last of several settings of one name counts.
    let last = |name: &[u8]| set.iter().rposition(|(key, _)| key.as_bytes() == name);
    let name = |entry: &CString| {
        let end = entry.as_bytes().iter().position(|&byte| byte == b'=');
        end.map(|end| entry.as_bytes()[..end].to_vec())
    };
    let is_kept = |entry: &&CString| name(entry).is_none_or(|name| last(&name).is_none());
    let new = set
        .iter()
        .enumerate()
        .filter(|(i, (key, _))| last(key.as_bytes()) == Some(*i))
        .map(|(_, variable)| join(variable));
    inherited
        .iter()
        .filter(is_kept)
        .cloned()
        .chain(new)
        .collect()
}

fn cannot_run(path: &Path, why: &str) -> Failure {
    Failure::new(
        status::CANNOT_RUN,
        format_args!("{}: {why}", path.display()),
    )
}

/// The first executable file called `name` in the directories of `dirs`; an empty directory is the current one.
fn search(name: &OsStr, dirs: &OsStr) -> Result<PathBuf, Failure> {
    let mut found = None;
    if !name.is_empty() {
        for dir in std::env::split_paths(dirs) {
            let path = if dir.as_os_str().is_empty() {
                Path::new(".").join(name)
            } else {
                dir.join(name)
            };
            if path.is_file() && rustix::fs::access(&path, Access::EXEC_OK).is_ok() {
                return Ok(path);
            }
            if path.exists() {
                found.get_or_insert(path);
            }
        }
    }
    Err(match found {
        Some(path) if path.is_dir() => cannot_run(&path, IS_DIRECTORY),
        Some(path) => cannot_run(&path, NOT_EXECUTABLE),
        None => Failure::new(
            status::NOT_FOUND,
            format_args!(
                "{}: not found in PATH (a program in this directory is started as ./NAME)",
                name.display()
            ),
        ),
    })
}

fn open(path: &Path) -> Result<File, Failure> {
    let meta = std::fs::metadata(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => Failure::new(
            status::NOT_FOUND,
            format_args!("{}: no such file", path.display()),
        ),
        _ => cannot_run(path, &error.to_string()),
    })?;
    if meta.is_dir() {
        return Err(cannot_run(path, IS_DIRECTORY));
    }
    if !meta.is_file() {
        return Err(cannot_run(path, "not a regular file"));
    }
    if rustix::fs::access(path, Access::EXEC_OK).is_err() {
        return Err(cannot_run(path, NOT_EXECUTABLE));
    }
    File::open(path).map_err(|error| cannot_run(path, &format!("cannot be read: {error}")))
}

/// Follows the `#!` lines of scripts to what is to be loaded, and puts the interpreters in front of the arguments.
fn behind_scripts(file: File, path: &Path, argv: &mut Vec<CString>) -> Result<File, Failure> {
    let name = c_string(path.as_os_str().to_owned());
    let open = |name: &CStr| open(Path::new(OsStr::from_bytes(name.to_bytes())));
    program::behind_scripts(file, &name, argv, open).map_err(|none| match none {
        NoProgram::Line => cannot_run(path, "a script whose first line names no interpreter"),
        NoProgram::Nested => cannot_run(
            path,
            "a script whose interpreter is a script, and so on: too many",
        ),
        NoProgram::Interpreter(name, _) if name.is_empty() => {
            cannot_run(path, "a script whose first line names no interpreter")
        }
        NoProgram::Interpreter(_, failure) => of_interpreter(path, failure),
        NoProgram::Read(errno) => cannot_run(path, &std::io::Error::from(errno).to_string()),
    })
}

/// As execve(2) says it to a shell: 127 when there is no interpreter, 126 when there is one that does not serve.
fn of_interpreter(path: &Path, failure: Failure) -> Failure {
    let line = format_args!("{}: its interpreter {}", path.display(), failure.line);
    Failure::new(failure.status, line)
}

/// Checks a program's headers; opens and checks its interpreter, if it has one.
fn check(file: &File, path: &Path) -> Result<Option<File>, Failure> {
    let cannot = |why: Unloadable| cannot_run(path, &why.to_string());
    let Some(place) = read_image(file, Image::parse).map_err(cannot)?.interpreter else {
        return Ok(None);
    };
    let name = interpreter_path(file, place).map_err(cannot)?;
    let name = Path::new(OsStr::from_bytes(name.to_bytes()));
    let interpreter = open(name).map_err(|failure| of_interpreter(path, failure))?;
    let parse = |head: &[u8], file_bytes| {
        Image::parse_interpreter(head, file_bytes, map::STACK_TOP - map::STACK_GAP)
    };
    let bad = |why: Unloadable| of_interpreter(path, cannot_run(name, &why.to_string()));
    read_image(&interpreter, parse).map_err(bad)?;
    Ok(Some(interpreter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_replace_and_the_last_wins() {
        let os = |s: &str| OsString::from(s);
        let inherited = entries(b"A=1\0B=2\0");
        let set = [(os("B"), os("x")), (os("C"), os("y")), (os("B"), os("z"))];
        let place = [("MARGAY_RANK", "7"), ("MARGAY_RANK", "1")].map(|(k, v)| (os(k), os(v)));
        let env = environment(&inherited, &[&set[..], &place].concat());
        assert_eq!(env, [c"A=1", c"C=y", c"B=z", c"MARGAY_RANK=1"]);
    }

    /// Entries without `=`, which Linux passes like any other, were dropped.
    #[test]
    fn entries_are_passed_on_as_they_are() {
        let inherited = entries(b"A=1\0B\0\0=C\0A=2\0");
        assert_eq!(inherited, [c"A=1", c"B", c"", c"=C", c"A=2"]);
        let set = [(OsString::from("B"), OsString::from("x"))];
        let env = environment(&inherited, &set);
        assert_eq!(env, [c"A=1", c"B", c"", c"=C", c"A=2", c"B=x"]);
        assert!(entries(b"").is_empty());
    }

    #[test]
    fn path_is_searched_in_order() {
        assert_eq!(
            search(OsStr::new("sh"), OsStr::new("/nonexistent:/bin:/usr/bin")),
            Ok("/bin/sh".into())
        );
        assert_eq!(
            search(OsStr::new("sh"), OsStr::new(""))
                .expect_err("none")
                .status,
            127
        );
        assert_eq!(
            search(OsStr::new(""), OsStr::new("/bin"))
                .expect_err("none")
                .status,
            127
        );
        assert_eq!(
            search(OsStr::new("passwd"), OsStr::new("/etc"))
                .expect_err("data")
                .status,
            126
        );
        // As execvp(3), which env(1) and mpirun use.
        assert_eq!(
            search(OsStr::new("bin"), OsStr::new("/"))
                .expect_err("a directory")
                .status,
            126
        );
    }
}
