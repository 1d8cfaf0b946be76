//! What the scheduler has done for tasks that are threads.

use abi::Errno;

use crate::host::ship;
use crate::sched::{Hooks, Owner};
use crate::thread::{self, Thread};
use crate::{preempt, rseq, sched, shootdown, timer};

/// What is done at the scheduler's request besides what a task's owner does.
pub const HOOKS: Hooks = Hooks {
    vacant: || leave(None),
    arm: timer::arm,
    left_work: ship::look_on,
    make_room,
};

fn make_room(cpu: usize, tenants: usize) -> Result<(), Errno> {
    let work = sched::moving_work(tenants);
    timer::make_room(cpu, tenants)?;
    preempt::point(work);
    ship::make_room(cpu, tenants)?;
    preempt::point(work);
    Ok(())
}

/// The thread that ran here leaves this core, for `next` or for none.
#[inline]
fn leave(next: Option<&'static Thread>) {
    if let Some(before) = thread::current() {
        before.switched_out();
    }
    thread::set_current(next);
}

impl Owner for Thread {
    fn enters(&'static self, moved: bool, shared: bool) {
        leave(Some(self));
        shootdown::enter(self.rank().shootdown());
        self.switched_in();
        if moved {
            rseq::interrupted(self);
        }
        timer::enter(self, shared);
    }

    fn gone(&self) {
        // The main thread's number is the rank's for as long as it lives.
        if self.index() != 0 {
            self.rank().threads().release(self.index());
        }
    }

    fn note_work(&self) {
        self.pending().note_work();
    }

    fn has_work(&self) -> bool {
        self.pending().has_work()
    }
}
