//! Every way into the kernel after boot: system calls, traps and interrupts.
//!
//! From ring 3 they all build the same [`UserFrame`] at the top of the task's kernel stack, so signal delivery, register dumps and a new
//! task's first return see one layout. From ring 0 only three things are legal: an interrupt where the kernel lets them in (`lib.rs`),
//! a fault of an instruction that has a fix-up (`user`), and an NMI. Anything else is a kernel bug and ends in a panic report.

mod entry;
pub(crate) mod frame;
mod idt;
mod machine_check;

use frame::KernelFrame;
pub use frame::{General, Registers, Trap, UserFrame};
use machine_check::Fatal;

use crate::cpu::debug;
use crate::cpu::local::local;
use crate::panic::PanicReport;
use crate::sync::Once;
use crate::task::kstack;
use crate::vectors::{FIRST_INTERRUPT, VEC_SPURIOUS};
use crate::{apic, panic, user};
use core::sync::atomic::{AtomicPtr, Ordering};

pub(crate) use entry::{first_return, init_syscall, sort_fixups};

/// Page fault.
const PAGE_FAULT: u8 = 14;
/// General protection: what a return to a non-canonical address raises.
const GENERAL_PROTECTION: u8 = 13;
const DEBUG: u8 = 1;
const NMI: u8 = 2;
const DOUBLE_FAULT: u8 = 8;
const MACHINE_CHECK: u8 = 18;

/// The kernel's side, set once.
#[derive(Clone, Copy)]
pub struct Handlers {
    /// A system call; the frame's `rax` becomes the result, and edits of `rdx`, `rsi`, `rdi`, `rsp`, rip and flags take effect. Those
    /// of other registers need [`UserFrame::return_fully`].
    pub syscall: extern "C" fn(&mut UserFrame),
    /// An exception in ring 3. Edits of the frame take effect.
    pub user_trap: fn(&mut UserFrame, Trap),
    /// A device interrupt or IPI, already acknowledged at the APIC, so the handler may switch tasks. The frame is there when
    /// it came from ring 3.
    pub interrupt: fn(vector: u8, from_user: bool, Option<&mut UserFrame>),
    /// Called after a panic report was printed, on the CPU that panicked; the others are stopped. Must not panic or allocate.
    pub panic: fn(&PanicReport<'_>),
}

static HANDLERS: Once<Handlers> = Once::new();
/// `Handlers::syscall` again, where the entry path calls it through. Ring 3 runs only after `set_handlers`: `task::Context::new_user`
/// checks it.
pub(crate) static SYSCALL: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// Sets the handlers.
///
/// # Panics
/// On a second call.
pub fn set_handlers(handlers: Handlers) {
    assert!(HANDLERS.set(handlers).is_ok(), "trap handlers are set once");
    SYSCALL.store(handlers.syscall as *mut (), Ordering::Relaxed);
}

pub(crate) fn handlers() -> Option<&'static Handlers> {
    HANDLERS.get()
}

/// Loads the IDT on the boot CPU and arms SYSCALL.
pub(crate) fn init() {
    idt::fill();
    init_cpu();
}

/// Loads the IDT on this CPU and arms SYSCALL. From then on a CPU that panics stops this one by NMI; if one has done so already,
/// this is the end.
pub(crate) fn init_cpu() {
    idt::load();
    init_syscall();
    local().takes_nmi.store(true, Ordering::SeqCst);
    if panic::in_progress() {
        crate::cpu::stop();
    }
}

fn user_trap(frame: &mut UserFrame, trap: Trap) {
    match handlers() {
        Some(handlers) => (handlers.user_trap)(frame, trap),
        None => panic::die(
            format_args!("trap {} in ring 3 before there are handlers", trap.vector),
            Some(frame.registers()),
        ),
    }
}

fn interrupt(vector: u8, frame: Option<&mut UserFrame>) {
    if vector == VEC_SPURIOUS {
        // Not in service at the APIC: acknowledging it would acknowledge something else (Intel SDM vol. 3 §11.9).
        local().spurious.fetch_add(1, Ordering::Relaxed);
        return;
    }
    apic::eoi();
    match handlers() {
        Some(handlers) => (handlers.interrupt)(vector, frame.is_some(), frame),
        None => _ = local().spurious.fetch_add(1, Ordering::Relaxed),
    }
}

/// An exception or interrupt in ring 3.
extern "C" fn entered_from_user(frame: &mut UserFrame) {
    frame.entered_by_trap();
    let vector = frame.vector();
    if vector < FIRST_INTERRUPT {
        user_trap(
            frame,
            Trap {
                vector,
                error: frame.error,
                cr2: fault_address(vector),
            },
        );
    } else {
        interrupt(vector, Some(frame));
    }
    make_returnable(frame);
}

/// The last step of every full return to ring 3: makes IRETQ unable to fault, whatever was edited.
extern "C" fn make_returnable(frame: &mut UserFrame) {
    if frame.return_fault().is_some() {
        mend(frame);
    }
    frame.leaves();
}

#[cold]
#[inline(never)]
fn mend(frame: &mut UserFrame) {
    // BOUND: two turns: a handler of the program begins with a frame of the kernel's, or the program ends.
    while let Some(error) = frame.return_fault() {
        // What the CPU would say, blamed on the program that caused it. The handler must mend the frame or not come back.
        user_trap(
            frame,
            Trap {
                vector: GENERAL_PROTECTION,
                error,
                cr2: 0,
            },
        );
    }
}

/// An exception or interrupt in ring 0.
extern "C" fn entered_from_kernel(frame: &mut KernelFrame) {
    let vector = frame.vector();
    if vector >= FIRST_INTERRUPT {
        interrupt(vector, None);
    } else if vector == DEBUG {
        // The kernel has used memory that a debugger watches.
        debug::note_hit();
    } else if let Some(fixup) = entry::fixup(frame.rip) {
        if vector == PAGE_FAULT {
            user::note_fault(read_cr2(), frame.error);
        }
        frame.rip = fixup;
    } else {
        let cr2 = fault_address(vector);
        panic::die(
            format_args!(
                "{} in the kernel, error {:#x}, address {cr2:#x}",
                name(vector),
                frame.error
            ),
            Some(frame.registers()),
        );
    }
}

/// NMI, double fault and machine check: may strike anywhere, on their own stacks.
extern "C" fn entered_paranoid(frame: &mut KernelFrame) {
    let vector = frame.vector();
    if vector == MACHINE_CHECK {
        if let Err(Fatal {
            global,
            bank,
            status,
        }) = machine_check::acknowledge()
        {
            panic::die(
                format_args!("machine check, status {global:#x}, bank {bank}: {status:#x}"),
                Some(frame.registers()),
            );
        }
    } else if vector != NMI {
        let (error, cr2) = (frame.error, read_cr2());
        let overflow = vector == DOUBLE_FAULT && kstack::is_guard(cr2);
        let what = if overflow {
            "kernel stack overflow"
        } else {
            name(vector)
        };
        panic::die(
            format_args!("{what}, error {error:#x}, address {cr2:#x}"),
            Some(frame.registers()),
        );
    }
    if panic::in_progress() {
        crate::cpu::stop();
    }
    local().spurious.fetch_add(1, Ordering::Relaxed);
}

/// Interrupts so far on this CPU without a request (spurious vector, stray NMIs, machine checks of others).
#[must_use]
pub fn spurious_count() -> u64 {
    local().spurious.load(Ordering::Relaxed)
}

fn fault_address(vector: u8) -> u64 {
    if vector == PAGE_FAULT { read_cr2() } else { 0 }
}

fn read_cr2() -> u64 {
    let address;
    // SAFETY: 1. Reading CR2 has no effect.
    unsafe {
        core::arch::asm!("mov {}, cr2", out(reg) address, options(nomem, nostack, preserves_flags))
    };
    address
}

/// An exception's name (Intel SDM vol. 3 table 6-1).
#[must_use]
pub fn name(vector: u8) -> &'static str {
    match vector {
        0 => "divide error",
        1 => "debug exception",
        2 => "NMI",
        3 => "breakpoint",
        4 => "overflow",
        5 => "bound range",
        6 => "invalid opcode",
        7 => "device not available",
        8 => "double fault",
        10 => "invalid TSS",
        11 => "segment not present",
        12 => "stack fault",
        13 => "general protection fault",
        14 => "page fault",
        16 => "x87 error",
        17 => "alignment check",
        18 => "machine check",
        19 => "SIMD error",
        _ => "exception",
    }
}
