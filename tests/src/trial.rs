//! A case by its name, for test binaries that list their cases themselves.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::Result;
use libtest_mimic::{Failed, Trial};

use crate::tree;

/// A test that passes if `body` returns Ok. A failure is shown with all its causes, not only with what was added last. It is kept at
/// once in `target/failed`: the runner shows it at its end, to which it may not come, and what it showed is written over by the next.
pub fn trial(name: impl Into<String>, body: impl FnOnce() -> Result<()> + Send + 'static) -> Trial {
    let name = name.into();
    let case = name.clone();
    Trial::test(name, move || {
        body().map_err(|error| {
            let _ = keep(&kept(), &case, &error); // it is shown all the same
            failed(&error)
        })
    })
}

/// Where failures are kept, all of a case in a file of its own, the last one last.
fn kept() -> PathBuf {
    tree::target().join("failed")
}

fn keep(folder: &Path, case: &str, error: &anyhow::Error) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let path = folder.join(format!("{}.txt", case.replace('/', ".")));
    let mut file = File::options().append(true).create(true).open(path)?;
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    let runner = std::env::args().next().unwrap_or_default();
    let text = format!("{runner}, at {} s:\n{error:#}\n\n", now.as_secs());
    file.write_all(text.as_bytes())
}

fn failed(error: &anyhow::Error) -> Failed {
    Failed::from(format!("{error:#}"))
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn a_failure_is_shown_with_its_causes() {
        let error = anyhow!("status 1").context("after 10 sweeps");
        assert_eq!(failed(&error).message(), Some("after 10 sweeps: status 1"));
    }

    #[test]
    fn failures_are_kept() -> Result<()> {
        let scratch = Scratch::new()?;
        let folder = scratch.path().join("failed");
        for why in ["first", "second"] {
            keep(&folder, "signals/case.4", &anyhow!(why))?;
        }
        let text = fs::read_to_string(folder.join("signals.case.4.txt"))?;
        let (first, second) = (text.find("first\n"), text.find("second\n"));
        assert!(first.is_some() && first < second, "{text}");
        Ok(())
    }
}
