//! What is seen of a run.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::capture::Captured;
use crate::scratch::Left;

/// What was seen of a run.
#[derive(Debug)]
pub struct Outcome {
    /// As a shell sees it; `None`: it hung and was killed.
    pub status: Option<i32>,
    /// Of one that hung: what its processes did before they were killed.
    pub doings: String,
    /// Standard output.
    pub stdout: Captured,
    /// Standard error.
    pub stderr: Captured,
    /// What it left in its directory.
    pub files: BTreeMap<PathBuf, Left>,
    /// What uname(2) showed the program, if it says so.
    pub release: Option<String>,
    /// How long it took.
    pub took: Duration,
}

impl Outcome {
    /// That it ended within its limit.
    ///
    /// # Errors
    /// It hung: with all that was printed, and what its processes did.
    pub fn ended(&self) -> Result<()> {
        ensure!(
            self.status.is_some(),
            "hung for {} s\nstdout:\n{}\nstderr:\n{}\nprocesses:\n{}",
            self.took.as_secs(),
            self.stdout.text(),
            self.stderr.text(),
            self.doings
        );
        Ok(())
    }

    /// That the status is 0.
    ///
    /// # Errors
    /// It is not: with all that was printed.
    pub fn ended_well(&self) -> Result<()> {
        ensure!(
            self.status == Some(0),
            "status {:?}: {}{}",
            self.status,
            self.stdout.text(),
            self.stderr.text()
        );
        Ok(())
    }
}
