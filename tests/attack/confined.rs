//! Running what must not be run: see confined.sh.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use margay_tests::run::{HANG, Outcome, Run};
use margay_tests::scratch::Scratch;
use margay_tests::tree;

/// Owns nothing on any host.
const NOBODY: u32 = 65533;
/// Where the target directory and the scratch directory are found inside.
const TARGET: &str = "/mnt/target";
const SCRATCH: &str = "/mnt/scratch";
/// No job of an attack takes longer, on a machine that is busy with others.
const LIMIT: Duration = Duration::from_secs(240);

/// Whether programs can be confined here: only root can become another user.
pub fn possible() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// A built program, by its name inside.
pub fn program(kind: &str, name: &str) -> String {
    format!("{TARGET}/programs/{kind}/{name}")
}

/// A directory in which confined programs run, one after another.
pub struct Confined {
    scratch: Scratch,
}

impl Confined {
    pub fn new() -> Result<Confined> {
        let scratch = Scratch::new()?;
        for name in ["cwd", "tmp", "log"] {
            let path = scratch.path().join(name);
            fs::create_dir(&path)?;
            chown(&path, Some(NOBODY), Some(NOBODY))?;
        }
        Ok(Confined { scratch })
    }

    /// The working directory, from outside.
    pub fn cwd(&self) -> std::path::PathBuf {
        self.scratch.path().join("cwd")
    }

    /// Runs a program under yod. The job must end by itself, without a word of a panic, and leave nothing.
    pub fn job(&self, ranks: u64, options: &[&str], program: &[&str]) -> Result<Outcome> {
        let yod = format!("{TARGET}/release/yod");
        let (ranks, log) = (ranks.to_string(), format!("{SCRATCH}/log/kernel"));
        let machine = tree::machine();
        let command = [yod.as_str(), &machine, "-n", &ranks, "--oversubscribe"];
        let run = self
            .command()
            .args(&command)
            .args(&["-m", "64M", "--quiet", "--kernel-log", &log])
            .args(options)
            .args(&["--"])
            .args(program);
        let outcome = run.limit(LIMIT).run_in(&self.scratch)?;
        self.judge(&outcome)?;
        Ok(outcome)
    }

    fn command(&self) -> Run {
        let script = tree::root().join("tests/attack/confined.sh");
        let (target, scratch) = (tree::target(), self.scratch.path());
        let boot = HANG.as_secs() * tree::slower();
        let unshare =
            "/usr/bin/unshare --pid --mount --net --ipc --uts --fork --kill-child --mount-proc";
        Run::new(unshare.split(' '))
            .args(&["/bin/sh", &script.to_string_lossy()])
            .args(&[target.to_string_lossy(), scratch.to_string_lossy()])
            .env(&[
                ("TMPDIR", format!("{SCRATCH}/tmp")),
                ("XDG_STATE_HOME", format!("{SCRATCH}/log")),
                ("MARGAY_BOOT_TIMEOUT_S", boot.to_string()),
            ])
    }

    fn judge(&self, outcome: &Outcome) -> Result<()> {
        let stderr = outcome.stderr.text();
        let log = fs::read(self.scratch.path().join("log/kernel")).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        outcome.ended()?;
        ensure!(
            outcome.status != Some(70) && !log.contains("PANIC"),
            "the node is to blame; stderr:\n{stderr}\nkernel:\n{log}"
        );
        let left = fs::read_to_string(self.scratch.path().join("left"));
        let left = left.with_context(|| format!("it was not even confined; stderr:\n{stderr}"))?;
        let (status, said) = (outcome.status, outcome.stdout.text());
        ensure!(
            left.is_empty(),
            "left behind, status {status:?}:\n{left}{said}{stderr}"
        );
        Ok(())
    }
}
