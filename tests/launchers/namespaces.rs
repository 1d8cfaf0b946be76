//! Where a test may be host, network and processes by itself: namespaces, which take root.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Result, ensure};
use margay_tests::process;
use margay_tests::report::skipped;
use margay_tests::run::{HANG, Outcome, Run};
use margay_tests::tree;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use crate::job::{Job, wait_for};

/// What is done in them, and is refused to some who may make them.
const TRY: &str = "mount --make-rprivate / && mount -t sysfs none /sys && ip link add margay-1 type veth peer name margay-2";

/// What makes them: of mounts, network, host name, System V's objects and processes.
const UNSHARE: [&str; 9] = [
    "/usr/bin/unshare",
    "-m",
    "-n",
    "-u",
    "-i",
    "-p",
    "-f",
    "--mount-proc",
    "--kill-child",
];

/// Namespaces of their own. All that runs in them ends with this.
pub struct Namespaces {
    unshare: Child,
    /// The process id of the first process in them.
    init: String,
}

impl Namespaces {
    /// Has a script of this folder set them up, and live in them; `None` where that is not possible, which is said.
    pub fn start(script: &str, arguments: &[&str]) -> Result<Option<Namespaces>> {
        if !are_possible(script)? {
            return Ok(None);
        }
        let script = tree::root().join("tests/launchers").join(script);
        let unshare = unshare()
            .arg("/bin/sh")
            .arg(script)
            .args(arguments)
            .spawn()?;
        let mut namespaces = Namespaces {
            unshare,
            init: String::new(),
        };
        let pid = namespaces.unshare.id();
        let children = format!("/proc/{pid}/task/{pid}/children");
        wait_for("the first process", || {
            let pids = fs::read_to_string(&children).unwrap_or_default();
            namespaces.init = pids.trim().to_owned();
            !namespaces.init.is_empty()
        })?;
        Ok(Some(namespaces))
    }

    fn enter(&self) -> [&str; 8] {
        [
            "/usr/bin/nsenter",
            "-t",
            &self.init,
            "-m",
            "-n",
            "-u",
            "-i",
            "-p",
        ]
    }

    /// Runs a command in them; what it prints.
    pub fn output_of(&self, command: &[&str]) -> Result<String> {
        let enter = self.enter();
        let mut run = Command::new(enter[0]);
        let output = run.args(&enter[1..]).args(command).output()?;
        ensure!(
            output.status.success(),
            "{command:?}: {}: {}{}",
            output.status,
            String::from_utf8_lossy(&output.stderr),
            self.end()
        );
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// How they have ended, if they have: as their first process. Then nsenter's status is 1, whatever it was to run.
    fn end(&self) -> String {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let ended = waitid(WaitId::Pid(Pid::from_child(&self.unshare)), options);
        let ended = ended.ok().flatten();
        ended.map_or_else(String::new, |ended| {
            let (status, signal) = (ended.exit_status(), ended.terminating_signal());
            format!("they have ended with status {status:?}, signal {signal:?}\n")
        })
    }

    /// A run in them, in the job's directory, which a mount of theirs may have made another.
    pub fn within(&self, job: &Job, run: Run) -> Run {
        let directory = job.directory().to_string_lossy().into_owned();
        let there = ["/bin/sh", "-c", "cd \"$0\" && exec \"$@\"", &directory];
        run.under(&[&self.enter()[..], &there].concat())
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        let _ = self.unshare.kill();
        let _ = self.unshare.wait();
        // Its mounts may be in use as long as its first process is.
        let init = PathBuf::from(format!("/proc/{}", self.init));
        process::wait_until(HANG, || !init.exists());
    }
}

fn unshare() -> Command {
    let mut unshare = Command::new(UNSHARE[0]);
    unshare.args(&UNSHARE[1..]).stdin(Stdio::null());
    unshare
}

/// Whether this user may make them; if not it is said that `what` is skipped.
pub fn are_possible(what: &str) -> Result<bool> {
    let mut tried = unshare();
    let tried = tried
        .args(["/bin/sh", "-c", TRY])
        .stderr(Stdio::null())
        .status()?;
    if !tried.success() {
        skipped(&format!(
            "{what} needs root, for namespaces with mounts and a network of their own"
        ));
    }
    Ok(tried.success())
}

/// The same status, and the same lines in any order.
pub fn same_lines(native: &Outcome, ended: &Outcome) -> Result<()> {
    let lines = |outcome: &Outcome| {
        let text = outcome.stdout.text();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    ensure!(
        (ended.status, lines(ended)) == (native.status, lines(native)),
        "status {:?}:\n{}{}instead of {:?}:\n{}{}",
        ended.status,
        ended.stdout.text(),
        ended.stderr.text(),
        native.status,
        native.stdout.text(),
        native.stderr.text()
    );
    Ok(())
}
