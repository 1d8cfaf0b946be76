//! I/O priorities of threads of this process (ioprio_set(2)).

use crate::stub;

/// IOPRIO_WHO_PROCESS (uapi/linux/ioprio.h): a thread, by its id; 0 is the caller.
const WHO_THREAD: u64 = 1;

/// The calling thread's, or a negative error.
pub fn own() -> i64 {
    ioprio(libc::SYS_ioprio_get, [WHO_THREAD, 0, 0])
}

/// Gives a thread that of another.
pub fn copy(from: u32, to: u32) {
    if let Ok(priority) = u64::try_from(ioprio(libc::SYS_ioprio_get, [WHO_THREAD, from.into(), 0]))
    {
        ioprio(libc::SYS_ioprio_set, [WHO_THREAD, to.into(), priority]);
    }
}

fn ioprio(nr: i64, [who, tid, priority]: [u64; 3]) -> i64 {
    // SAFETY: 1. No memory is passed.
    unsafe { stub::syscall(nr as u64, &[who, tid, priority, 0, 0, 0]) }
}
