//! What a rank does for its children, which run on the host: what that is to know, and standing still while one gets its memory.

use abi::Errno;
use abi::control::HostOp;
use qk_core::signals::Action;

use crate::host::ship;
use crate::rank::Rank;
use crate::shootdown;
use crate::thread::Thread;

/// What the program does with SIGCHLD has changed, which Linux looks at when a child ends.
pub fn publish_action(thread: &'static Thread, action: &Action) {
    if thread.rank().attributes().has_children() {
        let args = [action.handler, action.flags];
        let _ = ship::host_op(thread, HostOp::ChildSignal, args); // never fails
    }
}

/// See [`stop_for_copy`].
pub struct StoppedForCopy(&'static Rank);

impl Drop for StoppedForCopy {
    fn drop(&mut self) {
        if self.0.stops().end_copy() {
            self.0.call_threads();
        }
    }
}

/// Keeps the rank's other threads out of ring 3 until the result is dropped: what a child gets of memory is of one moment.
///
/// # Errors
/// ESRCH without an address space.
pub fn stop_for_copy(rank: &'static Rank) -> Result<StoppedForCopy, Errno> {
    let stopped = StoppedForCopy(rank);
    if rank.threads().live() > 1 {
        rank.stops().begin_copy();
        rank.call_threads();
        rank.with_aspace(|_| {
            shootdown::barrier(rank.shootdown());
            Ok(())
        })?;
    }
    Ok(stopped)
}
