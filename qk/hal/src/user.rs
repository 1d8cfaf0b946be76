//! The program's memory, seen through the current address space.
//!
//! A [`User`] address is an allegation; every access here may fault and then returns [`Fault`]. How: the instructions that may fault are
//! listed in `.ex_table` with the place to continue, and `stac`/`clac` open SMAP only around them. An address can be
//! anything below 2^47, plus what a length may add: the non-canonical hole stops every upward access before it reaches the kernel.

use crate::addr::{Phys, User};
use crate::cpu::local::local;
use crate::mem;
use core::arch::asm;
use core::mem::MaybeUninit;
use core::sync::atomic::Ordering;

/// The program's memory was not accessible as needed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault;

/// Of a page fault's error code: the access was ring 3's (AMD APM vol. 2 §8.4.2).
const OF_USER: u64 = 1 << 2;

/// Notes a page fault of an access here: where, and its error code, as if ring 3 had made the access.
pub(crate) fn note_fault(at: u64, error: u64) {
    let [address, code] = &local().user_fault;
    address.store(at, Ordering::Relaxed);
    code.store(error | OF_USER, Ordering::Relaxed);
}

/// Address and error code of the page fault that was the reason of the last [`Fault`], as ring 3's access would have it. Once for each,
/// and to be called before anything else that may fault or wait; `None`: the reason was another.
pub fn take_fault() -> Option<(u64, u64)> {
    let [address, code] = &local().user_fault;
    let error = code.swap(0, Ordering::Relaxed);
    (error != 0).then(|| (address.load(Ordering::Relaxed), error))
}

/// `stac`, listed so that it can be patched out on CPUs without SMAP (`cpu::features::patch_smap_sites`).
macro_rules! open {
    () => {
        ".pushsection .smap_sites, \"a\"\n.quad 771f\n.popsection\n771: stac"
    };
}
/// `clac`, listed likewise.
macro_rules! close {
    () => {
        ".pushsection .smap_sites, \"a\"\n.quad 772f\n.popsection\n772: clac"
    };
}
/// A fault at local label `$at` continues at local label `$to`, both above.
macro_rules! fixup {
    ($at:literal, $to:literal) => {
        concat!(
            ".pushsection .ex_table, \"a\"\n.quad ",
            $at,
            "b, ",
            $to,
            "b\n.popsection"
        )
    };
}

/// Runs one instruction that may fault, with operands; `failed` stays 1 when it did.
macro_rules! guarded {
    ($instruction:literal, $($operands:tt)*) => {{
        let mut failed = 1u64;
        // SAFETY: 1. The address is a `User`'s, so the instruction cannot reach the kernel half (module docs); another operand in
        //            memory is the kernel's own, and valid.
        //         2. A fault continues at 4 with `failed` still 1 (rule 4).
        unsafe {
            asm!(
                open!(),
                concat!("2: ", $instruction),
                "mov {failed:e}, 0",
                "4:",
                close!(),
                fixup!("2", "4"),
                failed = inout(reg) failed,
                $($operands)*
                options(nostack),
            );
        }
        failed
    }};
}

// After the macros that it uses.
pub(crate) mod image;

/// Copies from the program into `to`. On a fault `to` is partly written.
///
/// # Errors
/// [`Fault`] when a byte is not readable.
pub fn copy_in(to: &mut [u8], from: User) -> Result<(), Fault> {
    // SAFETY: 1. `to` is exclusively borrowed. 2. The other side is a `User`'s, and may fault (rule 4).
    unsafe { copy(to.as_mut_ptr() as u64, from.addr(), to.len()) }
}

/// Copies `from` to the program. On a fault a part may have been written.
///
/// # Errors
/// [`Fault`] when a byte is not writable.
pub fn copy_out(to: User, from: &[u8]) -> Result<(), Fault> {
    // SAFETY: 1. `from` is borrowed. 2. The other side is a `User`'s, and may fault (rule 4).
    unsafe { copy(to.addr(), from.as_ptr() as u64, from.len()) }
}

/// As [`copy_in`], into pool memory at `to`.
///
/// # Errors
/// [`Fault`] when a byte is not readable.
pub fn copy_to_pool(to: Phys, from: User, len_bytes: u64) -> Result<(), Fault> {
    // SAFETY: 1. `to` is pool memory (checked), which no Rust object lies in (rule 2). 2. The other side is a `User`'s, and may fault
    //            (rule 4).
    unsafe {
        copy(
            mem::pointer(to, len_bytes) as u64,
            from.addr(),
            len_bytes as usize,
        )
    }
}

/// As [`copy_out`], from pool memory at `from`.
///
/// # Errors
/// [`Fault`] when a byte is not writable.
pub fn copy_from_pool(to: User, from: Phys, len_bytes: u64) -> Result<(), Fault> {
    // SAFETY: 1. `from` is pool memory (checked), which is mapped for ever (rule 2). 2. The other side is a `User`'s, and may fault
    //            (rule 4).
    unsafe {
        copy(
            to.addr(),
            mem::pointer(from, len_bytes) as u64,
            len_bytes as usize,
        )
    }
}

/// As [`copy_in`], of words.
///
/// # Errors
/// [`Fault`] when one is not readable.
pub fn copy_in_words(to: &mut [u64], from: User) -> Result<(), Fault> {
    // SAFETY: 1. `to` is exclusively borrowed. 2. The other side is a `User`'s, and may fault (rule 4).
    unsafe { copy_words(to.as_mut_ptr() as u64, from.addr(), to.len()) }
}

/// `N` words of the program.
///
/// # Errors
/// [`Fault`] when one is not readable.
#[inline]
pub fn read_words<const N: usize>(from: User) -> Result<[u64; N], Fault> {
    read_words_to(&mut MaybeUninit::uninit(), from).copied()
}

/// As [`read_words`], in place: for many words.
///
/// # Errors
/// [`Fault`] when one is not readable.
#[inline]
pub fn read_words_to<const N: usize>(
    to: &mut MaybeUninit<[u64; N]>,
    from: User,
) -> Result<&[u64; N], Fault> {
    // SAFETY: 1. `to` is exclusively borrowed, and has room for them. 2. The other side is a `User`'s, and may fault (rule 4).
    unsafe { copy_words(to.as_mut_ptr() as u64, from.addr(), N) }?;
    // SAFETY: 1. All are written: there was no fault.
    Ok(unsafe { to.assume_init_ref() })
}

/// As [`copy_out`], of words.
///
/// # Errors
/// [`Fault`] when one is not writable.
pub fn copy_out_words(to: User, from: &[u64]) -> Result<(), Fault> {
    // SAFETY: 1. `from` is borrowed. 2. The other side is a `User`'s, and may fault (rule 4).
    unsafe { copy_words(to.addr(), from.as_ptr() as u64, from.len()) }
}

/// Copies `count` words upwards: a little less to do than for bytes, and most of what is copied is few words.
///
/// # Safety
/// As of [`copy`].
unsafe fn copy_words(to: u64, from: u64, count: usize) -> Result<(), Fault> {
    check(guarded!(
        "rep movsq",
        inout("rcx") count => _,
        inout("rdi") to => _,
        inout("rsi") from => _,
    ))
}

/// Copies upwards, eight bytes at a time.
///
/// # Safety
/// Each side must be a valid kernel buffer or a `User` address.
unsafe fn copy(to: u64, from: u64, len_bytes: usize) -> Result<(), Fault> {
    let mut failed = 1u64;
    // SAFETY: 1. The kernel side is valid (caller). 2. The user side cannot reach the kernel half (module docs), and its
    //         faults continue at 4 with `failed` still 1. 3. DF is clear in the kernel.
    unsafe {
        asm!(
            open!(),
            "2: rep movsq",
            "mov rcx, {tail}",
            "3: rep movsb",
            "xor {failed:e}, {failed:e}",
            "4:",
            close!(),
            fixup!("2", "4"),
            fixup!("3", "4"),
            tail = in(reg) len_bytes & 7,
            failed = inout(reg) failed,
            inout("rcx") len_bytes >> 3 => _,
            inout("rdi") to => _,
            inout("rsi") from => _,
            options(nostack),
        );
    }
    check(failed)
}

/// Copies upwards from one place of the program to another, each of which may lie in another rank's memory. Returns how many
/// bytes were copied: fewer than `len_bytes` when the next cannot be read or written.
#[must_use]
pub fn copy_between(to: User, from: User, len_bytes: u64) -> u64 {
    let left: u64;
    // SAFETY: 1. Neither side can reach the kernel half (module docs): both are `User` addresses.
    //         2. A fault at 2 continues at 5, which counts the words that are left as bytes and goes on byte by byte; one at
    //            3, with the bytes that are left in rcx, at 4. 3. DF is clear in the kernel.
    unsafe {
        asm!(
            open!(),
            "2: rep movsq",
            "mov rcx, {tail}",
            "3: rep movsb",
            "4:",
            close!(),
            "jmp 6f",
            "5: lea rcx, [{tail} + rcx * 8]",
            "jmp 3b",
            "6:",
            fixup!("2", "5"),
            fixup!("3", "4"),
            tail = in(reg) len_bytes & 7,
            inout("rcx") len_bytes >> 3 => left,
            inout("rdi") to.addr() => _,
            inout("rsi") from.addr() => _,
            options(nostack),
        );
    }
    len_bytes - left
}

/// Zeroes `len_bytes` of the program's memory.
///
/// # Errors
/// [`Fault`] when a byte is not writable; those before it may be zero by then.
pub fn zero(to: User, len_bytes: u64) -> Result<(), Fault> {
    let mut failed = 1u64;
    // SAFETY: 1. The address is a `User`'s: no byte of the kernel half is reached (module docs). 2. Faults continue at 4 (rule 4).
    //         3. DF is clear in the kernel.
    unsafe {
        asm!(
            open!(),
            "2: rep stosq",
            "mov rcx, {tail}",
            "3: rep stosb",
            "xor {failed:e}, {failed:e}",
            "4:",
            close!(),
            fixup!("2", "4"),
            fixup!("3", "4"),
            tail = in(reg) len_bytes & 7,
            failed = inout(reg) failed,
            inout("rcx") len_bytes >> 3 => _,
            inout("rdi") to.addr() => _,
            in("rax") 0,
            options(nostack),
        );
    }
    check(failed)
}

/// Reads 32 bits, in one access when aligned.
///
/// # Errors
/// [`Fault`] when they are not readable.
pub fn read_u32(from: User) -> Result<u32, Fault> {
    let value: u32;
    let failed =
        guarded!("mov {value:e}, [{from}]", value = out(reg) value, from = in(reg) from.addr(),);
    check(failed).map(|()| value)
}

/// Reads 64 bits, in one access when aligned.
///
/// # Errors
/// [`Fault`] when they are not readable.
pub fn read_u64(from: User) -> Result<u64, Fault> {
    let value: u64;
    let failed =
        guarded!("mov {value}, [{from}]", value = out(reg) value, from = in(reg) from.addr(),);
    check(failed).map(|()| value)
}

/// Writes 32 bits, in one access when aligned.
///
/// # Errors
/// [`Fault`] when they are not writable.
pub fn write_u32(to: User, value: u32) -> Result<(), Fault> {
    check(guarded!("mov [{to}], {value:e}", value = in(reg) value, to = in(reg) to.addr(),))
}

/// Writes 64 bits, in one access when aligned.
///
/// # Errors
/// [`Fault`] when they are not writable.
pub fn write_u64(to: User, value: u64) -> Result<(), Fault> {
    check(guarded!("mov [{to}], {value}", value = in(reg) value, to = in(reg) to.addr(),))
}

/// Replaces the 32-bit word `old` by `new` atomically; returns what was there. `at` should be aligned, as futex words are.
///
/// # Errors
/// [`Fault`] when it is not writable.
pub fn compare_exchange_u32(at: User, old: u32, new: u32) -> Result<u32, Fault> {
    let mut found = old;
    let failed = guarded!(
        "lock cmpxchg [{at}], {new:e}",
        at = in(reg) at.addr(),
        new = in(reg) new,
        inout("eax") found,
    );
    check(failed).map(|()| found)
}

const fn check(failed: u64) -> Result<(), Fault> {
    if failed == 0 { Ok(()) } else { Err(Fault) }
}
