//! Threads of a rank that share a core.

use anyhow::Result;

use super::Reading;
use crate::figure::Found;
use crate::lab::{How, Lab};

/// Threads that are created and joined, one after the other.
const ROUNDS: u64 = 200;

/// As a program of the C library sees it.
pub fn create_and_join(lab: &Lab) -> Result<Vec<Reading>> {
    let how = How {
        icount: true,
        ..How::default()
    };
    let results = lab.margay(how, "threads", &[&ROUNDS.to_string()])?.results;
    let detail = format!("of {ROUNDS} threads");
    let found = Found::exactly(results.one("create_join_ticks")?, detail);
    Ok(vec![("thread_create_join_instructions", found)])
}
