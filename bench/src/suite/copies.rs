//! Copies from another rank's memory.

use anyhow::Result;

use super::Reading;
use crate::figure::Found;
use crate::lab::{How, Lab};

/// The ways of copying that bench/programs/same.c tries.
const WAYS: [&str; 3] = ["window", "process_vm", "xpmem"];

/// Between buffers at addresses that both ranks were given alike, over others: of the way that suffers most.
pub fn same_addresses(lab: &Lab) -> Result<Vec<Reading>> {
    let how = How {
        ranks: 2,
        ..How::default()
    };
    let results = lab.margay(how, "same", &[])?.results;
    let mut ratios = Vec::new();
    for way in WAYS {
        ratios.push((way, results.one(way)?));
    }
    let most = ratios.iter().map(|(_, ratio)| *ratio).fold(0.0, f64::max);
    let detail = ratios
        .iter()
        .map(|(way, ratio)| format!("{way} {ratio:.2}"))
        .collect::<Vec<_>>()
        .join(", ");
    Ok(vec![("same_addresses_ratio", Found::exactly(most, detail))])
}
