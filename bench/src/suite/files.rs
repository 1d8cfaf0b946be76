//! Large files: throughput on Margay over throughput on the host's Linux, by the same program on the same file.

use anyhow::{Context, Result};

use super::Reading;
use crate::figure::Found;
use crate::lab::{How, Lab};
use crate::scratch::Scratch;
use crate::statistics::median;

const BYTES: u64 = 1 << 30;
/// Pairs of runs.
const RUNS: usize = 9;

/// Reading and writing.
pub fn ratios(lab: &Lab) -> Result<Vec<Reading>> {
    let scratch = Scratch::new(lab.output())?;
    let path = scratch.path().join("file");
    let path = path.to_str().context("the path is no text")?;
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
    let detail = format!(
        "medians of {RUNS}: natively {:.3} s, Margay {:.3} s",
        median(&native),
        median(&margay)
    );
    Ok(Found::ratio(&native, &margay, detail))
}
