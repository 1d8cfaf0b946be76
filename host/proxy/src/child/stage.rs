//! What a child does before the program goes on in it.
//!
//! The child of a process with threads has only the thread that forked; the others' locks are taken for ever, the heap may be
//! half changed. So nothing here allocates, locks, panics or uses thread-local storage (whose register is the program's
//! after a while): a list of system calls is made and a few bytes are copied.

use std::arch::asm;

use abi::map::{PAGE, USER_TOP, WINDOW_TOP};

use super::page;
use crate::stub;

/// One step.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// A system call.
    Call {
        /// Its number.
        nr: u64,
        /// Its arguments.
        args: [u64; 6],
        /// What it has to return.
        must: Must,
    },
    /// A file opened anew, in place of a descriptor.
    Reopen {
        /// Address of its path.
        path: u64,
        /// Flags of the open.
        flags: u64,
        /// The descriptor.
        fd: u64,
    },
    /// Bytes from a place of this process to one of the program.
    Copy {
        /// First byte.
        from: u64,
        /// Where it goes.
        to: u64,
        /// How many.
        len_bytes: u64,
    },
    /// The child's thread id goes here, four bytes.
    ThreadId {
        /// Where.
        to: u64,
    },
}

/// What a call has to return for the child to go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Must {
    /// Any value.
    Return,
    /// No error.
    Succeed,
    /// This.
    Be(i64),
}

/// What the child's word says: nothing yet.
pub const UNDER_WAY: u32 = 0;
/// All that it needs of its parent it has.
pub const READY: u32 = 1;
/// It could not be; with this the error's number.
pub const FAILED: u32 = 1 << 16;

/// Follows the steps, publishes that in the word at `word`, and enters the program by the page at `page`.
///
/// # Safety
/// To be called in a fresh child that never returns to the code which forked. The steps and what they point to must be
/// complete, and replace or unmap nothing above the program's addresses.
pub unsafe fn run(steps: &[Step], word: u64, page: u64) -> ! {
    for step in steps {
        // SAFETY: 1. As the caller promises: memory is replaced only where the rank's was, which no Rust object lies in.
        let errno = unsafe { follow(step) };
        if errno != 0 {
            // SAFETY: 1. The word is mapped until `leave`.
            unsafe { publish(word, FAILED | errno) };
            let args = [127, 0, 0, 0, 0, 0];
            // SAFETY: 1. Ends the process.
            unsafe { stub::syscall(libc::SYS_exit_group as u64, &args) };
        }
    }
    // SAFETY: 1. As above. 2. The page was made by the steps.
    unsafe {
        publish(word, READY);
        leave(page)
    }
}

/// Does one; returns 0 or the number of an error.
unsafe fn follow(step: &Step) -> u32 {
    match *step {
        Step::Call { nr, args, must } => {
            // SAFETY: 1. As the caller of `run` promises.
            let ret = unsafe { stub::syscall(nr, &args) };
            match must {
                Must::Succeed if ret < 0 => ret.unsigned_abs() as u32,
                Must::Be(wanted) if ret != wanted => {
                    if ret < 0 {
                        ret.unsigned_abs() as u32
                    } else {
                        libc::EIO as u32
                    }
                }
                _ => 0,
            }
        }
        Step::Reopen { path, flags, fd } => {
            // SAFETY: 1. As the caller of `run` promises.
            let call = |nr: i64, args| unsafe { stub::syscall(nr as u64, &args) };
            let at = libc::AT_FDCWD as u64;
            let opened = call(libc::SYS_openat, [at, path, flags, 0, 0, 0]);
            if opened < 0 {
                return opened.unsigned_abs() as u32;
            }
            let moved = call(libc::SYS_dup3, [opened as u64, fd, 0, 0, 0, 0]);
            call(libc::SYS_close, [opened as u64, 0, 0, 0, 0, 0]);
            if moved < 0 {
                moved.unsigned_abs() as u32
            } else {
                0
            }
        }
        Step::Copy {
            from,
            to,
            len_bytes,
        } => {
            // SAFETY: 1. Both are mapped and long enough, as the caller of `run` promises.
            unsafe { copy(from, to, len_bytes) };
            0
        }
        Step::ThreadId { to } => {
            // SAFETY: 1. gettid passes no memory.
            let tid = unsafe { stub::syscall(libc::SYS_gettid as u64, &[0; 6]) } as u32;
            // SAFETY: 1. As for a copy.
            unsafe { copy((&raw const tid).addr() as u64, to, 4) };
            0
        }
    }
}

unsafe fn copy(from: u64, to: u64, len_bytes: u64) {
    // SAFETY: 1. As the caller promises. 2. The direction flag is clear by the calling convention.
    unsafe {
        asm!("rep movsb", inout("rcx") len_bytes => _, inout("rdi") to => _, inout("rsi") from => _,
            options(nostack, preserves_flags));
    }
}

/// Writes the word and wakes who waits for it.
unsafe fn publish(word: u64, value: u32) {
    let args = [word, libc::FUTEX_WAKE as u64, i32::MAX as u64, 0, 0, 0];
    // SAFETY: 1. The word is mapped, four bytes long and aligned; others read it as an atomic. 2. Futexes read no more.
    unsafe {
        asm!("mov dword ptr [{}], {:e}", in(reg) word, in(reg) value, options(nostack, preserves_flags));
        stub::syscall(libc::SYS_futex as u64, &args);
    }
}

/// Jumps to the page's code with the registers of its first call: munmap of all that is not the program's.
unsafe fn leave(page: u64) -> ! {
    // SAFETY: 1. The page holds code and a frame (module `page`). 2. Nothing of this process is used afterwards.
    unsafe {
        asm!(
            "mov rsp, {stack}",
            "jmp {code}",
            stack = in(reg) page + page::STACK,
            code = in(reg) page + page::CODE,
            in("rax") libc::SYS_munmap, in("rdi") USER_TOP, in("rsi") WINDOW_TOP - PAGE - USER_TOP,
            options(noreturn),
        );
    }
}
