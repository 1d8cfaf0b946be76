//! Function shipping, the calling side: a request goes into the thread's ship slot and its worker answers (`wire::ship`).
//!
//! The caller first spins, since a worker that was just used answers within microseconds, unless the call is one that blocks
//! or others want the core; then it parks until the proxy rings the core that the caller named.

use core::sync::atomic::{AtomicU64, Ordering};

use abi::Errno;
use abi::control::HostOp;
use alloc::vec::Vec;
use hal::sync::Mutex;
use wire::boot::MAX_CPUS;
use wire::ship::Caller;

use crate::sched::{self, Task};
use crate::thread::Thread;
use crate::{clock, preempt, signal};

/// How long a caller spins before it parks.
const SPIN_NS: u64 = 30_000;

/// Whether a signal may make the proxy give up on a call that blocks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Interruptible {
    /// A signal with something to do ends the wait (with EINTR, unless the call got somewhere).
    Yes,
    /// The kernel's own business.
    No,
}

/// Who waits on a core for an answer.
struct Waiter {
    /// In whose slot the call is.
    thread: &'static Thread,
    /// The thread, or the PCT for it.
    task: &'static Task,
    caller: Caller,
}

/// What a core knows of answers.
struct Answers {
    waiters: Mutex<Vec<Waiter>>,
    /// Doorbells so far.
    rings: AtomicU64,
}

static ANSWERS: [Answers; MAX_CPUS] = [const {
    Answers {
        waiters: Mutex::new(Vec::new()),
        rings: AtomicU64::new(0),
    }
}; MAX_CPUS];

/// Makes room for `calls` that wait on core `cpu`.
///
/// # Errors
/// ENOMEM.
pub fn make_room(cpu: usize, calls: usize) -> Result<(), Errno> {
    let mut waiters = ANSWERS[cpu].waiters.lock();
    let more = calls.saturating_sub(waiters.len());
    waiters.try_reserve(more).map_err(|_| Errno::ENOMEM)
}

/// The host rang this core: whoever has an answer goes on.
pub fn rung() {
    let here = &ANSWERS[hal::cpu::id()];
    here.rings.fetch_add(1, Ordering::Release);
    for waiter in here.waiters.lock().iter() {
        if waiter.caller.result(&waiter.thread.area.slot).is_some() {
            sched::unpark(waiter.task);
        }
    }
}

/// Has the proxy carry out Linux call `nr`; returns what Linux returned.
pub fn linux_call(thread: &'static Thread, nr: u64, args: &[u64; 6]) -> i64 {
    call(thread, nr, args, false, Interruptible::Yes)
}

/// Has the proxy carry out an operation of ours.
///
/// # Errors
/// The proxy's.
pub fn host_op<const N: usize>(
    thread: &'static Thread,
    op: HostOp,
    args: [u64; N],
) -> Result<u64, Errno> {
    let mut all = [0; 6];
    all[..N].copy_from_slice(&args);
    let ret = call(thread, op as u64, &all, true, Interruptible::No);
    Errno::from_ret(ret).map_or(Ok(ret as u64), Err)
}

fn call(
    thread: &'static Thread,
    nr: u64,
    args: &[u64; 6],
    host_op: bool,
    interruptible: Interruptible,
) -> i64 {
    let log_position = thread.rank.log.position();
    let caller = {
        let mut caller = thread.caller.lock();
        if caller.post(&thread.area.slot, nr, args, host_op, log_position) {
            hal::doorbell::ring(thread.rank.id as u16);
        }
        *caller
    };
    thread.waiting(|| spin(thread, &caller).unwrap_or_else(|| wait(thread, &caller, interruptible)))
}

fn spin(thread: &Thread, caller: &Caller) -> Option<i64> {
    let answer = || caller.result(&thread.area.slot);
    if let Some(result) = answer() {
        return Some(result);
    }
    let deadline = hal::time::tsc() + clock::ticks(SPIN_NS);
    loop {
        hal::cpu::pause();
        preempt::window();
        let result = answer();
        if result.is_some() || hal::time::tsc() > deadline || sched::is_wanted() {
            return result;
        }
    }
}

fn wait(thread: &'static Thread, caller: &Caller, interruptible: Interruptible) -> i64 {
    let slot = &thread.area.slot;
    let core = hal::cpu::id();
    let answers = &ANSWERS[core];
    let rings = answers.rings.load(Ordering::Acquire);
    answers.waiters.lock().push(Waiter {
        thread,
        task: sched::current(),
        caller: *caller,
    });
    thread.area.node.core.put(core as u64);
    caller.announce_wait(slot);
    // QEMU leaves fences out when one thread runs all CPUs; taking its lock for a device register it cannot.
    hal::apic::device_fence();
    if caller.must_ring(slot) {
        hal::doorbell::ring(thread.rank.id as u16);
    }
    let mut cancelled = false;
    let ret = loop {
        if let Some(ret) = caller.result(slot) {
            break ret;
        }
        if interruptible == Interruptible::Yes && !cancelled && signal::is_wanted(thread) {
            cancelled = true;
            caller.cancel(slot);
            hal::doorbell::ring(thread.rank.id as u16);
        }
        sched::park();
    };
    hear(answers, thread, caller, rings);
    let mut waiters = answers.waiters.lock();
    if let Some(own) = waiters
        .iter()
        .position(|waiter| core::ptr::eq(waiter.thread, thread))
    {
        waiters.swap_remove(own);
    }
    ret
}

/// Waits for the ring that comes with the answer, if there is one and there was none since there were `rings`: the program
/// is not to be interrupted by it later.
fn hear(answers: &Answers, thread: &Thread, caller: &Caller, rings: u64) {
    loop {
        match caller.is_rung(&thread.area.slot) {
            Some(true) if answers.rings.load(Ordering::Acquire) == rings => sched::park(),
            Some(_) => return,
            None => {
                hal::cpu::pause();
                preempt::window();
            }
        }
    }
}
