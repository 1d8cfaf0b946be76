//! Memory: what getting and touching it costs, and how little of it the node needs for itself.

use anyhow::{Result, ensure};

use super::Reading;
use crate::control;
use crate::figure::Found;
use crate::lab::{How, Lab};
use crate::statistics::median;

/// Large enough for seven mappings of 64 MiB of memory never used before, small enough to be dirtied quickly.
const PARTITION: &str = "512M";
/// The partition of the runs that look for the smallest node.
const SMALL_PARTITION_MIB: u64 = 32;

/// What is got at once, with the names of its figures, and how often: enough for a median, and no more than the partition has.
const SIZES: [(&str, &str, &str, &str); 5] = [
    (
        "4096",
        "64",
        "touch_fresh_4k_instructions",
        "touch_recycled_4k_instructions",
    ),
    (
        "65536",
        "64",
        "touch_fresh_64k_instructions",
        "touch_recycled_64k_instructions",
    ),
    (
        "1048576",
        "33",
        "touch_fresh_1m_instructions",
        "touch_recycled_1m_instructions",
    ),
    (
        "2097152",
        "33",
        "touch_fresh_2m_instructions",
        "touch_recycled_2m_instructions",
    ),
    (
        "67108864",
        "7",
        "touch_fresh_instructions_per_4k",
        "touch_recycled_instructions_per_4k",
    ),
];

/// Fresh and recycled, by size; page faults are not allowed at all.
pub fn touch(lab: &Lab) -> Result<Vec<Reading>> {
    control::events(lab)?;
    let mut readings = Vec::new();
    for (bytes, rounds, fresh, recycled) in SIZES {
        for (kind, name) in [("fresh", fresh), ("recycled", recycled)] {
            readings.push((name, touch_kind(lab, &[kind, bytes, rounds])?));
        }
    }
    Ok(readings)
}

fn touch_kind(lab: &Lab, args: &[&str]) -> Result<Found> {
    let how = |stats| How {
        icount: true,
        stats,
        memory: PARTITION,
        ..How::default()
    };
    // Counting costs instructions: faults are looked for in a run of their own.
    let faults = lab
        .margay(how(true), "touch", args)?
        .stats()?
        .total
        .page_faults;
    ensure!(faults == 0, "{faults} page faults");
    let rounds = lab
        .margay(how(false), "touch", args)?
        .results
        .all(args[0])?;
    let least = rounds.iter().copied().fold(f64::INFINITY, f64::min);
    let most = rounds.iter().copied().fold(0.0, f64::max);
    let detail = format!("{least:.2} to {most:.2}, 0 faults");
    Ok(Found::exactly(median(&rounds), detail))
}

/// What the host does when its memory is first touched, which no counter of the node sees (docs/memory.md).
pub fn first_touch(lab: &Lab) -> Result<Vec<Reading>> {
    let how = How {
        memory: PARTITION,
        ..How::default()
    };
    let rounds = lab.margay(how, "touch", &["again", "67108864", "7"])?;
    let rounds = rounds.results.all("again")?;
    let detail = format!("rounds: {rounds:.1?}");
    Ok(vec![(
        "first_touch_ratio",
        Found::exactly(median(&rounds), detail),
    )])
}

/// The smallest node that runs a program.
pub fn smallest(lab: &Lab) -> Result<Vec<Reading>> {
    let partition = format!("{SMALL_PARTITION_MIB}M");
    let besides_mib = |node_mib| -> Result<u64> {
        let how = How {
            icount: true,
            stats: true,
            memory: &partition,
            node_mib,
            ..How::default()
        };
        let ram_bytes = lab.margay(how, "first", &[])?.stats()?.node.ram_bytes;
        Ok(ram_bytes.div_ceil(1 << 20) - SMALL_PARTITION_MIB)
    };
    // A little of the machine's RAM is never usable.
    let usual_mib = besides_mib(None)? + 1;
    // A node that is too small may fail in any way.
    let runs = |mib| besides_mib(Some(mib)).is_ok_and(|really| really <= mib);
    ensure!(runs(usual_mib), "a node of {usual_mib} MiB does not run");
    let smallest = bisect(0, usual_mib, runs);
    let detail = format!("partition {partition}, the machine's RAM in steps of 1 MiB");
    Ok(vec![(
        "min_memory_mib",
        Found::exactly(smallest as f64, detail),
    )])
}

/// The smallest number that works, in `(fails, works]`.
fn bisect(mut fails: u64, mut works: u64, try_it: impl Fn(u64) -> bool) -> u64 {
    while works - fails > 1 {
        let middle = u64::midpoint(fails, works);
        if try_it(middle) {
            works = middle;
        } else {
            fails = middle;
        }
    }
    works
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bisection_finds_the_edge(edge in 2u64..=64) {
            prop_assert_eq!(bisect(1, 64, |n| n >= edge), edge);
        }
    }
}
