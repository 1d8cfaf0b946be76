//! Function shipping, the calling side: a request goes into the thread's ship slot and its worker answers (`wire::ship`).
//!
//! The caller first spins, since a worker that was just used answers within microseconds, until another task waits for the core;
//! then it parks until the proxy rings the core that the caller named.

use core::sync::atomic::{AtomicU64, Ordering};

use abi::Errno;
use abi::control::HostOp;
use alloc::vec::Vec;
use hal::addr::{Phys, Va};
use hal::sync::{Mutex, MutexGuard, Once, class};
use wire::boot::MAX_CPUS;
use wire::ship::Caller;

use super::resident;
use crate::rank::Rank;
use crate::sched::{self, Task};
use crate::thread::{self, Thread};
use crate::{clock, preempt, signal};

/// How long a caller spins before it parks.
const SPIN_NS: u64 = 30_000;
/// How long a proxy that has answered may take to say whether it rings.
const DECISION_NS: u64 = 10_000_000;
/// Waiters that are looked at in one go; an interrupt leaves the others to the core's task ([`look_on`]).
const LOOKS: usize = 16;

/// Whether a signal may make the proxy give up on a call that blocks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Interruptible {
    /// A signal with something to do ends the wait (with EINTR, unless the call got somewhere).
    Yes,
    /// The end of the rank does, or of the thread when another replaces the program.
    ByTheEnd,
    /// So does a signal that is about to end the rank.
    ByWhatEnds,
    /// The kernel's own business.
    No,
}

/// A task that waits on a core for an answer.
struct Waiter {
    /// In whose slot the call is.
    thread: &'static Thread,
    /// The thread, or the PCT for it.
    task: &'static Task,
    caller: Caller,
}

/// The waiters of a core that have not been woken.
struct Waiters {
    list: Vec<Waiter>,
    /// Of them the first so many have not been looked at since the core was rung.
    due: usize,
}

/// A core's state of waiting for answers.
struct Answers {
    waiters: Once<Mutex<Waiters, class::Waiters>>,
    /// Doorbells so far.
    rings: AtomicU64,
}

/// All zeros until [`init`]: so they take no room in the kernel's file.
static ANSWERS: [Answers; MAX_CPUS] = [const {
    Answers {
        waiters: Once::new(),
        rings: AtomicU64::new(0),
    }
}; MAX_CPUS];

/// Makes the lists of waiters.
pub fn init(cpus: usize) {
    // BOUND: the cores.
    for core in &ANSWERS[..cpus] {
        let (list, due) = (Vec::new(), 0);
        let fresh = core.waiters.set(Mutex::new(Waiters { list, due })).is_ok();
        assert!(fresh, "lists of waiters set up twice");
    }
}

impl Answers {
    fn waiters(&self) -> MutexGuard<'_, Waiters, class::Waiters> {
        let made = self.waiters.get().expect("made before a core is rung");
        made.lock()
    }
}

/// Makes room for `calls` that wait on core `cpu`.
///
/// # Errors
/// ENOMEM.
pub fn make_room(cpu: usize, calls: usize) -> Result<(), Errno> {
    let list = &mut ANSWERS[cpu].waiters().list;
    let more = calls.saturating_sub(list.len());
    list.try_reserve(more).map_err(|_| Errno::ENOMEM)
}

/// The host rang this core: waiters that have an answer go on.
pub fn rung() {
    let here = &ANSWERS[hal::cpu::id()];
    here.rings.fetch_add(1, Ordering::Release);
    look(here, true);
    if sched::has_left_work()
        && let Some(thread) = thread::current()
    {
        // It looks at the rest on its way back to ring 3, or before it halts again.
        thread.pending().note_own_work();
    }
}

/// Looks at the waiters on this core that could not be looked at when the host rang.
#[inline]
pub fn look_on() {
    let here = &ANSWERS[hal::cpu::id()];
    while sched::has_left_work() {
        preempt::take_interrupts();
        look(here, false);
    }
}

/// Wakes those of some waiters that have an answer; `afresh`: all are to be looked at again.
fn look(here: &Answers, afresh: bool) {
    let Waiters { list, due } = &mut *here.waiters();
    if afresh {
        *due = list.len();
    }
    let first = due.saturating_sub(LOOKS);
    // BOUND: LOOKS.
    while *due > first {
        *due -= 1;
        let waiter = &list[*due];
        if waiter.caller.result(waiter.thread.host().slot()).is_some() {
            sched::unpark(waiter.task);
            // The last, which was looked at, takes its place.
            take_out(list, *due);
        }
    }
    sched::leave_work(*due > 0);
}

/// Takes a waiter out, whose place the last one takes.
fn take_out(list: &mut Vec<Waiter>, at: usize) {
    list.swap_remove(at);
    if let Some(moved) = list.get(at) {
        moved.thread.host().waits_at.store(at, Ordering::Relaxed);
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
    own_call(thread, op, args, Interruptible::No)
}

/// The same for one that may take as long as a program chooses: it is given up when the rank ends.
///
/// # Errors
/// The proxy's.
pub fn host_op_until_end<const N: usize>(
    thread: &'static Thread,
    op: HostOp,
    args: [u64; N],
) -> Result<u64, Errno> {
    own_call(thread, op, args, Interruptible::ByTheEnd)
}

/// The same, but a signal that is about to end the rank does not wait for it either (Linux: TASK_KILLABLE).
///
/// # Errors
/// The proxy's.
pub fn host_op_until_fatal<const N: usize>(
    thread: &'static Thread,
    op: HostOp,
    args: [u64; N],
) -> Result<u64, Errno> {
    own_call(thread, op, args, Interruptible::ByWhatEnds)
}

/// The same for one that may wait as long as other processes like: a signal interrupts it, with EINTR unless it was done.
///
/// # Errors
/// The proxy's.
pub fn host_op_until_signal<const N: usize>(
    thread: &'static Thread,
    op: HostOp,
    args: [u64; N],
) -> Result<u64, Errno> {
    let result = own_call(thread, op, args, Interruptible::Yes);
    if result == Err(Errno::EINTR) {
        signal::interrupted(thread);
    }
    result
}

fn own_call<const N: usize>(
    thread: &'static Thread,
    op: HostOp,
    args: [u64; N],
    interruptible: Interruptible,
) -> Result<u64, Errno> {
    let mut all = [0; 6];
    all[..N].copy_from_slice(&args);
    let ret = call(thread, op as u64, &all, true, interruptible);
    Errno::check(ret).map(|ret| ret as u64)
}

fn call(
    thread: &'static Thread,
    nr: u64,
    args: &[u64; 6],
    host_op: bool,
    interruptible: Interruptible,
) -> i64 {
    let log_position = thread.rank().host().mappings();
    let slot = thread.host().slot();
    let caller = {
        let mut caller = thread.host().caller.lock();
        if caller.post(slot, nr, args, host_op, log_position) {
            bell(thread);
        }
        *caller
    };
    thread.waiting(|| spin(thread, &caller).unwrap_or_else(|| wait(thread, &caller, interruptible)))
}

fn spin(thread: &Thread, caller: &Caller) -> Option<i64> {
    let slot = thread.host().slot();
    let answer = || caller.result(slot);
    // How long interrupts are off does not depend on how soon the host answers.
    preempt::take_interrupts();
    if let Some(result) = answer() {
        return Some(result);
    }
    let deadline = hal::time::tsc() + clock::ticks(SPIN_NS);
    loop {
        hal::cpu::pause();
        preempt::take_interrupts();
        let result = answer();
        if result.is_some() || hal::time::tsc() > deadline || sched::is_wanted() {
            return result;
        }
    }
}

fn wait(thread: &'static Thread, caller: &Caller, interruptible: Interruptible) -> i64 {
    let slot = thread.host().slot();
    let core = hal::cpu::id();
    let answers = &ANSWERS[core];
    let rings = answers.rings.load(Ordering::Acquire);
    {
        let list = &mut answers.waiters().list;
        thread.host().waits_at.store(list.len(), Ordering::Relaxed);
        list.push(Waiter {
            thread,
            task: sched::current(),
            caller: *caller,
        });
    }
    thread.host().set_core(core);
    caller.announce_wait(slot);
    // QEMU leaves fences out when one thread runs all CPUs; taking its lock for a device register it cannot.
    hal::apic::device_fence();
    if caller.must_ring(slot) {
        bell(thread);
    }
    let mut cancelled = false;
    let ret = loop {
        if let Some(ret) = caller.result(slot) {
            break ret;
        }
        let wanted = match interruptible {
            Interruptible::Yes => !cancelled && signal::is_wanted(thread),
            Interruptible::ByTheEnd => !cancelled && thread.must_end(),
            Interruptible::ByWhatEnds => !cancelled && signal::is_ended(thread),
            Interruptible::No => false,
        };
        if wanted {
            cancelled = true;
            caller.cancel(slot);
            bell(thread);
        }
        sched::park();
    };
    await_doorbell(answers, thread, caller, rings);
    forget(answers, thread);
    ret
}

/// Rings the worker of a thread that has a request for it.
fn bell(thread: &'static Thread) {
    if !hal::doorbell::ring(thread.rank().id() as u16) {
        resident::serve(thread.host().slot(), &RankMemory(thread.rank()));
    }
}

/// A rank's memory as the resident server reaches it.
struct RankMemory(&'static Rank);

impl resident::Memory for RankMemory {
    fn fill(&self, to: u64, len_bytes: u64, copy: &dyn Fn(Phys, u64, u64)) -> Result<u64, Errno> {
        self.0.with_aspace(|aspace| {
            // What the server writes to was marked dirty with the request.
            aspace.each_page(Va(to), len_bytes, false, |pa, done, step| {
                copy(pa, done, step);
                Ok(())
            })
        })?;
        Ok(len_bytes)
    }
}

fn forget(answers: &Answers, thread: &Thread) {
    let Waiters { list, due } = &mut *answers.waiters();
    let own = thread.host().waits_at.load(Ordering::Relaxed);
    if list
        .get(own)
        .is_some_and(|waiter| core::ptr::eq(waiter.thread, thread))
    {
        // The last takes its place: if that is still to be looked at, all are, and the place is one of those.
        take_out(list, own);
        *due = (*due).min(list.len());
    }
}

/// Waits for the ring that comes with the answer, if there is one and there was none since there were `rings`: the program
/// is not to be interrupted by it later. A proxy that does not say at once whether it rings is not waited for, nor is one that
/// does not ring when the thread has to end.
fn await_doorbell(answers: &Answers, thread: &Thread, caller: &Caller, rings: u64) {
    let mut limit = None;
    loop {
        match caller.is_rung(thread.host().slot()) {
            Some(true) if answers.rings.load(Ordering::Acquire) == rings && !thread.must_end() => {
                sched::park();
            }
            Some(_) => return,
            None => {
                let now = hal::time::tsc();
                let limit = *limit.get_or_insert(now + clock::ticks(DECISION_NS));
                if now > limit || sched::is_wanted() {
                    return;
                }
                hal::cpu::pause();
                preempt::take_interrupts();
            }
        }
    }
}
