//! When the keeper serves the node's clock.
//!
//! While the kernel boots it shows its TSC in a few quick rounds, which are answered here; what they give sets the node's
//! clock ([`crate::clock`]) before any rank runs. Later the clock page is refreshed: soon once, because the first rate is
//! known from a few milliseconds only, then every second.

use std::time::{Duration, Instant};

use wire::boot::{Header, PING_ROUNDS, flag, node};

use crate::clock::{Clock, Offset, Sample};
use crate::comm::Comm;
use crate::sys;

/// The kernel rings for each event; one during its boot is never missed for longer.
const BOOT_POLL: Duration = Duration::from_millis(2);
/// How often rounds are polled for once they have begun, and how long a poll lasts: a round takes about a microsecond.
const ROUND_POLL: Duration = Duration::from_micros(50);
const FIRST_REFRESH: Duration = Duration::from_millis(100);
const REFRESH: Duration = Duration::from_secs(1);

pub struct Ticker {
    first: Sample,
    rounds: Rounds,
    clock: Option<Clock>,
    due: Instant,
}

impl Ticker {
    pub fn new(first: Sample) -> Ticker {
        Ticker {
            first,
            rounds: Rounds::default(),
            clock: None,
            due: Instant::now(),
        }
    }

    /// How long the keeper may sleep.
    pub fn timeout(&self, comm: &Comm) -> Duration {
        if self.clock.is_some() || comm.header().node_state.load() >= node::UP {
            self.due.saturating_duration_since(Instant::now())
        } else if self.rounds.answered > 0 {
            ROUND_POLL
        } else {
            BOOT_POLL
        }
    }

    /// Does what is due.
    pub fn tick(&mut self, comm: &Comm, flags: u64) {
        let header = comm.header();
        let state = header.node_state.load();
        if flags & flag::OWN_CLOCK != 0 || state > node::UP {
            self.due = Instant::now() + REFRESH;
            return;
        }
        let interval = match &mut self.clock {
            Some(_) if Instant::now() < self.due => return,
            Some(clock) => {
                clock.refresh(&Sample::now(), REFRESH.as_nanos() as u64);
                REFRESH
            }
            None => {
                if !self.rounds.answer(header) && state < node::UP {
                    return;
                }
                if state == node::UP {
                    // Adds nothing when the rounds are complete.
                    let offset = &mut self.rounds.offset;
                    offset.guest_first(header.up_tsc.load(), sys::tsc());
                }
                let offset = self.rounds.offset.get();
                self.clock =
                    offset.and_then(|offset| Clock::start(offset, &self.first, &Sample::now()));
                FIRST_REFRESH
            }
        };
        self.due = Instant::now() + interval;
        if let Some(clock) = &self.clock {
            comm.clock().write(clock.params());
        }
    }
}

/// The rounds of [`Header::ping`].
#[derive(Default)]
struct Rounds {
    answered: u64,
    /// The host's TSC at the last answer.
    tsc: u64,
    offset: Offset,
}

impl Rounds {
    /// Answers rounds until they are over (true) or none has come for a while.
    fn answer(&mut self, header: &Header) -> bool {
        let mut last = Instant::now();
        while self.answered < PING_ROUNDS || header.ping.load() <= PING_ROUNDS {
            let round = header.ping.load();
            if round > self.answered {
                self.note_ping(header);
                header.pong.store(round);
                self.answered = round;
                last = Instant::now();
            } else if round == 0 || last.elapsed() > ROUND_POLL {
                return false;
            } else {
                std::hint::spin_loop();
            }
        }
        self.note_last(header);
        true
    }

    fn note_ping(&mut self, header: &Header) {
        self.note_last(header);
        self.tsc = sys::tsc();
        self.offset.guest_first(header.ping_tsc.load(), self.tsc);
    }

    /// The node has seen the answer to the round before.
    fn note_last(&mut self, header: &Header) {
        if self.answered > 0 {
            self.offset.host_first(self.tsc, header.pong_tsc.load());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;

    /// A node whose TSC is the host's and `OFFSET`, but which is not always quick.
    fn node(header: &Header, rounds: u64) {
        let mut seen_tsc = 0;
        for round in 1..=rounds + 1 {
            header.pong_tsc.put(seen_tsc);
            header.ping_tsc.put(sys::tsc().wrapping_add(OFFSET));
            if round % 3 == 0 {
                std::thread::sleep(Duration::from_micros(200));
            }
            header.ping.store(round);
            let due = Instant::now() + LIMIT;
            while round <= rounds && header.pong.load() != round {
                assert!(Instant::now() < due, "no answer to round {round}");
                std::hint::spin_loop();
            }
            seen_tsc = sys::tsc().wrapping_add(OFFSET);
        }
    }

    const OFFSET: u64 = 1u64 << 40;
    /// What takes longer hangs.
    const LIMIT: Duration = Duration::from_secs(20);

    /// The clock was wrong by however late the keeper noticed that the node was up.
    #[test]
    fn rounds_give_the_offset() {
        let header = &Header::new_zeroed();
        let mut rounds = Rounds::default();
        assert!(!rounds.answer(header), "nothing there, no waiting");
        std::thread::scope(|scope| {
            scope.spawn(|| node(header, PING_ROUNDS));
            let due = Instant::now() + LIMIT;
            while !rounds.answer(header) {
                assert!(Instant::now() < due, "the rounds do not end");
                std::thread::sleep(ROUND_POLL);
            }
        });
        let found = rounds.offset.get().expect("an offset");
        let error = (found.wrapping_sub(OFFSET) as i64).unsigned_abs();
        assert!(error < 300_000, "{error} ticks"); // About 100 µs; usually below 1.
    }

    #[test]
    fn a_node_that_gives_up_is_not_waited_for() {
        let header = &Header::new_zeroed();
        header.ping.store(1);
        let mut rounds = Rounds::default();
        assert!(!rounds.answer(header) && !rounds.answer(header));
        assert_eq!(header.pong.load(), 1);
    }
}
