//! How a file is to be opened: flags and `open_how`.

use abi::Errno;
use abi::syscall::Call;

use crate::memory::RankMemory;

/// struct open_how (uapi/linux/openat2.h) in words: flags, mode, resolve. A longer one of the future ends in more.
pub type How = Vec<u8>;
pub const HOW_BYTES: usize = 24;
/// Offsets of its words.
pub const FLAGS_AT: usize = 0;
/// See [`FLAGS_AT`].
pub const MODE_AT: usize = 8;
/// Most bytes of one (openat2(2), E2BIG).
pub const MOST_HOW_BYTES: u64 = 4096;
/// See [`FLAGS_AT`].
pub const RESOLVE_AT: usize = 16;
/// uapi/linux/openat2.h
pub const RESOLVE_NO_MAGICLINKS: u64 = 2;
/// With both of these flags what is opened did not exist before.
pub const NEW: i32 = libc::O_CREAT | libc::O_EXCL;
/// O_TMPFILE's own bit.
pub const TEMPORARY: i32 = libc::O_TMPFILE & !libc::O_DIRECTORY;

/// The bits that open(2) uses; it leaves out the others, which openat2(2) refuses (VALID_OPEN_FLAGS, include/linux/fcntl.h).
const KNOWN: i32 = libc::O_ACCMODE
    | libc::O_CREAT
    | libc::O_EXCL
    | libc::O_NOCTTY
    | libc::O_TRUNC
    | libc::O_APPEND
    | libc::O_NONBLOCK
    | libc::O_SYNC
    | libc::O_DSYNC
    | libc::O_ASYNC
    | libc::O_DIRECT
    | LARGEFILE
    | libc::O_DIRECTORY
    | libc::O_NOFOLLOW
    | libc::O_NOATIME
    | libc::O_CLOEXEC
    | libc::O_PATH
    | libc::O_TMPFILE;
/// uapi/asm-generic/fcntl.h; the C library has it 0.
const LARGEFILE: i32 = 0o100_000;
/// What O_PATH lets stand beside it (O_PATH_FLAGS).
const WITH_PATH: i32 = libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_PATH | libc::O_CLOEXEC;

/// Whether a call opens a file by its path.
pub fn is_open(nr: u16) -> bool {
    matches!(
        i64::from(nr),
        libc::SYS_open | libc::SYS_openat | libc::SYS_openat2 | libc::SYS_creat
    )
}

/// The flags of an open, and where the path may not lead (RESOLVE_* of openat2(2)).
///
/// # Errors
/// EFAULT, EINVAL.
pub fn flags(memory: &impl RankMemory, call: &Call, args: &[u64; 6]) -> Result<(i32, u64), Errno> {
    let flags = match i64::from(call.nr) {
        libc::SYS_open => args[1],
        libc::SYS_creat => (libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC) as u64,
        libc::SYS_openat => args[2],
        _ if args[3] < HOW_BYTES as u64 => return Err(Errno::EINVAL),
        _ => {
            let mut how = [0; HOW_BYTES];
            memory.read(args[2], &mut how)?;
            return Ok((word(&how, FLAGS_AT) as i32, word(&how, RESOLVE_AT)));
        }
    };
    Ok((word(&how(flags, 0), 0) as i32, 0))
}

/// What open(2) makes of its flags and mode.
pub fn how(flags: u64, mode: u64) -> How {
    const CREATES: i32 = libc::O_CREAT | TEMPORARY;
    let mut flags = flags as i32 & KNOWN;
    if flags & libc::O_PATH != 0 {
        flags &= WITH_PATH;
    }
    let mode = if flags & CREATES == 0 {
        0
    } else {
        mode & 0o7777
    };
    let words = [flags as u32 as u64, mode, 0];
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// One of its words.
pub fn word(how: &[u8], at: usize) -> u64 {
    let bytes = how.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u64::from_ne_bytes)
}

/// Replaces one of its words.
pub fn set(how: &mut How, at: usize, word: u64) {
    if let Some(bytes) = how.get_mut(at..at + 8) {
        bytes.copy_from_slice(&word.to_ne_bytes());
    }
}

/// Whether what is opened with these flags can be written to.
pub const fn writes(flags: i32) -> bool {
    flags & libc::O_ACCMODE != libc::O_RDONLY
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_read_as_open_does() {
        let flags = |flags: i32| word(&how(flags as u64, 0o10644), 0) as i32;
        let mode = |flags: i32| word(&how(flags as u64, 0o10644), 8);
        assert_eq!(flags(1 << 30 | libc::O_RDWR), libc::O_RDWR);
        assert_eq!(flags(libc::O_PATH | libc::O_RDWR), libc::O_PATH);
        assert_eq!(mode(libc::O_RDWR), 0);
        assert_eq!(mode(libc::O_CREAT), 0o644);
        assert_eq!(mode(libc::O_TMPFILE), 0o644);
        assert_eq!(mode(libc::O_DIRECTORY), 0);
    }
}
