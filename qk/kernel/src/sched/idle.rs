//! What a core does while it has nothing to run.

use qk_core::sched::queues as run_queues;
use wire::word::Word;

use super::queues::{Node, next};
use super::{CURRENT, core, switch};
use crate::host::ship;
use crate::{clock, events, stats};

/// How long a core polls before it halts, if it polls: longer than the host takes to wake a halted one.
const POLL_NS: u64 = 50_000;

/// What every core does when it has nothing to do, on the stack it started on.
pub fn idle() -> ! {
    let core = core();
    assert!(
        core.idle.set(hal::task::adopt()).is_ok(),
        "core started twice"
    );
    stats::begin();
    // Proxies that attached before this core could be rung.
    events::look(hal::cpu::id());
    // BOUND: every turn ends in a task or a halt, which let interrupts in.
    loop {
        ship::look_on();
        match next() {
            Some(next) => switch(core, core.idle_context(), Some(next), false),
            None => halt(),
        }
    }
}

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
            poll.halted();
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
