//! Starting: how far it is from reset to a program, and how long from yod to the end of a short one.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::Reading;
use crate::figure::Found;
use crate::lab::{How, Lab};
use crate::process;
use crate::statistics::{median, median_interval};

/// Runs for an exact figure that waiting for the host can only make larger.
const COUNTED_RUNS: usize = 11;
/// Runs for wall time.
const TIMED_RUNS: usize = 21;

/// The TSC at `main`. While the node waits for its proxy, emulated time jumps from timer to timer; when it does not have to
/// wait, it does not. So the least of several runs is what is executed, and what waiting there was in it makes it larger.
pub fn instructions(lab: &Lab) -> Result<Vec<Reading>> {
    let how = How {
        icount: true,
        ..How::default()
    };
    let mut at_main = Vec::new();
    for _ in 0..COUNTED_RUNS {
        at_main.push(lab.margay(how, "first", &[])?.results.one("main_tsc")?);
    }
    let least = at_main.iter().copied().fold(f64::INFINITY, f64::min);
    let counted = How { stats: true, ..how };
    let up = lab.margay(counted, "first", &[])?.stats()?.node.up_tsc;
    let detail = format!("least of {COUNTED_RUNS}; the PCT was up at {up}");
    Ok(vec![("boot_instructions", Found::exactly(least, detail))])
}

/// From starting yod to the program's first output and to yod's end.
pub fn wall(lab: &Lab) -> Result<Vec<Reading>> {
    let (mut first, mut whole) = (Vec::new(), Vec::new());
    for _ in 0..TIMED_RUNS {
        let outcome = lab.margay(How::default(), "first", &[])?.outcome;
        first.extend(outcome.first_output_seconds);
        whole.push(outcome.seconds);
    }
    let found = |values: &[f64]| Found {
        value: median(values),
        interval: Some(median_interval(values)),
        detail: String::new(),
    };
    Ok(vec![
        ("boot_wall_s", found(&first)),
        ("exec_to_exit_s", found(&whole)),
    ])
}

/// Bytes of the kernel's file once its symbols and debug information are gone.
pub fn kernel_elf(lab: &Lab) -> Result<Vec<Reading>> {
    let stripped = lab.output().join("margay.stripped.elf");
    let mut strip = Command::new("strip");
    strip
        .args(["--strip-all", "-o"])
        .args([&stripped, lab.kernel()]);
    process::run(&mut strip, Duration::from_secs(20))?.good()?;
    let bytes = fs::metadata(&stripped)?.len();
    Ok(vec![("kernel_elf_bytes", Found::exactly(bytes as f64, ""))])
}
