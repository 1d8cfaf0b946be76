//! What threads of a rank are to come back for from wherever they wait: the rank's end, the end of all but one when that replaces
//! the program, a debugger.
//!
//! One word says it, in which the rank's status is once that is decided; 0, nearly always, says that there is nothing.

use core::sync::atomic::Ordering;

use super::Rank;
use crate::thread::Thread;
use crate::{preempt, sched};

/// Marks the status as wait(2) says it, in the lower half: the rank ends with it.
const ENDS: u64 = 1 << 32;
/// With a core file.
const DUMPS: u64 = 1 << 33;
/// A debugger has stopped the threads, at least once: whether it does is to be looked at.
const CALLED_BACK: u64 = 1 << 34;
/// A thread replaces the program, and the others end.
const EXECS: u64 = 1 << 35;
/// What calling one thread counts at preemption points.
const CALL_WORK: u32 = 1000;

impl Rank {
    /// The status that it ends with, if that is decided.
    pub(super) fn decided_status(&self) -> Option<u64> {
        let ending = self.ending.load(Ordering::SeqCst);
        (ending & ENDS != 0).then_some(u64::from(ending as u32))
    }

    /// Decides how the rank ends, and whether it is dumped, unless that is decided. Its threads end as they see it. Returns
    /// whether it was decided now.
    pub fn end(&'static self, wait_status: u64, dumped: bool) -> bool {
        let dumps = if dumped { DUMPS } else { 0 };
        let ending = ENDS | dumps | wait_status;
        let now = self
            .ending
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |was| {
                (was & ENDS == 0).then_some(was | ending)
            })
            .is_ok();
        if now {
            self.call_threads();
        }
        now
    }

    /// A thread ends by itself: if it is the last one, this is the rank's status (Linux: synchronize_group_exit).
    pub fn thread_exits(&self, wait_status: u64) {
        self.exit_status.store(wait_status, Ordering::SeqCst);
    }

    /// Whether its end is decided.
    pub fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Relaxed) & ENDS != 0
    }

    /// Whether any of its threads are to come back from what they wait for: see [`Thread::is_called_back`].
    #[inline]
    pub fn calls_back(&self) -> bool {
        self.ending.load(Ordering::Relaxed) != 0
    }

    /// `thread`, which holds [`Rank::execs`] and [need not end](Thread::must_end), is to replace the program: has the others end.
    pub fn begin_exec(&'static self, thread: &Thread) {
        self.executor.store(thread.index, Ordering::SeqCst);
        self.ending.fetch_or(EXECS, Ordering::SeqCst);
        self.call_threads();
    }

    /// It has replaced the program.
    pub fn end_exec(&self) {
        self.ending.fetch_and(!EXECS, Ordering::SeqCst);
    }

    /// A thread has ended: wakes the one that waits for the others to end.
    pub fn tell_executor(&'static self) {
        if self.ending.load(Ordering::SeqCst) & EXECS != 0
            && let Some(executor) = self.threads.get(self.executor.load(Ordering::SeqCst))
        {
            sched::unpark(&executor.task);
        }
    }

    /// Calls all threads back for a debugger, which stops them.
    pub fn call_back(&'static self) {
        self.ending.fetch_or(CALLED_BACK, Ordering::SeqCst);
        self.call_threads();
    }

    /// Whether it ends with a core file.
    pub fn is_dumped(&self) -> bool {
        self.ending.load(Ordering::Relaxed) & DUMPS != 0
    }

    /// Has all its threads but the caller look at what is new on their way back to ring 3.
    pub(super) fn call_threads(&'static self) {
        for thread in self.threads.each() {
            preempt::point(CALL_WORK);
            if !sched::is_current(&thread.task) {
                thread.pending().note_work();
                sched::interrupt(&thread.task);
            }
        }
    }
}

impl Thread {
    /// Whether it is to end: its rank's end is decided, or another thread replaces the program.
    pub fn must_end(&self) -> bool {
        let ending = self.rank.ending.load(Ordering::SeqCst);
        let executes = || self.rank.executor.load(Ordering::SeqCst) == self.index;
        ending & ENDS != 0 || (ending & EXECS != 0 && !executes())
    }

    /// Whether it is to come back from what it waits for: it is to end, or a debugger stops the rank.
    #[inline]
    pub fn is_called_back(&self) -> bool {
        self.rank.calls_back() && (self.must_end() || self.rank.is_to_halt())
    }
}
