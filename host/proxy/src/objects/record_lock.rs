//! Record locks, by which processes that share a file agree.

/// A record lock as fcntl(2) takes it.
pub fn lock_of(kind: i32, offset: u64, len_bytes: u64) -> libc::flock {
    libc::flock {
        l_type: kind as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: offset as i64,
        l_len: len_bytes as i64,
        l_pid: 0,
    }
}
