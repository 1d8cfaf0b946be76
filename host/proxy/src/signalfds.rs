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

    /// Changes which signals are received.
    pub fn receive(&self, set: u64) {
        let _ = signalfd4(self.standard.as_raw_fd(), set & !REAL_TIME);
        let _ = signalfd4(self.real_time.as_raw_fd(), set & REAL_TIME);
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

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;

    /// What a handler with SA_SIGINFO finds, by the signal and its code.
    #[test]
    fn the_words_of_a_signal_are_those_of_its_code() {
        let signal = |signo: i32, code| {
            let info = SignalfdInfo {
                signo: signo as u32,
                code,
                pid: 5,
                uid: 6,
                fd: 7,
                band: 8,
                status: -9,
                ptr: 1 << 40,
                ..SignalfdInfo::new_zeroed()
            };
            let Signal {
                pid, uid, value, ..
            } = info.signal();
            (pid, uid, value)
        };
        let status = u64::from(-9i32 as u32);
        assert_eq!(signal(libc::SIGCHLD, libc::CLD_EXITED), (5, 6, status));
        assert_eq!(signal(libc::SIGCHLD, libc::SI_USER), (5, 6, 1 << 40));
        for signo in [libc::SIGIO, libc::SIGRTMIN()] {
            // POLL_IN, POLL_HUP.
            assert_eq!((signal(signo, 1), signal(signo, 6)), ((8, 0, 7), (8, 0, 7)));
            assert_eq!(signal(signo, libc::SI_QUEUE), (5, 6, 1 << 40));
        }
    }

    /// One that was read could not be put back.
    #[test]
    fn a_real_time_signal_stays_until_there_is_a_place() {
        let signo = libc::SIGRTMIN() + 3;
        signals::mask(signals::How::Block, signals::set(signo));
        let descriptors = Signalfds::new(signals::set(signo)).unwrap();
        assert!(!descriptors.real_time_waits() && descriptors.read(true).is_none());
        let tid = rustix::thread::gettid().as_raw_pid() as u32;
        signals::send_to_thread(std::process::id(), tid, signo);
        assert!(descriptors.real_time_waits() && descriptors.read(false).is_none());
        let signal = descriptors.read(true).unwrap();
        assert_eq!(
            (signal.signo, signal.pid),
            (signo as u32, std::process::id())
        );
        assert!(!descriptors.real_time_waits());
    }

    /// Signals that are left to the rank's own descriptors stay in Linux.
    #[test]
    fn what_is_received_may_change() {
        let both = [libc::SIGUSR1, libc::SIGRTMIN() + 4];
        let set = both.iter().fold(0, |set, signo| set | signals::set(*signo));
        signals::mask(signals::How::Block, set);
        let descriptors = Signalfds::new(set).unwrap();
        descriptors.receive(0);
        let tid = rustix::thread::gettid().as_raw_pid() as u32;
        for signo in both {
            signals::send_to_thread(std::process::id(), tid, signo);
        }
        assert!(descriptors.read(true).is_none());
        descriptors.receive(set);
        let received = both.map(|_| descriptors.read(true).unwrap().signo as i32);
        assert_eq!(received, both);
    }
}
