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

/// Programs, the arguments that make them do nothing, and those that make them work.
const PROGRAMS: [(&str, &[&str], &[&str]); 2] = [
    ("spin", &["0"], &["10"]),
    ("stream", &["1000", "1"], &["2000000", "50"]),
];

/// Faults, entries besides calls, and ticks.
pub fn after_start(lab: &Lab) -> Result<Vec<Reading>> {
    let (mut faults, mut entries, mut ticks) = (Sum::default(), Sum::default(), Sum::default());
    for (name, idle, busy) in PROGRAMS {
        let (idle, busy) = (count(lab, name, idle)?, count(lab, name, busy)?);
        faults.add(name, busy.page_faults as i64 - idle.page_faults as i64);
        entries.add(name, busy.unasked_entries() - idle.unasked_entries());
        ticks.add(
            name,
            busy.timer_interrupts as i64 - idle.timer_interrupts as i64,
        );
    }
    // New memory is there when it is touched, too.
    for kind in ["fresh", "recycled"] {
        let counters = count(lab, "touch", &[kind, "16777216", "3"])?;
        faults.add(kind, counters.page_faults as i64);
    }
    Ok(vec![
        ("faults_after_start", faults.found()),
        ("kernel_entries_after_start", entries.found()),
        ("ticks_after_start", ticks.found()),
    ])
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
struct Sum {
    all: i64,
    parts: Vec<String>,
}

impl Sum {
    /// Fewer events than in the run with nothing to do are none.
    fn add(&mut self, name: &str, events: i64) {
        self.all += events.max(0);
        self.parts.push(format!("{name} {events}"));
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
