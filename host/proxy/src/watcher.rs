//! The watcher: a thread that receives what does not come through the ship slots.
//!
//! - Signals that Linux has for the process: all are blocked in the workers, read here and posted to the node, which
//!   delivers them to the program. Before the program runs they act on the proxy as they would on any process.
//! - Calls to give up: the node says so and rings, and the worker is kicked out of Linux (module `stub`).
//! - The rank's end, and requests of other threads, while the first worker is in a call.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::io;
use wire::rank::state;
use wire::signal::{FIRST_REAL_TIME, QUEUED, Signal};
use zerocopy::FromBytes;

use crate::end;
use crate::rank::Rank;
use crate::signals::{self, Default, How};
use crate::stub;
use crate::terminal;
use crate::worker;

/// The real-time signals.
const REAL_TIME: u64 = signals::ALL << (FIRST_REAL_TIME - 1);

/// How often it is tried again when the node has no room; meanwhile signals wait in Linux.
const RETRY: Duration = Duration::from_millis(5);

/// When a call that was kicked is looked at again: it may have been kicked just before it began to block.
const KICK_AGAIN: Duration = Duration::from_micros(100);
/// The same after many kicks: Linux does not wake from every wait.
const KICK_AT_LAST: Duration = Duration::from_millis(10);

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

/// What has been posted.
#[derive(Default, Debug)]
pub struct Posted {
    /// A signal that was read and found no room in the mailbox.
    held: Option<Signal>,
    /// Real-time signals so far.
    real_time: u64,
}

impl Posted {
    /// Whether the node has a place for one more real-time signal.
    fn has_place(&self, rank: &Rank) -> bool {
        let taken = rank.words.area.node.signals_taken.load();
        // What the node says wrong costs its own rank signals.
        self.real_time.saturating_sub(taken) < QUEUED
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

    fn standard(&self) -> BorrowedFd<'_> {
        self.standard.as_fd()
    }

    fn real_time(&self) -> BorrowedFd<'_> {
        self.real_time.as_fd()
    }
}

/// The watcher's descriptor: what it waits for.
#[derive(Debug)]
pub struct Watcher(OwnedFd);

impl Watcher {
    /// Prepares to watch a doorbell, a bell of its own and signals. The first worker's own epoll set must exist already.
    ///
    /// # Errors
    /// What epoll says.
    pub fn new(doorbell: &OwnedFd, bell: &OwnedFd, signals: &Signalfds) -> io::Result<Watcher> {
        let set = worker::doorbell_set(doorbell)?;
        let edge = epoll::EventFlags::IN | epoll::EventFlags::ET;
        for fd in [bell, &signals.standard, &signals.real_time] {
            epoll::add(&set, fd, epoll::EventData::new_u64(1), edge)?;
        }
        Ok(Watcher(set))
    }

    /// Moves the descriptor by `keep`.
    ///
    /// # Errors
    /// What `keep` says.
    pub fn keep(self, keep: impl Fn(OwnedFd) -> io::Result<OwnedFd>) -> io::Result<Watcher> {
        keep(self.0).map(Watcher)
    }

    /// Watches until the process ends.
    pub fn run(self, rank: &'static Rank) -> ! {
        // The C library starts threads with its cancellation signal unblocked.
        signals::mask(How::Set, signals::ALL);
        let mut kick_again = KICK_AGAIN;
        loop {
            end::if_over(rank);
            rank.workers.wake(rank);
            let kicked = rank.workers.kick(rank);
            let waiting = pass_on_signals(rank);
            let timeout = if kicked {
                Some(kick_again)
            } else {
                waiting.then_some(RETRY)
            };
            kick_again = if kicked {
                (kick_again * 2).min(KICK_AT_LAST)
            } else {
                KICK_AGAIN
            };
            self.wait(timeout);
        }
    }

    /// Blocks until a signal comes, the node or a worker rings, or the time is over.
    fn wait(&self, timeout: Option<Duration>) {
        let timeout = timeout.map(|time| Timespec {
            tv_sec: 0, // all are shorter than a second
            tv_nsec: time.subsec_nanos().into(),
        });
        let mut events = [const { MaybeUninit::<epoll::Event>::uninit() }; 2];
        // Interrupted or not: the caller looks at everything again.
        let _ = epoll::wait(&self.0, &mut events, timeout.as_ref());
    }
}

/// Posts pending signals to the node for as long as there is room. Says whether there are more, which have to wait.
fn pass_on_signals(rank: &Rank) -> bool {
    let mut so_far = rank.posting();
    let mut posted = false;
    let mailbox = &rank.words.area.mailbox;
    let posted_caught = terminal::post_caught(|signo| {
        rank.stops.posted();
        let caught = Signal {
            signo: signo as u32,
            code: libc::SI_KERNEL,
            ..Signal::default()
        };
        let done = mailbox.post(&caught);
        posted |= done;
        done
    });
    while let Some(signal) = so_far.held.take().or_else(|| receive_one(rank, &so_far)) {
        if !mailbox.post(&signal) {
            so_far.held = Some(signal);
            break;
        }
        so_far.real_time += u64::from(signal.signo >= FIRST_REAL_TIME);
        posted = true;
    }
    if posted {
        rank.ring();
    }
    !posted_caught || so_far.held.is_some() || readable(rank.signalfds.real_time())
}

/// The next signal that is the program's.
fn receive_one(rank: &Rank, so_far: &Posted) -> Option<Signal> {
    loop {
        let mut bytes = [0u8; size_of::<SignalfdInfo>()];
        let read = match io::read(rank.signalfds.standard(), &mut bytes) {
            Ok(read) => read,
            Err(_) if so_far.has_place(rank) => {
                io::read(rank.signalfds.real_time(), &mut bytes).ok()?
            }
            Err(_) => return None,
        };
        let info = SignalfdInfo::read_from_bytes(bytes.get(..read)?).ok()?;
        let signo = info.signo as i32;
        if signals::ends_a_stop(signo, info.code) {
            continue;
        }
        match Default::of(signo) {
            Default::Stop => rank.stops.posted(),
            _ if signo == libc::SIGCONT => rank.stops.continued(),
            _ => {}
        }
        if runs(rank) && !rank.debug.waits_for_gdb()
            || rank.inherited.blocked & signals::set(signo) != 0
        {
            return Some(info.signal());
        }
        if rank.inherited.is_default(signo) {
            act_by_default(rank, signo);
        }
    }
}

/// Whether the program runs, so that signals are its own affair.
fn runs(rank: &Rank) -> bool {
    !matches!(
        rank.words.area.node.state.load(),
        state::EMPTY | state::LOADING
    )
}

/// What Linux would do to a process without handlers.
fn act_by_default(rank: &Rank, signo: i32) {
    match Default::of(signo) {
        Default::Terminate => end::die(rank, signo),
        Default::Stop => {
            if rank.stops.take() {
                signals::stop_by(signo);
            }
        }
        Default::Ignore => {}
    }
}

/// Posts the signals that are pending now, from whatever thread, as far as the node has room: SIGCHLD comes before wait4
/// returns, and what was sent to a stopped process takes effect before it goes on.
pub fn settle(rank: &Rank) {
    if pass_on_signals(rank) {
        rank.ring_watcher(); // it tries again
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
