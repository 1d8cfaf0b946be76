//! Descriptors that receive signals for the process (signalfd(2)), whichever of its threads reads them.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io;
use wire::signal::{FIRST_REAL_TIME, Signal};
use zerocopy::FromBytes;

use crate::signals;
use crate::stub;

/// The real-time signals.
const REAL_TIME: u64 = signals::ALL << (FIRST_REAL_TIME - 1);

/// struct signalfd_siginfo (uapi/linux/signalfd.h), the part that matters.
#[derive(FromBytes)]
#[repr(C)]
struct SignalfdInfo {
    signo: u32,
    _errno: i32,
    code: i32,
    pid: u32,
    uid: u32,
    fd: i32,
    _tid: u32,
    band: u32,
    _overrun: u32,
    _trapno: u32,
    status: i32,
    _int: i32,
    ptr: u64,
    _rest: [u64; 9],
}
const _: () = assert!(size_of::<SignalfdInfo>() == 128);

impl SignalfdInfo {
    /// The signal with the first three words of siginfo_t's union as its code says (uapi/asm-generic/siginfo.h): of a
    /// descriptor's signal si_band, a long, and si_fd; of a child's si_pid, si_uid, si_status; of others si_pid, si_uid, si_value.
    fn signal(&self) -> Signal {
        /// POLL_IN to POLL_HUP, and as many codes of SIGCHLD.
        const POLLS: std::ops::RangeInclusive<i32> = 1..=6;
        let (pid, uid, value) = match self.signo as i32 {
            libc::SIGCHLD if POLLS.contains(&self.code) => {
                (self.pid, self.uid, u64::from(self.status as u32))
            }
            _ if POLLS.contains(&self.code) => (self.band, 0, u64::from(self.fd as u32)),
            _ => (self.pid, self.uid, self.ptr),
        };
        Signal {
            signo: self.signo,
            code: self.code,
            pid,
            uid,
            value,
        }
    }
}

/// The descriptors that receive signals for the process, whichever of its threads reads them.
#[derive(Debug)]
pub struct Signalfds {
    standard: OwnedFd,
    /// Real-time signals, which queue up in Linux for as long as they are not read here.
    real_time: OwnedFd,
}

impl Signalfds {
    /// Receives the signals of a set.
    ///
    /// # Errors
    /// What signalfd says.
    pub fn new(watched: u64) -> io::Result<Signalfds> {
        Ok(Signalfds {
            standard: signalfd(watched & !REAL_TIME)?,
            real_time: signalfd(watched & REAL_TIME)?,
        })
    }

    /// Moves the descriptors by `keep`.
    ///
    /// # Errors
    /// What `keep` says.
    pub fn keep(self, keep: impl Fn(OwnedFd) -> io::Result<OwnedFd>) -> io::Result<Signalfds> {
        Ok(Signalfds {
            standard: keep(self.standard)?,
            real_time: keep(self.real_time)?,
        })
    }

    /// Changes which standard signals are received.
    pub fn receive(&self, set: u64) {
        let _ = signalfd4(self.standard.as_raw_fd(), set & !REAL_TIME);
    }

    /// Readable when a signal has come.
    pub fn both(&self) -> [&OwnedFd; 2] {
        [&self.standard, &self.real_time]
    }

    /// The next signal; a real-time one only if the node has a place for it.
    pub fn read(&self, has_place: bool) -> Option<Signal> {
        let mut bytes = [0u8; size_of::<SignalfdInfo>()];
        let read = match io::read(&self.standard, &mut bytes) {
            Ok(read) => read,
            Err(_) if has_place => io::read(&self.real_time, &mut bytes).ok()?,
            Err(_) => return None,
        };
        let info = SignalfdInfo::read_from_bytes(bytes.get(..read)?).ok()?;
        Some(info.signal())
    }

    /// Whether a real-time signal waits to be read.
    pub fn real_time_waits(&self) -> bool {
        readable(self.real_time.as_fd())
    }
}

/// Whether a signal can be read.
fn readable(signals: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(signals, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

fn signalfd4(fd: RawFd, set: u64) -> i64 {
    let flags = (libc::SFD_NONBLOCK | libc::SFD_CLOEXEC) as u64;
    let args = [fd as u64, &raw const set as u64, 8, flags, 0, 0];
    // SAFETY: 1. Linux reads one u64.
    unsafe { stub::syscall(libc::SYS_signalfd4 as u64, &args) }
}

/// A non-blocking descriptor that receives the signals of a set.
fn signalfd(set: u64) -> io::Result<OwnedFd> {
    let ret = signalfd4(-1, set);
    if let Some(errno) = abi::Errno::from_ret(ret) {
        return Err(io::Errno::from_raw_os_error(errno.0.into()));
    }
    // SAFETY: 1. Linux has just made this descriptor, no other code owns it.
    Ok(unsafe { std::os::fd::FromRawFd::from_raw_fd(ret as i32) })
}
