//! The workers of a rank: one for each thread that it has, or may soon have.
//!
//! Worker `i` serves the slot of thread `i`. Worker 0 is the process's first thread and waits for the doorbell itself; the
//! others are made when the node requests more (`HostOp::GrowWorkers`) and sleep until they are woken here. They are never
//! ended: a thread that is created later has that of a predecessor (module `heritage`).
//!
//! # Who is woken
//! The node signals one doorbell for all events. The thread it wakes, worker 0 or the watcher (module `worker`), polls all
//! slots: it wakes the workers that wait and have a request, and sees to it that calls are given up. A worker announces that it
//! waits before it polls for the last time, and the node posts before it reads whether to signal, as [`wire::ship`] has it; and a worker
//! that is woken before it sleeps does not fall asleep. So no request is slept through, whichever thread is woken and when.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::thread::{self, Thread};

use abi::Errno;
use abi::map::MAX_THREADS;
use wire::thread::ThreadArea;

use crate::child::fork_lock::ForkLock;
use crate::kick::{KICK, Kick};
use crate::signals;
use crate::sync::lock;

/// What others need of a worker.
#[derive(Debug, Default)]
pub struct Worker {
    /// Gives up its calls.
    pub kick: Kick,
    /// Its thread id; 0: there is none yet.
    tid: AtomicU32,
    /// For waking it; worker 0 has none, for it waits for the doorbell.
    thread: OnceLock<Thread>,
    /// [Whose](wire::thread::Life::number) heritage it has (module `heritage`).
    pub heir_of: AtomicU64,
    /// It opens something, which may block, and no thread forks meanwhile.
    pub opening: AtomicBool,
}

impl Worker {
    /// Whether its call is to be interrupted, for good or, as an opening in the way of a fork, to begin again.
    fn is_unwanted(&self, fork_lock: &ForkLock, cancelled: bool) -> bool {
        cancelled || (fork_lock.is_wanted() && self.opening.load(Ordering::SeqCst))
    }

    /// The calling thread is it from now on.
    pub fn begin(&self, tid: u32) {
        self.tid.store(tid, Ordering::Release);
        let _ = self.thread.set(thread::current());
    }

    /// Its thread id.
    pub fn tid(&self) -> u32 {
        self.tid.load(Ordering::Acquire)
    }
}

/// All workers of the process.
#[derive(Debug)]
pub struct Workers {
    all: Box<[Worker]>,
    count: AtomicUsize,
    growing: Mutex<()>,
    settling: Mutex<()>,
}

impl Workers {
    /// The calling process's first thread.
    pub fn new() -> Workers {
        let all: Box<[Worker]> = (0..MAX_THREADS).map(|_| Worker::default()).collect();
        all[0].tid.store(std::process::id(), Ordering::Release);
        Workers {
            all,
            count: AtomicUsize::new(1),
            growing: Mutex::default(),
            settling: Mutex::default(),
        }
    }

    /// The one with an index, started or not.
    pub fn at(&self, index: usize) -> &Worker {
        &self.all[index]
    }

    /// To be held while a worker takes over what its thread inherits.
    pub fn settling(&self) -> MutexGuard<'_, ()> {
        lock(&self.settling)
    }

    /// Those that have started.
    pub fn all(&self) -> &[Worker] {
        &self.all[..self.count.load(Ordering::Acquire)]
    }

    /// Has workers started by `start`, which returns how many of these indices were, until there are as many as are wanted, or
    /// twice as many as there were; `announce` publishes how many there are. Returns that.
    ///
    /// # Errors
    /// EAGAIN when there cannot be so many.
    pub fn grow(
        &self,
        wanted: u64,
        start: impl FnOnce(Range<usize>) -> usize,
        announce: impl FnOnce(usize),
    ) -> Result<usize, Errno> {
        let _growing = lock(&self.growing);
        let have = self.count.load(Ordering::Acquire);
        let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
        if wanted <= have {
            return Ok(have);
        }
        if wanted > MAX_THREADS {
            return Err(Errno::EAGAIN);
        }
        let most = wanted.max(2 * have).min(MAX_THREADS);
        let count = have + start(have..most);
        self.count.store(count, Ordering::Release);
        announce(count);
        if count < wanted {
            Err(Errno::EAGAIN)
        } else {
            Ok(count)
        }
    }

    /// Ids of the threads that the rank has now: of those that live. The first one's may be listed after it has ended.
    pub fn tids(&self, threads: &[ThreadArea]) -> impl Iterator<Item = u32> {
        let all = self.all().iter().zip(threads).enumerate();
        all.filter(|(index, (_, area))| *index == 0 || area.node.life().is_on())
            .map(|(_, (worker, _))| worker.tid())
    }

    /// Wakes the workers but the first that have a request and wait.
    pub fn wake(&self, threads: &[ThreadArea]) {
        for (worker, area) in self.all().iter().zip(threads).skip(1) {
            if area.slot.is_overdue()
                && let Some(thread) = worker.thread.get()
            {
                thread.unpark();
            }
        }
    }

    /// Whether a call that is under way is to be given up.
    pub fn any_to_kick(&self, threads: &[ThreadArea], fork_lock: &ForkLock) -> bool {
        let mut all = self.all().iter().zip(threads);
        all.any(|(worker, area)| {
            worker
                .kick
                .is_wanted(|seq| worker.is_unwanted(fork_lock, area.slot.cancelled(seq)))
        })
    }

    /// Interrupts the calls that are to be given up (watcher only). Says whether there were any: then it has to be called
    /// again until there are none.
    pub fn kick(&self, pid: u32, threads: &[ThreadArea], fork_lock: &ForkLock) -> bool {
        let mut any = false;
        for (worker, area) in self.all().iter().zip(threads) {
            any |= worker.kick.kick_if(
                |seq| worker.is_unwanted(fork_lock, area.slot.cancelled(seq)),
                || signals::send_to_thread(pid, worker.tid(), KICK),
            );
        }
        any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_as_were_started() {
        let workers = Workers::new();
        let mut announced = Vec::new();
        let mut grow = |wanted: u64, most: usize| {
            let mut wanted_indices = None;
            let start = |indices: Range<usize>| {
                wanted_indices = Some(indices.clone());
                indices.len().min(most)
            };
            let grown = workers.grow(wanted, start, |count| announced.push(count));
            (grown, wanted_indices, workers.all().len())
        };
        assert_eq!(grow(1, 100), (Ok(1), None, 1));
        // Twice as many as there were, so that few threads grow one by one.
        assert_eq!(grow(2, 100), (Ok(2), Some(1..2), 2));
        assert_eq!(grow(3, 100), (Ok(4), Some(2..4), 4));
        // Linux makes no more threads: those that there are count.
        assert_eq!(grow(7, 2), (Err(Errno::EAGAIN), Some(4..8), 6));
        assert_eq!(grow(6, 0), (Ok(6), None, 6));
        // There is no room for more than the node has slots.
        let most = MAX_THREADS as u64;
        assert_eq!(grow(most + 1, 1), (Err(Errno::EAGAIN), None, 6));
        assert_eq!(grow(u64::MAX, 1), (Err(Errno::EAGAIN), None, 6));
        let all = grow(most - 1, MAX_THREADS);
        assert_eq!(
            all,
            (
                Ok(MAX_THREADS - 1),
                Some(6..MAX_THREADS - 1),
                MAX_THREADS - 1
            )
        );
        assert_eq!(
            grow(most, 1),
            (
                Ok(MAX_THREADS),
                Some(MAX_THREADS - 1..MAX_THREADS),
                MAX_THREADS
            )
        );
        assert_eq!(announced, [2, 4, 6, MAX_THREADS - 1, MAX_THREADS]);
    }
}
