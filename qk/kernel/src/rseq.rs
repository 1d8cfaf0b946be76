//! Restartable sequences (rseq(2), include/uapi/linux/rseq.h): the CPU number in the program's own memory, and the promise
//! that a critical section interrupted by a signal starts again.

use core::sync::atomic::Ordering;

use abi::Errno;
use hal::traps::UserFrame;

use crate::syscall::SysResult;
use crate::syscall::args::{get_words, put_words, user};
use crate::thread::Thread;

/// Bytes of struct rseq as registered by glibc 2.35 and later.
const AREA_BYTES: u64 = 32;
const UNREGISTER: u64 = 1;
/// Offset of rseq_cs in the at.
const CRITICAL_SECTION: u64 = 8;
/// RSEQ_CPU_ID_UNINITIALIZED, in both of the first fields.
const NO_CPU: u64 = 0xffff_ffff_0000_0000;

/// rseq(at, len_bytes, flags, signature): registers or unregisters the thread's at.
///
/// # Errors
/// As Linux (kernel/rseq.c): EINVAL, EBUSY when registered already, EPERM for a wrong signature, EFAULT.
pub fn register(thread: &Thread, [at, len_bytes, flags, signature]: [u64; 4]) -> SysResult {
    let [registered, known] = [
        thread.rseq[0].load(Ordering::Relaxed),
        thread.rseq[1].load(Ordering::Relaxed),
    ];
    let signature = u64::from(signature as u32);
    if flags & !UNREGISTER != 0 || (flags == UNREGISTER && (registered != at || registered == 0)) {
        return Err(Errno::EINVAL);
    }
    if flags == UNREGISTER {
        if known != signature {
            return Err(Errno::EPERM);
        }
        put_words(at, &[NO_CPU])?;
        thread.rseq[0].store(0, Ordering::Relaxed);
        return Ok(0);
    }
    if registered != 0 {
        return Err(
            if registered != at || len_bytes as u32 != AREA_BYTES as u32 {
                Errno::EINVAL
            } else if known != signature {
                Errno::EPERM
            } else {
                Errno::EBUSY
            },
        );
    }
    if at == 0 || at % AREA_BYTES != 0 || len_bytes as u32 != AREA_BYTES as u32 {
        return Err(Errno::EINVAL);
    }
    put_core(at)?;
    thread.rseq[0].store(at, Ordering::Relaxed);
    thread.rseq[1].store(signature, Ordering::Relaxed);
    Ok(0)
}

/// The thread was preempted, or runs on another core: before it goes on its sequence is updated. For the code that switches.
pub fn interrupted(thread: &Thread) {
    if thread.rseq[0].load(Ordering::Relaxed) != 0 {
        thread.rseq_due.store(true, Ordering::Relaxed);
        thread.pending_work.store(true, Ordering::Relaxed);
    }
}

/// Writes on which core a thread goes on, and starts again the critical section that its last core left. A program that
/// made its at unwritable ends (Linux: rseq_handle_notify_resume).
///
/// # Errors
/// EFAULT.
#[inline]
pub fn resume(thread: &Thread, frame: &mut UserFrame) -> Result<(), Errno> {
    if !thread.rseq_due.swap(false, Ordering::Relaxed) {
        return Ok(());
    }
    let at = thread.rseq[0].load(Ordering::Relaxed);
    if at == 0 {
        return Ok(());
    }
    abort_if_inside(thread, frame);
    put_core(at)
}

/// Writes the core's number where the program reads it: cpu_id_start and cpu_id.
fn put_core(at: u64) -> Result<(), Errno> {
    let cpu = hal::cpu::id() as u64;
    put_words(at, &[cpu | cpu << 32])
}

/// Sends a thread that is about to run a handler to the abort address of the critical section it is in.
pub fn abort_if_inside(thread: &Thread, frame: &mut UserFrame) {
    let at = thread.rseq[0].load(Ordering::Relaxed);
    if at == 0 {
        return;
    }
    let Ok([section]) = get_words(at + CRITICAL_SECTION) else {
        return;
    };
    if section == 0 {
        return;
    }
    // struct rseq_cs: version and flags, start_ip, post_commit_offset, abort_ip.
    let Ok([_, start, length, abort]) = get_words(section) else {
        return;
    };
    let signature = user(abort.wrapping_sub(4), 4)
        .ok()
        .and_then(|at| hal::user::read_u32(at).ok());
    let expected = thread.rseq[1].load(Ordering::Relaxed) as u32;
    if frame.rip().wrapping_sub(start) < length && signature == Some(expected) {
        frame.set_rip(abort);
    }
    // Outside of it the pointer is stale: Linux clears it either way. A program that made its at unwritable keeps it.
    let _ = put_words(at + CRITICAL_SECTION, &[0]);
}
