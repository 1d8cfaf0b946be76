//! The way back to ring 3: signals are acted on, threads end or stop, and those that used up their slice let others go first.

use abi::Errno;
use abi::control::HostOp;
use abi::halt::Halt;
use hal::traps::UserFrame;
use qk_core::signals::{Action, Delivery, SigInfo, SigSet, Signal, sa, si};
use wire::lost::LostPage;

use crate::host::{ship, trace};
use crate::rank::Rank;
use crate::result::{RESTART, RESTART_ALWAYS, RESTART_NO_HANDLER};
use crate::thread::Thread;
use crate::{
    crash, debug, exit, halt, preempt, rseq, sched, shared, shootdown, sigframe, signal, timer,
};

/// What pushing a frame counts at preemption points.
const FRAME_WORK: u32 = 1000;
/// What taking out an ignored one counts: as many others may wait, and are looked through.
const IGNORED_WORK: u32 = 1000;
/// Bytes of the `syscall` instruction.
const SYSCALL_BYTES: u64 = 2;

/// In a frame's `orig_rax_or_vector`: the call that it returns from is none that a signal interrupted, whatever is in rax
/// (Linux: orig_ax of -1).
pub const NO_CALL: u64 = u64::MAX;

/// Does what there is to do just before `frame` returns to ring 3; `nr` is the call that it returns from, if it is one.
/// `DEBUG`: ranks may be debugged.
#[cold]
#[inline(never)]
pub fn before_return<const DEBUG: bool>(
    thread: &'static Thread,
    frame: &mut UserFrame,
    nr: Option<u64>,
) {
    let mut failed = nr.zip(Errno::from_ret(frame.rax as i64));
    let mut interrupted =
        failed.filter(|(_, e)| [RESTART, RESTART_NO_HANDLER, RESTART_ALWAYS].contains(e));
    // BOUND: again once with the mask restored, with what came while the thread waited, and with a SIGSEGV that cannot be blocked, which
    // starts a handler or ends the thread.
    loop {
        act::<DEBUG>(thread, frame, nr, &mut interrupted);
        if failed.take().is_some() {
            // No handler ran: the call starts again as if nothing had been.
            if let Some((nr, _)) = interrupted.take() {
                settle_interrupted(frame, nr, true);
                frame.return_fully();
            }
            // No handler restores the mask, and the call is not to start again under its temporary one: a handler that ran in
            // ring 3 before it started would not end it. What the old mask lets in comes first (Linux: restore_saved_sigmask).
            signal::change_mask(thread, |own| own.restore_mask());
            if thread.pending().has_new_work() {
                continue;
            }
        }
        match rseq::resume(thread, frame) {
            Ok(()) => break,
            Err(Errno::EINTR) => {}
            Err(_) => signal::force(thread, sigframe::bad_frame()),
        }
    }
    if DEBUG {
        debug::returns(thread, frame);
    }
}

/// Does all of it but for what follows when nothing more is to be done.
fn act<const DEBUG: bool>(
    thread: &'static Thread,
    frame: &mut UserFrame,
    nr: Option<u64>,
    interrupted: &mut Option<(u64, Errno)>,
) {
    loop {
        thread.pending().begin_work();
        ship::look_on();
        shootdown::catch_up();
        signal::claim(thread);
        if let Some(said) = thread.pending().take_lost()
            && let Some(at) = shared::lost(thread, LostPage::of(said.get()))
        {
            signal::force_late(thread, SigInfo::fault(Signal::BUS, si::BUS_ADRERR, at));
        }
        if thread.pending().take_signal() {
            deliver::<DEBUG>(thread, frame, interrupted);
        }
        if thread.rank().ending().calls_back() && is_over::<DEBUG>(thread, frame, nr) {
            exit::leave_ending(thread, frame, nr);
        }
        if sched::should_yield(thread.task()) {
            give_way(thread);
        }
        if DEBUG && stops(thread, frame, nr, interrupted) {
            continue;
        }
        if thread.rank().stops().any() {
            thread.waiting(|| {
                while thread.rank().stops().any() && !thread.must_end() {
                    sched::park();
                }
            });
        } else if !thread.pending().has_new_work() {
            return;
        }
        core::hint::cold_path(); // Mostly that was all.
    }
}

/// Whether the thread is called back to end. If for who looks into a rank that is not debugged, and changes no register, it halts.
#[cold]
#[inline(never)] // Out of the way of threads that go on.
fn is_over<const DEBUG: bool>(
    thread: &'static Thread,
    frame: &mut UserFrame,
    nr: Option<u64>,
) -> bool {
    if !DEBUG && !thread.must_end() && thread.rank().is_to_halt() {
        halt::halt(thread, frame, nr, Halt::Asked, 0);
        // Signals that came meanwhile are acted on before the thread goes back.
        thread.pending().note_own_work();
    }
    thread.must_end()
}

/// Lets others go first: the thread's slice is over, or it is to go on elsewhere.
#[cold]
#[inline(never)] // Out of the way of signals.
fn give_way(thread: &'static Thread) {
    rseq::interrupted(thread);
    ship::look_on(); // the core was rung since, perhaps, which what runs next does not see
    sched::yield_now(thread.task());
}

/// Halts the thread for its debugger, which may let it go on elsewhere: then the call that it was in is over. `true`: it did.
fn stops(
    thread: &'static Thread,
    frame: &mut UserFrame,
    nr: Option<u64>,
    interrupted: &mut Option<(u64, Errno)>,
) -> bool {
    let (rip, rax) = (frame.rip(), frame.rax);
    let stopped = debug::stops(thread, frame, nr);
    if (frame.rip(), frame.rax) != (rip, rax) {
        *interrupted = None;
    }
    stopped
}

/// The signal that the thread must act on next, when its debugger, which may take signals away before anything of their delivery is
/// done, has let it pass.
fn passed(thread: &'static Thread, frame: &mut UserFrame) -> Option<Signal> {
    // BOUND: the thread halts for its debugger in each turn.
    loop {
        let signal = {
            let process = &thread.rank().signals().process;
            process.coming(&mut thread.signals().thread)?
        };
        if debug::passes(thread, frame, signal) {
            return Some(signal);
        }
        let taken = {
            let mut signals = thread.rank().signals();
            let own = &mut thread.signals().thread;
            let taken = signals.process.take(own, SigSet::of(signal));
            signals.publish_taken(thread.rank().host());
            taken
        };
        // Another thread may have taken it meanwhile.
        if let Some(mut info) = taken {
            timer::taken(thread.rank(), &mut info);
        }
    }
}

/// Acts on the thread's signals, one after the other.
fn deliver<const DEBUG: bool>(
    thread: &'static Thread,
    frame: &mut UserFrame,
    interrupted: &mut Option<(u64, Errno)>,
) {
    loop {
        let mut among = SigSet(u64::MAX);
        if DEBUG {
            let Some(signal) = passed(thread, frame) else {
                return;
            };
            among = SigSet::of(signal);
        }
        let mut signals = thread.rank().signals();
        let mut own = thread.signals();
        let mut delivery = signals.process.next_of(&mut own.thread, among);
        let more = signals.process.has_more(&own.thread);
        signals.publish_taken(thread.rank().host());
        drop((own, signals));

        let Some(delivery) = &mut delivery else {
            if DEBUG {
                continue; // Another thread has taken it.
            }
            return;
        };
        timer::taken(thread.rank(), delivery.info_mut());
        match delivery {
            Delivery::Terminate { info, core } => terminate(thread, frame, info, *core),
            Delivery::Stop(info) => stop(thread, info.signal),
            Delivery::Ignored(_) => preempt::point(IGNORED_WORK),
            Delivery::Handler {
                info,
                action,
                restore,
            } => {
                trace::signal(thread, info);
                if let Some((nr, errno)) = interrupted.take() {
                    thread.program().take_sleep_end();
                    let restart = match errno {
                        RESTART => action.flags & sa::RESTART != 0,
                        errno => errno == RESTART_ALWAYS,
                    };
                    settle_interrupted(frame, nr, restart);
                }
                let entered = enter(thread, frame, info, action, *restore);
                // As many frames follow as signals are pending, or as fit on the stack when the handler's address faults.
                preempt::point(FRAME_WORK);
                if entered && !more {
                    return;
                }
            }
        }
    }
}

fn settle_interrupted(frame: &mut UserFrame, nr: u64, restart: bool) {
    if restart {
        frame.set_rip(frame.rip().wrapping_sub(SYSCALL_BYTES));
        frame.rax = nr;
    } else {
        frame.rax = Errno::EINTR.ret() as u64;
    }
}

/// Makes `frame` enter a handler; `false`: its stack has no room, or the critical section that was interrupted is none, and the
/// thread gets SIGSEGV.
#[inline(always)] // Of every delivery, in one place of each of its two forms.
fn enter(
    thread: &'static Thread,
    frame: &mut UserFrame,
    info: &SigInfo,
    action: &Action,
    restore: SigSet,
) -> bool {
    // As on Linux the handler is entered after a bad critical section, too; SIGSEGV then comes before its first instruction.
    let restarted = rseq::abort_if_inside(thread, frame).is_ok();
    let entered = sigframe::push(thread, frame, info, action, restore).is_ok() && restarted;
    if !entered {
        let mut signals = thread.rank().signals();
        let mut own = thread.signals();
        signals.process.force_segv(&mut own.thread, info.signal);
    }
    // What the handler blocks may be another thread's to take.
    if thread.rank().threads().live() > 1 {
        signal::hand_over_blocked(thread);
    }
    // SYSRET does what a handler needs: it finds nothing of the program in rcx and r11.
    if !entered {
        frame.return_fully();
    }
    entered
}

/// Stops until SIGCONT: the proxy stops itself, as the shell expects of its job, and answers when it goes on. The other
/// threads stop on their way back to ring 3. Its process group may be orphaned, which only Linux can see: then nothing stops.
fn stop(thread: &'static Thread, signal: Signal) {
    let rank: &Rank = thread.rank();
    rank.stop(true);
    let limit_ns = timer::posix::stop_limit_ns(rank);
    let signo = u64::from(signal.number());
    if let Err(errno) = ship::host_op(thread, HostOp::Stop, [limit_ns, signo, 0]) {
        log::warn!("rank {}: its proxy could not stop: {errno}", rank.id());
    }
    rank.stop(false);
    // What was sent meanwhile comes before the program's next instruction.
    signal::collect(thread.rank());
}

/// The rank ends by a signal, if nothing else has ended it, and the thread with it.
fn terminate(thread: &'static Thread, frame: &UserFrame, info: &SigInfo, core: bool) -> ! {
    // Only faults have a place worth reporting: a program that ends itself (abort), or is ended from the keyboard, was nowhere
    // in particular.
    if core && info.code > 0 && SigSet::SYNCHRONOUS.contains(info.signal) {
        crash::report(thread, frame, info);
    }
    let dumped = core && crash::is_due(thread.rank());
    let status = u64::from(info.signal.number());
    if thread.rank().end(status, dumped) {
        trace::signal(thread, info);
        if dumped {
            crash::note_signal(thread, info);
        }
    }
    exit::leave_ending(thread, frame, None)
}
