//! Signals that come from the host, through the rank's mailbox, and what is published of signals to the proxy.

use qk_core::signals::{SigInfo, SigSet, Signal};

use super::takers::have_claimed;
use super::{claim, queue, recalculate};
use crate::preempt;
use crate::rank::Rank;
use crate::thread::Thread;

/// Signals of the host that are taken over at once.
const AT_ONCE: usize = 8;

/// Takes over what the host has for the rank. Called by its threads, on whatever core, that must not return before what was posted
/// is pending.
pub fn collect(rank: &'static Rank) {
    while !collect_some(rank) {
        preempt::take_interrupts();
    }
}

/// The same, called by the doorbell on the core that the proxy rings: it may leave the rest to a thread of the rank.
pub fn rung(rank: &'static Rank) {
    if !collect_some(rank) {
        have_claimed(rank);
    }
}

/// Whether that is all.
fn collect_some(rank: &'static Rank) -> bool {
    let mut has_request = false;
    let is_all = {
        // The mailbox has one consumer. A caller that finds it empty finds what another core took out of it pending.
        let _turn = rank.lock_mailbox();
        // BOUND: AT_ONCE.
        for _ in 0..AT_ONCE {
            let Some(signal) = rank.host().take_signal() else {
                break;
            };
            if let Some(number) = Signal::new(u64::from(signal.signo)) {
                let info = SigInfo::sent(number, signal.code, signal.pid, signal.uid, signal.value);
                let _ = queue(rank, info); // the host posts no more than there are places
                if number.is_real_time() {
                    rank.signals().note_from_host();
                }
            } else {
                has_request = true;
            }
        }
        !rank.host().has_signals()
    };
    if has_request {
        rank.debugger_changed(); // it has preemption points
    }
    publish_taken(rank);
    is_all
}

/// Publishes to the proxy how many of the host's signals are no longer pending, after some were taken or forgotten.
pub fn publish_taken(rank: &Rank) {
    rank.signals().publish_taken(rank.host());
}

/// Publishes to the proxy which of SIGTTIN and SIGTTOU a thread takes that is about to make a call that can use a terminal: Linux
/// looks at that before it sends them.
pub fn publish_takes(thread: &Thread) {
    let takes = {
        let process = &thread.rank().signals().process;
        let own = &thread.signals().thread;
        own.takes(process, SigSet::BACKGROUND)
    };
    thread.host().publish_takes(takes.0);
}

/// A call of the thread came back early: what interrupted it may have been posted just before, and is for this thread if it
/// takes it. Left to another one, it would be sent again by the same call.
#[cold]
pub fn interrupted(thread: &Thread) {
    collect(thread.rank());
    claim(thread);
    if recalculate(thread) {
        thread.pending().note_own_work();
    }
}
