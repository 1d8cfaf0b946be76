//! Exceptions and interrupts.

use abi::map::in_window;
use hal::addr::Va;
use hal::traps::{Trap, UserFrame};
use hal::vectors::{VEC_DOORBELL, VEC_TIMER, VEC_TLB, VEC_WAKE};
use qk_core::paging::{self, WindowFault};
use qk_core::regions::{Prot, Region, RegionFlags};
use qk_core::signals::{SigInfo, Signal, code, si};

use crate::host::ship;
use crate::rank;
use crate::syscall::vsyscall;
use crate::thread::{self, Thread};
use crate::{
    debug, delivery, events, pct, sched, shared, shootdown, signal, stats, timer, windows,
};

/// Exceptions (AMD APM vol. 2 §8.2).
mod vector {
    pub const DIVIDE: u8 = 0;
    pub const DEBUG: u8 = 1;
    pub const BREAKPOINT: u8 = 3;
    pub const OVERFLOW: u8 = 4;
    pub const BOUND: u8 = 5;
    pub const INVALID_OPCODE: u8 = 6;
    pub const SEGMENT: u8 = 11;
    pub const STACK: u8 = 12;
    pub const PAGE: u8 = 14;
    pub const X87: u8 = 16;
    pub const ALIGNMENT: u8 = 17;
    pub const SIMD: u8 = 19;
}

/// An exception in ring 3. `DEBUG`: ranks may be debugged.
pub fn user_trap<const DEBUG: bool>(frame: &mut UserFrame, trap: Trap) {
    let Some(thread) = thread::current() else {
        pct::fault(frame, trap)
    };
    if stats::counting() {
        stats::section_starts();
    }
    let counters = stats::here();
    if trap.vector == vector::PAGE {
        &counters.page_faults
    } else {
        &counters.exceptions
    }
    .add(1);
    match fetched(thread, frame, trap) {
        Some(Ok(())) => {}
        None if DEBUG && debug::takes(thread, frame, trap) => {}
        Some(Err(_)) => raise(thread, trap, SigInfo::new(Signal::SEGV, code::KERNEL)),
        None if trap.vector == vector::PAGE => page_fault(thread, trap),
        None => raise(thread, trap, info(frame, trap)),
    }
    delivery::before_return::<DEBUG>(thread, frame, None);
    if stats::counting() {
        stats::section_ends();
    }
}

/// Makes an exception a signal.
fn raise(thread: &Thread, trap: Trap, info: SigInfo) {
    thread.signals().trap = trap;
    signal::force(thread, info);
}

/// What came of the call that the program made by fetching an instruction from the vsyscall page, if it did.
fn fetched(
    thread: &'static Thread,
    frame: &mut UserFrame,
    trap: Trap,
) -> Option<Result<(), abi::Errno>> {
    (trap.vector == vector::PAGE && trap.cr2 == frame.rip())
        .then(|| vsyscall::emulate(thread, frame))
        .flatten()
}

/// Whether memory behind the end of a shared file is there by now: the file has grown.
fn grown(thread: &'static Thread, trap: Trap) -> bool {
    let at = Va(trap.cr2);
    shared::grow(thread, at, |prot| paging::allows(prot, trap.error))
}

/// Linux's signal, code and address for an exception (arch/x86/kernel/traps.c, arch/x86/mm/fault.c).
fn info(frame: &UserFrame, trap: Trap) -> SigInfo {
    let here = Va(frame.rip());
    match trap.vector {
        vector::DIVIDE => SigInfo::fault(Signal::FPE, si::FPE_INTDIV, here),
        vector::DEBUG => SigInfo::fault(Signal::TRAP, si::TRAP_TRACE, here),
        vector::BREAKPOINT => SigInfo::new(Signal::TRAP, code::KERNEL),
        vector::OVERFLOW | vector::BOUND => SigInfo::new(Signal::SEGV, code::KERNEL),
        vector::INVALID_OPCODE => SigInfo::fault(Signal::ILL, si::ILL_ILLOPN, here),
        vector::X87 | vector::SIMD => {
            SigInfo::fault(Signal::FPE, hal::task::fpu_error_code(trap.vector), here)
        }
        vector::ALIGNMENT => SigInfo::fault(Signal::BUS, si::BUS_ADRALN, Va(0)),
        vector::SEGMENT | vector::STACK => SigInfo::new(Signal::BUS, code::KERNEL),
        _ => SigInfo::new(Signal::SEGV, code::KERNEL),
    }
}

/// Nothing is ever paged in: a page fault is an access that is not allowed, or to what is not mapped, or behind the end of
/// a mapped file. Or another thread was changing what is mapped there: then it is made again.
fn page_fault(thread: &'static Thread, trap: Trap) {
    if in_window(trap.cr2).is_some() {
        return by_window(thread, trap);
    }
    let at = Va(trap.cr2);
    if paging::is_of_access(trap.error) && grown(thread, trap) {
        return;
    }
    let found = thread.rank().with_aspace(|aspace| {
        Ok(match aspace.is_settled(at, trap.error) {
            true => Found::Settled,
            false => Found::Wrong(aspace.regions().lookup(at).copied()),
        })
    });
    match found {
        Ok(Found::Settled) => {}
        Ok(Found::Wrong(region)) => raise(thread, trap, wrong_access(region, trap)),
        Err(_) => raise(thread, trap, wrong_access(None, trap)),
    }
}

/// What an access that faulted finds once no other thread changes the address space.
enum Found {
    /// What it needs.
    Settled,
    /// This region, or nothing.
    Wrong(Option<Region>),
}

/// The signal for an access that is not allowed.
fn wrong_access(found: Option<Region>, trap: Trap) -> SigInfo {
    let at = Va(trap.cr2);
    if let Some(region) = found
        && region.flags.contains(RegionFlags::PAST_END)
        && paging::allows(region.prot, trap.error)
    {
        return SigInfo::fault(Signal::BUS, si::BUS_ADRERR, at);
    }
    let code = match found {
        Some(region) if region.prot != Prot::all() => si::SEGV_ACCERR,
        Some(_) | None => si::SEGV_MAPERR,
    };
    SigInfo::fault(Signal::SEGV, code, at)
}

/// A page fault in a window: SIGSEGV, unless the access is allowed by now. One look at what the owner has there decides all of it.
fn by_window(thread: &Thread, trap: Trap) {
    let found = windows::owner(trap.cr2).and_then(|(owner, addr)| owner.peek_translation(addr));
    let code = match paging::window_fault(found.map(|found| found.prot), trap.error) {
        WindowFault::Settled => return,
        WindowFault::Unmapped => si::SEGV_MAPERR,
        WindowFault::Denied => si::SEGV_ACCERR,
    };
    let info = SigInfo::fault(Signal::SEGV, code, Va(trap.cr2));
    raise(thread, trap, info);
}

/// A device interrupt or an IPI, from ring 3 or out of a halt or an interrupt window. `DEBUG`: ranks may be debugged.
pub fn interrupt<const DEBUG: bool>(vector: u8, from_user: bool, frame: Option<&mut UserFrame>) {
    let counters = stats::here();
    // Out of a halt or a window, a section ended before, and the next starts after.
    let counting = stats::counting();
    if counting {
        stats::section_starts();
    }
    if from_user && thread::current().is_none() {
        counters.pct_entries.add(1);
    }
    match vector {
        VEC_TIMER => {
            counters.timer_interrupts.add(1);
            timer::expired();
        }
        VEC_DOORBELL => {
            counters.doorbells.add(1);
            doorbell();
        }
        VEC_TLB => {
            counters.ipis.add(1);
            shootdown::asked();
        }
        VEC_WAKE => {
            counters.ipis.add(1);
            timer::look();
        }
        _ => counters.other_interrupts.add(1),
    }
    if let (Some(frame), Some(thread)) = (frame, thread::current())
        && (DEBUG || thread.pending().has_work() || sched::should_yield(thread.task()))
    {
        delivery::before_return::<DEBUG>(thread, frame, None);
    }
    if counting {
        stats::section_ends();
    }
}

/// The host rang this core: an answer, a signal, or a proxy that attached.
fn doorbell() {
    let here = hal::cpu::id();
    events::look(here);
    // Of many ranks that share the core one was meant.
    // BOUND: the ranks of a core, of each signal::AT_ONCE.
    rank::home::ranks(here)
        .filter(|rank| rank.host().has_signals())
        .for_each(signal::rung);
    shared::rung(here);
    ship::rung();
}
