//! Function shipping, the calling side: a request goes into the rank's ship slot and its proxy answers (`wire::ship`).
//!
//! The caller first spins, since a proxy that was just used answers within microseconds; then it parks its task, or halts
//! the core when there is nothing else to run, until the proxy rings the core's doorbell.

use core::sync::atomic::Ordering;

use abi::Errno;
use abi::control::HostOp;
use wire::ship::Caller;

use crate::rank::Rank;
use crate::{clock, preempt, sched};

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

/// Has the proxy carry out Linux call `nr`; returns what Linux returned.
pub fn linux_call(rank: &Rank, nr: u64, args: &[u64; 6]) -> i64 {
    call(rank, nr, args, false, Interruptible::Yes)
}

/// Has the proxy carry out an operation of ours.
///
/// # Errors
/// The proxy's.
pub fn host_op<const N: usize>(rank: &Rank, op: HostOp, args: [u64; N]) -> Result<u64, Errno> {
    let mut all = [0; 6];
    all[..N].copy_from_slice(&args);
    let ret = call(rank, op as u64, &all, true, Interruptible::No);
    Errno::from_ret(ret).map_or(Ok(ret as u64), Err)
}

fn call(rank: &Rank, nr: u64, args: &[u64; 6], host_op: bool, interruptible: Interruptible) -> i64 {
    let log_position = rank.log.position();
    let mut caller = rank.caller.lock();
    let slot = &rank.threads[0].slot;
    if caller.post(slot, nr, args, host_op, log_position) {
        hal::doorbell::ring(rank.id as u16);
    }
    rank.waiting(|| spin(rank, &caller).unwrap_or_else(|| wait(rank, &caller, interruptible)))
}

fn spin(rank: &Rank, caller: &Caller) -> Option<i64> {
    let deadline = hal::time::tsc() + clock::ticks(SPIN_NS);
    loop {
        let result = caller.result(&rank.threads[0].slot);
        if result.is_some() || hal::time::tsc() > deadline {
            return result;
        }
        hal::cpu::pause();
        preempt::window();
    }
}

fn wait(rank: &Rank, caller: &Caller, interruptible: Interruptible) -> i64 {
    let slot = &rank.threads[0].slot;
    let rings = rank.rings.load(Ordering::Acquire);
    rank.slot_waiter
        .store(sched::current() + 1, Ordering::Release);
    caller.announce_wait(slot);
    // QEMU leaves fences out when one thread runs all CPUs; taking its lock for a device register it cannot.
    hal::apic::device_fence();
    if caller.must_ring(slot) {
        hal::doorbell::ring(rank.id as u16);
    }
    let mut cancelled = false;
    let ret = loop {
        if let Some(ret) = caller.result(slot) {
            break ret;
        }
        if interruptible == Interruptible::Yes && !cancelled && rank.signals.lock().wants_delivery()
        {
            cancelled = true;
            caller.cancel(slot);
            hal::doorbell::ring(rank.id as u16);
        }
        sched::park();
    };
    hear(rank, caller, rings);
    rank.slot_waiter.store(0, Ordering::Release);
    ret
}

/// Waits for the ring that comes with the answer, if there is one and there was none since there were `rings`: the program
/// is not to be interrupted by it later.
fn hear(rank: &Rank, caller: &Caller, rings: u64) {
    loop {
        match caller.is_rung(&rank.threads[0].slot) {
            Some(true) if rank.rings.load(Ordering::Acquire) == rings => sched::park(),
            Some(_) => return,
            None => {
                hal::cpu::pause();
                preempt::window();
            }
        }
    }
}
