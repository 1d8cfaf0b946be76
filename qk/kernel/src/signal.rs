//! Signals of a rank: taking them from the host, acting on them before it returns to ring 3.
//!
//! The rules are `qk_core::signals`'; this is what needs the machine: frames on the program's stack ([`crate::sigframe`]), ending,
//! stopping, waking what waits.

use core::sync::atomic::Ordering;

use abi::Errno;
use abi::control::{Event, HostOp};
use hal::traps::{Trap, UserFrame};
use qk_core::signals::{
    Action, Delivery, Process, SIG_DFL, SIG_IGN, SigInfo, SigSet, Signal, Target, Thread, code, sa,
};

use wire::rank::terminal;

use crate::rank::Rank;
use crate::syscall::{RESTART, RESTART_NO_HANDLER};
use crate::{crash, events, preempt, sched, ship, sigframe, trace};

/// Particulars of pending signals kept for a process besides those of the host, and for a thread.
const QUEUE: usize = 64;
/// What pushing a frame counts at preemption points.
const FRAME_WORK: u32 = 1000;
/// Places for real-time signals of the host.
const HOST_QUEUE: usize = wire::signal::QUEUED as usize;
/// Bytes of the `syscall` instruction.
const SYSCALL_BYTES: u64 = 2;

/// All of a rank's signal state.
pub struct Signals {
    /// Dispositions, and what was sent to the process.
    pub process: Process,
    /// Mask, alternate stack, and what was sent to the thread.
    pub thread: Thread,
    /// The last exception: what sigcontext says of it.
    pub trap: Trap,
    /// Real-time signals of the host so far, and how many of them are no longer pending, at least.
    from_host: u64,
    taken: u64,
}

impl Signals {
    /// Defaults, nothing pending.
    pub fn new() -> Signals {
        Signals {
            process: Process::new(QUEUE + HOST_QUEUE),
            thread: Thread::new(SigSet::EMPTY, QUEUE),
            trap: Trap {
                vector: 0,
                error: 0,
                cr2: 0,
            },
            from_host: 0,
            taken: 0,
        }
    }

    /// What survived the exec of the program: ignored signals, the mask, and how many signals may be queued.
    pub fn inherit(&mut self, ignored: u64, blocked: u64, queue_limit: u64) {
        self.process.limit_queue(queue_limit);
        self.thread.set_blocked(SigSet(blocked));
        let ignore = Action {
            handler: SIG_IGN,
            ..Action::DEFAULT
        };
        for signal in (1..=64)
            .filter_map(Signal::new)
            .filter(|signal| SigSet(ignored).contains(*signal))
        {
            // KILL and STOP cannot be ignored, whatever the host says.
            let _ = self.process.set_action(signal, ignore);
        }
    }

    /// Whether the program may queue one more signal for itself: the host's keep their places.
    fn has_room(&self) -> bool {
        let places = HOST_QUEUE.saturating_sub((self.from_host - self.taken) as usize);
        self.process.pending.queued() + places < QUEUE + HOST_QUEUE
    }

    /// What a signal of job control does: a value of [`wire::rank::terminal`].
    fn terminal_stop(&self, signal: Signal) -> u64 {
        match self.process.action(signal).handler {
            _ if self.thread.blocked().contains(signal) => terminal::PASSES,
            SIG_IGN => terminal::PASSES,
            SIG_DFL => terminal::STOPS,
            _ => terminal::HANDLED,
        }
    }

    /// Whether a waiting call has to end because there is something to act on.
    pub fn wants_delivery(&self) -> bool {
        self.process.has_deliverable(&self.thread)
    }
}

/// Sends a signal to the process whose call this is: it looks for it on its way out.
///
/// # Errors
/// EAGAIN when a real-time signal finds its queue full.
pub fn try_send_process(rank: &Rank, info: SigInfo) -> Result<(), Errno> {
    if info.signal.is_real_time() && info.code != code::USER && !rank.signals.lock().has_room() {
        return Err(Errno::EAGAIN);
    }
    queue(rank, info)
}

fn queue(rank: &Rank, info: SigInfo) -> Result<(), Errno> {
    let mut guard = rank.signals.lock();
    let Signals {
        process, thread, ..
    } = &mut *guard;
    let sent = process.send(Target::Process(thread), info)?;
    thread.pending.discard(sent.cancelled);
    note(rank, sent.pending);
    Ok(())
}

/// Sends a signal to the process, which may be waiting; real-time ones are lost when the queue is full.
pub fn send_process(rank: &Rank, info: SigInfo) {
    let sent = try_send_process(rank, info);
    if sent.is_ok() && sched::is_started(rank.id) {
        sched::unpark(rank.id);
    }
}

/// Sends a signal to the thread whose call this is.
///
/// # Errors
/// EAGAIN when a real-time signal finds its queue full.
pub fn send_thread(rank: &Rank, info: SigInfo) -> Result<(), Errno> {
    let mut guard = rank.signals.lock();
    let Signals {
        process, thread, ..
    } = &mut *guard;
    let sent = process.send(Target::Thread(thread), info)?;
    note(rank, sent.pending);
    Ok(())
}

fn note(rank: &Rank, pending: bool) {
    if pending {
        rank.attention.store(true, Ordering::Relaxed);
    }
}

/// Takes over what the host has for the rank. Called by the doorbell on the rank's core.
pub fn collect(rank: &Rank) {
    while let Some(signal) = rank.area.mailbox.take() {
        if let Some(number) = Signal::new(u64::from(signal.signo)) {
            let info = SigInfo::sent(number, signal.code, signal.pid, signal.uid, signal.value);
            let _ = queue(rank, info); // the host posts no more than there are places
            if number.is_real_time() {
                rank.signals.lock().from_host += 1;
            }
        }
    }
    publish_taken(rank);
}

/// Tells the proxy how many of the host's signals are no longer pending, after some were taken or forgotten.
pub fn publish_taken(rank: &Rank) {
    let mut signals = rank.signals.lock();
    if signals.taken != signals.from_host {
        let pending = signals.process.pending.queued() as u64;
        signals.taken = signals.taken.max(signals.from_host.saturating_sub(pending));
        rank.area.node.signals_taken.store(signals.taken);
    }
}

/// Tells the proxy what SIGTTIN and SIGTTOU do to the program: Linux looks at that before it sends them.
pub fn publish_terminal_stops(rank: &Rank) {
    let word = {
        let signals = rank.signals.lock();
        [Signal::TTIN, Signal::TTOU].map(|signal| signals.terminal_stop(signal))
    };
    let word = word[0] | word[1] << 2;
    let published = &rank.area.node.terminal_stops;
    if published.peek() != word {
        published.store(word);
    }
}

/// The thread did something that it cannot go on from.
pub fn force(rank: &'static Rank, info: SigInfo) {
    let mut guard = rank.signals.lock();
    let Signals {
        process, thread, ..
    } = &mut *guard;
    process.force(thread, info);
    rank.attention.store(true, Ordering::Relaxed);
}

/// In a frame's `orig_rax_or_vector`: the call that it returns from is none that a signal interrupted, whatever is in rax
/// (Linux: orig_ax of -1).
pub const NO_CALL: u64 = u64::MAX;

/// Acts on pending signals just before `frame` returns to ring 3; `nr` is the call that it returns from, if it is one.
#[cold]
#[inline(never)]
pub fn before_return(rank: &'static Rank, frame: &mut UserFrame, nr: Option<u64>) {
    let mut interrupted = nr
        .zip(Errno::from_ret(frame.rax as i64))
        .filter(|(_, e)| [RESTART, RESTART_NO_HANDLER].contains(e));
    rank.attention.store(false, Ordering::Relaxed);
    loop {
        let delivery = {
            let mut guard = rank.signals.lock();
            let Signals {
                process, thread, ..
            } = &mut *guard;
            process.next(thread)
        };
        if let Some(Delivery::Terminate { info, .. } | Delivery::Handler { info, .. }) = &delivery {
            trace::signal(rank, info);
        }
        match delivery {
            None => break,
            Some(Delivery::Terminate { info, core }) => terminate(rank, frame, &info, core),
            Some(Delivery::Stop(_)) => stop(rank),
            Some(Delivery::Handler {
                info,
                action,
                restore,
            }) => {
                if let Some((nr, errno)) = interrupted.take() {
                    rank.take_sleep_end();
                    settle_interrupted(
                        frame,
                        nr,
                        errno == RESTART && action.flags & sa::RESTART != 0,
                    );
                }
                enter(rank, frame, &info, &action, restore);
                hal::cpu::set_return_slow();
                // As many frames follow as signals are pending, or as fit on the stack when the handler's address faults.
                preempt::point(FRAME_WORK);
            }
        }
    }
    // No handler ran: the call starts again as if nothing had been.
    if let Some((nr, _)) = interrupted {
        settle_interrupted(frame, nr, true);
        hal::cpu::set_return_slow();
    }
    publish_taken(rank);
}

fn settle_interrupted(frame: &mut UserFrame, nr: u64, restart: bool) {
    if restart {
        frame.rip -= SYSCALL_BYTES;
        frame.rax = nr;
    } else {
        frame.rax = Errno::EINTR.ret() as u64;
    }
}

fn enter(
    rank: &'static Rank,
    frame: &mut UserFrame,
    info: &SigInfo,
    action: &Action,
    restore: SigSet,
) {
    crate::rseq::abort_if_inside(rank, frame);
    if sigframe::push(rank, frame, info, action, restore).is_err() {
        let mut guard = rank.signals.lock();
        let Signals {
            process, thread, ..
        } = &mut *guard;
        process.force_segv(thread, info.signal);
    }
}

/// Stops until SIGCONT: the proxy stops itself, as the shell expects of its job, and answers when it goes on.
fn stop(rank: &Rank) {
    if let Err(errno) = ship::host_op(rank, HostOp::Stop, [0; 3]) {
        log::warn!("rank {}: its proxy could not stop: {errno}", rank.id);
    }
    // What was sent meanwhile comes before the program's next instruction.
    collect(rank);
}

fn terminate(rank: &'static Rank, frame: &UserFrame, info: &SigInfo, core: bool) -> ! {
    // Only faults have a place worth reporting: a program that ends itself (abort), or is told to by the keyboard, was nowhere
    // in particular.
    if core && info.code > 0 && SigSet::SYNCHRONOUS.contains(info.signal) {
        crash::report(rank, frame, info);
    }
    end(rank, u64::from(info.signal.number()))
}

/// Ends the rank; `wait_status` as wait(2) says it. Its core runs what else there is.
pub fn end(rank: &'static Rank, wait_status: u64) -> ! {
    crate::timer::clear(rank);
    rank.area.node.mxcsr.put(hal::task::mxcsr().into());
    rank.exited(wait_status);
    events::post(Event::Exited(rank.id as u32));
    sched::exit()
}
