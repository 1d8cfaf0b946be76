//! `--top`: `--ps` again and again, with the share of a processor that each node and rank has used since.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::ps;

/// How often it is shown.
const PERIOD: Duration = Duration::from_secs(2);
/// Clears a terminal's screen (ECMA-48: CUP, ED).
const CLEAR: &str = "\x1b[H\x1b[J";

/// Processor time in seconds of a machine, by its process id, and of each of its ranks.
type Times = BTreeMap<(u32, Option<usize>), f64>;

/// Shows it until stdout takes no more, or a signal ends this process.
pub fn show() {
    let mut out = std::io::stdout();
    let begin = if out.is_terminal() { CLEAR } else { "" };
    let mut before = (Instant::now(), Times::new());
    loop {
        let nodes = ps::own_nodes();
        let now = (Instant::now(), times(&nodes));
        let text = ps::render(&nodes, &|machine, rank, seconds| {
            let since = before.1.get(&(machine, rank));
            since.map_or_else(String::new, |since| {
                percent(seconds - since, now.0 - before.0)
            })
        });
        if write!(out, "{begin}{text}")
            .and_then(|()| out.flush())
            .is_err()
        {
            return;
        }
        before = now;
        std::thread::sleep(PERIOD);
    }
}

fn times(nodes: &[ps::Node]) -> Times {
    let all = nodes.iter().flat_map(|node| {
        let ranks = node.rank_cpu_s.iter().flatten().enumerate();
        let ranks = ranks.map(|(rank, time)| ((node.machine, Some(rank)), *time));
        ranks.chain([((node.machine, None), node.cpu_s)])
    });
    all.collect()
}

/// Of one processor.
fn percent(used_s: f64, elapsed: Duration) -> String {
    let share = used_s / elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
    format!("{:.0}%", share.max(0.0) * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_one_processor() {
        let two = Duration::from_secs(2);
        assert_eq!(
            (percent(1.0, two), percent(3.0, two)),
            ("50%".into(), "150%".into())
        );
        assert_eq!(percent(-0.01, two), "0%");
    }
}
