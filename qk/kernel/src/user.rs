//! Arguments that are pointers: an address from a program is a claim, and reading or writing through it can fail.
//!
//! Another thread may be changing what is mapped there, in steps between which there is nothing. An access that faults waits for
//! the change, as the program's own does ([`crate::fault`]), and is made again where it is allowed then: [`access`]. So no lock
//! is held that comes after the address space's; where one is, the access is made by itself, and the whole of what the lock
//! is for once more when the access [`is_settled`].

use abi::Errno;
use abi::areas::share_entries;
use abi::syscall::operand::Reader;
use hal::addr::{User, Va};
use hal::sync::class;
use hal::user::Fault;
use qk_core::paging::{self, WindowFault};

use crate::aspace::Aspace;
use crate::thread::{self, Thread};
use crate::{preempt, windows};

/// Nanoseconds of a second.
pub const NS_PER_S: u64 = 1_000_000_000;
/// sizeof(sigset_t) in the kernel's ABI.
pub const SIGSET_BYTES: u64 = 8;
/// Work of finding out that memory cannot be read: a page fault in the kernel.
const FAULT_WORK: u32 = 400;
/// Bytes that are copied between two preemption points: an iteration for each eight, which an emulator counts as an instruction.
const PIECE_BYTES: u64 = 64 << 10;
/// Bytes that are copied by a buffer at a time: a page, a quarter of a kernel stack.
const BUFFER_BYTES: usize = 4 << 10;
/// The least that is copied by a buffer: of less, to clear it would cost as much.
const LEAST_BY_BUFFER_BYTES: u64 = 1 << 10;
/// Work of a piece that is copied so, besides its words, in instructions; that of clearing the buffer included.
const BUFFER_WORK: u32 = 700;

/// `len_bytes` at `addr`, if a program's pointer can be that.
///
/// # Errors
/// EFAULT.
pub fn user(addr: u64, len_bytes: u64) -> Result<User, Errno> {
    User::range(addr, len_bytes).ok_or(Errno::EFAULT)
}

/// Accesses the program's memory, again for as long as another thread's change was in the way.
///
/// # Errors
/// EFAULT.
#[inline(always)] // Of nearly every call; mostly there is no fault.
pub fn access<T>(mut once: impl FnMut() -> Result<T, Fault>) -> Result<T, Errno> {
    hal::sync::may_take::<class::Aspace>();
    match once() {
        Ok(done) => Ok(done),
        Err(Fault) => again(once),
    }
}

/// As [`access`], after it has failed once.
#[cold]
#[inline(never)]
fn again<T>(mut once: impl FnMut() -> Result<T, Fault>) -> Result<T, Errno> {
    // POINT: user::is_settled
    while is_settled() {
        if let Ok(done) = once() {
            return Ok(done);
        }
    }
    Err(Errno::EFAULT)
}

/// Whether the kernel's access to the program's memory that has just failed is allowed by now: then it is to be made again. Waits
/// for the change of the address space that is under way; what a window shows is looked at once, as it is.
#[cold]
#[inline(never)]
pub fn is_settled() -> bool {
    let Some((at, error)) = hal::user::take_fault() else {
        return false; // Not a page's: no change makes a good address of it.
    };
    preempt::point(FAULT_WORK);
    if let Some((owner, addr)) = windows::owner(at) {
        let found = owner.peek_translation(addr).map(|found| found.prot);
        return paging::window_fault(found, error) == WindowFault::Settled;
    }
    let settled = |thread: &thread::Thread| {
        let rank = thread.rank();
        rank.with_aspace(|aspace| Ok(aspace.is_settled(Va(at), error)))
    };
    thread::current().is_some_and(|thread| settled(thread) == Ok(true))
}

/// Whether what the host has refused with EFAULT is to be made again: another thread has changed mappings since it was posted, so that
/// there may have been a hole for the proxy, and all that it needs `is_accessible` now.
#[cold]
#[inline(never)]
pub fn is_shown(thread: &Thread, is_accessible: impl FnOnce(&Aspace) -> bool) -> bool {
    let rank = thread.rank();
    let accessible = rank.with_aspace(|aspace| {
        let has_changed = rank.host().mappings() != thread.host().posted_position();
        Ok(has_changed && is_accessible(aspace))
    });
    accessible == Ok(true)
}

/// Reads what a call's arguments lead to, with a preemption point of so much work, in instructions, for each structure.
pub struct Program(pub u32);

impl Reader for Program {
    #[inline]
    fn words<const N: usize>(&self, at: u64) -> Option<[u64; N]> {
        self.read(|| get_words(at))
    }

    #[inline(never)] // Out of the way of lengths that are arguments.
    fn int(&self, at: u64) -> Option<u32> {
        self.read(|| get_u32(at))
    }
}

/// The same for who holds the address space's lock: nothing changes, and what faults is wrong.
pub struct Unchanging(pub u32);

impl Reader for Unchanging {
    fn words<const N: usize>(&self, at: u64) -> Option<[u64; N]> {
        preempt::point(self.0);
        hal::user::read_words(User::range(at, N as u64 * 8)?).ok()
    }

    fn int(&self, at: u64) -> Option<u32> {
        preempt::point(self.0);
        hal::user::read_u32(User::range(at, 4)?).ok()
    }
}

impl Program {
    #[inline]
    fn read<T>(&self, read: impl FnOnce() -> Result<T, Errno>) -> Option<T> {
        preempt::point(self.0);
        read().ok()
    }
}

/// Reads a 64-bit word.
///
/// # Errors
/// EFAULT.
pub fn get_u64(addr: u64) -> Result<u64, Errno> {
    let from = user(addr, 8)?;
    access(|| hal::user::read_u64(from))
}

/// Reads a 32-bit word.
///
/// # Errors
/// EFAULT.
pub fn get_u32(addr: u64) -> Result<u32, Errno> {
    let from = user(addr, 4)?;
    access(|| hal::user::read_u32(from))
}

/// Reads `N` 64-bit words.
///
/// # Errors
/// EFAULT.
pub fn get_words<const N: usize>(addr: u64) -> Result<[u64; N], Errno> {
    let from = user(addr, N as u64 * 8)?;
    access(|| hal::user::read_words(from))
}

/// Reads bytes.
///
/// # Errors
/// EFAULT.
pub fn get_bytes(to: &mut [u8], addr: u64) -> Result<(), Errno> {
    let from = user(addr, to.len() as u64)?;
    access(|| hal::user::copy_in(to, from))
}

/// Bytes of a string with its NUL, or so many of a longer one; `None`: it cannot be read.
pub fn string_bytes(at: u64, most_bytes: u64) -> Option<u64> {
    /// Divides a page: what begins in front of its end can be read as a whole or not at all.
    const CHUNK: u64 = 64;
    let mut done = 0;
    // BOUND: PATH_MAX.
    while done < most_bytes {
        let from = at.checked_add(done)?;
        let mut chunk = [0; CHUNK as usize];
        let bytes = CHUNK - from % CHUNK;
        let chunk = &mut chunk[..bytes as usize];
        get_bytes(chunk, from).ok()?;
        // BOUND: CHUNK.
        if let Some(end) = chunk.iter().position(|byte| *byte == 0) {
            return Some((done + end as u64 + 1).min(most_bytes));
        }
        done += bytes;
    }
    Some(most_bytes)
}

/// Writes 64-bit words.
///
/// # Errors
/// EFAULT; what comes before the bad address has been written.
pub fn put_words(addr: u64, words: &[u64]) -> Result<(), Errno> {
    let to = user(addr, words.len() as u64 * 8)?;
    access(|| hal::user::copy_out_words(to, words))
}

/// Writes 64-bit words unless the pointer is null.
///
/// # Errors
/// EFAULT.
pub fn put_words_opt(addr: u64, words: &[u64]) -> Result<(), Errno> {
    if addr == 0 {
        Ok(())
    } else {
        put_words(addr, words)
    }
}

/// Writes a 64-bit word unless the pointer is null.
///
/// # Errors
/// EFAULT.
pub fn put_u64_opt(addr: u64, value: u64) -> Result<(), Errno> {
    if addr == 0 {
        return Ok(());
    }
    let to = user(addr, 8)?;
    access(|| hal::user::write_u64(to, value))
}

/// Writes a 32-bit word.
///
/// # Errors
/// EFAULT.
pub fn put_u32(addr: u64, value: u32) -> Result<(), Errno> {
    let to = user(addr, 4)?;
    access(|| hal::user::write_u32(to, value))
}

/// Writes a 32-bit word unless the pointer is null.
///
/// # Errors
/// EFAULT.
pub fn put_u32_opt(addr: u64, value: u32) -> Result<(), Errno> {
    if addr == 0 {
        Ok(())
    } else {
        put_u32(addr, value)
    }
}

/// Writes bytes.
///
/// # Errors
/// EFAULT.
pub fn put_bytes(addr: u64, bytes: &[u8]) -> Result<(), Errno> {
    let to = user(addr, bytes.len() as u64)?;
    access(|| hal::user::copy_out(to, bytes))
}

/// Nanoseconds of a struct timespec.
///
/// # Errors
/// EINVAL when it is not a time.
pub fn timespec_ns([s, ns]: [u64; 2]) -> Result<u64, Errno> {
    if (s as i64) < 0 || ns >= NS_PER_S {
        return Err(Errno::EINVAL);
    }
    Ok(s.saturating_mul(NS_PER_S).saturating_add(ns))
}

/// Checks the size that a program passes along with a signal set.
///
/// # Errors
/// EINVAL.
pub fn sigset_size(len_bytes: u64) -> Result<(), Errno> {
    if len_bytes == SIGSET_BYTES {
        Ok(())
    } else {
        Err(Errno::EINVAL)
    }
}

/// Copies between two places of the program; returns how much of it could be.
#[inline]
pub fn copy_between(to: u64, from: u64, len_bytes: u64) -> u64 {
    match len_bytes >= LEAST_BY_BUFFER_BYTES && share_entries(to, from) {
        true => copy_by_buffer(to, from, len_bytes),
        false => copy_directly(to, from, len_bytes),
    }
}

/// The same through memory of the kernel: at such addresses an emulator's TLB would miss with each load and each store.
#[inline(never)]
fn copy_by_buffer(to: u64, from: u64, len_bytes: u64) -> u64 {
    let mut buffer = [0; BUFFER_BYTES];
    let mut done = 0;
    while done < len_bytes {
        let piece = (BUFFER_BYTES as u64).min(len_bytes - done);
        preempt::point(BUFFER_WORK + piece as u32 / 4);
        let (Ok(to), Ok(from)) = (user(to + done, piece), user(from + done, piece)) else {
            break;
        };
        let bytes = &mut buffer[..piece as usize];
        let copied = match hal::user::copy_in(bytes, from) {
            Ok(()) => hal::user::copy_out(to, bytes).map(|()| piece),
            Err(fault) => Err(fault),
        };
        // What can be copied of a piece that faults, to the byte.
        let copied = copied.unwrap_or_else(|_| hal::user::copy_between(to, from, piece));
        done += copied;
        if copied < piece && !is_settled() {
            break;
        }
    }
    done
}

fn copy_directly(to: u64, from: u64, len_bytes: u64) -> u64 {
    let mut done = 0;
    while done < len_bytes {
        let piece = PIECE_BYTES.min(len_bytes - done);
        preempt::point(piece as u32 / 8);
        let (Ok(to), Ok(from)) = (user(to + done, piece), user(from + done, piece)) else {
            break;
        };
        let copied = hal::user::copy_between(to, from, piece);
        done += copied;
        if copied < piece && !is_settled() {
            break;
        }
    }
    done
}
