//! Signals of a rank: where they come from and which thread looks at them. What a thread does with them on its way back to
//! ring 3 is in [`crate::delivery`].
//!
//! The rules are `qk_core::signals`'. Locks: the rank's mailbox (`Rank::collecting`), its timers, its signals, a thread's signals.

use core::sync::atomic::Ordering;

use abi::Errno;
use qk_core::signals::{
    self, Action, Process, SIG_IGN, Sent, SigInfo, SigSet, Signal, Target, code,
};

use crate::rank::Rank;
use crate::thread::{self, Thread};
use crate::{debug, preempt, sched, timer};

/// Particulars of pending signals kept for a process besides those of the host.
const QUEUE: usize = 256;
/// Places for real-time signals of the host.
const HOST_QUEUE: usize = wire::signal::QUEUED as usize;
/// What looking whether one thread takes a signal counts at preemption points.
const LOOK_WORK: u32 = 40;
/// Threads that are looked at where there can be no preemption points.
const LOOKS: usize = 8;
/// Signals of the host that are taken over at once.
const AT_ONCE: usize = 8;

/// Signal state of a rank as a whole.
pub struct Signals {
    /// Dispositions, and what was sent to the process.
    pub process: Process,
    /// Real-time signals of the host so far, and how many of them are no longer pending, at least.
    from_host: u64,
    taken: u64,
}

impl Signals {
    /// Defaults, nothing pending.
    pub fn new() -> Signals {
        Signals {
            process: Process::new(QUEUE + HOST_QUEUE),
            from_host: 0,
            taken: 0,
        }
    }

    /// What survived the exec of the program: ignored signals, and how many signals may be queued.
    pub fn inherit(&mut self, ignored: u64, queue_limit: u64) {
        self.process.limit_queue(queue_limit);
        let ignore = Action {
            handler: SIG_IGN,
            ..Action::DEFAULT
        };
        // BOUND: the signals.
        for signal in SigSet(ignored).iter() {
            // KILL and STOP cannot be ignored, whatever the host says.
            let _ = self.process.set_action(signal, ignore);
        }
    }

    /// Whether the program may queue one more signal for itself: the host's keep their places.
    ///
    /// # Errors
    /// EAGAIN: it may not.
    fn check_room(&self) -> Result<(), Errno> {
        let places = HOST_QUEUE.saturating_sub((self.from_host - self.taken) as usize);
        let has_room = self.process.pending.queued() + places < QUEUE + HOST_QUEUE;
        has_room.then_some(()).ok_or(Errno::EAGAIN)
    }

    /// See [`publish_taken`].
    #[inline]
    pub fn publish_taken(&mut self, rank: &Rank) {
        if self.taken != self.from_host {
            let pending = self.process.pending.queued() as u64;
            self.taken = self.taken.max(self.from_host.saturating_sub(pending));
            rank.area.node.signals_taken.store(self.taken);
        }
    }
}

/// Whether a waiting call of the thread has to end because there is something to act on.
pub fn is_wanted(thread: &Thread) -> bool {
    if thread.is_called_back() {
        return true;
    }
    let unclaimed = &thread.rank.unclaimed;
    if !thread.signal_pending.load(Ordering::SeqCst) && !unclaimed.load(Ordering::SeqCst) {
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
    if !thread.signal_pending.load(Ordering::SeqCst) {
        return false;
    }
    let process = &thread.rank.signals.lock().process;
    process.has_fatal(&thread.signals.lock().thread)
}

/// Whether there is something that the thread does not block; if not, its pending flag is cleared.
fn recalculate(thread: &Thread) -> bool {
    let signals = thread.rank.signals.lock();
    let own = thread.signals.lock();
    let wanted = signals.process.has_deliverable(&own.thread);
    thread.signal_pending.store(wanted, Ordering::SeqCst);
    wanted
}

/// Changes the mask of the thread, which runs here (Linux: set_current_blocked): what it lets in now it may have to act on, and
/// what it blocks now and did not before is others' to look at, for it may have been announced. Returns the mask before, and what
/// `change` did.
pub fn change_mask<R>(
    thread: &Thread,
    change: impl FnOnce(&mut signals::Thread) -> R,
) -> (SigSet, R) {
    let (before, after, changed) = {
        let process = &thread.rank.signals.lock().process;
        let own = &mut thread.signals.lock().thread;
        let before = own.blocked();
        let changed = change(own);
        let wanted = process.has_deliverable(own);
        thread.signal_pending.store(wanted, Ordering::SeqCst);
        if wanted {
            thread.pending_work.store(true, Ordering::Relaxed);
        }
        (before, own.blocked(), changed)
    };
    hand_over(thread, after.without(before));
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
    let (rank, signal) = (sender.rank, info.signal);
    if signal.is_real_time() && info.code != code::USER {
        forget_if_full(rank);
        if to.is_none() {
            rank.signals.lock().check_room()?;
        }
    }
    let sent = add(rank, to, info)?;
    forgotten(rank, sent.cancelled);
    match to {
        _ if !sent.pending => {}
        None if rank.threads.live() == 1 => note(sender),
        None => tell_one(rank, signal),
        Some(thread) if core::ptr::eq(thread, sender) => note(sender),
        Some(thread) => tell(thread),
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
    let mut signals = rank.signals.lock();
    let process = &mut signals.process;
    let blocks = |thread: &Thread| thread.signals.lock().thread.blocked().contains(info.signal);
    let sent = match to {
        None => {
            let main_blocks = process.ignores(info.signal) && blocks(rank.main());
            process.send(Target::Process { main_blocks }, info)?
        }
        Some(thread) => process.send(Target::Thread(&mut thread.signals.lock().thread), info)?,
    };
    if process.is_fatal(info.signal) {
        decide(rank, process, to, info.signal);
    }
    Ok(sent)
}

/// A signal that was just sent ends the process at once if the thread that is to take it does not block it, and there is no debugger
/// that may take it away. Then the call that sends it does not return.
#[cold]
#[inline(never)]
fn decide(rank: &Rank, process: &mut Process, to: Option<&Thread>, signal: Signal) {
    let taker = to.or_else(|| first_taker(rank, signal));
    let blocks = |taker: &Thread| taker.signals.lock().thread.blocked().contains(signal);
    if taker.is_some_and(|taker| !blocks(taker)) && !debug::is_attached(rank) {
        let mut own = to.map(|thread| thread.signals.lock());
        process.decide(own.as_mut().map(|own| &mut own.thread), signal);
        if let Some(here) = current_of(rank) {
            note(here);
        }
    }
}

/// Makes a place for the signal of a timer, which is for the process (`None`) or for one thread.
///
/// # Errors
/// EAGAIN: RLIMIT_SIGPENDING is reached, or there is no memory.
pub fn reserve_timer(rank: &Rank, to: Option<&Thread>) -> Result<(), Errno> {
    let mut signals = rank.signals.lock();
    let mut own = to.map(|thread| thread.signals.lock());
    signals
        .process
        .reserve_timer(own.as_mut().map(|own| &mut own.thread))
}

/// Gives back the place of a timer that is gone; its signal, if it waits, takes the place with it.
pub fn release_timer(rank: &Rank, to: Option<&Thread>, id: u32) {
    match to {
        None => rank.signals.lock().process.pending.release(id),
        Some(thread) => thread.signals.lock().thread.pending.release(id),
    }
}

/// Has a signal that was sent looked at by a thread that takes it.
#[inline(always)]
pub fn announce(rank: &'static Rank, to: Option<&'static Thread>, signal: Signal, sent: Sent) {
    forgotten(rank, sent.cancelled);
    match to {
        _ if !sent.pending => {}
        None => tell_one(rank, signal),
        Some(thread) => tell(thread),
    }
}

/// All threads have room for signals again that they are to forget. Without preemption points they do that when they are looked
/// at: there may be a thousand.
#[inline]
pub fn forget_if_full(rank: &Rank) {
    if rank.signals.lock().process.is_full() {
        forget_everywhere(rank);
    }
}

#[cold]
fn forget_everywhere(rank: &Rank) {
    for thread in rank.threads.each() {
        preempt::point(LOOK_WORK);
        let signals = rank.signals.lock();
        signals.process.forget_in(&mut thread.signals.lock().thread);
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
    rank.signals.lock().process.note_continued();
}

#[cold]
fn forgotten_some(rank: &'static Rank, set: SigSet) {
    if set == SigSet::STOPPING {
        note_continued(rank); // SIGCONT was sent, by any sender
    }
    if timer::posix::has_any(rank) {
        rank.forgotten.fetch_or(set.0, Ordering::SeqCst);
        let here = current_of(rank);
        have_claimed(rank, here);
    }
}

/// Has a thread that takes a signal of the process look at it. When there is none, it stays pending for the first that will.
fn tell_one(rank: &'static Rank, signal: Signal) {
    if let Some(thread) = first_taker(rank, signal) {
        tell(thread);
    } else if rank.threads.made() > LOOKS {
        let here = current_of(rank);
        have_claimed(rank, here);
    }
}

/// The main thread, if it takes a signal, or else the first that does (Linux: complete_signal).
///
/// Interrupts send signals, too. So only the first threads are looked at here; if none of them takes it, one of the rank's
/// looks at the others ([`claim`]).
fn first_taker(rank: &Rank, signal: Signal) -> Option<&Thread> {
    let takes = |thread: &&Thread| thread.is_live() && thread.takes(signal);
    // BOUND: LOOKS.
    let mut first = (0..LOOKS).filter_map(|index| rank.threads.get(index));
    // BOUND: LOOKS.
    first.find(takes)
}

/// The thread that runs here, if it is the rank's.
fn current_of(rank: &Rank) -> Option<&'static Thread> {
    thread::current().filter(|thread| core::ptr::eq(thread.rank, rank))
}

/// Has a thread of the rank do what there was no time for: the one that runs here, if it is one.
fn have_claimed(rank: &'static Rank, here: Option<&'static Thread>) {
    if let Some(thread) = here.or_else(|| rank.threads.first()) {
        // The thread may find just then that it has nothing to look at, and forget: so all look at this as well.
        rank.unclaimed.store(true, Ordering::SeqCst);
        tell(thread);
    }
}

/// Does what there was no time for when a signal was sent: takes over the host's, finds which threads take them, which timers go on.
#[inline]
pub fn claim(thread: &Thread) {
    if thread.rank.unclaimed.load(Ordering::SeqCst)
        && thread.rank.unclaimed.swap(false, Ordering::SeqCst)
    {
        claim_all(thread);
    }
}

#[cold]
fn claim_all(thread: &Thread) {
    collect(thread.rank);
    // The thread may be the only one that takes a signal: it looks at those next, or is interrupted.
    tell_takers(thread.rank, SigSet(u64::MAX), |_| true);
    timer::posix::forgotten(thread.rank);
}

/// Signals of the process that the thread no longer takes are others' to look at: it blocked them, or it ends.
#[inline]
pub fn hand_over(thread: &Thread, set: SigSet) {
    if thread.rank.threads.live() > 1 {
        hand_over_to_others(thread, set);
    }
}

#[cold]
#[inline(never)] // Out of the way of a thread that is its rank's only one, as the next.
fn hand_over_to_others(thread: &Thread, set: SigSet) {
    tell_takers(thread.rank, set, |other| !core::ptr::eq(other, thread));
}

/// As [`hand_over`] of all that a thread blocks which has others beside it: some of it may have been announced to them before.
#[cold]
#[inline(never)]
pub fn hand_over_blocked(thread: &Thread) {
    let blocked = thread.signals.lock().thread.blocked();
    hand_over_to_others(thread, blocked);
}

/// Has each pending signal of the process in `set` looked at by a thread that takes it, the first for which `may` holds.
fn tell_takers(rank: &'static Rank, set: SigSet, may: impl Fn(&Thread) -> bool) {
    let pending = rank.signals.lock().process.pending.set().and(set);
    for signal in pending.iter() {
        let takes = |other: &&Thread| {
            preempt::point(LOOK_WORK);
            may(other) && other.takes(signal)
        };
        // POINT: thread::numbers::each
        if let Some(other) = rank.threads.each().find(takes) {
            tell(other);
        }
    }
}

/// Has a thread look at its signals before it returns to ring 3, and now if it waits or runs elsewhere. The one that runs here
/// may be about to wait, and have let this interrupt in meanwhile: it does not.
#[inline]
pub fn tell(thread: &'static Thread) {
    note(thread);
    sched::interrupt(&thread.task);
}

/// Has a thread look at its signals before it returns to ring 3.
#[inline]
fn note(thread: &Thread) {
    thread.signal_pending.store(true, Ordering::SeqCst);
    thread.pending_work.store(true, Ordering::SeqCst);
}

/// Sends a signal to one thread.
///
/// # Errors
/// EAGAIN when a real-time signal finds its queue full.
pub fn send_thread(thread: &'static Thread, info: SigInfo) -> Result<(), Errno> {
    let sent = add(thread.rank, Some(thread), info)?;
    announce(thread.rank, Some(thread), info.signal, sent);
    Ok(())
}

/// The thread did something that it cannot go on from.
pub fn force(thread: &Thread, info: SigInfo) {
    let mut signals = thread.rank.signals.lock();
    let mut own = thread.signals.lock();
    signals.process.force(&mut own.thread, info);
    thread.signal_pending.store(true, Ordering::Relaxed);
    thread.pending_work.store(true, Ordering::Relaxed);
}

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
        let here = current_of(rank);
        have_claimed(rank, here);
    }
}

/// Whether that is all.
fn collect_some(rank: &'static Rank) -> bool {
    let mut has_request = false;
    let is_all = {
        // The mailbox has one consumer. A caller that finds it empty finds what another core took out of it pending.
        let _turn = rank.collecting.lock();
        // BOUND: AT_ONCE.
        for _ in 0..AT_ONCE {
            let Some(signal) = rank.area.mailbox.take() else {
                break;
            };
            if let Some(number) = Signal::new(u64::from(signal.signo)) {
                let info = SigInfo::sent(number, signal.code, signal.pid, signal.uid, signal.value);
                let _ = queue(rank, info); // the host posts no more than there are places
                if number.is_real_time() {
                    rank.signals.lock().from_host += 1;
                }
            } else {
                has_request = true;
            }
        }
        rank.area.mailbox.is_empty()
    };
    if has_request {
        debug::look(rank); // it has preemption points
    }
    publish_taken(rank);
    is_all
}

/// Publishes to the proxy how many of the host's signals are no longer pending, after some were taken or forgotten.
pub fn publish_taken(rank: &Rank) {
    rank.signals.lock().publish_taken(rank);
}

/// Publishes to the proxy which of SIGTTIN and SIGTTOU a thread takes that is about to make a call that can use a terminal: Linux
/// looks at that before it sends them.
pub fn publish_takes(thread: &Thread) {
    let takes = {
        let process = &thread.rank.signals.lock().process;
        let own = &thread.signals.lock().thread;
        own.takes(process, SigSet::BACKGROUND)
    };
    thread.area.node.put_takes(takes.0);
}

/// A call of the thread came back early: what interrupted it may have been posted just before, and is for this thread if it
/// takes it. Left to another one, it would be sent again by the same call.
#[cold]
pub fn interrupted(thread: &Thread) {
    collect(thread.rank);
    claim(thread);
    if recalculate(thread) {
        thread.pending_work.store(true, Ordering::Relaxed);
    }
}
