//! A child that is being made: what the worker that requested it, the thread that forks and the child itself share.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use abi::Errno;
use rustix::thread::set_current_timer_slack;

use super::script::Script;
use super::shared::Shared;
use super::stage::{self, FAILED, UNDER_WAY};
use super::steps::Table;
use crate::stub;
use crate::sync::lock;

/// How often it is checked whether a silent child has died, and whether a thread still waits.
const POLL: Duration = Duration::from_millis(20);
/// How long a child of vfork has for exec before its parent's node is answered, and repeats the request. Meanwhile other threads
/// of the rank change no mappings. Starting a program takes a tenth of it.
const SOON: Duration = Duration::from_millis(5);
/// Bytes of the word's page.
const PAGE_BYTES: usize = abi::map::PAGE as usize;

/// A child that is being made.
#[derive(Debug)]
pub struct Job {
    /// What it has to do.
    pub script: Script,
    exit_signal: u64,
    /// The parent thread waits until the child has called exec or ended.
    pub vfork: bool,
    wants_pidfd: bool,
    /// The child's word ([`stage::run`]).
    shared: Shared,
    /// Its process id, which Linux writes before the child runs.
    pid: AtomicU32,
    pidfd: AtomicI32,
    /// The forker is done: for vfork, the child has called exec or ended.
    over: Mutex<bool>,
    changed: Condvar,
}

impl Job {
    /// One that has not begun yet.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn new(
        script: Script,
        exit_signal: u64,
        vfork: bool,
        wants_pidfd: bool,
    ) -> Result<Job, Errno> {
        Ok(Job {
            script,
            exit_signal,
            vfork,
            wants_pidfd,
            shared: Shared::new(PAGE_BYTES).map_err(|_| Errno::ENOMEM)?,
            pid: AtomicU32::new(0),
            pidfd: AtomicI32::new(-1),
            over: Mutex::new(false),
            changed: Condvar::new(),
        })
    }

    /// The pidfd, once the child is ready.
    pub fn pidfd(&self) -> i32 {
        self.pidfd.load(Ordering::Acquire)
    }

    /// Waits until the child has all that it needs of this process; returns its process id.
    ///
    /// # Errors
    /// What clone(2) says, or what the child could not do.
    pub fn wait_ready(&self) -> Result<u32, Errno> {
        loop {
            let word = self.shared.word().load(Ordering::Acquire);
            let pid = self.pid.load(Ordering::Acquire);
            if word & FAILED != 0 {
                if pid != 0 {
                    reap(pid);
                }
                return Err(Errno((word & !FAILED) as u16));
            }
            // One that was killed was there nevertheless.
            if word != UNDER_WAY || (pid != 0 && has_died(pid)) {
                return Ok(pid);
            }
            self.wait_word();
        }
    }

    fn wait_word(&self) {
        let time = [0u64, u64::from(POLL.subsec_nanos())];
        let args = [
            self.shared.address(),
            libc::FUTEX_WAIT as u64,
            UNDER_WAY.into(),
            time.as_ptr().addr() as u64,
            0,
            0,
        ];
        // SAFETY: 1. Linux reads the word, which is mapped, and a struct timespec, two u64.
        unsafe { stub::syscall(libc::SYS_futex as u64, &args) };
    }

    /// Waits for a short time for the child to call exec or to end; whether it has.
    pub fn is_soon_over(&self) -> bool {
        let waited = self
            .changed
            .wait_timeout_while(lock(&self.over), SOON, |over| !*over);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Waits until the child has called exec or ended.
    ///
    /// # Errors
    /// EINTR when `gave_up` is true.
    pub fn wait_over(&self, gave_up: impl Fn() -> bool) -> Result<(), Errno> {
        let mut over = lock(&self.over);
        while !*over {
            if gave_up() {
                return Err(Errno::EINTR);
            }
            let waited = self.changed.wait_timeout(over, POLL);
            over = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }

    /// Forks. For vfork, returns when the child has called exec or ended.
    pub fn carry_out(&self) {
        // A child begins with the slack of who forks, which is its default besides (prctl(2)): it cannot set that itself.
        let _ = set_current_timer_slack(NonZeroU64::new(self.script.timer_slack_ns));
        let ret = self.clone_child();
        if ret == 0 {
            // SAFETY: 1. This is the child, which the code that follows never runs in. 2. The steps are complete: they live
            // in `self`, of which the child has a copy.
            unsafe {
                stage::run(
                    &self.script.steps,
                    self.shared.address(),
                    self.script.page_at,
                )
            }
        }
        // What the child stores meanwhile Linux copies once more.
        self.script.drop_copies();
        if let Some(errno) = Errno::from_ret(ret) {
            let word = FAILED | u32::from(errno.0);
            self.shared.word().store(word, Ordering::Release);
            let args = [
                self.shared.address(),
                libc::FUTEX_WAKE as u64,
                i32::MAX as u64,
                0,
                0,
                0,
            ];
            // SAFETY: 1. Linux reads the word at most.
            unsafe { stub::syscall(libc::SYS_futex as u64, &args) };
        }
        *lock(&self.over) = true;
        self.changed.notify_all();
    }

    fn clone_child(&self) -> i64 {
        let mut flags = libc::CLONE_PARENT_SETTID as u64;
        if self.vfork {
            flags |= libc::CLONE_VFORK as u64;
        }
        if self.script.table == Table::Shared {
            flags |= libc::CLONE_FILES as u64;
        }
        let pid_at = self.pid.as_ptr().addr() as u64;
        if self.wants_pidfd {
            // struct clone_args, its first version (uapi/linux/sched.h).
            let pidfd_at = self.pidfd.as_ptr().addr() as u64;
            let flags = flags | libc::CLONE_PIDFD as u64;
            let clone_args = [flags, pidfd_at, 0, pid_at, self.exit_signal, 0, 0, 0];
            let args = [
                (&raw const clone_args).addr() as u64,
                size_of_val(&clone_args) as u64,
                0,
                0,
                0,
                0,
            ];
            // SAFETY: 1. The child has a copy of this process's memory and goes on with it here, on a copy of this stack.
            // 2. Linux writes the process id and the descriptor to atomics of `self`.
            unsafe { stub::syscall(libc::SYS_clone3 as u64, &args) }
        } else {
            let args = [flags | self.exit_signal, 0, pid_at, 0, 0, 0];
            // SAFETY: 1. As above.
            unsafe { stub::syscall(libc::SYS_clone as u64, &args) }
        }
    }
}

/// Whether a child has ended, or is not there any more.
fn has_died(pid: u32) -> bool {
    let mut info = [0u64; 16];
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT | libc::__WALL;
    let ret = wait(pid, &mut info, options);
    ret < 0 || info[0] as u32 != 0 // si_signo: 0 when there is none
}

fn reap(pid: u32) {
    wait(pid, &mut [0; 16], libc::WEXITED | libc::__WALL);
}

fn wait(pid: u32, info: &mut [u64; 16], options: i32) -> i64 {
    let to = info.as_mut_ptr().addr() as u64;
    let args = [u64::from(libc::P_PID), pid.into(), to, options as u64, 0, 0];
    // SAFETY: 1. Linux writes a siginfo_t, 128 bytes.
    unsafe { stub::syscall(libc::SYS_waitid as u64, &args) }
}
