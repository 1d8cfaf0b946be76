//! A call that Linux answers: what the kernel does for it, and what the program sees.

use anyhow::{Result, anyhow};

use super::Reading;
use crate::figure::Found;
use crate::lab::{How, Lab, Ran};

/// Calls per run.
const ROUNDS: u64 = 2000;

/// As the program sees it, by the TSC. The proxy answers before the caller's next instruction, for one core executes both:
/// the doorbell wakes the proxy on the core that the node ran on. So there is nothing to take off for waiting, or, on a host
/// that schedules otherwise, at most the turns of the wait loop in the median call.
pub fn instructions(lab: &Lab) -> Result<Vec<Reading>> {
    let ran = run(lab, true, ROUNDS)?;
    let ticks = ran.results.one("median_ticks")?;
    let least = ran.results.one("least_ticks")?;
    let detail = format!("median of {ROUNDS} calls, least {least:.0}");
    Ok(vec![(
        "shipped_lseek_instructions",
        Found::exactly(ticks, detail),
    )])
}

/// As the program sees it, in wall time.
pub fn wall(lab: &Lab) -> Result<Vec<Reading>> {
    let rounds = 5 * ROUNDS;
    let file = path(lab)?;
    let margay = run(lab, false, rounds)?.results.one("median_us")?;
    let native = lab.native("lseek", &[&file, &rounds.to_string()])?;
    let detail = format!(
        "{rounds} calls, natively {:.2} us",
        native.one("median_us")?
    );
    Ok(vec![("shipped_lseek_us", Found::exactly(margay, detail))])
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
