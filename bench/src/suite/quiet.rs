//! What the kernel does on a core whose program asks for nothing: nothing.
//!
//! Runs on as many cores as the host has (event counts, multi-threaded emulation). Starting and ending have events of their
//! own, such as a doorbell that finds the program already running again; so each program also runs with nothing to do, and
//! the difference counts.

use anyhow::Result;

use super::Reading;
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
    let mut events = beyond_idle(lab, &PROGRAMS)?;
    // New memory is there when it is touched, too.
    for kind in ["fresh", "recycled"] {
        let counters = count(lab, "touch", &[kind, "16777216", "3"])?;
        events.faults.add(kind, counters.page_faults as i64);
    }
    Ok(vec![
        ("faults_after_start", events.faults.found()),
        ("kernel_entries_after_start", events.entries.found()),
        ("ticks_after_start", events.ticks.found()),
    ])
}

/// Events of programs at work that they do not have with nothing to do.
pub fn beyond_idle(lab: &Lab, programs: &[Program<'_>]) -> Result<Events> {
    let mut events = Events::default();
    for &(name, idle, busy) in programs {
        let (idle, busy) = (count(lab, name, idle)?, count(lab, name, busy)?);
        let more = |of: fn(&Counters) -> i64| of(&busy) - of(&idle);
        events.faults.add(name, more(|c| c.page_faults as i64));
        events.entries.add(name, more(Counters::unasked_entries));
        events.ticks.add(name, more(|c| c.timer_interrupts as i64));
    }
    Ok(events)
}

fn count(lab: &Lab, name: &str, args: &[&str]) -> Result<Counters> {
    let how = How {
        stats: true,
        memory: Some("256M"),
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
    /// Fewer events than in the run with nothing to do are none.
    fn add(&mut self, name: &str, events: i64) {
        self.all += u64::try_from(events).unwrap_or(0);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quieter_busy_run_does_not_hide_another() {
        let mut sum = Sum::default();
        sum.add("a", -2);
        sum.add("b", 1);
        assert_eq!(sum.found(), Found::exactly(1.0, "a -2, b 1"));
    }
}
