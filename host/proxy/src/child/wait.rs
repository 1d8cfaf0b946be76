//! wait4(2) and waitid(2), and what `yod --stats` shows of children.
//!
//! A child's name and what it used can be read until it is waited for. So the state of a child that is about to be waited for is
//! read first (WNOWAIT), then waited for by its number. Another thread may come first: then all begins again.

use abi::Errno;
use wire::children::{Entry, state};
use zerocopy::IntoBytes;

use crate::call::make::linux;
use crate::fds;
use crate::memory::RankMemory;
use crate::rank::Rank;

/// Options that wait4 accepts (uapi/linux/wait.h); waitid checks its own.
const WAIT4_OPTIONS: u64 = (libc::WNOHANG
    | libc::WUNTRACED
    | libc::WCONTINUED
    | libc::__WNOTHREAD
    | libc::__WALL
    | libc::__WCLONE) as u32 as u64;
const WNOHANG: u64 = libc::WNOHANG as u64;
const WNOWAIT: u64 = libc::WNOWAIT as u64;
const WEXITED: u64 = libc::WEXITED as u64;
const P_PID: u64 = libc::P_PID as u64;
/// Where the parts of siginfo_t are that Linux writes (uapi/asm-generic/siginfo.h): si_signo to si_code; si_pid to si_status.
const INFO_PARTS: [std::ops::Range<usize>; 2] = [0..12, 16..28];

/// siginfo_t of SIGCHLD, and struct rusage.
#[derive(Default)]
struct Status {
    info: [u64; 16],
    usage: [u64; 18],
}

impl Status {
    /// 0: there was no child.
    fn pid(&self) -> u32 {
        self.info[2] as u32
    }

    /// How it ended, as wait(2) says it, if it has ended.
    fn ended(&self) -> Option<u64> {
        const CORE: u64 = 0x80;
        let status = self.info[3] & 0xff;
        match self.info[1] as i32 {
            libc::CLD_EXITED => Some(status << 8),
            libc::CLD_KILLED => Some(status),
            libc::CLD_DUMPED => Some(status | CORE),
            _ => None,
        }
    }

    /// Processor time in microseconds: the user's and the system's.
    fn used_us(&self) -> [u64; 2] {
        let us = |at: usize| self.usage[at] * 1_000_000 + self.usage[at + 1];
        [us(0), us(2)]
    }
}

/// waitid(2) with places of our own for what it reports.
fn waitid(kind: u64, id: u64, options: u64) -> Result<Status, Errno> {
    let mut status = Status::default();
    let [info, usage] = [
        status.info.as_mut_ptr().addr() as u64,
        status.usage.as_mut_ptr().addr() as u64,
    ];
    Errno::check(linux(
        libc::SYS_waitid as u16,
        &[kind, id, info, options, usage, 0],
    ))?;
    Ok(status)
}

/// Whom a call waits for, as waitid has it.
struct Wait {
    kind: u64,
    id: u64,
    options: u64,
}

impl Wait {
    /// `None`: it takes no child that has ended, or makes no sense.
    fn of(nr: u16, args: &[u64; 6]) -> Option<Wait> {
        if i64::from(nr) == libc::SYS_waitid {
            let [kind, id, _, options, ..] = *args;
            let takes = options & WNOWAIT == 0 && options & WEXITED != 0;
            return takes.then_some(Wait { kind, id, options });
        }
        let (pid, options) = (args[0] as i32, args[2] & u64::from(u32::MAX));
        let (kind, id) = match pid {
            i32::MIN => return None,
            -1 => (libc::P_ALL, 0),
            0 => (
                libc::P_PGID,
                rustix::process::getpgrp().as_raw_nonzero().get(),
            ),
            1.. => (libc::P_PID, pid),
            _ => (libc::P_PGID, -pid),
        };
        (options & !WAIT4_OPTIONS == 0).then_some(Wait {
            kind: kind.into(),
            id: id as u64,
            options: options | WEXITED,
        })
    }
}

/// Makes a call of the rank that waits for children; returns what Linux would.
pub fn carry_out(rank: &Rank, nr: u16, args: &[u64; 6]) -> i64 {
    let Some(wait) = Wait::of(nr, args) else {
        return linux(nr, args);
    };
    loop {
        let seen = match waitid(wait.kind, wait.id, wait.options | WNOWAIT) {
            Ok(seen) => seen,
            Err(errno) => return errno.ret(),
        };
        let name = seen.ended().map(|_| name(rank, seen.pid()));
        let ret = if i64::from(nr) == libc::SYS_waitid {
            take_by_waitid(rank, args, &seen)
        } else {
            take_by_wait4(args, &seen)
        };
        if let Some(ret) = ret {
            if let Some(name) = name {
                note(rank, &seen, &name);
            }
            return ret;
        }
    }
}

/// Waits for whom was seen; `None`: another thread was faster.
fn take_by_wait4(args: &[u64; 6], seen: &Status) -> Option<i64> {
    let [_, status_at, options, usage_at, ..] = *args;
    if seen.pid() == 0 {
        return Some(0);
    }
    let args = [
        seen.pid().into(),
        status_at,
        options | WNOHANG,
        usage_at,
        0,
        0,
    ];
    let ret = linux(libc::SYS_wait4 as u16, &args);
    (ret != 0 && ret != Errno::ECHILD.ret()).then_some(ret)
}

/// The same.
fn take_by_waitid(rank: &Rank, args: &[u64; 6], seen: &Status) -> Option<i64> {
    let [_, _, info_at, options, usage_at, _] = *args;
    let mut info = seen.info;
    if seen.pid() != 0 {
        let pid = seen.pid().into();
        let at = info.as_mut_ptr().addr() as u64;
        let args = [P_PID, pid, at, options | WNOHANG, usage_at, 0];
        match linux(libc::SYS_waitid as u16, &args) {
            0 if info[2] as u32 == 0 => return None,
            0 => {}
            ret if ret == Errno::ECHILD.ret() => return None,
            ret => return Some(ret),
        }
    }
    if info_at == 0 {
        return Some(0);
    }
    let bytes = info.as_bytes();
    let mut parts = INFO_PARTS.iter();
    let written = parts.try_for_each(|part| {
        let at = info_at.saturating_add(part.start as u64);
        rank.write(at, &bytes[part.clone()])
    });
    Some(written.map_or_else(Errno::ret, |()| 0))
}

/// A child's name.
fn name(rank: &Rank, pid: u32) -> Vec<u8> {
    let _no_fork = rank.children().fork_lock.no_fork();
    let _turn = fds::turn();
    let mut name = std::fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.pop_if(|last| *last == b'\n');
    name
}

/// Writes down how a child has ended.
fn note(rank: &Rank, seen: &Status, name: &[u8]) {
    with_living(rank, seen.pid(), |entry| {
        entry.name.put(name);
        entry.wait_status.put(seen.ended().unwrap_or(0));
        for (to, us) in entry.used_us.iter().zip(seen.used_us()) {
            to.put(us);
        }
        entry.state.store(state::ENDED);
    });
}

/// Writes down that there is one more child.
pub fn born(rank: &Rank, pid: u32) {
    let _turn = rank.children().listing();
    rank.words().area.children.add(pid);
}

fn with_living(rank: &Rank, pid: u32, change: impl FnOnce(&Entry)) {
    let _turn = rank.children().listing();
    if let Some(entry) = rank.words().area.children.living(pid) {
        change(entry);
    }
}

/// The rank ends: writes down what is known of children that it has not waited for.
pub fn settle(rank: &Rank) {
    let options = WEXITED | WNOHANG | WNOWAIT | libc::__WALL as u32 as u64;
    let living: Vec<u32> = {
        let listed = rank.words().area.children.listed().iter();
        let lives = listed.filter(|entry| entry.state.peek() == state::LIVES);
        lives.map(|entry| entry.pid.peek() as u32).collect()
    };
    for pid in living {
        match waitid(P_PID, pid.into(), options) {
            Ok(seen) if seen.pid() != 0 => note(rank, &seen, &name(rank, pid)),
            Ok(_) => {
                let name = name(rank, pid);
                with_living(rank, pid, |entry| entry.name.put(&name));
            }
            Err(_) => with_living(rank, pid, |entry| entry.state.store(state::UNSEEN)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_as_wait_has_it() {
        for (code, status, wanted) in [
            (libc::CLD_EXITED, 7, Some(7 << 8)),
            (libc::CLD_KILLED, libc::SIGTERM, Some(15)),
            (libc::CLD_DUMPED, libc::SIGABRT, Some(6 | 0x80)),
            (libc::CLD_STOPPED, libc::SIGSTOP, None),
        ] {
            let mut seen = Status::default();
            seen.info[1] = code as u64;
            seen.info[3] = status as u64;
            assert_eq!(seen.ended(), wanted, "{code}");
        }
    }
}
