//! Large files: throughput on Margay over throughput on the host's Linux, by the same program on the same file.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::Reading;
use crate::figure::Found;
use crate::lab::{How, Lab};
use crate::statistics::{median, ratio_of_medians};

const BYTES: u64 = 1 << 30;
/// Pairs of runs.
const RUNS: usize = 9;

/// Reading and writing.
pub fn ratios(lab: &Lab) -> Result<Vec<Reading>> {
    let file = Scratch::in_memory(lab.output());
    let path = file.0.to_str().context("the path is no text")?;
    let size = BYTES.to_string();
    // Makes the file, so that every timed run finds its pages in memory.
    lab.native("file", &["write", path, &size])?;
    Ok(vec![
        ("file_read_ratio", ratio(lab, &["read", path, &size])?),
        ("file_write_ratio", ratio(lab, &["write", path, &size])?),
    ])
}

fn ratio(lab: &Lab, args: &[&str]) -> Result<Found> {
    let (mut native, mut margay) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        native.push(lab.native("file", args)?.one("seconds")?);
        let ran = lab.margay(How::default(), "file", args)?;
        margay.push(ran.results.one("seconds")?);
    }
    let (value, interval) = ratio_of_medians(&native, &margay);
    let detail = format!(
        "medians of {RUNS}: natively {:.3} s, Margay {:.3} s",
        median(&native),
        median(&margay)
    );
    Ok(Found {
        value,
        interval: Some(interval),
        detail,
    })
}

/// A file that is gone in the end.
struct Scratch(PathBuf);

impl Scratch {
    /// In /dev/shm when there is room to spare, else in `otherwise`, where the page cache holds it.
    fn in_memory(otherwise: &Path) -> Scratch {
        let shm = Path::new("/dev/shm");
        let free_bytes = rustix::fs::statvfs(shm).map_or(0, |fs| fs.f_bavail * fs.f_frsize);
        let dir = if free_bytes > 2 * BYTES {
            shm
        } else {
            otherwise
        };
        Scratch(dir.join(format!("margay-bench-{}", std::process::id())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // It may not have been made.
        let _ = fs::remove_file(&self.0);
    }
}
