//! One run of a program, natively or under yod, and everything that can be seen of it.

mod doings;
mod outcome;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::capture::Captured;
use crate::manifest::{Row, Stdin};
use crate::scratch::{self, Scratch};
use crate::{process, stream, tree};

pub use outcome::Outcome;

/// After this a run counts as hung ([`crate::limit`]).
pub const HANG: Duration = Duration::from_secs(20);
/// Time limits, in seconds, of programs that never end: where one has not begun within the first, the machine is busy and it gets more.
pub const SECONDS_TO_BEGIN: [&str; 4] = ["2", "4", "8", "16"];
/// What yod gives a node to come up.
const BOOT_SECONDS: u64 = 20;
/// A user that owns nothing ("nobody"), and its group.
pub const NOBODY: u32 = 65534;
/// The environment that both runs have besides their row's: yod looks for QEMU along it.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// The program writes what uname says into this file, outside of the directory that is compared.
const MARK_FILE: &str = "../mark";

/// A run that is about to be started.
#[derive(Debug)]
pub struct Run {
    command: Vec<String>,
    env: BTreeMap<String, String>,
    stdin: Stdin,
    stdin_file: Option<PathBuf>,
    ulimits: Vec<(String, String)>,
    limit: Duration,
}

/// A run that goes on.
#[derive(Debug)]
pub struct Started<'a> {
    child: Child,
    stdout: Output,
    stderr: Output,
    scratch: &'a Scratch,
    since: Instant,
}

/// What comes out of a pipe once it has ended.
type Output = Receiver<std::io::Result<Captured>>;

impl Run {
    /// A command line; the program is an absolute path.
    pub fn new(command: impl IntoIterator<Item = impl Into<String>>) -> Run {
        let mut env = BTreeMap::from([("PATH".into(), PATH.into())]);
        if tree::slower() > 1 {
            let seconds = BOOT_SECONDS * tree::slower();
            env.insert("MARGAY_BOOT_TIMEOUT_S".into(), seconds.to_string());
        }
        Run {
            command: command.into_iter().map(Into::into).collect(),
            env,
            stdin: Stdin::None,
            stdin_file: None,
            ulimits: Vec::new(),
            limit: HANG,
        }
    }

    /// The program of a row, on this Linux.
    #[must_use]
    pub fn native(row: &Row) -> Run {
        Run::new([text(&tree::program(&row.kind, &row.program))])
            .args(&row.args)
            .of_row(row)
            .env(&row.extra.native_env)
    }

    /// The program of a row, on a node; `options` are further options of yod.
    #[must_use]
    pub fn margay(row: &Row, options: &[&str]) -> Run {
        let mut run = Run::yod(options);
        if let Some(partition) = &row.extra.partition {
            run = run.args(&["-m", partition]);
        }
        if let Some(ranks) = row.extra.ranks {
            run = run.args(&["-n", &ranks.to_string(), "--oversubscribe"]);
        }
        if let Some(cores) = row.extra.cores {
            run = run.args(&["-d", &cores.to_string(), "--oversubscribe"]);
        }
        for (name, value) in row.extra.env.iter().filter(|(name, _)| for_loader(name)) {
            run = run.args(&["--env", &format!("{name}={value}")]);
        }
        let mut run = run
            .args(&["--", &text(&tree::program(&row.kind, &row.program))])
            .args(&row.args)
            .of_row(row);
        run.env.retain(|name, _| !for_loader(name));
        run
    }

    /// yod with these options and arguments.
    #[must_use]
    pub fn yod(options: &[&str]) -> Run {
        Run::bare_yod(&[&tree::machine()]).args(options)
    }

    /// yod with nothing but these options and arguments.
    #[must_use]
    pub fn bare_yod(options: &[&str]) -> Run {
        Run::new([text(&tree::yod())]).args(options)
    }

    /// On one core of this host: the node has as many.
    #[must_use]
    pub fn on_core(mut self, core: usize) -> Run {
        let words = ["/usr/bin/taskset", "--cpu-list", &core.to_string()].map(String::from);
        self.command.splice(0..0, words);
        self
    }

    /// As arguments of another command.
    #[must_use]
    pub fn under(mut self, command: &[&str]) -> Run {
        self.command
            .splice(0..0, command.iter().map(|&word| word.into()));
        self
    }

    /// Its standard output goes to this file, instead of to who runs it.
    #[must_use]
    pub fn output_to(self, file: &str) -> Run {
        self.under(&["/bin/sh", "-c", "exec \"$@\" >\"$0\"", file])
    }

    /// As a user that owns nothing; only root can do that.
    #[must_use]
    pub fn as_nobody(mut self) -> Run {
        let nobody = [
            "/usr/bin/setpriv",
            &format!("--reuid={NOBODY}"),
            &format!("--regid={NOBODY}"),
            "--clear-groups",
        ];
        self.command.splice(0..0, nobody.map(String::from));
        self
    }

    fn of_row(mut self, row: &Row) -> Run {
        self.stdin = row.stdin;
        if let Some(stack) = &row.extra.stack {
            self = self.ulimit("-s", stack);
        }
        if row.runs_as_nobody() {
            self = self.as_nobody();
        }
        self.env(&row.extra.env)
            .env(&[("MARGAY_TEST_MARK", MARK_FILE)])
    }

    /// More arguments.
    #[must_use]
    pub fn args(mut self, args: &[impl AsRef<str>]) -> Run {
        self.command
            .extend(args.iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// More variables.
    #[must_use]
    pub fn env(mut self, variables: &[(impl AsRef<str>, impl AsRef<str>)]) -> Run {
        for (name, value) in variables {
            self.env.insert(name.as_ref().into(), value.as_ref().into());
        }
        self
    }

    /// Standard input from a file.
    #[must_use]
    pub fn stdin_from(mut self, path: PathBuf) -> Run {
        self.stdin_file = Some(path);
        self
    }

    /// A resource limit, as the shell's ulimit takes it.
    #[must_use]
    pub fn ulimit(mut self, option: &str, value: &str) -> Run {
        self.ulimits.push((option.into(), value.into()));
        self
    }

    /// Another time limit than [`HANG`].
    #[must_use]
    pub const fn limit(mut self, limit: Duration) -> Run {
        self.limit = limit;
        self
    }

    /// Runs it in a fresh directory.
    ///
    /// # Errors
    /// When it cannot be started, or something keeps its output open after its end.
    pub fn run(self) -> Result<Outcome> {
        let scratch = Scratch::new()?;
        self.run_in(&scratch)
    }

    /// Runs it in the directory `cwd` of `scratch`, which may hold something already.
    ///
    /// # Errors
    /// As [`Run::run`].
    pub fn run_in(self, scratch: &Scratch) -> Result<Outcome> {
        let limit = self.limit;
        self.start(scratch)?.finish(limit)
    }

    /// Starts it in the directory `cwd` of `scratch`; it leads a process group.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(self, scratch: &Scratch) -> Result<Started<'_>> {
        let cwd = scratch.path().join("cwd");
        fs::create_dir_all(&cwd)?;
        let mut command = self.command_line();
        command
            .env_clear()
            .envs(self.env.iter().filter(|(name, _)| !for_loader(name)))
            .current_dir(&cwd)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        match self.stdin {
            Stdin::None => match &self.stdin_file {
                Some(path) => command.stdin(File::open(path)?),
                None => command.stdin(Stdio::null()),
            },
            Stdin::Pipe(_) => command.stdin(Stdio::piped()),
            Stdin::File(bytes) => {
                let path = scratch.path().join("stdin");
                stream::write(&mut File::create(&path)?, bytes)?;
                command.stdin(File::open(&path)?)
            }
        };
        let since = Instant::now();
        let spawned = command.spawn();
        let mut child = spawned.with_context(|| format!("cannot run {:?}", self.command))?;
        if let (Stdin::Pipe(bytes), Some(mut pipe)) = (self.stdin, child.stdin.take()) {
            // A program that does not read to the end breaks the pipe; that is its business.
            std::thread::spawn(move || stream::write(&mut pipe, bytes));
        }
        let (stdout, stderr) = (reader(child.stdout.take()), reader(child.stderr.take()));
        Ok(Started {
            child,
            stdout,
            stderr,
            scratch,
            since,
        })
    }

    /// With all signals as usual: the caller of the tests may ignore some (shells do for what they start in the background).
    fn command_line(&self) -> Command {
        let mut command = Command::new("/usr/bin/env");
        command.arg("--default-signal");
        let for_it = self.env.iter().filter(|(name, _)| for_loader(name));
        command.args(for_it.map(|(name, value)| format!("{name}={value}")));
        if !self.ulimits.is_empty() {
            let limits = self
                .ulimits
                .iter()
                .map(|(option, value)| format!("ulimit {option} {value} && "));
            command.args(["/bin/sh", "-c"]);
            command.args([&(limits.collect::<String>() + "exec \"$@\""), "sh"]);
        }
        command.args(&self.command);
        command
    }
}

impl Started<'_> {
    /// Its process id: that of the command itself.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its end; after the limit it is killed.
    ///
    /// # Errors
    /// When something keeps its output open after its end.
    pub fn finish(mut self, limit: Duration) -> Result<Outcome> {
        let ended = process::wait(&mut self.child, limit)?;
        let mut doings = String::new();
        if ended.is_none() {
            doings = doings::of(self.child.id());
            process::kill_group(&mut self.child);
        }
        Ok(Outcome {
            status: ended.map(process::shell_status),
            doings,
            stdout: drained(&self.stdout).context("stdout")?,
            stderr: drained(&self.stderr).context("stderr")?,
            files: scratch::list(&self.scratch.path().join("cwd"))?,
            release: fs::read_to_string(self.scratch.path().join("mark")).ok(),
            took: self.since.elapsed(),
        })
    }
}

/// Whether a variable is one of ld.so's: it is for the program alone, not for what starts it.
fn for_loader(name: &str) -> bool {
    name.starts_with("LD_")
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn reader(pipe: Option<impl Read + Send + 'static>) -> Output {
    let (sender, receiver) = channel();
    if let Some(mut pipe) = pipe {
        // The receiver may have given up; then it is not needed.
        std::thread::spawn(move || sender.send(Captured::read(&mut pipe)));
    }
    receiver
}

fn drained(receiver: &Output) -> Result<Captured> {
    let read = receiver.recv_timeout(HANG);
    ensure!(
        read.is_ok(),
        "still open {} s after the end",
        HANG.as_secs()
    );
    Ok(read??)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Run {
        Run::new(["/bin/sh", "-c", script])
    }

    #[test]
    fn everything_of_a_run_is_seen() {
        let seen = shell("echo out; echo err >&2; echo x > file; echo m > ../mark; exit 7").run();
        let seen = seen.expect("ran");
        assert_eq!(seen.status, Some(7));
        let why = seen.ended_well().expect_err("7").to_string();
        assert_eq!(why, "status Some(7): out\nerr\n");
        assert_eq!(
            (seen.stdout.text(), seen.stderr.text()),
            ("out\n".into(), "err\n".into())
        );
        assert_eq!(seen.files.len(), 1);
        assert_eq!(seen.release.as_deref(), Some("m\n"));
    }

    #[test]
    fn a_hung_run_is_ended() {
        let seen = shell("sleep 60")
            .limit(Duration::from_millis(100))
            .run()
            .expect("ran");
        assert_eq!(seen.status, None);
        assert!(seen.took < HANG);
        let why = seen.ended().expect_err("it hung").to_string();
        assert!(!seen.doings.is_empty() && why.ends_with(&seen.doings));
    }

    #[test]
    fn stdin_and_limits_are_set() {
        let mut run = shell("wc -c; ulimit -s").ulimit("-s", "1234");
        run.stdin = Stdin::Pipe(100_000);
        assert_eq!(run.run().expect("ran").stdout.text(), "100000\n1234\n");
        let mut run = shell("wc -c");
        run.stdin = Stdin::File(12345);
        assert_eq!(run.run().expect("ran").stdout.text(), "12345\n");
    }
}
