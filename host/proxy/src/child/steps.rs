//! The steps of a child: system calls and copies, one after the other.

use std::ops::Range;

use abi::ident::NSIG;
use abi::map::PAGE;
use wire::child::{Child, how};

use super::page;
use super::stage::{Must, Step};
use crate::fds;
use crate::io_priority;
use crate::regions::Regions;
use crate::stub;

/// IOPRIO_WHO_PROCESS (uapi/linux/ioprio.h)
const IOPRIO_WHO_PROCESS: u64 = 1;
/// Bytes of struct rseq as programs of today register it.
const RSEQ_BYTES: u64 = 32;
const SIGSET_BYTES: u64 = 8;
/// Bytes of a thread's name with its NUL (TASK_COMM_LEN, include/linux/sched.h).
pub const NAME_BYTES: usize = 16;

/// The table of descriptors that a child begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Table {
    /// The proxy's own. Its numbers reach far up, and Linux would copy as long a table.
    Shared,
    /// A copy.
    Copied,
    /// A copy, and Linux before 5.9 has no close_range(2).
    CopiedByOldLinux,
}

impl Table {
    /// Of a child that opens something for itself or whose parent takes a pidfd, or of any other: in a shared table both would
    /// have it.
    pub fn of(apart: bool) -> Table {
        const LAST: u64 = u32::MAX as u64;
        // SAFETY: 1. There is no such descriptor: nothing is closed.
        let known =
            unsafe { stub::syscall(libc::SYS_close_range as u64, &[LAST, LAST, 0, 0, 0, 0]) };
        match known {
            0 if apart => Table::Copied,
            0 => Table::Shared,
            _ => Table::CopiedByOldLinux,
        }
    }
}

/// Steps so far.
#[derive(Default)]
pub struct Steps {
    /// All of them.
    pub all: Vec<Step>,
}

impl Steps {
    /// A system call.
    pub fn call(&mut self, nr: i64, args: &[u64], must: Must) {
        let mut all = [0; 6];
        all[..args.len()].copy_from_slice(args);
        self.all.push(Step::Call {
            nr: nr as u64,
            args: all,
            must,
        });
    }

    /// A child that still reads guest RAM must not outlive the proxy: the RAM would become another's.
    pub fn depend_on(&mut self, parent: u32) {
        let kill = [libc::PR_SET_PDEATHSIG as u64, libc::SIGKILL as u64];
        self.call(libc::SYS_prctl, &kill, Must::Succeed);
        self.call(libc::SYS_getppid, &[], Must::Be(parent.into()));
    }

    /// All signals are blocked until the program is entered, so no handler runs here.
    pub fn dispositions(&mut self, child: &Child) -> Box<[[u64; 4]]> {
        let clear = child.how.peek() & how::CLEAR_HANDLERS != 0;
        let actions = child.actions.iter().map(|words| {
            let action = words.each_ref().map(|word| word.peek());
            let is_handler = action[0] > libc::SIG_IGN as u64;
            if clear && is_handler { [0; 4] } else { action }
        });
        let actions: Box<[[u64; 4]]> = actions.collect();
        for (signo, action) in (1..=u64::from(NSIG)).zip(&actions) {
            let args = [signo, action.as_ptr().addr() as u64, 0, SIGSET_BYTES];
            // SIGKILL and SIGSTOP have no other.
            self.call(libc::SYS_rt_sigaction, &args, Must::Return);
        }
        actions
    }

    /// Moves a mapping, in place of what is there.
    pub fn move_to(&mut self, from: u64, len_bytes: u64, to: u64) {
        let how = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) as u64;
        let args = [from, len_bytes, len_bytes, how, to];
        self.call(libc::SYS_mremap, &args, Must::Be(to as i64));
    }

    /// Maps memory of the child's own, readable and writable.
    fn map(&mut self, addr: u64, len_bytes: u64) {
        let prot = (libc::PROT_READ | libc::PROT_WRITE) as u64;
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED) as u64;
        let args = [addr, len_bytes, prot, flags, u64::MAX];
        self.call(libc::SYS_mmap, &args, Must::Be(addr as i64));
    }

    /// What is the thread's: its ids, restartable sequence, name and priorities, as the worker has them that this runs in.
    pub fn thread(&mut self, regions: &Regions, child: &Child) -> Box<[u8; NAME_BYTES]> {
        let clear_at = child.clear_tid_at.peek();
        self.call(libc::SYS_set_tid_address, &[clear_at], Must::Return);
        let to = child.set_tid_at.peek();
        if to != 0 && regions.allow(to, 4, true) {
            self.all.push(Step::ThreadId { to }); // Linux does not mind a bad pointer
        }
        let [area, signature] = child.rseq.each_ref().map(|word| word.peek());
        if area != 0 {
            let args = [area, RSEQ_BYTES, 0, signature];
            self.call(libc::SYS_rseq, &args, Must::Return);
        }
        let mut name = Box::new([0; NAME_BYTES]);
        if let Ok(own) = rustix::thread::name() {
            let own = own.to_bytes();
            let len = own.len().min(NAME_BYTES - 1);
            name[..len].copy_from_slice(&own[..len]);
        }
        let at = name.as_ptr().addr() as u64;
        self.call(
            libc::SYS_prctl,
            &[libc::PR_SET_NAME as u64, at],
            Must::Return,
        );
        if let Ok(nice) = rustix::process::getpriority_process(None) {
            let args = [libc::PRIO_PROCESS as u64, 0, nice as u64];
            self.call(libc::SYS_setpriority, &args, Must::Return);
        }
        if let Ok(priority) = u64::try_from(io_priority::own()) {
            let args = [IOPRIO_WHO_PROCESS, 0, priority];
            self.call(libc::SYS_ioprio_set, &args, Must::Return);
        }
        name
    }

    /// Closes the proxy's descriptors. Where the table is still [shared](Table::Shared), the child gets its own here, which
    /// ends with the last of the rank's.
    pub fn close(&mut self, own: Range<u64>, table: Table) {
        const LAST: u64 = u32::MAX as u64;
        let flags = match table {
            Table::Shared => fds::CLOSE_RANGE_UNSHARE,
            Table::Copied => 0,
            Table::CopiedByOldLinux => {
                return own.for_each(|fd| self.call(libc::SYS_close, &[fd], Must::Return));
            }
        };
        self.call(
            libc::SYS_close_range,
            &[own.start, LAST, flags],
            Must::Succeed,
        );
    }

    /// The limits that the rank's proxy does not have. What lowers one never fails.
    pub fn limits(&mut self, limits: &[(usize, [u64; 2])]) -> Vec<[u64; 2]> {
        let pairs: Vec<[u64; 2]> = limits.iter().map(|(_, pair)| *pair).collect();
        for ((resource, _), pair) in limits.iter().zip(&pairs) {
            let args = [0, *resource as u64, pair.as_ptr().addr() as u64, 0];
            self.call(libc::SYS_prlimit64, &args, Must::Return);
        }
        pairs
    }

    /// The page by which the program is entered.
    pub fn page(&mut self, at: u64, page: &[u8; page::BYTES]) {
        self.map(at, PAGE);
        self.all.push(Step::Copy {
            from: page.as_ptr().addr() as u64,
            to: at,
            len_bytes: PAGE,
        });
        let prot = (libc::PROT_READ | libc::PROT_EXEC) as u64;
        self.call(libc::SYS_mprotect, &[at, PAGE, prot], Must::Succeed);
    }
}
