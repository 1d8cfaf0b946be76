//! Arguments that are pointers: an address from a program is a claim, and reading or writing through it can fail.

use abi::Errno;
use abi::areas::share_entries;
use abi::syscall::operand::Reader;
use hal::addr::User;

use crate::preempt;

/// Nanoseconds of a second.
pub const NS_PER_S: u64 = 1_000_000_000;
/// sizeof(sigset_t) in the kernel's ABI.
pub const SIGSET_BYTES: u64 = 8;
/// Work of finding out that memory cannot be read: a page fault in the kernel.
const FAULT_WORK: u32 = 400;
/// Bytes that are copied between two preemption points: an iteration for each eight, which an emulator counts as an instruction.
const PIECE_BYTES: u64 = 64 << 10;
/// Bytes that are copied by a buffer at a time: a small part of a kernel stack.
const BUFFER_BYTES: usize = 1 << 10;

/// `len_bytes` at `addr`, if a program's pointer can be that.
///
/// # Errors
/// EFAULT.
pub fn user(addr: u64, len_bytes: u64) -> Result<User, Errno> {
    User::range(addr, len_bytes).ok_or(Errno::EFAULT)
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
        self.read(|| hal::user::read_u32(user(at, 4)?).map_err(|_| Errno::EFAULT))
    }
}

impl Program {
    #[inline]
    fn read<T>(&self, read: impl FnOnce() -> Result<T, Errno>) -> Option<T> {
        preempt::point(self.0);
        read().inspect_err(|_| faulted()).ok()
    }
}

#[cold]
#[inline(never)]
fn faulted() {
    preempt::point(FAULT_WORK);
}

/// Reads a 64-bit word.
///
/// # Errors
/// EFAULT.
pub fn get_u64(addr: u64) -> Result<u64, Errno> {
    hal::user::read_u64(user(addr, 8)?).map_err(|_| Errno::EFAULT)
}

/// Reads a 32-bit word.
///
/// # Errors
/// EFAULT.
pub fn get_u32(addr: u64) -> Result<u32, Errno> {
    hal::user::read_u32(user(addr, 4)?).map_err(|_| Errno::EFAULT)
}

/// Reads `N` 64-bit words.
///
/// # Errors
/// EFAULT.
pub fn get_words<const N: usize>(addr: u64) -> Result<[u64; N], Errno> {
    hal::user::read_words(user(addr, N as u64 * 8)?).map_err(|_| Errno::EFAULT)
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
        hal::user::copy_in(chunk, User::range(from, bytes)?).ok()?;
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
    hal::user::copy_out_words(to, words).map_err(|_| Errno::EFAULT)
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
    hal::user::write_u64(user(addr, 8)?, value).map_err(|_| Errno::EFAULT)
}

/// Writes a 32-bit word.
///
/// # Errors
/// EFAULT.
pub fn put_u32(addr: u64, value: u32) -> Result<(), Errno> {
    hal::user::write_u32(user(addr, 4)?, value).map_err(|_| Errno::EFAULT)
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
    hal::user::copy_out(user(addr, bytes.len() as u64)?, bytes).map_err(|_| Errno::EFAULT)
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
    match share_entries(to, from) {
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
        preempt::point(piece as u32 / 4);
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
        if copied < piece {
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
        if copied < piece {
            break;
        }
    }
    done
}
