//! A QEMU that runs: its process, what it writes, what it has yet to be sent.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::process::{Pid, Resource, Signal, getrlimit, kill_process};

use super::ivshmem::Server;
use super::preload::Preload;
use super::{Q35, cpus};
use crate::agent::Agent;
use crate::bells::Bells;
use crate::binding::Binding;
use crate::machine::{Boot, Death, Instance};
use crate::memory::Memory;
use crate::message::{Cause, UsedUp};
use crate::plan::Plan;
use crate::sys;

/// Bytes of QEMU's own messages that are kept.
const COMPLAINT_BYTES: usize = 2 << 10;
/// For QEMU to end in order, when it has a plugin. Writing takes milliseconds.
const END_LIMIT: Duration = Duration::from_secs(10);

/// What QEMU writes when KVM cannot go on (accel/kvm/kvm-all.c): the machine stops, with all registers on the lines that follow, and
/// QEMU waits for a monitor to look at them.
const STOPPED: [&str; 3] = [
    "KVM internal error",
    "error: kvm run failed",
    "KVM: entry failed",
];

/// How often more is waited for, and how long each time.
const REGISTER_WAITS: usize = 100;
const REGISTER_WAIT: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};

/// QEMU has used up the limit on processor time when it has used so many percent of it: getrusage's account is exact, what
/// Linux compares with the limit is a count of ticks, and on a machine with much to do the two are tenths of a second apart.
const USED_UP_PERCENT: u64 = 75;

/// The process, a child of this one.
pub struct Process {
    child: Child,
    /// Of its end.
    signals: sys::Signals,
    ended: bool,
    bells: Bells,
    agent: Option<Agent>,
    server: Server,
    /// It was sent all doorbells.
    sent: bool,
    complaint: Vec<u8>,
    /// It runs a plugin, which writes when it ends in order.
    has_plugin: bool,
}

impl Process {
    /// Starts QEMU.
    pub fn start(
        machine: &Q35,
        plan: &Plan,
        memory: &Memory,
        boot: &Boot<'_>,
    ) -> io::Result<Process> {
        let (signals, _) = sys::Signals::new(&[libc::SIGCHLD])?;
        let vectors = vectors(plan);
        let bells = Bells::new(vectors, vectors)?;
        let (mut server, qemu_end) = Server::new()?;
        let sent = server.send(&bells)?;
        let [file, pool] = memory.files();
        let descriptors = [file, pool, qemu_end.as_fd()];
        let mut command = Command::new(&machine.qemu.path);
        let has_pool = plan.pool_file_bytes() > 0;
        let agent = has_pool.then(|| Preload::new(&machine.agent)).transpose()?;
        let (agent, preload) = agent.unzip();
        let mut pass = descriptors.to_vec();
        if let Some(preload) = &preload {
            preload.set_variables(&mut command, pool);
            pass.extend(preload.descriptors());
        }
        // QEMU sets handlers for some of them, which end it. One that runs a plugin must be able to end in order.
        let blocked = match &machine.plugin {
            None => &sys::OF_THE_RANKS[..],
            Some(_) => &[],
        };
        let child = sys::spawn_bound(
            command
                .args(machine.arguments_with(plan, &memory.ram, boot, descriptors))
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped()),
            &pass,
            blocked,
        )
        .map_err(|error| {
            let path = machine.qemu.path.display();
            io::Error::new(error.kind(), format!("{path}: {error}"))
        })?;
        if let (Some(out), Some(err)) = (&child.stdout, &child.stderr) {
            fcntl_setfl(out, OFlags::NONBLOCK)?;
            fcntl_setfl(err, OFlags::NONBLOCK)?;
        }
        Ok(Process {
            child,
            signals,
            ended: false,
            bells,
            agent,
            server,
            sent,
            complaint: Vec::new(),
            has_plugin: machine.plugin.is_some(),
        })
    }

    /// Lets QEMU's plugin write what it has; a QEMU that cannot end is killed by the caller.
    fn end_in_order(&mut self) {
        let pid = Pid::from_child(&self.child);
        if self.ended || kill_process(pid, Signal::TERM).is_err() {
            return;
        }
        let start = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && start.elapsed() < END_LIMIT {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Ends a QEMU whose machine has stopped.
    fn kill_stopped(&mut self) -> Death {
        self.ended = true;
        // It writes all registers, one after the other.
        for _ in 0..REGISTER_WAITS {
            let Some(pipe) = &self.child.stderr else {
                break;
            };
            let mut fds = [PollFd::new(pipe, PollFlags::IN)];
            if !poll(&mut fds, Some(&REGISTER_WAIT)).is_ok_and(|ready| ready > 0) {
                break;
            }
            self.read_complaint();
        }
        let _ = self.child.kill().and_then(|()| self.child.wait());
        let complaint = String::from_utf8_lossy(&self.complaint);
        Death {
            cause: Cause::Stopped,
            complaint: stopped(&complaint).unwrap_or_default().trim().to_owned(),
            used_up: None,
        }
    }

    fn read_complaint(&mut self) {
        drain(&mut self.child.stderr, |bytes| {
            let room = COMPLAINT_BYTES.saturating_sub(self.complaint.len());
            self.complaint
                .extend_from_slice(&bytes[..bytes.len().min(room)]);
        });
    }
}

/// Doorbells of either peer: one per core towards the node; one per rank and one for the keeper towards the host.
pub const fn vectors(plan: &Plan) -> usize {
    let host = plan.ranks + 1;
    if plan.cpus > host { plan.cpus } else { host }
}

impl Instance for Process {
    fn bells(&self) -> &Bells {
        &self.bells
    }

    fn watch<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        fds.push(PollFd::new(&self.signals, PollFlags::IN));
        if let Some(pipe) = &self.child.stdout {
            fds.push(PollFd::new(pipe, PollFlags::IN));
        }
        if let Some(pipe) = &self.child.stderr {
            fds.push(PollFd::new(pipe, PollFlags::IN));
        }
        if !self.sent {
            let socket = self.server.socket();
            fds.push(PollFd::from_borrowed_fd(socket, PollFlags::OUT));
        }
    }

    fn serve(&mut self) {
        self.sent = self.sent || self.server.send(&self.bells).unwrap_or(true);
        self.read_complaint();
    }

    fn agent(&self) -> Option<&Agent> {
        self.agent.as_ref()
    }

    fn read_log(&mut self, take: impl FnMut(&[u8])) {
        drain(&mut self.child.stdout, take);
    }

    fn death(&mut self) -> Option<Death> {
        while self.signals.next().is_some() {}
        let status = self.child.try_wait().ok()?;
        self.read_complaint();
        let complaint = String::from_utf8_lossy(&self.complaint).trim().to_owned();
        let Some(status) = status else {
            return stopped(&complaint).map(|_| self.kill_stopped());
        };
        self.ended = true;
        let cause = match std::os::unix::process::ExitStatusExt::signal(&status) {
            Some(signo) => Cause::Killed(signo),
            None => cause_of_exit(status.code().unwrap_or(-1), &complaint),
        };
        Some(Death {
            cause,
            complaint,
            used_up: used_up_cpu_limit(),
        })
    }

    fn bind(&self, binding: &Binding, plan: &Plan) {
        cpus::bind(Pid::from_child(&self.child), binding, plan);
    }

    fn end(&mut self) {
        if self.has_plugin {
            self.end_in_order();
        }
        // Dying takes QEMU a while: its memory is given back. It must not be seen alive after yod has ended.
        if self.child.kill().is_ok() {
            let _ = self.child.wait();
        }
    }
}

/// What QEMU writes of a machine that executes no more, from the line on that says so.
fn stopped(complaint: &str) -> Option<&str> {
    let begins = |at: usize| complaint[..at].is_empty() || complaint[..at].ends_with('\n');
    let places = STOPPED.iter().filter_map(|words| complaint.find(words));
    places
        .filter(|&at| begins(at))
        .min()
        .map(|at| &complaint[at..])
}

/// Why a QEMU has exited with this status.
fn cause_of_exit(code: i32, complaint: &str) -> Cause {
    match ended_by(complaint) {
        Some(signo) => Cause::Ended(signo),
        // With -no-reboot it ends when the machine is reset, which only a triple fault does.
        None if code == 0 => Cause::Reset,
        None => Cause::Exited(code),
    }
}

/// The signal that ended a QEMU in order: SIGHUP, SIGINT and SIGTERM do, where they are not blocked, as with a plugin (QEMU,
/// system/runstate.c).
fn ended_by(complaint: &str) -> Option<i32> {
    let (_, rest) = complaint.rsplit_once("terminating on signal ")?;
    rest.split(|c: char| !c.is_ascii_digit())
        .next()?
        .parse()
        .ok()
}

/// The limit on processor time, if QEMU, the only child, has used it up.
fn used_up_cpu_limit() -> Option<UsedUp> {
    used_up(
        sys::ended_children_cpu_time().as_millis() as u64,
        getrlimit(Resource::Cpu).current?,
    )
}

fn used_up(used_ms: u64, limit_s: u64) -> Option<UsedUp> {
    let up = used_ms / 10 >= limit_s.saturating_mul(USED_UP_PERCENT);
    up.then_some(UsedUp { used_ms, limit_s })
}

/// Reads what is there; drops a pipe that has ended, for poll would report it for ever.
fn drain(pipe: &mut Option<impl Read>, mut take: impl FnMut(&[u8])) {
    let mut bytes = [0u8; 4096];
    while let Some(open) = pipe {
        match open.read(&mut bytes) {
            Ok(0) => *pipe = None,
            Ok(n) => take(&bytes[..n]),
            Err(_) => break,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// QEMU that a signal ended while it booted was taken for a kernel that had reset the machine.
    #[test]
    fn a_signal_is_distinguished_from_a_reset() {
        let line = "qemu-system-x86_64: terminating on signal 1 from pid 12 (sh)";
        assert_eq!(cause_of_exit(0, line), Cause::Ended(1));
        assert_eq!(cause_of_exit(0, "qemu: warning"), Cause::Reset);
        assert_eq!(cause_of_exit(3, ""), Cause::Exited(3));
    }

    /// The job hung for ever.
    #[test]
    fn a_machine_that_kvm_stopped_has_ended() {
        let words = "KVM internal error. Suberror: 1\nemulation failure\nRAX=0 RBX=0";
        assert_eq!(stopped(words), Some(words));
        let failed = "error: kvm run failed Bad address";
        assert_eq!(stopped(&format!("qemu: warning\n{failed}")), Some(failed));
        assert!(stopped("KVM: entry failed, hardware error 0x7").is_some());
        assert_eq!(stopped("qemu: warning: no KVM internal error"), None);
        assert_eq!(stopped(""), None);
    }

    /// At once it was taken for a lack of memory; and what has used little was killed by another process.
    #[test]
    fn a_limit_is_used_up_shortly_before_it_is_reached() {
        let what = |used_ms, limit_s| used_up(used_ms, limit_s).map(|up| (up.used_ms, up.limit_s));
        assert_eq!(what(0, 2), None);
        assert_eq!(what(1490, 2), None);
        assert_eq!(what(1500, 2), Some((1500, 2)));
        assert_eq!(what(2000, 2), Some((2000, 2)));
        assert_eq!(what(9000, 2), Some((9000, 2)));
        assert_eq!(what(u64::MAX, u64::MAX), None);
    }
}
