//! What a debugger of the host requests of threads, in nodes whose ranks may be debugged.
//!
//! Such a node has its own instance of every way back to ring 3 ([`crate::delivery::before_return`]), which all threads go
//! every time: there they halt for the debugger, get its watches into the debug registers of their core, and step. In other
//! nodes nothing of this is compiled into the paths that ranks take.

use core::sync::atomic::{AtomicU64, Ordering};

use abi::halt::Halt;
use hal::cpu::debug::TRAP_FLAG;
use hal::traps::{Trap, UserFrame};
use qk_core::signals::{SigInfo, Signal, code};
use wire::boot::MAX_CPUS;

use crate::thread::Thread;
use crate::{halt, signal};

/// Exceptions that are the debugger's (AMD APM vol. 2 §8.2).
const DEBUG: u8 = 1;
const BREAKPOINT: u8 = 3;
/// DR6: the exception is a step.
const STEPPED: u64 = 1 << 14;

/// Whose watches each core has: rank and version.
static LOADED: [AtomicU64; MAX_CPUS] = [const { AtomicU64::new(0) }; MAX_CPUS];

/// Halts the thread if it has to; `true`: it did, and there may be more to do now. `nr` is the call that `frame` returns from.
pub fn stops(thread: &'static Thread, frame: &mut UserFrame, nr: Option<u64>) -> bool {
    let rank = thread.rank();
    let hits = hal::cpu::debug::take_hits();
    let stepped = nr.is_some() && thread.debugged().steps();
    let begins = thread.debugged().take_begins();
    if rank.is_debugged() && (stepped || begins || hits != 0) {
        let status = if stepped { hits | STEPPED } else { hits };
        stop(thread, frame, nr, Halt::Debug, status);
    } else if rank.is_to_halt() {
        stop(thread, frame, nr, Halt::Asked, 0);
    } else {
        return false;
    }
    true
}

/// Halts; a signal that the debugger sends then comes next.
fn stop(thread: &'static Thread, frame: &mut UserFrame, nr: Option<u64>, why: Halt, with: u64) {
    if let Some(signal) = Signal::new(pause(thread, frame, nr, why, with).into()) {
        send(thread, signal);
    }
}

/// Halts. Returns the signal to go on with.
fn pause(
    thread: &'static Thread,
    frame: &mut UserFrame,
    nr: Option<u64>,
    why: Halt,
    with: u64,
) -> u8 {
    if thread.debugged().set_steps(false) {
        frame.set_rflags(frame.rflags() & !TRAP_FLAG);
    }
    let go = halt::halt(thread, frame, nr, why, with);
    thread.debugged().set_steps(go.step);
    go.signo
}

/// The rank's program has been replaced, and `thread` is about to begin the new one: it halts for its debugger there.
pub fn program_replaced(thread: &Thread) {
    thread.debugged().begin_program();
}

/// Sends the thread a signal of its debugger's.
fn send(thread: &'static Thread, signal: Signal) {
    thread.debugged().pass(signal.number());
    // Only a full queue refuses: then the signal is lost, and the next of that number is not shown.
    let _ = signal::send_thread(thread, SigInfo::new(signal, code::USER));
}

/// Whether the thread is to act on a signal: its debugger may take it away, or put another in its place.
pub fn passes(thread: &'static Thread, frame: &mut UserFrame, signal: Signal) -> bool {
    let signo = signal.number();
    let passed = thread.debugged().take_passed(signo);
    if passed || signal == Signal::KILL || !thread.rank().is_debugged() {
        return true;
    }
    let instead = pause(thread, frame, None, Halt::Signal, signo.into());
    match Signal::new(instead.into()) {
        Some(other) if other != signal => {
            send(thread, other);
            false
        }
        same => same.is_some(),
    }
}

/// An exception that is the debugger's; `false`: it is the program's own affair.
pub fn takes(thread: &'static Thread, frame: &mut UserFrame, trap: Trap) -> bool {
    let why = match trap.vector {
        DEBUG => Halt::Debug,
        BREAKPOINT => Halt::Break,
        _ => return false,
    };
    let attached = thread.rank().is_debugged();
    if attached {
        let status = match why {
            Halt::Debug => hal::cpu::debug::take_status(),
            _ => 0,
        };
        stop(thread, frame, None, why, status);
    }
    attached
}

/// The last thing before the thread returns to ring 3: watches and steps.
pub fn returns(thread: &Thread, frame: &mut UserFrame) {
    let host = thread.rank().host();
    let wanted = (thread.rank().id() as u64) << 32 | host.watch_version();
    let here = &LOADED[hal::cpu::id()];
    if here.load(Ordering::Relaxed) != wanted {
        hal::cpu::debug::set_watches(host.watches());
        here.store(wanted, Ordering::Relaxed);
    }
    if thread.debugged().steps() {
        frame.set_rflags(frame.rflags() | TRAP_FLAG);
        frame.return_fully();
    }
}
