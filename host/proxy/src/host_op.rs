//! What the QK asks for besides Linux calls.

use std::sync::atomic::Ordering;

use abi::Errno;
use abi::control::HostOp;
use abi::map::USER_TOP;

use crate::fds;
use crate::memory::RankMemory;
use crate::rank::Rank;
use crate::signals;
use crate::stub;

/// Carries out an operation; returns its result or a negative error as a system call does.
///
/// # Errors
/// A line for the user when the rank has to end.
pub fn carry_out(rank: &Rank, nr: u64, args: &[u64; 6]) -> Result<i64, String> {
    let ret = match HostOp::from_nr(nr) {
        Some(HostOp::ReadProgram) => read_program(rank, args[0], args[1], args[2]),
        Some(HostOp::WriteStrings) => write_strings(rank, args[0], args[1]),
        Some(HostOp::Sync) => {
            rank.catch_up(rank.words.log.position())?;
            Ok(0)
        }
        Some(HostOp::Stop) => {
            if rank.stops.take() {
                signals::send_to_self(libc::SIGSTOP);
            }
            Ok(0)
        }
        None => Err(Errno::ENOSYS),
    };
    Ok(ret.unwrap_or_else(Errno::ret))
}

/// Reads from the program's file straight into the rank's memory, until `len_bytes` or the end of the file.
fn read_program(rank: &Rank, addr: u64, len_bytes: u64, offset: u64) -> Result<i64, Errno> {
    // Pieces are read one after the other: the whole range counts, not what one call touches.
    if addr.checked_add(len_bytes).is_none_or(|end| end > USER_TOP) {
        return Err(Errno::EFAULT);
    }
    let file = fds::raw(&rank.program.file);
    let mut done = 0;
    while done < len_bytes {
        let args = [
            file,
            addr + done,
            len_bytes - done,
            offset.wrapping_add(done),
            0,
            0,
        ];
        // SAFETY: 1. Linux writes only to memory of the rank: all of it lies below USER_TOP (just checked).
        match unsafe { stub::syscall(libc::SYS_pread64 as u64, &args) } {
            0 => break,
            read if read > 0 => done += read as u64,
            errno => return Err(Errno::from_ret(errno).unwrap_or(Errno::EIO)),
        }
    }
    Ok(done as i64)
}

fn write_strings(rank: &Rank, addr: u64, capacity_bytes: u64) -> Result<i64, Errno> {
    let program = &rank.program;
    if program.strings_bytes() > capacity_bytes {
        return Err(Errno::E2BIG);
    }
    rank.strings_at.store(addr, Ordering::Relaxed);
    let mut at = addr;
    let memory = rank.memory();
    for string in program.strings() {
        let bytes = string.to_bytes_with_nul();
        memory.write(at, bytes)?;
        at += bytes.len() as u64;
    }
    Ok((at - addr) as i64)
}
