//! Requests that the node may give up.

use crate::rank::Rank;

/// Does something for request `seq` of a thread that the node may give up: then calls that block in Linux fail with EINTR.
pub fn interruptible<T>(rank: &Rank, index: usize, seq: u64, work: impl FnOnce() -> T) -> T {
    let kick = &rank.workers().at(index).kick;
    kick.begin(seq);
    // A watcher that was woken before `begin` did not see the call as running: so check once after.
    if rank.words().threads[index].slot.cancelled(seq) {
        rank.wake_watcher();
    }
    let result = work();
    kick.finish();
    result
}
