//! A call that Linux answers: what the kernel does for it, and what the program sees.

use anyhow::{Result, anyhow};

use super::Reading;
use crate::figure::Found;
use crate::lab::{How, Lab, Ran};

/// Calls per run.
const ROUNDS: u64 = 2000;

/// As the program sees it, by the TSC. Only the least is the kernel's and the proxy's own doing: it is a call whose answer was there
/// when the caller first looked. How many calls are that fast, the host's scheduler decides: where the proxy does not get to run
/// at once, the caller turns in its loop for as long as the kernel waits before it halts, 30,000 instructions.
pub fn instructions(lab: &Lab) -> Result<Vec<Reading>> {
    let results = run(lab, true, ROUNDS)?.results;
    let detail = format!("of {ROUNDS} calls");
    let found =
        |name: &str| -> Result<Found> { Ok(Found::exactly(results.one(name)?, detail.clone())) };
    Ok(vec![
        ("shipped_lseek_instructions", found("least_ticks")?),
        ("shipped_lseek_median_instructions", found("median_ticks")?),
        ("shipped_lseek_mean_instructions", found("mean_ticks")?),
        ("shipped_lseek_p99_instructions", found("p99_ticks")?),
    ])
}

/// As the program sees it, in wall time.
pub fn wall(lab: &Lab) -> Result<Vec<Reading>> {
    let rounds = 5 * ROUNDS;
    let file = path(lab)?;
    let margay = run(lab, false, rounds)?.results;
    let native = lab.native("lseek", &[&file, &rounds.to_string()])?;
    let found = |name: &str| -> Result<Found> {
        let detail = format!("{rounds} calls, natively {:.2} us", native.one(name)?);
        Ok(Found::exactly(margay.one(name)?, detail))
    };
    Ok(vec![
        ("shipped_lseek_us", found("median_us")?),
        ("shipped_lseek_mean_us", found("mean_us")?),
        ("shipped_lseek_p99_us", found("p99_us")?),
    ])
}

fn run(lab: &Lab, icount: bool, rounds: u64) -> Result<Ran> {
    let how = How {
        icount,
        ..How::default()
    };
    lab.margay(how, "lseek", &[&path(lab)?, &rounds.to_string()])
}

/// Any file will do.
fn path(lab: &Lab) -> Result<String> {
    let path = lab.program("lseek").into_os_string();
    path.into_string()
        .map_err(|path| anyhow!("{} is no text", path.display()))
}
