//! The node keeper: the process that owns a node.
//!
//! yod forks it into a session of its own, so that keys pressed in the terminal do not reach QEMU, and so that the death
//! of one yod does not take the node from the others of its job. It ends, QEMU first, when the last yod has left or died:
//! their sockets tell. QEMU in turn is killed by Linux when the keeper dies. So whoever dies first, nothing stays.
//!
//! The first yod and its keeper are connected by a pair of sockets that the fork inherits: no other process can take part,
//! and there is no moment at which a keeper could wait for somebody who is already gone. Later yods of the same user connect
//! through a socket in a directory of their own ([`socket_file`]).

mod client;
mod guard;
mod running;
mod socket_file;
mod ticker;

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::PathBuf;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use self::client::Client;
use self::running::Running;
pub(crate) use self::socket_file::SocketFile;
use rustix::process::Signal;

use crate::accel::Accel;
use crate::clock::Sample;
use crate::features;
use crate::message::{Cause, Ended, Event, Message, receive, send};
use crate::node::Keeper;
use crate::plan::Plan;
use crate::qemu::{Machine, Qemu};
use crate::sys::{self, Forked};

/// What a keeper needs to know.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The program.
    pub qemu: Qemu,
    /// Who executes.
    pub accel: Accel,
    /// Virtual time.
    pub icount: bool,
    /// A plugin of QEMU's emulation: the absolute path of its file, and its arguments. It writes when QEMU ends in order.
    pub plugin: Option<OsString>,
    /// Cores and memory.
    pub plan: Plan,
    /// The kernel; an absolute path.
    pub kernel: PathBuf,
    /// The PCT; an absolute path.
    pub pct: PathBuf,
    /// System calls that the node is to treat as missing, a bit per number.
    pub refuse: [u64; 8],
    /// All clocks of the host, some time ago: the longer, the better the TSC's rate is known.
    pub first: Sample,
}

impl Launch {
    /// For the command line.
    #[must_use]
    pub fn machine(&self) -> Machine<'_> {
        Machine {
            qemu: &self.qemu,
            accel: self.accel,
            icount: self.icount,
            plugin: self.plugin.as_deref(),
            plan: &self.plan,
            lacking: features::lacking(),
            kernel: &self.kernel,
            pct: &self.pct,
        }
    }
}

/// Forks a keeper.
///
/// # Errors
/// No process, descriptor or memory left.
pub fn start(launch: &Launch) -> io::Result<Keeper> {
    let (ours, keepers) = socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?;
    let file = SocketFile::new();
    match sys::fork()? {
        Forked::Parent(pid) => Ok(Keeper::new(pid, ours, file)),
        Forked::Child => keep(keepers, file.as_ref(), launch),
    }
}

/// The keeper's life.
fn keep(first: OwnedFd, file: Option<&SocketFile>, launch: &Launch) -> ! {
    sys::close_all_but(&[first.as_raw_fd()]);
    let detached = detach();
    let listener = file.and_then(SocketFile::open);
    let running = detached.and_then(|signals| Running::start(launch, signals));
    let status = match running {
        Ok(running) => Client::first(first).and_then(|first| running.run(first, listener, launch)),
        Err(error) => refuse(&first, &explain(&error)),
    };
    file.into_iter().for_each(SocketFile::remove);
    std::process::exit(i32::from(status.is_err()))
}

/// Leaves the terminal, the working directory and the signals of the yod that forked it.
fn detach() -> io::Result<sys::Signals> {
    rustix::process::setsid()?;
    // Should it be stopped when its yod dies: it then goes on, and ends.
    rustix::process::set_parent_process_death_signal(Some(Signal::CONT))?;
    std::env::set_current_dir("/")?;
    // Descriptors 0, 1 and 2 are free now: nothing that is opened later may become one of them by accident.
    for _ in 0..3 {
        std::mem::forget(rustix::fs::open(
            "/dev/null",
            rustix::fs::OFlags::RDWR,
            rustix::fs::Mode::empty(),
        )?);
    }
    for signo in [
        libc::SIGHUP,
        libc::SIGINT,
        libc::SIGQUIT,
        libc::SIGTERM,
        libc::SIGTSTP,
        libc::SIGUSR1,
        libc::SIGUSR2,
    ] {
        sys::set_ignored(signo, false);
    }
    // A limit on file sizes makes growing RAM fail with an error, not with a signal.
    sys::set_ignored(libc::SIGXFSZ, true);
    let _ = rustix::thread::set_name(c"margay-keeper");
    sys::Mask::NONE.restore();
    sys::Signals::new(&[libc::SIGCHLD]).map(|(signals, _)| signals)
}

fn explain(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EFBIG) => "the limit on file sizes (ulimit -f) is below the node's memory: raise it or ask for less with -m".into(),
        Some(libc::EMFILE) => "the limit on open files (ulimit -n) is too low for this many ranks: raise it".into(),
        Some(libc::ENOMEM) => "no memory for the node: ask for less with -m".into(),
        _ => error.to_string(),
    }
}

/// There will be no node: tells the first yod why, and waits for it to leave.
fn refuse(first: &OwnedFd, reason: &str) -> io::Result<()> {
    let ended = Ended {
        cause: Cause::NotStarted(reason.into()),
        complaint: String::new(),
        log: String::new(),
        cpu_limit_s: None,
    };
    send(first.as_fd(), &Message::Event(Event::Ended(ended)), &[])?;
    while receive(first, true).is_ok() {}
    Ok(())
}
