//! Running a command with a time limit, and noting when its first output came.

use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

/// What a command did.
#[derive(Debug)]
pub struct Outcome {
    /// How it ended.
    pub status: ExitStatus,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
    /// From starting it to its end.
    pub seconds: f64,
    /// From starting it to its first output, or to the first after a mark.
    pub first_output_seconds: Option<f64>,
}

impl Outcome {
    /// # Errors
    /// When it failed; says what it had to say last.
    pub fn good(self) -> Result<Outcome> {
        if self.status.success() {
            return Ok(self);
        }
        let last = |text: &str| {
            text.lines()
                .rfind(|line| !line.is_empty())
                .map(str::to_owned)
        };
        let said = last(&self.stderr)
            .or_else(|| last(&self.stdout))
            .unwrap_or_default();
        bail!("{}: {said}", self.status);
    }
}

/// Runs a command; its input is empty.
///
/// # Errors
/// When it cannot be started or takes longer than `limit`: it is killed then.
pub fn run(command: &mut Command, limit: Duration) -> Result<Outcome> {
    run_to_mark(command, limit, "")
}

/// As [`run`]; what comes before `mark`, and the mark, is not yet the first output.
///
/// # Errors
/// As [`run`].
pub fn run_to_mark(command: &mut Command, limit: Duration, mark: &str) -> Result<Outcome> {
    let start = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run {}", command.get_program().display()))?;
    let mut stderr = child.stderr.take().context("no pipe")?;
    let errors = thread::spawn(move || {
        let mut text = Vec::new();
        stderr.read_to_end(&mut text).map(|_| text)
    });
    let (done, guard) = guard(&child, limit)?;
    let read = read_timed(&mut child, start, mark);
    let status = child.wait();
    let seconds = start.elapsed().as_secs_f64();
    // The guard may have gone already: then it says below that it struck.
    let _ = done.send(());
    let struck = guard.join().unwrap_or(false);
    let (stdout, first_output_seconds) = read?;
    let stdout = String::from_utf8_lossy(&stdout).into_owned();
    let stderr = errors.join().unwrap_or_else(|_| Ok(Vec::new()))?;
    let stderr = String::from_utf8_lossy(&stderr).into_owned();
    ensure!(
        !struck,
        "not done after {} s, killed; it had printed {:?}",
        limit.as_secs(),
        format!("{stdout}{stderr}")
    );
    Ok(Outcome {
        status: status?,
        stdout,
        stderr,
        seconds,
        first_output_seconds,
    })
}

fn read_timed(child: &mut Child, start: Instant, mark: &str) -> Result<(Vec<u8>, Option<f64>)> {
    let mut stdout = child.stdout.take().context("no pipe")?;
    let (mut text, mut piece, mut first) = (Vec::new(), vec![0; 4096], None);
    loop {
        let got = stdout.read(&mut piece)?;
        if got == 0 {
            return Ok((text, first));
        }
        text.extend(&piece[..got]);
        if first.is_none() && goes_on_after(&text, mark.as_bytes()) {
            first = Some(start.elapsed().as_secs_f64());
        }
    }
}

fn goes_on_after(text: &[u8], mark: &[u8]) -> bool {
    let after = text.len().saturating_sub(mark.len());
    (0..after).any(|at| text[at..].starts_with(mark))
}

/// Kills the child after `limit` unless notified that it is done; returns whether it struck. The child is reaped only after it
/// has closed its output, which is what the guard waits for, so the process id is still the child's.
fn guard(child: &Child, limit: Duration) -> Result<(Sender<()>, JoinHandle<bool>)> {
    let pid = i32::try_from(child.id())
        .ok()
        .and_then(Pid::from_raw)
        .context("no process id")?;
    let (done, ended) = channel();
    let thread = thread::spawn(move || {
        let late = ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout);
        late && kill_process(pid, Signal::KILL).is_ok()
    });
    Ok((done, thread))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn output_and_status_come_back() {
        let outcome = run(
            &mut shell("echo out; echo err >&2; exit 3"),
            Duration::from_secs(20),
        )
        .expect("runs");
        assert_eq!(
            (outcome.stdout.as_str(), outcome.stderr.as_str()),
            ("out\n", "err\n")
        );
        assert_eq!(outcome.status.code(), Some(3));
        assert!(outcome.first_output_seconds.expect("output") <= outcome.seconds);
        let error = outcome.good().expect_err("failed");
        assert!(error.to_string().contains("exit status: 3: err"), "{error}");
    }

    #[test]
    fn silence_has_no_first_output() {
        let outcome = run(&mut shell("true"), Duration::from_secs(20)).expect("runs");
        assert!(outcome.first_output_seconds.is_none() && outcome.good().is_ok());
    }

    #[test]
    fn the_mark_is_no_output() {
        let seconds = |script| {
            let limit = Duration::from_secs(20);
            let outcome = run_to_mark(&mut shell(script), limit, "begin\n").expect("runs");
            outcome.first_output_seconds
        };
        assert_eq!(seconds("echo boot; echo begin"), None);
        assert!(seconds("echo begin; sleep 0.2; echo out").expect("output") >= 0.2);
    }

    #[test]
    fn what_never_ends_is_killed() {
        let error =
            run(&mut shell("exec sleep 1000"), Duration::from_millis(50)).expect_err("killed");
        assert!(error.to_string().contains("killed"), "{error}");
    }

    #[test]
    fn what_is_missing_is_named() {
        let error =
            run(&mut Command::new("/no/such"), Duration::from_secs(1)).expect_err("missing");
        assert!(error.to_string().contains("/no/such"), "{error}");
    }
}
