//! The proxy's own descriptors, out of the rank's reach.
//!
//! They lie above the highest number that the rank may ever raise its limit to: the soft limit is raised while they are
//! moved there and put back, so that Linux itself gives the rank EMFILE at its limit and never hands out a number of
//! ours. What the rank names at or above [`Limits::first_own`] does not exist for it.
//!
//! For this the rank's hard limit is lowered where it is high, and both limits where they are equal.

use std::cell::Cell;
use std::ffi::OsStr;
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::io::{Errno, FdFlags, fcntl_dupfd_cloexec, fcntl_getfd};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::stub;

/// Descriptors kept for the proxy besides one per core of the node.
const RESERVE: u64 = 64;
/// The rank's never lie higher: Linux keeps a table as long as the highest number, 8 bytes each.
const CEILING: u64 = 1 << 16;
/// Besides, as many for what many threads open on the way at once, where the hard limit has room.
const PASSING: u64 = 1 << 12;
/// uapi/linux/close_range.h
pub const CLOSE_RANGE_UNSHARE: u64 = 2;
/// Fewer descriptors than these are of no use to a program.
const LEAST: u64 = 16;

/// The limits on descriptors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The rank's soft limit.
    pub soft: u64,
    /// The rank's hard limit, and the first number that is not the rank's.
    pub first_own: u64,
    /// The soft limit while our descriptors are moved.
    pub raised: u64,
}

impl Limits {
    /// Finds room for the proxy's descriptors on a node of `cores` cores above the rank's; `None` when the hard limit is
    /// too low.
    #[must_use]
    pub fn divide(soft: Option<u64>, hard: Option<u64>, cores: usize) -> Option<Limits> {
        let reserve = (RESERVE / 4 + cores as u64).max(RESERVE);
        let raised = hard.unwrap_or(u64::MAX).min(CEILING + PASSING);
        let first_own = raised.min(CEILING).checked_sub(reserve)?;
        let soft = soft.unwrap_or(u64::MAX).min(first_own);
        (soft >= LEAST).then_some(Limits {
            soft,
            first_own,
            raised,
        })
    }

    /// Raises the soft limit for as long as `work` takes, so that it gets descriptors when the rank has used up its own, and may
    /// have them above the rank's. The limit is the process's: workers that need room take turns, and one that has used up its
    /// descriptors just then may get one too many.
    pub fn with_room<T>(&self, work: impl FnOnce() -> T) -> T {
        let _turn = turn();
        let was = getrlimit(Resource::Nofile);
        let room = Rlimit {
            current: Some(self.raised),
            maximum: was.maximum,
        };
        let _ = setrlimit(Resource::Nofile, room);
        let done = work();
        let _ = setrlimit(Resource::Nofile, was);
        done
    }

    /// Moves a descriptor out of the way of the rank's numbers, close-on-exec: above them, unless there is no room. To be called
    /// with [room](Self::with_room).
    #[must_use]
    pub fn above(&self, fd: OwnedFd) -> OwnedFd {
        fcntl_dupfd_cloexec(&fd, self.first_own as RawFd).unwrap_or(fd)
    }

    /// The first number that is not the rank's, as descriptors are numbered.
    #[must_use]
    pub const fn first_own_fd(&self) -> u32 {
        self.first_own as u32
    }
}

/// The proxy's descriptors while they are moved.
#[derive(Debug)]
pub struct Own {
    limits: Limits,
    hard: Option<u64>,
}

impl Own {
    /// Reads the limits and raises the soft one.
    ///
    /// # Errors
    /// EMFILE when the hard limit has no room for the rank and the proxy.
    pub fn open(cores: usize) -> Result<Own, Errno> {
        let was = getrlimit(Resource::Nofile);
        let limits = Limits::divide(was.current, was.maximum, cores).ok_or(Errno::MFILE)?;
        let own = Own {
            limits,
            hard: was.maximum,
        };
        own.set_soft(limits.raised)?;
        Ok(own)
    }

    /// The limits as they will be.
    pub const fn limits(&self) -> Limits {
        self.limits
    }

    /// Moves a descriptor above the rank's limit, close-on-exec.
    ///
    /// # Errors
    /// What fcntl(2) says.
    pub fn keep(&self, fd: OwnedFd) -> Result<OwnedFd, Errno> {
        fcntl_dupfd_cloexec(&fd, self.limits.first_own as RawFd)
    }

    /// Puts the limit back; from here on Linux gives the rank only numbers below it.
    ///
    /// # Errors
    /// What setrlimit(2) says.
    pub fn close(self) -> Result<Limits, Errno> {
        self.set_soft(self.limits.soft)?;
        Ok(self.limits)
    }

    fn set_soft(&self, soft: u64) -> Result<(), Errno> {
        setrlimit(
            Resource::Nofile,
            Rlimit {
                current: Some(soft),
                maximum: self.hard,
            },
        )
    }
}

thread_local! {
    /// How many turns the thread has.
    static TURNS: Cell<u32> = const { Cell::new(0) };
}

/// See [`turn`]. Those of one thread end in the opposite order of their beginning.
#[derive(Debug)]
pub struct Turn {
    _lock: Option<MutexGuard<'static, ()>>,
}

/// Keeps others, for as long as the guard lives, from raising the limit on descriptors, and from opening on the way what has
/// one of the rank's numbers for a moment and is closed by it. A thread that makes room, opens something on the way or makes
/// the rank's calls that close or replace by number, or take the lowest free one, takes it; the thread that has it may take it again. The fork lock
/// is taken before this, and what settling takes after it (docs/concurrency.md).
pub fn turn() -> Turn {
    static TURN: Mutex<()> = Mutex::new(());
    let first = TURNS.replace(TURNS.get() + 1) == 0;
    let lock = first.then(|| TURN.lock().unwrap_or_else(PoisonError::into_inner));
    Turn { _lock: lock }
}

impl Drop for Turn {
    fn drop(&mut self) {
        TURNS.set(TURNS.get() - 1);
    }
}

/// Closes every descriptor below `first` that is marked close-on-exec, as an exec does: yod's, or those of a rank's program that
/// is replaced. No other thread uses descriptors below `first`. Those in `keep` stay: where there was no [room](Limits::above), ours lie
/// there, too.
pub fn close_on_exec(first: u64, keep: &[RawFd]) {
    let open: Vec<RawFd> = match std::fs::read_dir(Path::new("/proc/self/fd")) {
        Ok(entries) => entries
            .filter_map(|e| number(&e.ok()?.file_name()))
            .collect(),
        Err(_) => (0..first as RawFd).collect(),
    };
    let goes = |fd: &RawFd| (*fd as u64) < first && !keep.contains(fd);
    for fd in open.into_iter().filter(goes) {
        // SAFETY: 1. The borrow ends before anything is closed. 2. A number that is not open gives EBADF.
        let flags = fcntl_getfd(unsafe { BorrowedFd::borrow_raw(fd) });
        if flags.is_ok_and(|flags| flags.contains(FdFlags::CLOEXEC)) {
            // SAFETY: 1. What yod's code owned it never returns to; the rank's descriptors no code here owns.
            unsafe { libc::close(fd) };
        }
    }
}

/// Gives the calling thread a table of descriptors of its own in which there is nothing but `keep`; whether that could be.
/// All lie below `end`.
pub fn leave_table(keep: &[RawFd], end: u64) -> bool {
    let mut kept: Vec<u64> = keep.iter().map(|&fd| fd as u64).collect();
    kept.sort_unstable();
    let starts = std::iter::once(0).chain(kept.iter().map(|fd| fd + 1));
    let ends = kept.iter().copied().chain([LAST + 1]);
    let others = starts.zip(ends).filter(|(start, end)| start < end);
    let others: Vec<_> = others.map(|(start, end)| (start, end - 1)).collect();
    leave_without(&others, end)
}

/// The same, with nothing but those of the proxy, which begin with `first_own`.
pub fn leave_ranks_table(first_own: u64) -> bool {
    leave_without(&[(0, first_own - 1)], first_own)
}

/// Linux knows no larger number, and no descriptor has it.
const LAST: u64 = u32::MAX as u64;

/// Gives the calling thread a table of its own without these ranges of descriptors, which lie below `end`; whether that could be.
fn leave_without(ranges: &[(u64, u64)], end: u64) -> bool {
    let call = |nr: i64, args: [u64; 3]| {
        let [a, b, c] = args;
        // SAFETY: 1. No memory is passed. 2. The descriptors that are closed are this thread's alone, and it uses none of them.
        unsafe { stub::syscall(nr as u64, &[a, b, c, 0, 0, 0]) == 0 }
    };
    // No descriptor is in this range. Linux before 5.9 has no close_range(2), and a container may keep unshare(2) from us.
    let own = call(libc::SYS_close_range, [LAST, LAST, CLOSE_RANGE_UNSHARE])
        || call(libc::SYS_unshare, [libc::CLONE_FILES as u64, 0, 0]);
    for &(first, last) in ranges {
        if own && !call(libc::SYS_close_range, [first, last, 0]) {
            for fd in first..=last.min(end) {
                call(libc::SYS_close, [fd, 0, 0]);
            }
        }
    }
    own
}

fn number(name: &OsStr) -> Option<RawFd> {
    name.to_str()?.parse().ok()
}

/// Whether a number that the rank gives as a descriptor is out of its reach.
#[inline]
#[must_use]
pub const fn is_ours(fd: u64, first: u32) -> bool {
    // Linux takes an unsigned int; what is negative as an int is no descriptor at all.
    fd as u32 >= first
}

/// A number that is never open: above what fs.nr_open can be set to.
pub const CLOSED: i32 = i32::MAX;

/// What Linux is given for a number that the rank gives as a descriptor: one that is out of its reach is closed.
#[inline]
#[must_use]
pub const fn visible(fd: u64, first: u32) -> u64 {
    if is_ours(fd, first) && fd as i32 >= 0 {
        CLOSED as u64
    } else {
        fd // what is negative is no descriptor, or AT_FDCWD
    }
}

/// Makes a descriptor the rank's own: its number.
pub fn give(fd: OwnedFd) -> i64 {
    i64::from(fd.into_raw_fd())
}

/// A descriptor's number.
pub fn raw(fd: &OwnedFd) -> u64 {
    fd.as_raw_fd() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn usual_soft_limits_stay_as_they_are() {
        let limits = Limits::divide(Some(1024), Some(524_288), 4).unwrap();
        assert_eq!((limits.soft, limits.first_own), (1024, CEILING - 64));
        let limits = Limits::divide(Some(1024), Some(4096), 4).unwrap();
        assert_eq!((limits.soft, limits.first_own), (1024, 4096 - 64));
    }

    #[test]
    fn equal_limits_are_lowered_together() {
        let limits = Limits::divide(Some(20_000), Some(20_000), 4).unwrap();
        assert_eq!((limits.soft, limits.first_own), (20_000 - 64, 20_000 - 64));
    }

    #[test]
    fn high_limits_are_cut() {
        let limits = Limits::divide(Some(1 << 30), Some(1 << 30), 2).unwrap();
        assert_eq!(limits.soft, CEILING - 64);
        assert_eq!(Limits::divide(None, None, 2), Some(limits));
    }

    #[test]
    fn too_low_a_hard_limit_is_refused() {
        assert_eq!(Limits::divide(Some(64), Some(64), 1), None);
        assert_eq!(Limits::divide(Some(3), Some(1024), 1), None);
        assert!(Limits::divide(Some(80), Some(80), 1).is_some());
    }

    #[test]
    fn only_what_is_in_reach_is_visible() {
        let closed = CLOSED as u64;
        assert_eq!(
            [0, 1023, 1024, 1 << 32 | 1024].map(|fd| visible(fd, 1024)),
            [0, 1023, closed, closed]
        );
        let (none, here) = (-1i64 as u64, libc::AT_FDCWD as u64);
        assert_eq!([none, here].map(|fd| visible(fd, 1024)), [none, here]);
    }

    proptest! {
        #[test]
        fn there_is_always_room_above_the_rank(soft in proptest::option::of(0..1u64 << 40), more in 0..1u64 << 20, cores in 1..256usize) {
            let hard = soft.map(|s| s + more);
            if let Some(limits) = Limits::divide(soft, hard, cores) {
                prop_assert!(limits.first_own + 16 + cores as u64 <= limits.raised);
                prop_assert!(limits.soft <= limits.first_own);
                prop_assert!(hard.is_none_or(|hard| limits.raised <= hard));
                prop_assert!(soft.is_none_or(|soft| limits.soft <= soft));
            }
        }
    }
}
