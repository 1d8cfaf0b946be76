//! What the host is to know of a rank for its children, which run there.

use core::sync::atomic::Ordering;

use abi::control::HostOp;
use qk_core::signals::Action;

use crate::host::ship;
use crate::thread::Thread;

/// What the program does with SIGCHLD has changed, which Linux looks at when a child ends.
pub fn publish_action(thread: &'static Thread, action: &Action) {
    if thread.rank.has_children.load(Ordering::Relaxed) {
        let args = [action.handler, action.flags];
        let _ = ship::host_op(thread, HostOp::ChildSignal, args); // never fails
    }
}
