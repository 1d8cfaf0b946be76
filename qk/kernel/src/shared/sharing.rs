//! What was ever done with frames of the node pool: whether children share them, and whether they were code.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use abi::control::HostOp;
use hal::addr::Phys;

use crate::host::ship;
use crate::thread::Thread;

/// 0: no child maps frames of objects. Else the number of the last change to that.
pub(super) static SHARING: AtomicU64 = AtomicU64::new(0);
/// Numbers for [`SHARING`].
static CHANGES: AtomicU64 = AtomicU64::new(0);

/// Some rank has had a child, which may map frames of the pool.
static FORKED: AtomicBool = AtomicBool::new(false);

/// Some rank has mapped an object to execute it.
static EXECUTED: AtomicBool = AtomicBool::new(false);

/// What a rank maps of objects may be executed from now on.
#[cold]
pub fn note_code() {
    EXECUTED.store(true, Ordering::SeqCst);
}

/// Whether frames of objects may have been executed.
pub(super) fn was_code() -> bool {
    EXECUTED.load(Ordering::SeqCst)
}

/// A rank is about to have a child.
pub(super) fn forks() {
    FORKED.store(true, Ordering::SeqCst);
}

/// Children share from now on what they did not before, perhaps.
pub(super) fn begins() {
    let number = CHANGES.fetch_add(1, Ordering::SeqCst) + 1;
    SHARING.store(number, Ordering::SeqCst);
}

/// Whether a child maps any of these frames of the pool.
pub fn is_mapped(thread: &'static Thread, pa: Phys, len_bytes: u64) -> bool {
    let is_with_child = || ship::host_op(thread, HostOp::IsWithChild, [pa.0, len_bytes]);
    // Where that cannot be said, it may be.
    FORKED.load(Ordering::SeqCst) && is_with_child() != Ok(0)
}
