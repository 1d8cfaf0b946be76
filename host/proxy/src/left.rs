//! Signals that wait in Linux, where descriptors of the rank find them (signalfd(2), docs/adr/0050).
//!
//! The node says which: the watcher does not receive those. What the node itself has of them comes by an outbox, and is sent to this
//! process here. Only its first thread may say that another process has sent it; in other threads it counts as sent by the rank.

use std::sync::Mutex;

use wire::signal::Left;

use crate::rank::Rank;
use crate::signals;
use crate::sync::lock;

/// Held by who takes from the outbox, until what was taken waits in Linux.
static TAKING: Mutex<()> = Mutex::new(());

/// Does as the node says now. What has come meanwhile, and is not left, is to be posted. What the node had put out before waits in Linux
/// then, also where another thread was about to see to it.
pub fn follow(rank: &Rank) {
    let _taking = lock(&TAKING);
    rank.reception().leave(rank.words().area.node.left.load());
    empty(rank);
}

/// Has wait in Linux what the node has put out for that.
pub fn take(rank: &Rank) {
    if !rank.words().area.outbox.is_empty() {
        let _taking = lock(&TAKING);
        empty(rank);
    }
}

/// The same for who holds [`TAKING`].
fn empty(rank: &Rank) {
    while let Some(Left { signal, tid }) = rank.words().area.outbox.take() {
        let tid = Some(tid).filter(|tid| rank.has_thread(*tid));
        let fields = [
            u64::from(signal.pid) | u64::from(signal.uid) << 32,
            signal.value,
        ];
        signals::queue(rank.pid(), tid, signal.signo as i32, signal.code, fields);
    }
}
