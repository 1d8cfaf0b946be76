//! Waiting with a limit, and looking for processes that should not be there any more.
//!
//! Every yod a test starts has a mark of its own in its environment, which its proxies, its keeper and QEMU inherit. So
//! all processes of one job can be found, whatever happened to their parents, and no others.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::time::Duration;

use anyhow::Result;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open};

use crate::limit::Limit;
use crate::run::HANG;

/// Between two looks.
const MOMENT: Duration = Duration::from_millis(10);

/// Name of the variable that marks the processes of a job.
pub const MARK: &str = "MARGAY_TEST_JOB";

/// A status as shells show it: the exit code, or 128 and the signal's number.
#[must_use]
pub fn shell_status(status: ExitStatus) -> i32 {
    let signal = status.signal().map(|signo| 128 + signo);
    status.code().or(signal).unwrap_or(-1)
}

/// Waits for a child; `None` when it does not end within the limit.
///
/// # Errors
/// When Linux refuses to wait.
pub fn wait(child: &mut Child, limit: Duration) -> Result<Option<ExitStatus>> {
    let Ok(id) = pid(child.id()) else {
        return Ok(Some(child.wait()?));
    };
    let descriptor = pidfd_open(id, PidfdFlags::empty())?;
    let limit = Limit::new(limit);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        let Some(left) = limit.left() else {
            return Ok(None);
        };
        let timeout = Timespec {
            tv_sec: left.as_secs().try_into()?,
            tv_nsec: left.subsec_nanos().into(),
        };
        let mut polled = [PollFd::new(&descriptor, PollFlags::IN)];
        match poll(&mut polled, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Kills a child that leads a process group, and its group; reaps the child.
pub fn kill_group(child: &mut Child) {
    if let Ok(pid) = pid(child.id()) {
        let _ = kill_process_group(pid, Signal::KILL);
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// Kills one process; false when it was gone.
#[must_use]
pub fn kill(process: u32) -> bool {
    signal(process, Signal::KILL)
}

/// Sends a signal to one process; false when it was gone.
pub fn signal(process: u32, signal: Signal) -> bool {
    pid(process).is_ok_and(|pid| kill_process(pid, signal).is_ok())
}

fn pid(number: u32) -> Result<Pid> {
    let number = i32::try_from(number)?;
    Pid::from_raw(number).ok_or_else(|| anyhow::anyhow!("no process has number 0"))
}

/// What a process of a job is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Role {
    /// The emulator.
    Qemu,
    /// The owner of the node.
    Keeper,
    /// A rank's.
    Proxy,
    /// What the user started.
    Yod,
}

/// A process of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Process {
    /// Its process id.
    pub pid: u32,
    /// What it is.
    pub role: Role,
}

/// All living processes of the job with this mark; `yod` is the process id of the one that was started.
#[must_use]
pub fn of_job(mark: &str, yod: u32) -> Vec<Process> {
    let wanted = format!("{MARK}={mark}").into_bytes();
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut found = Vec::new();
    for entry in numbers {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        if environment
            .split(|&byte| byte == 0)
            .any(|variable| variable == wanted)
        {
            found.push(Process {
                pid,
                role: role(pid, yod),
            });
        }
    }
    found
}

/// A file of /proc about a process; empty when that has gone.
fn text_of(pid: u32, name: &str) -> String {
    fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default()
}

fn role(pid: u32, yod: u32) -> Role {
    let name = text_of(pid, "comm");
    match name.trim_end() {
        _ if pid == yod => Role::Yod,
        "margay-keeper" => Role::Keeper,
        name if name.starts_with("qemu") => Role::Qemu,
        _ => Role::Proxy,
    }
}

/// Waits until no process of the job is left; those that still are when the limit is over. Those that are about to end get longer:
/// a machine that is busy with others may not let them.
#[must_use]
pub fn left_over(mark: &str, limit: Duration) -> Vec<Process> {
    let mut left = Vec::new();
    for (limit, of_all) in [(limit, true), (HANG, false)] {
        wait_until(limit, || {
            left = of_job(mark, 0);
            left.is_empty() || !of_all && !left.iter().all(|process| is_ending(process.pid))
        });
    }
    left
}

/// Kills the processes of a job that neither share memory of the node nor map the code of their proxy: children of a rank, which live
/// as long as the program that they run. Text of the node they may have as their own (proc(5): `p`).
pub fn end_children(mark: &str) {
    for process in of_job(mark, 0) {
        let code = fs::read_link(format!("/proc/{}/exe", process.pid)).unwrap_or_default();
        let maps = text_of(process.pid, "maps");
        if process.role == Role::Proxy
            && !maps.is_empty()
            && !maps.lines().any(|line| is_of_proxy(line, &code))
        {
            signal(process.pid, Signal::KILL);
        }
    }
}

/// Whether a line of /proc/PID/maps is memory that is shared with the node, or the code of the proxy.
fn is_of_proxy(line: &str, code: &Path) -> bool {
    let mut words = line.splitn(6, ' ');
    let access = words.nth(1).unwrap_or_default();
    let path = words.last().unwrap_or_default().trim_start();
    path.starts_with("/memfd:") && access.ends_with('s') || Path::new(path) == code
}

/// What /proc says of a process that should not be there: what it does, whose it is, in which call it waits, what it maps.
#[must_use]
pub fn described(process: &Process) -> String {
    let status = text_of(process.pid, "status");
    let wanted = ["Name", "State", "PPid", "Threads", "SigBlk", "SigCgt"];
    let shown = status
        .lines()
        .filter(|line| wanted.iter().any(|name| line.starts_with(name)));
    let lines: Vec<&str> = shown.collect();
    format!(
        "{process:?}: {}; call {}; {}",
        lines.join(", "),
        text_of(process.pid, "syscall").trim_end(),
        text_of(process.pid, "maps")
    )
}

/// Whether a process has been killed, or exits already (proc(5): `SigPnd`, `ShdPnd`; the flag PF_EXITING in `stat`).
#[must_use]
pub fn is_ending(pid: u32) -> bool {
    const EXITING: u64 = 4;
    let stat = text_of(pid, "stat");
    let flags = stat
        .rsplit_once(") ")
        .and_then(|(_, rest)| rest.split(' ').nth(6)?.parse().ok());
    let killed = 1 << (Signal::KILL.as_raw() - 1);
    let status = text_of(pid, "status");
    let mut pending = status.lines().filter_map(|line| {
        let (name, mask) = line.split_once(":\t")?;
        let mask = u64::from_str_radix(mask, 16).ok();
        mask.filter(|_| ["SigPnd", "ShdPnd"].contains(&name))
    });
    let gone = stat.is_empty();
    gone || flags.is_some_and(|flags: u64| flags & EXITING != 0)
        || pending.any(|mask| mask & killed != 0)
}

/// Whether a process is in one of these states (proc(5)), or gone.
#[must_use]
pub fn state_is(pid: u32, states: &[char]) -> bool {
    let stat = text_of(pid, "stat");
    stat.rsplit_once(") ")
        .is_none_or(|(_, rest)| rest.starts_with(states))
}

/// Waits until a job has processes of these roles, however slow the machine is, or has ended. That none is found is not its
/// end: in the middle of execve a process has no environment (environ_read in fs/proc/base.c).
pub fn wait_for(roles: &[Role], mark: &str, yod: u32) {
    wait_until(HANG, || {
        let family = of_job(mark, yod);
        let has = |role: &Role| family.iter().any(|process| process.role == *role);
        state_is(yod, &['Z']) || roles.iter().all(has)
    });
}

/// Polls whether something is so, at least once; false when it was not within the limit.
pub fn wait_until(limit: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let limit = Limit::new(limit);
    while !is_so() {
        if limit.left().is_none() {
            return false;
        }
        std::thread::sleep(MOMENT);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn sleeper() -> Child {
        let mut command = Command::new("sleep");
        command.arg("30").env(MARK, "a test of the harness");
        command.spawn().expect("sleep runs")
    }

    #[test]
    fn a_limit_is_kept() {
        let mut child = sleeper();
        let ended = wait(&mut child, Duration::from_millis(50)).expect("waited");
        assert!(ended.is_none());
        assert!(kill(child.id()));
        let status = wait(&mut child, Duration::from_secs(20)).expect("waited");
        assert_eq!(status.map(shell_status), Some(137));
    }

    #[test]
    fn those_that_go_on_are_not_ending() {
        let mut child = sleeper();
        assert!(!is_ending(child.id()));
        assert!(kill(child.id()));
        assert!(is_ending(child.id()));
        let _ = child.wait();
        assert!(is_ending(child.id()));
    }

    #[test]
    fn children_are_known_from_proxies() {
        let of_proxy = |line| is_of_proxy(line, Path::new("/opt/yod"));
        assert!(of_proxy(
            "1000095000-10000c2000 rw-s 00000000 00:01 1074062      /memfd:margay-pool (deleted)"
        ));
        assert!(of_proxy(
            "7fa52f701000-7fa52f7a0000 r-xp 00000000 08:01 17       /opt/yod"
        ));
        // Regression: one whose text was not copied was not ended.
        assert!(!of_proxy(
            "1000095000-10000c2000 r--p 00000000 00:01 1074062      /memfd:margay-pool (deleted)"
        ));
        assert!(!of_proxy("1000000000-1000009000 r--p 00000000 00:00 0 "));
    }

    #[test]
    fn marked_processes_are_found() {
        let mut child = sleeper();
        let is_found = || {
            let all = of_job("a test of the harness", child.id());
            all.iter()
                .any(|process| process.pid == child.id() && process.role == Role::Yod)
        };
        // Between fork and exec it still has our own environment, and another test's child is marked alike.
        assert!(wait_until(Duration::from_secs(20), is_found));
        let _ = child.kill();
        let _ = child.wait();
    }
}
