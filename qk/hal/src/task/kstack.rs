//! Kernel stacks: 16 KiB each, in an area of their own, above an unmapped guard page.
//!
//! ```text
//! KSTACKS + n * 20 KiB:  | guard 4 KiB | stack 16 KiB (grows down) |
//! ```
//!
//! A stack that runs over hits its guard: the page fault finds no stack either and becomes a double fault, which has one of its own and
//! prints a panic report. Stacks are recycled, never unmapped: no TLB shoot-down, and a stale translation is still a true one.

use crate::addr::Phys;
use crate::boot::paging;
use crate::cpu::local::{CpuLocal, IST_DOUBLE_FAULT, IST_MACHINE_CHECK, IST_NMI, local};
use crate::heap;
use crate::sync::{Mutex, class};
use crate::traps::frame::{FRAME_BYTES, UserFrame};
use abi::map::{KSTACKS, PAGE};
use core::sync::atomic::{AtomicU64, Ordering};

/// Bytes of one stack.
pub const KSTACK_BYTES: u64 = 16 << 10;
/// From stack to stack.
const STRIDE: u64 = KSTACK_BYTES + PAGE;
/// Stacks that the area may hold (1 GiB of addresses).
const MAX_STACKS: u64 = (1 << 30) / STRIDE;
/// Above what the CPU and the entries push: the last word of a frame, and alignment.
const TOP_RESERVED: u64 = 16;

/// End of the first free stack; each free stack's highest word holds the next one. 0 ends the list.
static FREE: Mutex<u64, class::Stacks> = Mutex::new(0);
/// Stacks mapped so far. Changes under `FREE`'s lock; a panic report reads it without.
static MADE: AtomicU64 = AtomicU64::new(0);

/// A stack, given back when dropped.
#[derive(Debug)]
pub(crate) struct KStack {
    end: u64,
}

/// A stack pointer into a stack that its owner is about to use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StackTop(u64);

impl KStack {
    /// A stack for a CPU, which does not run without.
    ///
    /// # Panics
    /// When there is no memory.
    pub(crate) fn new() -> Self {
        Self::try_new().expect("memory for a CPU's stacks")
    }

    /// A stack, recycled or new; `None` when there is no memory. Its contents are unspecified.
    pub(crate) fn try_new() -> Option<Self> {
        let mut free = FREE.lock();
        let end = *free;
        if end != 0 {
            // SAFETY: 1. `end` is a stack in the free list, mapped, and its highest word is the link (see `drop`).
            *free = unsafe { ((end - 8) as *const u64).read() };
            return Some(Self { end });
        }
        let index = MADE.load(Ordering::Relaxed);
        if index == MAX_STACKS {
            return None;
        }
        let bottom = KSTACKS + index * STRIDE + PAGE;
        // Its page table first: it stays when there is no memory for the stack.
        paging::prepare_stack_pages(bottom, KSTACK_BYTES)?;
        let frames = heap::unspecified_frames(KSTACK_BYTES / PAGE)?;
        // BOUND: the pages of a stack.
        for offset in (0..KSTACK_BYTES).step_by(PAGE as usize) {
            paging::map_stack_page(bottom + offset, Phys(frames.0 + offset));
        }
        MADE.store(index + 1, Ordering::Relaxed);
        Some(Self {
            end: bottom + KSTACK_BYTES,
        })
    }

    /// Where the first push goes: the reserved words are cleared.
    pub(crate) fn top(&self) -> StackTop {
        StackTop(self.end).push(0).push(0)
    }

    /// The number of [`top`](Self::top), without clearing anything.
    pub(crate) fn top_addr(&self) -> u64 {
        self.end - TOP_RESERVED
    }

    /// Where entries from ring 3 put their frame.
    pub(crate) fn frame(&self) -> *mut UserFrame {
        (self.top_addr() - FRAME_BYTES as u64) as *mut UserFrame
    }

    /// Puts a frame where entries from ring 3 have theirs. What was on the stack is gone.
    pub(crate) fn push_frame(&self, frame: &UserFrame) -> StackTop {
        // SAFETY: 1. The stack is mapped, unused, and far larger than a frame.
        unsafe { self.frame().write(*frame) };
        StackTop(self.frame() as u64)
    }

    /// Gives the stack to its CPU for good.
    pub(crate) fn leak(self) -> StackTop {
        let top = self.top();
        core::mem::forget(self);
        top
    }
}

/// Gives a CPU its exception stacks.
pub(crate) fn install_ist(local: &'static CpuLocal) {
    for slot in [IST_NMI, IST_DOUBLE_FAULT, IST_MACHINE_CHECK] {
        let top = KStack::new().leak();
        // The paranoid entry finds the CPU's record on top of its stack (traps::entry).
        let top = top.push(core::ptr::from_ref(local) as u64).push(0);
        local.tables.set_ist(slot, top.addr());
    }
}

/// Exception stacks of the boot CPU and the stack of `kernel_main`, as soon as stacks can be mapped.
pub(crate) fn init_bsp() -> StackTop {
    install_ist(local());
    KStack::new().leak()
}

impl Drop for KStack {
    fn drop(&mut self) {
        let mut free = FREE.lock();
        // SAFETY: 1. The stack is mapped for ever, and unused: contexts are dropped only when they do not run (rule 3).
        unsafe { ((self.end - 8) as *mut u64).write(*free) };
        *free = self.end;
    }
}

impl StackTop {
    pub(crate) fn addr(self) -> u64 {
        self.0
    }

    /// Puts a word on the stack.
    pub(crate) fn push(self, word: u64) -> Self {
        let at = self.0 - size_of::<u64>() as u64;
        // SAFETY: 1. The stack is mapped, unused (rule 3), and far larger than what its owner prepares on it (a frame and a few words).
        unsafe { (at as *mut u64).write(word) };
        Self(at)
    }
}
const _: () = assert!(TOP_RESERVED == 2 * size_of::<u64>() as u64);

/// Whether `va` lies in the guard page of a stack: the stack above it has run over.
pub(crate) fn is_guard(va: u64) -> bool {
    let made = MADE.load(Ordering::Relaxed);
    va.checked_sub(KSTACKS)
        .is_some_and(|offset| offset / STRIDE < made && offset % STRIDE < PAGE)
}

/// The words at `at` and after it, when both lie in one kernel stack (for backtraces; the stack may be any CPU's).
pub(crate) fn read_pair(at: u64) -> Option<[u64; 2]> {
    let offset = at.checked_sub(KSTACKS)?;
    let made = MADE.load(Ordering::Relaxed);
    let within = offset % STRIDE;
    if !at.is_multiple_of(8) || offset / STRIDE >= made || !(PAGE..=STRIDE - 16).contains(&within) {
        return None;
    }
    // SAFETY: 1. The 16 bytes lie in a mapped stack; they are copied as numbers.
    Some(unsafe { (at as *const [u64; 2]).read_volatile() })
}
