//! System calls that the kernel answers by itself.

use anyhow::Result;

use super::Reading;
use crate::figure::Found;
use crate::lab::{How, Lab};
use crate::statistics::median;

/// With the kernel's counters off, and on.
pub fn local(lab: &Lab) -> Result<Vec<Reading>> {
    Ok(vec![
        ("local_call_instructions", measure(lab, false)?),
        ("local_call_counted_instructions", measure(lab, true)?),
    ])
}

fn measure(lab: &Lab, stats: bool) -> Result<Found> {
    let how = How {
        icount: true,
        stats,
        ..How::default()
    };
    let ran = lab.margay(how, "calls", &[])?;
    let calls = ran.results.lines();
    let each: Vec<f64> = calls.iter().map(|(_, value)| *value).collect();
    anyhow::ensure!(!each.is_empty(), "the program printed nothing");
    let detail: Vec<String> = calls
        .iter()
        .map(|(name, value)| format!("{name} {value}"))
        .collect();
    Ok(Found::exactly(median(&each), detail.join(", ")))
}
