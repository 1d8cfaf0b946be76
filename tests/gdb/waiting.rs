//! A rank that waits for gdb, and sessions with it.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use margay_tests::process::wait_until;
use margay_tests::run::{HANG, Outcome, Run, Started};
use margay_tests::scratch::Scratch;

use crate::host::{build, gdb};

/// Libraries are the host's own.
pub const SYSROOT: &str = "set sysroot /";

/// A rank that waits for gdb.
pub struct Waiting {
    pub scratch: Scratch,
    pub program: String,
}

impl Waiting {
    pub fn new(program: &str) -> Result<Waiting> {
        let scratch = Scratch::new()?;
        let program = build(&scratch, program, &[])?;
        Ok(Waiting { scratch, program })
    }

    pub fn socket(&self) -> PathBuf {
        // A path of a socket has at most 107 bytes: relative to the working directory it fits.
        self.scratch.path().join("cwd/s")
    }

    pub fn run(&self, options: &[&str], args: &[&str]) -> Run {
        let run = Run::yod(&["-m", "64M", "--gdb=s"]).args(options);
        run.args(&["--", &self.program]).args(args)
    }

    /// Starts yod; returns when the socket is there.
    pub fn start(&self, options: &[&str], args: &[&str]) -> Result<Started<'_>> {
        let started = self.run(options, args).start(&self.scratch)?;
        let suffix = if options.contains(&"-n") { ".1" } else { "" };
        let socket = format!("{}{suffix}", self.socket().display());
        let there = wait_until(HANG, || PathBuf::from(&socket).exists());
        ensure!(there, "no socket");
        Ok(started)
    }

    /// A session with these commands.
    pub fn gdb(&self, socket: &str, commands: &[&str]) -> Result<String> {
        let remote = format!("target remote {socket}");
        let mut all = vec![SYSROOT, remote.as_str()];
        all.extend(commands);
        gdb(&self.scratch.path().join("cwd"), &[&self.program], &all)
    }

    pub fn ended(&self, outcome: &Outcome, status: i32) -> Result<()> {
        ensure!(
            outcome.status == Some(status),
            "status {:?} instead of {status}: {}",
            outcome.status,
            outcome.stderr.text()
        );
        ensure!(!self.socket().exists(), "the socket is still there");
        Ok(())
    }
}

pub fn has(text: &str, parts: &[&str]) -> Result<()> {
    let mut rest = text;
    for part in parts {
        let at = rest.find(part);
        let Some(at) = at else {
            anyhow::bail!("no {part:?}, or not in order:\n{text}");
        };
        rest = &rest[at + part.len()..];
    }
    Ok(())
}
