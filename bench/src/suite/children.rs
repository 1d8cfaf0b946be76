//! Children: time on Margay over time on the host's Linux, by the same program.

use anyhow::Result;

use super::Reading;
use crate::figure::Found;
use crate::lab::{How, Lab};
use crate::statistics::median;

/// Pairs of runs.
const RUNS: usize = 21;
/// MiB that the program has touched, and rounds in a run.
const ARGS: [&str; 2] = ["10", "11"];

/// Forks and spawns.
pub fn ratios(lab: &Lab) -> Result<Vec<Reading>> {
    const NAMES: [&str; 2] = ["fork_us", "spawn_us"];
    let mut native: [Vec<f64>; 2] = Default::default();
    let mut margay = native.clone();
    for _ in 0..RUNS {
        let there = lab.native("children", &ARGS)?;
        let here = lab.margay(How::default(), "children", &ARGS)?.results;
        for (i, name) in NAMES.into_iter().enumerate() {
            native[i].push(there.one(name)?);
            margay[i].push(here.one(name)?);
        }
    }
    let found = |i: usize| {
        let detail = format!(
            "medians of {RUNS}: natively {:.0} us, Margay {:.0} us",
            median(&native[i]),
            median(&margay[i])
        );
        Found::ratio(&margay[i], &native[i], detail)
    };
    Ok(vec![
        ("fork_10mib_ratio", found(0)),
        ("spawn_ratio", found(1)),
    ])
}
