//! How a core halts that has nothing to run.

use qk_core::sched::queues as run_queues;
use wire::word::Word;

use super::queues::Node;
use super::task::{CURRENT, core};
use crate::{clock, stats};

/// How long a core polls before it halts, if it polls: longer than the host takes to wake a halted one.
const POLL_NS: u64 = 50_000;

/// Halts until an interrupt, unless there is something to do.
pub(super) fn halt() {
    let is_woken = || {
        CURRENT
            .get()
            .is_some_and(|task| task.whereabouts.parking.has_token())
    };
    run_queues::halt(&Node, core(), is_woken, || {
        stats::halting(wait_for_interrupt);
    });
}

/// Lets interrupts in until there was one. To other cores a core that polls is one that halts: they interrupt it.
fn wait_for_interrupt() {
    let (poll, ipis) = (&core().poll, &stats::here().ipis);
    let before = ipis.peek();
    if poll.is_due() {
        let interrupted = poll_for_interrupt();
        poll.polled(ipis.peek() != before);
        if !interrupted {
            hal::cpu::halt();
        }
    } else {
        hal::cpu::halt();
        if ipis.peek() != before {
            poll.left_out();
        }
    }
}

/// Lets interrupts in for a while; whether there was one.
fn poll_for_interrupt() -> bool {
    let stats = stats::here();
    stats.halt_polls.add(1);
    let interrupts = || stats.interrupts().map(Word::peek);
    let before = interrupts();
    let deadline = hal::time::tsc() + clock::ticks(POLL_NS);
    // BOUND: POLL_NS, and interrupts are let in.
    while interrupts() == before {
        if hal::time::tsc() > deadline {
            return false;
        }
        hal::cpu::pause();
        hal::cpu::take_interrupts();
    }
    true
}
