//! Listings of the process's directory in /proc without what is the proxy's: descriptors, threads.

use std::os::fd::BorrowedFd;

use abi::Errno;
use abi::syscall::Call;

use super::answer::Special;
use super::place::{Place, Whose};
use crate::memory::RankMemory;
use crate::rank::Rank;
use crate::stub;

/// Most bytes read at once.
const MOST_BYTES: u64 = 32 * 1024;
/// Offset of d_reclen in both kinds of entries (struct linux_dirent, struct linux_dirent64).
const RECLEN_AT: usize = 16;

/// Carries out a getdents of the process's descriptors or threads; any other is Linux's.
pub fn without_ours(rank: &Rank, call: &Call, args: &[u64; 6]) -> Special {
    if args[0] as i32 >= 0 {
        // SAFETY: 1. The number is only used for this call, and Linux says EBADF when it is not open.
        let directory = unsafe { BorrowedFd::borrow_raw(args[0] as i32) };
        match Place::of(rank, directory) {
            Some(place) if place.whose == Whose::Rank => {
                return match place.inside.as_str() {
                    "fd" | "fdinfo" => answer(list(rank, call, args, |fd| {
                        fd < rank.limits().first_own_fd()
                    })),
                    "task" => answer(list(rank, call, args, |tid| rank.has_thread(tid))),
                    _ => Special::No,
                };
            }
            _ => {}
        }
    }
    Special::No
}

fn answer(result: Result<i64, Errno>) -> Special {
    Special::Answer(result.unwrap_or_else(Errno::ret))
}

/// Reads entries until there is one to show, or the end.
fn list(
    rank: &Rank,
    call: &Call,
    args: &[u64; 6],
    shows: impl Fn(u32) -> bool,
) -> Result<i64, Errno> {
    // The name follows d_reclen, with d_type between in the newer kind.
    let name_at = if i64::from(call.nr) == libc::SYS_getdents64 {
        19
    } else {
        18
    };
    let mut buffer = vec![0u8; u64::from(args[2] as u32).min(MOST_BYTES) as usize];
    loop {
        let read = [
            args[0],
            buffer.as_mut_ptr() as u64,
            buffer.len() as u64,
            0,
            0,
            0,
        ];
        // SAFETY: 1. Linux writes at most `buffer.len()` bytes to `buffer`.
        let ret = unsafe { stub::syscall(u64::from(call.nr), &read) };
        let Ok(len @ 1..) = usize::try_from(ret) else {
            return Ok(ret);
        };
        let shown = keep(&buffer[..len], name_at, &shows);
        if !shown.is_empty() {
            rank.write(args[1], &shown)?;
            return Ok(shown.len() as i64);
        }
    }
}

/// The entries that are no numbers or show.
fn keep(entries: &[u8], name_at: usize, shows: impl Fn(u32) -> bool) -> Vec<u8> {
    let mut kept = Vec::with_capacity(entries.len());
    let mut rest = entries;
    while let Some(&[low, high]) = rest.get(RECLEN_AT..RECLEN_AT + 2) {
        let len = usize::from(u16::from_ne_bytes([low, high]));
        let Some((entry, after)) = rest.split_at_checked(len).filter(|_| len > name_at) else {
            break;
        };
        let name = entry[name_at..]
            .split(|&byte| byte == 0)
            .next()
            .unwrap_or_default();
        let number = std::str::from_utf8(name)
            .ok()
            .and_then(|name| name.parse().ok());
        if number.is_none_or(&shows) {
            kept.extend_from_slice(entry);
        }
        rest = after;
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry(name: &str) -> Vec<u8> {
        let len = (19 + name.len() + 1).next_multiple_of(8);
        let mut entry = vec![0; len];
        entry[16..18].copy_from_slice(&(len as u16).to_ne_bytes());
        entry[19..19 + name.len()].copy_from_slice(name.as_bytes());
        entry
    }

    #[test]
    fn own_descriptors_are_left_out() {
        let all: Vec<u8> = [".", "..", "0", "1023", "1024", "99999"]
            .map(entry)
            .concat();
        let want: Vec<u8> = [".", "..", "0", "1023"].map(entry).concat();
        assert_eq!(keep(&all, 19, |fd| fd < 1024), want);
    }

    proptest! {
        #[test]
        fn garbage_is_survived(entries: Vec<u8>) {
            prop_assert!(keep(&entries, 19, |fd| fd < 100).len() <= entries.len());
        }
    }
}
