//! Which thread of a rank looks at a signal, and how it is notified.

use qk_core::signals::{SigSet, Signal};

use super::{LOOK_WORK, collect};
use crate::rank::Rank;
use crate::thread::{self, Thread};
use crate::{preempt, sched, timer};

/// Threads that are looked at where there can be no preemption points.
const LOOKS: usize = 8;

/// Has a thread that takes a signal of the process look at it. When there is none, it stays pending for the first that will.
pub(super) fn notify_one(rank: &'static Rank, signal: Signal) {
    if let Some(thread) = first_taker(rank, signal) {
        notify(thread);
    } else if rank.threads().made() > LOOKS {
        have_claimed(rank);
    }
}

/// The main thread, if it takes a signal, or else the first that does (Linux: complete_signal).
///
/// Interrupts send signals, too. So only the first threads are looked at here; if none of them takes it, one of the rank's
/// looks at the others ([`claim`]).
pub(super) fn first_taker(rank: &Rank, signal: Signal) -> Option<&Thread> {
    let takes = |thread: &&Thread| thread.is_live() && thread.takes(signal);
    // BOUND: LOOKS.
    let mut first = (0..LOOKS).filter_map(|index| rank.threads().get(index));
    // BOUND: LOOKS.
    first.find(takes)
}

/// The thread that runs here, if it is the rank's.
pub(super) fn current_of(rank: &Rank) -> Option<&'static Thread> {
    thread::current().filter(|thread| core::ptr::eq(thread.rank(), rank))
}

/// Has a thread of the rank do what there was no time for: the one that runs here, if it is one that has not ended.
pub(super) fn have_claimed(rank: &'static Rank) {
    // The thread may find just then that it has nothing to look at, and forget, or end: so all look at this as well, and first it is left.
    rank.claims().leave();
    let here = current_of(rank).filter(|thread| thread.is_live());
    if let Some(thread) = here.or_else(|| rank.threads().first()) {
        notify(thread);
    }
}

/// Does what there was no time for when a signal was sent: takes over the host's, finds which threads take them, which timers go on.
#[inline]
pub fn claim(thread: &Thread) {
    if thread.rank().claims().take() {
        claim_all(thread);
    }
}

#[cold]
fn claim_all(thread: &Thread) {
    collect(thread.rank());
    // The thread may be the only one that takes a signal: it looks at those next, or is interrupted.
    notify_takers(thread.rank(), SigSet(u64::MAX), |_| true);
    timer::posix::forgotten(thread.rank());
}

/// Signals of the process that the thread no longer takes are others' to look at: it blocked them, or it ends.
#[inline]
pub fn hand_over(thread: &Thread, set: SigSet) {
    if thread.rank().threads().live() > 1 {
        hand_over_to_others(thread, set);
    }
}

#[cold]
#[inline(never)] // Out of the way of a thread that is its rank's only one, as the next.
fn hand_over_to_others(thread: &Thread, set: SigSet) {
    notify_takers(thread.rank(), set, |other| !core::ptr::eq(other, thread));
}

/// As [`hand_over`] of all that a thread blocks which has others beside it: some of it may have been announced to them before.
#[cold]
#[inline(never)]
pub fn hand_over_blocked(thread: &Thread) {
    let blocked = thread.signals().thread.blocked();
    hand_over_to_others(thread, blocked);
}

/// Has each pending signal of the process in `set` looked at by a thread that takes it, the first for which `may` holds.
fn notify_takers(rank: &'static Rank, set: SigSet, may: impl Fn(&Thread) -> bool) {
    let pending = rank.signals().process.pending.set().and(set);
    for signal in pending.iter() {
        let takes = |other: &&Thread| {
            preempt::point(LOOK_WORK);
            may(other) && other.takes(signal)
        };
        // POINT: thread::numbers::each
        if let Some(other) = rank.threads().each().find(takes) {
            notify(other);
        }
    }
}

/// Has a thread look at its signals before it returns to ring 3, and now if it waits or runs elsewhere. The one that runs here
/// may be about to wait, and have let this interrupt in meanwhile: it does not.
#[inline]
pub fn notify(thread: &'static Thread) {
    thread.pending().note_signal();
    sched::interrupt(thread.task());
}
