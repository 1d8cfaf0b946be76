//! A gdb that comes to a rank that runs: `yod --attach`.
//!
//! Nothing of a running rank listens. Who wants to look into it listens itself, at a name of its own in Linux's abstract namespace
//! (unix(7)), and sends the rank's process a signal that says so; the watcher, which takes all signals anyway, has a thread connect
//! there. Names in that namespace have no owner: who is at the other end is read from the connection (SO_PEERCRED).

use std::fs;
use std::io::{self, Write as _};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::Duration;

use wire::signal::Signal;

use super::target::Target;
use crate::fds;
use crate::rank::Rank;
use crate::signals;

/// The signal: what a process does with it that knows nothing of this is to ignore it (signal(7)).
pub const SIGNAL: i32 = libc::SIGURG;
/// The upper half of its value, "Marg"; the lower is in the name.
const MAGIC: u64 = 0x4d61_7267;
/// What comes first by the connection once all threads have halted: then gdb may speak.
pub const READY: u8 = b'+';
/// Time that threads get to halt: those that a signal has stopped, or that start a child or another program, do not.
const HALT_LIMIT: Duration = Duration::from_secs(3);

/// The value of the signal, and the name where the sender listens, which `number` tells from its others.
pub fn request(sender: u32, rank: u32, number: u32) -> (u64, String) {
    let name = format!("margay-attach-{sender}-{rank}-{number}");
    (MAGIC << 32 | u64::from(number), name)
}

/// Whether a signal that has come for the rank is such a request, and none of the program's.
pub fn is_request(signal: &Signal) -> bool {
    let is_queued = signal.signo == SIGNAL as u32 && signal.code == libc::SI_QUEUE;
    is_queued && signal.value >> 32 == MAGIC && signal.pid != 0
}

/// Has a thread serve who has sent the request. One gdb comes at a time: others are not answered.
pub fn serve(rank: &'static Rank, signal: &Signal) {
    if !rank.debug().claim() {
        return;
    }
    let (_, name) = request(signal.pid, rank.pid(), signal.value as u32);
    let run = move || {
        signals::mask(signals::How::Set, signals::ALL);
        // The numbers of descriptors are the program's, which runs.
        if fds::leave_ranks_table(rank.limits().first_own)
            && let Ok(mut stream) = connect(&name)
        {
            let mut target = Target::new(rank);
            if target.attach(HALT_LIMIT) && stream.write_all(&[READY]).is_ok() {
                super::talk(rank, &mut target, Ok(stream));
            }
        }
        rank.debug().release();
    };
    let thread = std::thread::Builder::new().name("gdb".into());
    if thread.spawn(run).is_err() {
        rank.debug().release();
    }
}

fn connect(name: &str) -> io::Result<UnixStream> {
    let stream = UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?)?;
    let peer = rustix::net::sockopt::socket_peercred(&stream)?;
    let own = rustix::process::geteuid();
    if peer.uid != own || is_of_rank(peer.pid.as_raw_pid()) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    Ok(stream)
}

/// Whether a process is a rank, or was started by one. Such have no_new_privs for ever (prctl(2)), for they have entered a domain of
/// Landlock; where yod itself has that, too, a parent of theirs is a yod.
fn is_of_rank(pid: i32) -> bool {
    let yod = rustix::process::getppid().map(|pid| pid.as_raw_pid());
    let marked = |pid| status(pid, "NoNewPrivs").is_none_or(|text| text == "1");
    marked(pid) && !yod.is_some_and(marked) || has_yod_above(pid)
}

fn has_yod_above(pid: i32) -> bool {
    let id = |path: &str| fs::metadata(path).map(|meta| (meta.dev(), meta.ino())).ok();
    let own = id("/proc/self/exe");
    let mut next = parent(pid);
    while let Some(pid) = next.filter(|pid| *pid > 0) {
        if own.is_none() || id(&format!("/proc/{pid}/exe")) == own {
            return true;
        }
        next = parent(pid);
    }
    false
}

fn parent(pid: i32) -> Option<i32> {
    status(pid, "PPid")?.parse().ok()
}

/// A field of /proc/PID/status (proc(5)).
fn status(pid: i32, field: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let mut lines = status.lines().filter_map(|line| line.split_once(":\t"));
    let found = lines.find(|(name, _)| *name == field);
    found.map(|(_, value)| value.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_told_from_the_programs_signals() {
        let (value, name) = request(7, 8, 9);
        assert_eq!(name, "margay-attach-7-8-9");
        let signal = Signal {
            signo: SIGNAL as u32,
            code: libc::SI_QUEUE,
            pid: 7,
            uid: 0,
            value,
        };
        assert!(is_request(&signal));
        for other in [
            Signal {
                signo: 10,
                ..signal
            },
            Signal {
                code: libc::SI_USER,
                ..signal
            },
            Signal { value: 9, ..signal },
            Signal { pid: 0, ..signal },
        ] {
            assert!(!is_request(&other), "{other:?}");
        }
        assert!(!has_yod_above(1));
        let own = std::process::id() as i32;
        assert!(parent(own).is_some_and(|pid| pid > 0));
    }
}
