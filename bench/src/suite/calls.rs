//! System calls that the kernel answers by itself.

use anyhow::Result;

use super::Reading;
use crate::figure::Found;
use crate::lab::{How, Lab};
use crate::output::Results;

/// Those that only say what is known, which cost alike: one figure, the dearest. Each of the others has one of its own, which
/// a median over all would hide.
const SAYING: [&str; 4] = ["getpid", "getppid", "gettid", "getuid"];

/// With the kernel's counters off, and on.
pub fn local(lab: &Lab) -> Result<Vec<Reading>> {
    let (plain, counted) = (measure(lab, false)?, measure(lab, true)?);
    let one = |name: &str| -> Result<Found> { Ok(Found::exactly(plain.one(name)?, "")) };
    Ok(vec![
        ("local_call_instructions", dearest(&plain)?),
        ("clock_getres_instructions", one("clock_getres")?),
        ("rt_sigprocmask_instructions", one("rt_sigprocmask")?),
        ("clock_gettime_instructions", one("clock_gettime")?),
        ("local_call_counted_instructions", dearest(&counted)?),
    ])
}

fn measure(lab: &Lab, stats: bool) -> Result<Results> {
    let how = How {
        icount: true,
        stats,
        ..How::default()
    };
    Ok(lab.margay(how, "calls", &[])?.results)
}

fn dearest(results: &Results) -> Result<Found> {
    let (mut most, mut detail) = (0.0_f64, Vec::new());
    for name in SAYING {
        let value = results.one(name)?;
        most = most.max(value);
        detail.push(format!("{name} {value}"));
    }
    Ok(Found::exactly(most, detail.join(", ")))
}
