//! Carrying out one Linux call of the rank.
//!
//! The table of crate abi says what each argument is. [`prepare`](args::prepare) replaces those that are not the rank's to
//! name: descriptors, pointers beyond its addresses. Whatever Linux would follow further (nested pointers) or the proxy
//! examines (paths) is first copied, so that Linux is given what was examined. Then the call is made, and results that
//! Linux left in a copy are written back. A call without strings and structures costs no allocation, no lock and no copy.

pub(crate) mod args;
mod aside;
pub(crate) mod make;
mod nested;
mod option;
mod others;
pub(crate) mod own;
mod splice;
mod target;

use std::sync::atomic::{AtomicBool, Ordering};

use abi::Errno;
use abi::syscall::request::signals_later;
use abi::syscall::{Arg, Call, Serve, by_nr};

use crate::child;
use crate::fds;
use crate::heritage;
use crate::rank::Rank;
use crate::special::{self, Special};
use crate::terminal::Follower;
use crate::watcher;
use args::Scratch;
use make::linux;

/// Makes calls for a rank.
#[derive(Debug)]
pub struct Caller {
    rank: &'static Rank,
    index: usize,
    scratch: Box<Scratch>,
    terminal: Follower,
}

impl Caller {
    /// The caller of thread `index`, with its own private memory for copies.
    pub fn new(rank: &'static Rank, index: usize) -> Caller {
        Caller {
            rank,
            index,
            scratch: Scratch::new(rank.reception().blocked()),
            terminal: Follower::new(rank, index),
        }
    }

    /// Carries out a call and returns what Linux would.
    pub fn carry_out(&mut self, nr: u64, args: &[u64; 6]) -> i64 {
        match by_nr(nr) {
            Some(call) if call.serve == Serve::Shipped || call.relayed => {
                let ret = self.shipped(call, *args).unwrap_or_else(Errno::ret);
                if aside::is_found(call, ret) {
                    let slot = &self.rank.words().threads[self.index].slot;
                    slot.put_more(aside::found(call, args, ret));
                }
                ret
            }
            // The QK ships nothing else; made here, these calls would act on the proxy.
            _ => Errno::ENOSYS.ret(),
        }
    }

    fn shipped(&mut self, call: &Call, mut args: [u64; 6]) -> Result<i64, Errno> {
        let rank = self.rank;
        if self.terminal.follow(rank) {
            self.scratch.blocked = self.terminal.blocked;
        }
        if heritage::concerns(call) {
            heritage::settle_all(rank);
        }
        if let Some(version) = special::xpmem::version(rank, call, &args) {
            return Ok(version);
        }
        let after = args::prepare(
            call,
            &mut args,
            rank.limits().first_own_fd(),
            rank,
            &mut self.scratch,
        )?;
        others::check(rank, call, &args, &self.scratch)?;
        self.scratch
            .widen_owner(rank.pid(), |tid| rank.has_thread(tid));
        // Another worker would put back what it found, or this one read what is raised.
        let _turn = limits(call).then(fds::turn);
        let opening = &rank.workers().at(self.index).opening;
        let opens = special::is_open(call.nr);
        // What is opened on the way is checked before a child may have it.
        let _no_fork = call
            .args
            .contains(&Arg::Path)
            .then(|| rank.children().fork_lock.no_fork());
        opening.store(opens, Ordering::SeqCst);
        if opens && rank.children().fork_lock.is_wanted() {
            rank.wake_watcher(); // it may have polled before
        }
        if signals_later(call.name, &args) {
            SIGNALLING_DESCRIPTORS.store(true, Ordering::Relaxed);
        }
        let ret = match special::recognise(rank, call, &args, &self.scratch) {
            Special::No if waits_for_children(call) => child::wait(rank, call.nr, &args),
            Special::No if is(call, libc::SYS_pidfd_send_signal) => {
                others::signal_by_descriptor(rank, &args)?
            }
            Special::No if is(call, libc::SYS_vmsplice) => splice::carry_out(&args)?,
            Special::No => by_number(rank, call.nr, &args),
            Special::Answer(ret) => ret,
        };
        if i64::from(call.nr) == libc::SYS_connect && ret == 0 {
            others::check_connected(rank, args[0])?;
        }
        opening.store(false, Ordering::SeqCst);
        if ret >= 0 && may_signal_rank(call, &args) {
            watcher::settle(rank); // what the call has caused comes before it returns
        }
        special::complete(rank, call, &args, ret)?;
        args::finish(&after, ret, rank, &self.scratch)?;
        Ok(ret)
    }
}

fn waits_for_children(call: &Call) -> bool {
    matches!(i64::from(call.nr), libc::SYS_wait4 | libc::SYS_waitid)
}

fn is(call: &Call, number: i64) -> bool {
    i64::from(call.nr) == number
}

/// Whether some descriptor may signal the rank for any call: when one is written to, when a directory is changed.
static SIGNALLING_DESCRIPTORS: AtomicBool = AtomicBool::new(false);

/// Whether a call may have signalled the rank itself, among others: SIGCHLD that it waited for, what it sent to its group.
fn may_signal_rank(call: &Call, args: &[u64; 6]) -> bool {
    waits_for_children(call)
        || is(call, libc::SYS_kill) && args[0] as i32 <= 0
        || is(call, libc::SYS_pidfd_send_signal)
        || SIGNALLING_DESCRIPTORS.load(Ordering::Relaxed)
}

/// Whether a call reads or sets resource limits.
fn limits(call: &Call) -> bool {
    matches!(
        i64::from(call.nr),
        libc::SYS_prlimit64 | libc::SYS_setrlimit | libc::SYS_getrlimit
    )
}

/// Whether a call gives the rank its lowest free number. Those that may wait (accept, recvmsg) are not among them: they would
/// keep others from what they open, and may skip a number.
fn takes_lowest(number: i64, args: &[u64; 6]) -> bool {
    let duplicates = || matches!(args[1] as i32, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC);
    matches!(
        number,
        libc::SYS_dup
            | libc::SYS_pipe
            | libc::SYS_pipe2
            | libc::SYS_socket
            | libc::SYS_socketpair
            | libc::SYS_epoll_create
            | libc::SYS_epoll_create1
            | libc::SYS_eventfd
            | libc::SYS_eventfd2
            | libc::SYS_timerfd_create
            | libc::SYS_signalfd
            | libc::SYS_signalfd4
            | libc::SYS_inotify_init
            | libc::SYS_inotify_init1
            | libc::SYS_memfd_create
            | libc::SYS_pidfd_open
            | libc::SYS_mq_open
    ) || number == libc::SYS_fcntl && duplicates()
}

/// Makes a call that may close or take what is one of the rank's numbers, or skip one: not what another worker has opened
/// on the way.
fn by_number(rank: &Rank, nr: u16, args: &[u64; 6]) -> i64 {
    let number = i64::from(nr);
    let replaces = matches!(
        number,
        libc::SYS_dup2 | libc::SYS_dup3 | libc::SYS_close_range
    );
    let at_once = replaces || takes_lowest(number, args);
    if rank.workers().all().len() == 1 || !at_once && number != libc::SYS_close {
        return linux(nr, args);
    }
    let turn = fds::turn();
    if at_once {
        return linux(nr, args);
    }
    // It may wait: it does so without keeping others from what they open. What is the rank's now stays so until it closes it.
    let flags = linux(
        libc::SYS_fcntl as u16,
        &[args[0], libc::F_GETFD as u64, 0, 0, 0, 0],
    );
    drop(turn);
    if flags < 0 { flags } else { linux(nr, args) }
}
