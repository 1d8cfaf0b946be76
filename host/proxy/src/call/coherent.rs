//! Calls on a file that ranks of the node have mapped and share: its bytes in the node pool are what it holds.
//!
//! Linux makes the call on the file, with all that belongs to it: positions, O_APPEND, limits, a full disk. Then what it read
//! is overlaid with what the frames hold, and what it wrote goes to the frames, too. Both happen under the file's
//! lock. While no file is mapped, none of this costs more than a word of the directory.

use std::os::fd::BorrowedFd;

use abi::Errno;
use rustix::fs::{OFlags, fcntl_getfl, fstat};

use super::args::Scratch;
use super::make::linux;
use crate::memory::RankMemory;
use crate::objects::{self, File, Locked, Part};
use crate::rank::Rank;

/// RWF_APPEND of uapi/linux/fs.h.
const RWF_APPEND: u64 = 0x10;
/// uapi/linux/fs.h.
const FICLONE: u32 = 0x4004_9409;
/// Bytes that are copied at a time between the rank's memory and frames.
const CHUNK: usize = 64 << 10;

/// Makes a call whose arguments have been prepared, if it touches such a file; `None`: it does not.
pub fn carry_out(rank: &Rank, nr: u16, args: &[u64; 6], scratch: &Scratch) -> Option<i64> {
    if rank.objects().is_empty() {
        return None;
    }
    let call = i64::from(nr);
    match call {
        libc::SYS_ftruncate => {
            let file = mapped(rank, args[0])?;
            Some(cut(rank, file, args[1], || linux(nr, args)))
        }
        libc::SYS_fallocate => fallocate(rank, nr, args),
        // Their callers read and write where these do not work (sendfile(2), "NOTES").
        libc::SYS_sendfile => either_is_mapped(rank, args[0], args[1]),
        libc::SYS_splice | libc::SYS_copy_file_range => either_is_mapped(rank, args[0], args[2]),
        libc::SYS_ioctl if args[1] as u32 == FICLONE => {
            either_is_mapped(rank, args[0], args[2]).map(|_| Errno::EOPNOTSUPP.ret())
        }
        libc::SYS_fcntl if args[1] as i32 == libc::F_ADD_SEALS => seal(rank, args),
        _ => {
            let transfer = Transfer::of(call, args, scratch)?;
            Some(transfer.carry_out(rank, mapped(rank, args[0])?, nr, args))
        }
    }
}

/// Replaces what the rank read from a file, or was given of it, by what frames hold.
pub fn overlay(rank: &Rank, fd: BorrowedFd<'_>, addr: u64, len_bytes: u64, offset: u64) {
    if rank.objects().is_empty() {
        return;
    }
    if let Some(file) = mapped_file(rank, fd) {
        let locked = rank.objects().lock(file);
        let range = (offset, offset.saturating_add(len_bytes));
        for part in locked.parts(file, range, true) {
            copy(rank, addr + (part.offset - offset), &part, false);
        }
    }
}

/// The file behind a descriptor, if ranks have mapped it.
fn mapped(rank: &Rank, fd: u64) -> Option<File> {
    if (fd as i32) < 0 {
        return None;
    }
    // SAFETY: 1. It is only used for one fstat, which says EBADF when it is not open. 2. It is none of the proxy's own: the
    // call's arguments have been prepared, or Linux has just returned it.
    let fd = unsafe { BorrowedFd::borrow_raw(fd as i32) };
    mapped_file(rank, fd)
}

fn mapped_file(rank: &Rank, fd: BorrowedFd<'_>) -> Option<File> {
    let stat = fstat(fd).ok()?;
    objects::regular(&stat).filter(|&file| !rank.objects().entries(file).is_empty())
}

fn either_is_mapped(rank: &Rank, one: u64, other: u64) -> Option<i64> {
    let either = mapped(rank, one).or_else(|| mapped(rank, other));
    either.map(|_| Errno::EINVAL.ret())
}

/// Makes a call by which the file behind `fd` gets this length, if it succeeds.
pub fn truncate(
    rank: &Rank,
    fd: BorrowedFd<'_>,
    len_bytes: u64,
    call: impl FnOnce() -> i64,
) -> i64 {
    let mapped = || mapped_file(rank, fd);
    match (!rank.objects().is_empty()).then(mapped).flatten() {
        Some(file) => cut(rank, file, len_bytes, call),
        None => call(),
    }
}

fn cut(rank: &Rank, file: File, len_bytes: u64, call: impl FnOnce() -> i64) -> i64 {
    let locked = rank.objects().lock(file);
    let ret = call();
    clear(&locked, file, (len_bytes, u64::MAX), ret);
    ret
}

/// What is mapped to be written to is not sealed against that (mm/memfd.c, memfd_add_seals); Linux does not know of the mapping.
fn seal(rank: &Rank, args: &[u64; 6]) -> Option<i64> {
    const AGAINST_WRITING: i64 = libc::F_SEAL_WRITE as i64;
    if args[2] as i64 & AGAINST_WRITING == 0 {
        return None;
    }
    let file = mapped(rank, args[0])?;
    let get = [args[0], libc::F_GET_SEALS as u64, 0, 0, 0, 0];
    let seals = linux(libc::SYS_fcntl as u16, &get);
    let may_seal = seals >= 0 && seals & (AGAINST_WRITING | i64::from(libc::F_SEAL_SEAL)) == 0;
    (may_seal && rank.objects().is_written_by(file)).then_some(Errno::EBUSY.ret())
}

fn fallocate(rank: &Rank, nr: u16, args: &[u64; 6]) -> Option<i64> {
    const MOVES: i32 = libc::FALLOC_FL_COLLAPSE_RANGE | libc::FALLOC_FL_INSERT_RANGE;
    const CLEARS: i32 = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE;
    let [fd, mode, offset, len_bytes, ..] = *args;
    let file = mapped(rank, fd)?;
    let mode = mode as i32;
    if mode & MOVES != 0 {
        return Some(Errno::EOPNOTSUPP.ret());
    }
    let locked = rank.objects().lock(file);
    let ret = linux(nr, args);
    if mode & CLEARS != 0 {
        let range = (offset, offset.saturating_add(len_bytes));
        clear(&locked, file, range, ret);
    }
    Some(ret)
}

/// Clears frames, when the call that cleared the file succeeded; of an open that is a descriptor.
fn clear(locked: &Locked<'_>, file: File, range: (u64, u64), ret: i64) {
    if ret >= 0 {
        let parts = locked.parts(file, range, false);
        parts.iter().for_each(Part::clear);
    }
}

/// A call that moves bytes between the rank's memory and a file.
struct Transfer<'a> {
    write: bool,
    /// Offset in the file, unless it is the descriptor's.
    at: Option<u64>,
    append: bool,
    buffers: Buffers<'a>,
}

enum Buffers<'a> {
    One(u64, u64),
    Many(&'a [[u64; 2]]),
}

impl Transfer<'_> {
    fn of<'a>(call: i64, args: &[u64; 6], scratch: &'a Scratch) -> Option<Transfer<'a>> {
        let (write, vector, at, append) = match call {
            libc::SYS_read => (false, false, None, false),
            libc::SYS_write => (true, false, None, false),
            libc::SYS_pread64 => (false, false, Some(args[3]), false),
            libc::SYS_pwrite64 => (true, false, Some(args[3]), false),
            libc::SYS_readv => (false, true, None, false),
            libc::SYS_writev => (true, true, None, false),
            libc::SYS_preadv => (false, true, Some(args[3]), false),
            libc::SYS_pwritev => (true, true, Some(args[3]), false),
            // -1: the descriptor's.
            libc::SYS_preadv2 => (
                false,
                true,
                Some(args[3]).filter(|&at| at != u64::MAX),
                false,
            ),
            libc::SYS_pwritev2 => {
                let at = Some(args[3]).filter(|&at| at != u64::MAX);
                (true, true, at, args[5] & RWF_APPEND != 0)
            }
            _ => return None,
        };
        let buffers = match vector {
            true => Buffers::Many(scratch.iovecs()),
            false => Buffers::One(args[1], args[2]),
        };
        Some(Transfer {
            write,
            at,
            append,
            buffers,
        })
    }

    fn carry_out(&self, rank: &Rank, file: File, nr: u16, args: &[u64; 6]) -> i64 {
        let locked = rank.objects().lock(file);
        let position = [args[0], 0, libc::SEEK_CUR as u64, 0, 0, 0];
        let before = self
            .at
            .unwrap_or_else(|| linux(libc::SYS_lseek as u16, &position) as u64);
        let moved = linux(nr, args);
        let Ok(moved_bytes) = u64::try_from(moved) else {
            return moved;
        };
        let start = self
            .end_of_file(args[0])
            .map_or(before, |end| end.saturating_sub(moved_bytes));
        let range = (start, start.saturating_add(moved_bytes));
        for part in locked.parts(file, range, !self.write) {
            self.copy(rank, &part, start);
        }
        moved
    }

    /// End of the file, where a write goes there.
    fn end_of_file(&self, fd: u64) -> Option<u64> {
        // SAFETY: 1. As in `mapped`.
        let fd = unsafe { BorrowedFd::borrow_raw(fd as i32) };
        let appends = || fcntl_getfl(fd).is_ok_and(|flags| flags.contains(OFlags::APPEND));
        if self.write && (self.append || appends()) {
            fstat(fd).ok().map(|stat| stat.st_size as u64)
        } else {
            None
        }
    }

    /// Copies the bytes of `part` from or to the buffers, which hold what begins at `start` in the file.
    fn copy(&self, rank: &Rank, part: &Part, start: u64) {
        let mut at = start;
        let mut one = |addr: u64, len_bytes: u64| {
            let (from, to) = (
                part.offset.max(at),
                (part.offset + part.len_bytes).min(at + len_bytes),
            );
            if from < to {
                let mut here = part.after(from - part.offset);
                here.len_bytes = to - from;
                copy(rank, addr + (from - at), &here, self.write);
            }
            at = at.saturating_add(len_bytes);
        };
        match self.buffers {
            Buffers::One(addr, len_bytes) => one(addr, len_bytes),
            Buffers::Many(iovecs) => iovecs.iter().for_each(|[addr, len]| one(*addr, *len)),
        }
    }
}

/// Copies between the rank's memory at `addr` and a part. Linux has just been there: what cannot be reached any more has been
/// unmapped meanwhile, by another thread.
fn copy(rank: &Rank, addr: u64, part: &Part, to_frames: bool) {
    let mut chunk = [0; CHUNK];
    let mut done = 0;
    while done < part.len_bytes {
        let here = part.after(done);
        let bytes = &mut chunk[..CHUNK.min(here.len_bytes as usize)];
        let moved = if to_frames {
            rank.read(addr + done, bytes).map(|()| here.write(bytes))
        } else {
            here.read(bytes);
            rank.write(addr + done, bytes)
        };
        if moved.is_err() {
            return;
        }
        done += bytes.len() as u64;
    }
}
