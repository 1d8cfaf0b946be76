//! Signals of a rank: how they are sent, by its threads, by others and from the host ([`host`]), and which thread looks at
//! them ([`takers`]). What a thread does with them on its way back to ring 3 is in [`crate::delivery`].
//!
//! The rules are `qk_core::signals`'; the order of locks is in docs/concurrency.md.

pub mod claims;
mod host;
pub mod left;
pub mod state;
mod takers;

use abi::Errno;
use qk_core::signals::{self, Process, Sent, SigInfo, SigSet, Signal, Target, code};

use crate::rank::Rank;
use crate::thread::Thread;
use crate::{preempt, timer};

pub use host::{collect, interrupted, publish_taken, publish_takes, rung};
pub use takers::{claim, hand_over, hand_over_blocked, notify};
use takers::{current_of, first_taker, have_claimed, notify_one};

/// What looking whether one thread takes a signal counts at preemption points.
const LOOK_WORK: u32 = 40;

/// Whether a waiting call of the thread has to end because there is something to act on.
pub fn is_wanted(thread: &Thread) -> bool {
    let rank = thread.rank();
    if thread.is_called_back() {
        return true;
    }
    if !thread.pending().has_signal() && !rank.claims().are_left() {
        return false;
    }
    claim(thread);
    recalculate(thread)
}

/// Whether a wait of the thread that no handler interrupts has to end: it is to end, or a signal is about to end
/// the process (Linux: fatal_signal_pending).
pub fn is_ended(thread: &Thread) -> bool {
    if thread.must_end() {
        return true;
    }
    claim(thread);
    if !thread.pending().has_signal() {
        return false;
    }
    let process = &thread.rank().signals().process;
    process.has_fatal(&thread.signals().thread)
}

/// Whether there is something that the thread does not block; if not, its pending flag is cleared.
fn recalculate(thread: &Thread) -> bool {
    let signals = thread.rank().signals();
    let own = thread.signals();
    let wanted = signals.process.has_deliverable(&own.thread);
    thread.pending().settle_signal(wanted);
    wanted
}

/// Changes the mask of the thread, which runs here (Linux: set_current_blocked): what it lets in now it may have to act on, and
/// what it blocks now and did not before is others' to look at, for it may have been announced. Returns the mask before, and what
/// `change` did.
pub fn change_mask<R>(
    thread: &'static Thread,
    change: impl FnOnce(&mut signals::Thread) -> R,
) -> (SigSet, R) {
    let (before, after, is_received, changed) = {
        let process = &thread.rank().signals().process;
        let own = &mut thread.signals().thread;
        let before = own.blocked();
        let changed = change(own);
        let wanted = process.has_deliverable(own);
        thread.pending().settle_signal(wanted);
        if wanted {
            thread.pending().note_own_work();
        }
        (
            before,
            own.blocked(),
            !process.left.received().is_empty(),
            changed,
        )
    };
    hand_over(thread, after.without(before));
    if is_received {
        left::follow(thread, before, after);
    }
    (before, changed)
}

/// Sends a signal to the process; real-time ones are lost when the queue is full.
pub fn send_process(rank: &'static Rank, info: SigInfo) {
    let _ = queue(rank, info);
}

/// Sends a signal by a call of `sender`, to its process (`None`) or to one thread of it. What is for the sender itself it finds
/// on the way back from the call: it is not about to wait, and needs no waking.
///
/// # Errors
/// EAGAIN when a real-time signal finds its queue full: the host's signals keep their places.
#[inline(always)] // Of every signal, once in each of few callers; as what follows.
pub fn send_from(
    sender: &'static Thread,
    to: Option<&'static Thread>,
    info: SigInfo,
) -> Result<(), Errno> {
    let (rank, signal) = (sender.rank(), info.signal);
    if signal.is_real_time() && info.code != code::USER {
        forget_if_full(rank);
        if to.is_none() {
            rank.signals().check_room()?;
        }
    }
    let sent = add(rank, to, info)?;
    forgotten(rank, sent.cancelled);
    match to {
        _ if !sent.pending => left::sent(sender, sent),
        None if rank.threads().live() == 1 => sender.pending().note_signal(),
        None => notify_one(rank, signal),
        Some(thread) if core::ptr::eq(thread, sender) => sender.pending().note_signal(),
        Some(thread) => notify(thread),
    }
    Ok(())
}

#[inline(always)]
fn queue(rank: &'static Rank, info: SigInfo) -> Result<(), Errno> {
    let sent = add(rank, None, info)?;
    announce(rank, None, info.signal, sent);
    Ok(())
}

/// Adds a signal to those that wait for the process (`None`) or for one thread; [`announce`] is to follow, without locks.
///
/// # Errors
/// EAGAIN when a real-time signal finds its queue full.
#[inline(always)]
pub fn add(rank: &Rank, to: Option<&Thread>, info: SigInfo) -> Result<Sent, Errno> {
    let mut signals = rank.signals();
    let process = &mut signals.process;
    let blocks = |thread: &Thread| thread.signals().thread.blocked().contains(info.signal);
    let sent = match to {
        None => {
            let main_blocks = process.ignores(info.signal) && blocks(rank.main());
            process.send(Target::Process { main_blocks }, info)?
        }
        Some(thread) => process.send(Target::Thread(&mut thread.signals().thread), info)?,
    };
    if sent.pending {
        if process.is_fatal(info.signal) {
            decide(rank, process, to, info.signal);
        }
    } else if sent.left {
        left::leave(rank, process, to, info);
    }
    Ok(sent)
}

/// A signal that was just sent ends the process at once if the thread that is to take it does not block it, and there is no debugger
/// that may take it away. Then the call that sends it does not return.
#[cold]
#[inline(never)]
fn decide(rank: &Rank, process: &mut Process, to: Option<&Thread>, signal: Signal) {
    let taker = to.or_else(|| first_taker(rank, signal));
    let blocks = |taker: &Thread| taker.signals().thread.blocked().contains(signal);
    if taker.is_some_and(|taker| !blocks(taker)) && !rank.is_debugged() {
        let mut own = to.map(|thread| thread.signals());
        process.decide(own.as_mut().map(|own| &mut own.thread), signal);
        if let Some(here) = current_of(rank) {
            here.pending().note_signal();
        }
    }
}

/// Makes a place for the signal of a timer, which is for the process (`None`) or for one thread.
///
/// # Errors
/// EAGAIN: RLIMIT_SIGPENDING is reached, or there is no memory.
pub fn reserve_timer(rank: &Rank, to: Option<&Thread>) -> Result<(), Errno> {
    let mut signals = rank.signals();
    let mut own = to.map(|thread| thread.signals());
    signals
        .process
        .reserve_timer(own.as_mut().map(|own| &mut own.thread))
}

/// Gives back the place of a timer that is gone; its signal, if it waits, takes the place with it.
pub fn release_timer(rank: &Rank, to: Option<&Thread>, id: u32) {
    match to {
        None => rank.signals().process.pending.release(id),
        Some(thread) => thread.signals().thread.pending.release(id),
    }
}

/// Has a signal that was sent looked at by a thread that takes it.
#[inline(always)]
pub fn announce(rank: &'static Rank, to: Option<&'static Thread>, signal: Signal, sent: Sent) {
    forgotten(rank, sent.cancelled);
    match to {
        _ if !sent.pending => {}
        None => notify_one(rank, signal),
        Some(thread) => notify(thread),
    }
}

/// All threads have room for signals again that they are to forget. Without preemption points they do that when they are looked
/// at: there may be a thousand.
#[inline]
pub fn forget_if_full(rank: &Rank) {
    if rank.signals().process.is_full() {
        forget_everywhere(rank);
    }
}

#[cold]
fn forget_everywhere(rank: &Rank) {
    for thread in rank.threads().each() {
        preempt::point(LOOK_WORK);
        let signals = rank.signals();
        signals.process.forget_in(&mut thread.signals().thread);
    }
}

/// Signals that waited have been forgotten: timers that sent some go on when a thread of the rank next looks at its signals.
#[inline]
pub fn forgotten(rank: &'static Rank, set: SigSet) {
    if !set.is_empty() {
        forgotten_some(rank, set);
    }
}

/// The rank does not stay stopped by a signal that it took before: its proxy is about to stop it, perhaps.
#[cold]
pub fn note_continued(rank: &Rank) {
    rank.signals().process.note_continued();
}

#[cold]
fn forgotten_some(rank: &'static Rank, set: SigSet) {
    if set == SigSet::STOPPING {
        note_continued(rank); // SIGCONT was sent, by any sender
    }
    if timer::posix::has_any(rank) {
        rank.claims().note_forgotten(set);
        have_claimed(rank);
    }
}

/// Sends a signal to one thread.
///
/// # Errors
/// EAGAIN when a real-time signal finds its queue full.
pub fn send_thread(thread: &'static Thread, info: SigInfo) -> Result<(), Errno> {
    let sent = add(thread.rank(), Some(thread), info)?;
    announce(thread.rank(), Some(thread), info.signal, sent);
    Ok(())
}

/// The thread did something that it cannot go on from.
pub fn force(thread: &Thread, info: SigInfo) {
    force_by(Process::force, thread, info);
}

/// The same, some instructions late.
pub fn force_late(thread: &Thread, info: SigInfo) {
    force_by(Process::force_late, thread, info);
}

#[inline(always)]
fn force_by(
    force: impl FnOnce(&mut Process, &mut signals::Thread, SigInfo),
    thread: &Thread,
    info: SigInfo,
) {
    let mut signals = thread.rank().signals();
    let mut own = thread.signals();
    force(&mut signals.process, &mut own.thread, info);
    thread.pending().note_own_signal();
}
