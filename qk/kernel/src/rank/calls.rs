//! What has all threads of a rank look at something: its end, a stop, another program, a debugger.

use super::Rank;
use crate::thread::{self, Thread};
use crate::{preempt, sched};

/// What calling one thread counts at preemption points.
const CALL_WORK: u32 = 1000;

impl Rank {
    /// Stops its threads on their way back to ring 3, or lets them go on.
    pub fn stop(&'static self, stopped: bool) {
        self.stops.set_by_signal(stopped);
        self.call_threads();
    }

    /// Decides how the rank ends, as wait(2) says it, and whether it is dumped, unless that is decided. Its threads end as they see
    /// it. Returns whether it was decided now.
    pub fn end(&'static self, wait_status: u64, dumped: bool) -> bool {
        let now = self.ending.decide(wait_status, dumped);
        if now {
            self.call_threads();
        }
        now
    }

    /// `thread`, which has locked [execs](super::turns::Turns::lock_execs) and [need not end](Thread::must_end), is to replace the program: has the
    /// others end.
    pub fn begin_exec(&'static self, thread: &Thread) {
        self.ending.begin_exec(thread.index());
        self.call_threads();
    }

    /// A thread has ended: wakes the one that waits for the others to end.
    pub fn notify_executor(&'static self) {
        let executor = self.ending.executor();
        if let Some(executor) = executor.and_then(|index| self.threads.get(index)) {
            sched::unpark(executor.task());
        }
    }

    /// Calls all threads back for a debugger, which stops them: the one that runs here, too.
    pub fn call_back(&'static self) {
        self.ending.call_back();
        self.call_threads();
        if let Some(thread) = thread::on_core(hal::cpu::id())
            && core::ptr::eq(thread.rank(), self)
        {
            thread.pending().note_own_work();
        }
    }

    /// Has all its threads but the caller look at what is new on their way back to ring 3.
    pub fn call_threads(&'static self) {
        for thread in self.threads.each() {
            preempt::point(CALL_WORK);
            if !sched::is_current(thread.task()) {
                thread.pending().note_work();
                sched::interrupt(thread.task());
            }
        }
    }

    /// Has the other cores that run its threads enter the kernel.
    pub fn interrupt_others(&'static self) {
        let here = hal::cpu::id();
        // BOUND: the cores.
        for cpu in self.cores().iter().filter(|cpu| *cpu != here) {
            if let Some(thread) = thread::on_core(cpu)
                && core::ptr::eq(thread.rank(), self)
            {
                sched::interrupt(thread.task());
            }
        }
    }
}
