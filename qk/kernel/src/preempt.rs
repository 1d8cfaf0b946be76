//! The preemption point: where the kernel, which runs with interrupts off, takes pending ones.
//!
//! Code whose amount of work a program chooses says in every turn how much it was ([`point`]); after a slice of work
//! interrupts are let in. So the longest section with interrupts off is the slice, and the largest piece of work that is
//! said at once, whatever the program requests (docs/adr/0014; after seL4's preemption points). That no loop is without it, or says
//! why, is held by tests/source/loops.rs.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use hal::addr::Phys;
use wire::boot::MAX_CPUS;

use crate::stats;

/// Work between two preemption points, in instructions, roughly.
const SLICE: u32 = 2000;

/// What each core has left of its slice.
static LEFT: [AtomicU32; MAX_CPUS] = [const { AtomicU32::new(SLICE) }; MAX_CPUS];

/// Counts `work`, and lets interrupts in when a slice is full. Its handlers do not switch tasks and take no lock that may be
/// held here.
#[inline]
pub fn point(work: u32) {
    let left = &LEFT[hal::cpu::id()];
    let before = left.load(Ordering::Relaxed);
    if work < before {
        left.store(before - work, Ordering::Relaxed);
    } else {
        left.store(SLICE, Ordering::Relaxed);
        take_interrupts();
    }
}

/// Starts a slice: what a change of an address space costs then does not depend on what came before it, and can be counted
/// exactly. Little has been done since the kernel was entered.
#[inline]
pub fn start() {
    LEFT[hal::cpu::id()].store(SLICE, Ordering::Relaxed);
}

/// Interrupts have handlers that may run: before the first core has booted nothing waits for one.
static UP: AtomicBool = AtomicBool::new(false);

/// From now on interrupts are let in.
pub fn up() {
    UP.store(true, Ordering::Relaxed);
}

/// Lets pending interrupts in, now: for loops that wait.
#[inline(never)] // Points are in many small functions, which are to stay small.
pub fn take_interrupts() {
    if !UP.load(Ordering::Relaxed) {
        return;
    }
    if stats::counting() {
        stats::section_ends();
        hal::cpu::take_interrupts();
        stats::section_starts();
    } else {
        hal::cpu::take_interrupts();
    }
}

/// Clears memory, of any length: as one preemption point all along. A slice starts after it.
pub fn zero(at: Phys, len_bytes: u64) {
    if !UP.load(Ordering::Relaxed) {
        return hal::mem::zero(at, len_bytes);
    }
    if stats::counting() {
        stats::between_sections(|| hal::mem::zero_interruptibly(at, len_bytes));
    } else {
        hal::mem::zero_interruptibly(at, len_bytes);
    }
    start();
}
