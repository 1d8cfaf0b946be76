//! Calls that act on other processes: not for a rank are those that keep nodes running.
//!
//! These are every yod, every node's keeper, and what that has started, QEMU: with them would end ranks of others. A rank
//! may signal whom its user may otherwise, other ranks too, but no process by way of "all processes". They are known by their
//! names, which their own code has set (`margay-keeper`, `yod`), by their parents, and this proxy's yod as its parent.
//! Threads of this proxy that the rank does not have do not exist.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use abi::Errno;
use abi::syscall::Call;
use nix::sys::socket::{getsockopt, sockopt};
use rustix::fs::{Mode, OFlags, PROC_SUPER_MAGIC, fstatfs, openat};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::net::Shutdown;

use super::args::Scratch;
use super::make;
use super::target::Target;
use crate::errno::linux;
use crate::rank::Rank;

/// The names of the programs that keep nodes running.
const KEEPER: &str = "margay-keeper";
const YOD: &str = "yod";
// uapi/linux/resource.h, ioprio.h
const PRIO: [i32; 3] = [0, 1, 2];
const IOPRIO: [i32; 3] = [1, 2, 3];

/// Checks whom a prepared call acts on.
///
/// # Errors
/// EPERM, or ESRCH for a thread of the proxy.
pub fn check(rank: &Rank, call: &Call, args: &[u64; 6], scratch: &Scratch) -> Result<(), Errno> {
    if i64::from(call.nr) == libc::SYS_kcmp {
        let _no_fork = rank.children().fork_lock.no_fork();
        return compared(rank, args);
    }
    let Some(target) = target(call, args, scratch) else {
        return Ok(());
    };
    let _no_fork = rank.children().fork_lock.no_fork(); // a child must not have what is opened here
    check_target(rank, target)
}

fn target(call: &Call, args: &[u64; 6], scratch: &Scratch) -> Option<Target> {
    let [a, b, c] = [args[0] as i32, args[1] as i32, args[2] as i32];
    // Signal 0 only checks whether the target is there.
    let sent = |signo, target| (signo != 0).then_some(target);
    match i64::from(call.nr) {
        libc::SYS_kill => sent(b, Target::signalled(a)),
        libc::SYS_tkill | libc::SYS_rt_sigqueueinfo => sent(b, Target::One(a)),
        libc::SYS_tgkill | libc::SYS_rt_tgsigqueueinfo => {
            let (process, number) = (a, b);
            sent(c, Target::Thread { process, number })
        }
        libc::SYS_setpriority => Target::of_kind(PRIO, a, b),
        libc::SYS_ioprio_set => Target::of_kind(IOPRIO, a, b),
        libc::SYS_fcntl | libc::SYS_ioctl => scratch.owner(),
        _ => None,
    }
}

/// Carries out pidfd_send_signal(2), for the process alone that was looked at: another thread may exchange the descriptor.
///
/// # Errors
/// EPERM, ESRCH as for kill; EBADF, EMFILE.
pub fn signal_by_descriptor(rank: &Rank, args: &[u64; 6]) -> Result<i64, Errno> {
    let [fd, signo, info, flags, ..] = *args;
    if flags as u32 != 0 {
        return Err(Errno::EINVAL); // to a thread, or to a group: as a Linux before 6.9
    }
    if (fd as i32) < 0 {
        return Err(Errno::EBADF);
    }
    let _no_fork = rank.children().fork_lock.no_fork();
    let (process, number) = rank.limits().with_room(|| {
        // SAFETY: 1. It is only duplicated, and Linux says EBADF when it is not open. 2. It is none of the proxy's own: `prepare` has
        // made sure.
        let named = unsafe { BorrowedFd::borrow_raw(fd as i32) };
        let first = rank.limits().first_own_fd() as i32;
        let process = fcntl_dupfd_cloexec(named, first).map_err(linux)?;
        let number = named_by(&process).unwrap_or(None);
        Ok((process, number))
    })?;
    let (pid, of_thread) = number.ok_or(Errno::EBADF)?;
    if pid > 0 && pid as u32 != rank.pid() && rank.has_thread(pid as u32) {
        return Err(of_thread);
    }
    if signo as i32 != 0 && pid > 0 {
        check_target(rank, Target::One(pid))?;
    }
    let args = [process.as_raw_fd() as u64, signo, info, 0, 0, 0];
    Ok(make::linux(libc::SYS_pidfd_send_signal as u16, &args))
}

/// The process that a pidfd is of, or a directory of a process in /proc, by which pidfd_send_signal(2) names it as well; and what
/// Linux says when it is a thread's.
fn named_by(process: &OwnedFd) -> io::Result<Option<(i32, Errno)>> {
    let (known, of_thread) = if fstatfs(process)?.f_type == PROC_SUPER_MAGIC {
        let status = openat(
            process,
            "status",
            OFlags::RDONLY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        (io::read_to_string(File::from(status))?, Errno::EBADF)
    } else {
        let path = format!("/proc/self/fdinfo/{}", process.as_raw_fd());
        (std::fs::read_to_string(path)?, Errno::EINVAL)
    };
    let pid = known.lines().find_map(|line| line.strip_prefix("Pid:"));
    let pid = pid.and_then(|pid| pid.trim().parse().ok());
    Ok(pid.map(|pid| (pid, of_thread)))
}

/// Checks kcmp(2): what processes have in common is for those who may trace them to know, and a rank traces none.
///
/// # Errors
/// ESRCH where there is no such process, EPERM for another one.
fn compared(rank: &Rank, args: &[u64; 6]) -> Result<(), Errno> {
    for number in [args[0] as i32, args[1] as i32] {
        match Process::of(rank, number) {
            _ if number > 0 && rank.has_thread(number as u32) => {}
            Some(process) if process.id != rank.pid() => return Err(Errno::EPERM),
            _ => return Err(Errno::ESRCH),
        }
    }
    Ok(())
}

fn check_target(rank: &Rank, target: Target) -> Result<(), Errno> {
    let forbidden = match target {
        Target::One(0) | Target::Group(0) => false,
        Target::One(number) | Target::Thread { number, .. } => match Process::of(rank, number) {
            Some(Process { id, .. }) if !target.is_of(id) => return Err(Errno::ESRCH),
            Some(process) if process.id == rank.pid() && !rank.has_thread(number as u32) => {
                return Err(Errno::ESRCH);
            }
            Some(process) => process.keeps_nodes(rank),
            None => false, // Linux says so
        },
        // Of yods it may be the rank's own group, which the user may well want to signal.
        Target::Group(leader) => {
            Process::of(rank, leader).is_some_and(|leader| leader.name == KEEPER)
        }
        Target::All => true,
    };
    if forbidden { Err(Errno::EPERM) } else { Ok(()) }
}

/// Looks at whom a socket was connected to. A keeper gives its node to every yod of the user that joins, and a rank is none:
/// it finds no listener there.
///
/// # Errors
/// ECONNREFUSED; nothing can be sent or received then.
pub fn check_connected(rank: &Rank, fd: u64) -> Result<(), Errno> {
    let _no_fork = rank.children().fork_lock.no_fork();
    // SAFETY: 1. The number is only used for this call: Linux has just connected it.
    let socket = unsafe { BorrowedFd::borrow_raw(fd as i32) };
    let peer = getsockopt(&socket, sockopt::PeerCredentials);
    // 0 of one in another PID namespace.
    let pid = peer.ok().map(|peer| peer.pid()).filter(|pid| *pid > 0);
    let process = pid.and_then(|pid| Process::of(rank, pid));
    if !process.is_some_and(|process| process.keeps_nodes(rank)) {
        return Ok(());
    }
    let _ = rustix::net::shutdown(socket, Shutdown::Both);
    Err(Errno::ECONNREFUSED)
}

/// A process, as any user may see it.
struct Process {
    id: u32,
    parent: u32,
    name: String,
}

impl Process {
    /// The process that a thread is of.
    fn of(rank: &Rank, thread: i32) -> Option<Process> {
        let process = Process::read(rank, thread)?;
        if process.id as i32 == thread {
            Some(process)
        } else {
            Process::read(rank, process.id as i32) // a thread has a name of its own
        }
    }

    fn read(rank: &Rank, number: i32) -> Option<Process> {
        let path = format!("/proc/{number}/status");
        // Also when the rank has used up its descriptors: whom nothing is known of it may signal.
        let status = rank
            .limits()
            .with_room(|| std::fs::read_to_string(path))
            .ok()?;
        let field = |key| {
            let mut lines = status.lines().filter_map(|line| line.split_once(":\t"));
            lines.find(|(name, _)| *name == key).map(|(_, value)| value)
        };
        Some(Process {
            id: field("Tgid")?.parse().ok()?,
            parent: field("PPid")?.parse().ok()?,
            name: field("Name")?.into(),
        })
    }

    fn keeps_nodes(&self, rank: &Rank) -> bool {
        let ours = rustix::process::getppid().map(|pid| pid.as_raw_pid() as u32);
        let is_keeper = |name: &str| name == KEEPER;
        Some(self.id) == ours
            || is_keeper(&self.name)
            || self.name == YOD
            || Process::of(rank, self.parent as i32).is_some_and(|parent| is_keeper(&parent.name))
    }
}
