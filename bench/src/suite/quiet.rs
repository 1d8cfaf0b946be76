//! What the kernel does on a core whose program requests nothing: nothing.
//!
//! Runs on as many cores as the host has (event counts, multi-threaded emulation). Starting and ending have events of their
//! own, such as a doorbell that finds the program already running again; so each program also runs with nothing to do, and
//! the difference counts. It is one more or less as the host wakes the proxy: the quietest pair of runs counts.

use anyhow::Result;

use super::Reading;
use crate::control;
use crate::figure::Found;
use crate::lab::{How, Lab};
use crate::stats::Counters;

/// A program, the arguments that make it do nothing, and those that make it work.
pub type Program<'a> = (&'a str, &'a [&'a str], &'a [&'a str]);

const PROGRAMS: [Program<'_>; 2] = [
    ("spin", &["0"], &["10"]),
    ("stream", &["1000", "1"], &["2000000", "50"]),
];

/// Events that the kernel counted besides those of calls.
#[derive(Default)]
pub struct Events {
    /// Page faults.
    pub faults: Sum,
    /// Entries from ring 3.
    pub entries: Sum,
    /// Timer interrupts.
    pub ticks: Sum,
}

/// Faults, entries besides calls, and ticks.
pub fn after_start(lab: &Lab) -> Result<Vec<Reading>> {
    control::events(lab)?;
    let mut events = beyond_idle(lab, &PROGRAMS)?;
    // New memory is there when it is touched, too.
    for kind in ["fresh", "recycled"] {
        let counters = count(lab, 1, "touch", &[kind, "16777216", "3"])?;
        events.faults.add(kind, counters.page_faults);
    }
    Ok(vec![
        ("faults_after_start", events.faults.found()),
        ("kernel_entries_after_start", events.entries.found()),
        ("ticks_after_start", events.ticks.found()),
    ])
}

/// Pairs of runs at most, until one is quiet: on a host that is busy with others a doorbell comes late more often than not. What a
/// program does again and again is in all of them.
const PAIRS: usize = 20;

/// Events of programs at work that they do not have with nothing to do.
pub fn beyond_idle(lab: &Lab, programs: &[Program<'_>]) -> Result<Events> {
    let mut events = Events::default();
    for program in programs {
        let mut least = pair(lab, program)?;
        for _ in 1..PAIRS {
            if total(&least) == 0 {
                break;
            }
            least = std::cmp::min_by_key(least, pair(lab, program)?, total);
        }
        let [faults, entries, ticks] = least;
        events.faults.add(program.0, faults);
        events.entries.add(program.0, entries);
        events.ticks.add(program.0, ticks);
    }
    Ok(events)
}

/// Calls, faults and other entries of a program of two ranks at work, each on a core of its own, that it does not have with
/// little to do.
///
/// # Errors
/// When it cannot be run.
pub fn exchange(lab: &Lab, (name, idle, busy): Program<'_>) -> Result<u64> {
    let events = |args| -> Result<u64> {
        let counters = count(lab, 2, name, args)?;
        Ok(counters.entries - counters.pct_entries + counters.page_faults)
    };
    let mut least = u64::MAX;
    for _ in 0..PAIRS {
        let idle = events(idle)?;
        least = least.min(events(busy)?.saturating_sub(idle));
        if least == 0 {
            break;
        }
    }
    Ok(least)
}

/// Faults, entries and ticks at work, less those with nothing to do. Fewer are none.
fn pair(lab: &Lab, &(name, idle, busy): &Program<'_>) -> Result<[u64; 3]> {
    let (idle, busy) = (count(lab, 1, name, idle)?, count(lab, 1, name, busy)?);
    let more = |of: fn(&Counters) -> i64| u64::try_from(of(&busy) - of(&idle)).unwrap_or(0);
    Ok([
        more(|c| c.page_faults as i64),
        more(Counters::unasked_entries),
        more(|c| c.timer_interrupts as i64),
    ])
}

fn total(events: &[u64; 3]) -> u64 {
    events.iter().sum()
}

fn count(lab: &Lab, ranks: usize, name: &str, args: &[&str]) -> Result<Counters> {
    let how = How {
        stats: true,
        ranks,
        memory: "256M",
        ..How::default()
    };
    Ok(lab.margay(how, name, args)?.stats()?.total.clone())
}

/// Events of several programs.
#[derive(Default)]
pub struct Sum {
    all: u64,
    parts: Vec<String>,
}

impl Sum {
    fn add(&mut self, name: &str, events: u64) {
        self.all += events;
        self.parts.push(format!("{name} {events}"));
    }

    /// All of them.
    pub fn events(&self) -> u64 {
        self.all
    }

    fn found(self) -> Found {
        Found::exactly(self.all as f64, self.parts.join(", "))
    }
}
