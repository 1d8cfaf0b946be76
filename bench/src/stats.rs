//! What `yod --stats=json` says, as far as it matters here.

use anyhow::{Context, Result};
use serde::Deserialize;

/// Everything.
#[derive(Deserialize, Debug, Clone)]
pub struct Stats {
    /// Of the TSC; 0: unknown.
    pub tsc_hz: u64,
    /// Of the node as a whole.
    pub node: Node,
    /// Of each rank.
    pub ranks: Vec<Rank>,
    /// Of each core.
    pub cores: Vec<Counters>,
    /// Sums over the cores; of longest times the longest.
    pub total: Counters,
}

/// Of the node.
#[derive(Deserialize, Debug, Clone)]
pub struct Node {
    /// RAM that the kernel found.
    pub ram_bytes: u64,
    /// TSC when the PCT began to run.
    pub up_tsc: u64,
}

/// Of a rank.
#[derive(Deserialize, Debug, Clone, Copy)]
pub struct Rank {
    /// Ranks that had windows when it started, itself included.
    pub windows: u64,
    /// TSC ticks that it took to open those to and from it.
    pub windows_ticks: u64,
}

/// A duration.
#[derive(Deserialize, Debug, Clone, Copy)]
pub struct Ticks {
    /// In TSC ticks: instructions under -icount.
    pub ticks: u64,
}

/// What the kernel counted.
#[derive(Deserialize, Debug, Clone)]
pub struct Counters {
    /// Into the kernel from ring 3.
    pub entries: u64,
    /// Of these the PCT's.
    pub pct_entries: u64,
    /// Calls that the kernel answered.
    pub local_calls: u64,
    /// Calls that Linux answered.
    pub shipped_calls: u64,
    /// Page faults in ring 3.
    pub page_faults: u64,
    /// Of the one-shot timer.
    pub timer_interrupts: u64,
    /// From other cores.
    pub ipis: u64,
    /// From the host.
    pub doorbells: u64,
    /// Of any other kind.
    pub other_interrupts: u64,
    /// Longest section with interrupts off.
    pub irqs_off_max: Ticks,
}

impl Stats {
    /// Finds the line of JSON in what yod wrote to standard error.
    ///
    /// # Errors
    /// There is none, or it is not as expected.
    pub fn parse(stderr: &str) -> Result<Stats> {
        let line = stderr
            .lines()
            .rfind(|line| line.starts_with('{'))
            .context("yod printed no statistics")?;
        serde_json::from_str(line).context("yod's statistics are not as expected")
    }
}

impl Counters {
    /// Entries from ring 3 that the program did not request: neither its calls nor the PCT's.
    pub fn unasked_entries(&self) -> i64 {
        let calls = self.pct_entries + self.local_calls + self.shipped_calls;
        self.entries as i64 - calls as i64
    }

    /// Interrupts of every kind.
    pub fn interrupts(&self) -> u64 {
        self.timer_interrupts + self.ipis + self.doorbells + self.other_interrupts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"tsc_hz":1000000000,
        "node":{"ram_bytes":79691776,"kernel_bytes":5000000,"up_tsc":8000000},"ranks":[{"windows":2,"windows_ticks":70}],"cores":[],
        "total":{"entries":50,"pct_entries":20,"local_calls":19,"shipped_calls":10,"page_faults":0,"exceptions":0,
        "timer_interrupts":1,"ipis":2,"doorbells":4,"other_interrupts":0,"irqs_off_max":{"ticks":900,"ns":900}},"calls":[]}"#;

    #[test]
    fn the_last_json_line_counts() {
        let line = LINE.replace('\n', "");
        let stats = Stats::parse(&format!("yod: a notice\n{{}}\n{line}\n")).expect("parses");
        assert_eq!(stats.tsc_hz, 1_000_000_000);
        assert_eq!(stats.node.up_tsc, 8_000_000);
        assert_eq!(stats.ranks[0].windows_ticks, 70);
        assert_eq!(stats.total.unasked_entries(), 1);
        assert_eq!(stats.total.interrupts(), 7);
        assert_eq!(stats.total.irqs_off_max.ticks, 900);
    }

    #[test]
    fn nothing_is_an_error() {
        assert!(Stats::parse("yod: no such file").is_err());
        assert!(Stats::parse("{}").is_err());
    }
}
