//! Locks that outlive a panic: a mistake of the proxy ends the process, so none is ever poisoned for long.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes a lock.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The calling thread.
#[cfg(test)]
pub fn thread_id() -> i32 {
    rustix::thread::gettid().as_raw_pid()
}

/// Whether a thread of this process waits in Linux.
#[cfg(test)]
pub fn sleeps(tid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{tid}/stat"));
    stat.is_ok_and(|stat| {
        stat.rsplit_once(") ")
            .is_some_and(|(_, rest)| rest.starts_with('S'))
    })
}
