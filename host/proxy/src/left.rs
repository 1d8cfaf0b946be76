//! Signals that wait in Linux, where descriptors of the rank find them (signalfd(2), docs/adr/0050).
//!
//! The node says which: the watcher does not receive those. What the node itself has of them comes by an outbox, and is sent to this
//! process here. Only its first thread may say that another process has sent it; in other threads it counts as sent by the rank.

use std::sync::Mutex;

use wire::signal::{Left, Outbox};

use crate::rank::Rank;
use crate::signals;
use crate::sync::lock;

/// Held by who takes from the outbox, until what was taken waits in Linux.
static TAKING: Mutex<()> = Mutex::new(());

/// Does as the node says now. What has come meanwhile, and is not left, is to be posted. What the node had put out before waits in Linux
/// then, also where another thread was about to see to it.
pub fn follow(rank: &Rank) {
    let area = &rank.words().area;
    let leave = || rank.reception().leave(area.node.left.load());
    empty(&area.outbox, leave, |left| send(rank, left));
}

/// Has wait in Linux what the node has put out for that.
pub fn take(rank: &Rank) {
    let outbox = &rank.words().area.outbox;
    if !outbox.is_empty() {
        empty(outbox, || {}, |left| send(rank, left));
    }
}

/// Does `first`, and sends what is in the outbox. What another thread has taken out of it is sent, too, when this returns.
fn empty(outbox: &Outbox, first: impl FnOnce(), send: impl Fn(Left)) {
    let _taking = lock(&TAKING);
    first();
    while let Some(left) = outbox.take() {
        send(left);
    }
}

fn send(rank: &Rank, Left { signal, tid }: Left) {
    let tid = Some(tid).filter(|tid| rank.has_thread(*tid));
    let fields = [
        u64::from(signal.pid) | u64::from(signal.uid) << 32,
        signal.value,
    ];
    signals::queue(rank.pid(), tid, signal.signo as i32, signal.code, fields);
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;
    use std::thread;

    use wire::signal::Signal;

    use super::*;
    use crate::sync::{sleeps, thread_id};

    /// The outbox was empty, and what had been in it was not sent yet: the signal came late, when its mask had closed again.
    #[test]
    fn who_finds_nothing_waits_for_who_sends() {
        let (outbox, sent) = (&Outbox::default(), &AtomicBool::new(false));
        let signal = Signal {
            signo: 10,
            ..Signal::default()
        };
        assert!(outbox.leave(&Left { signal, tid: 0 }));
        thread::scope(|scope| {
            let (begins, has_begun) = mpsc::channel();
            let (go_on, may_go_on) = mpsc::channel::<()>();
            scope.spawn(move || {
                let send = |_| {
                    let _ = begins.send(());
                    let _ = may_go_on.recv();
                    sent.store(true, Ordering::SeqCst);
                };
                empty(outbox, || {}, send);
            });
            has_begun.recv().expect("one signal is sent");
            let (started, tid) = mpsc::channel();
            let follower = scope.spawn(move || {
                let _ = started.send(thread_id());
                empty(outbox, || {}, |_| unreachable!("nothing is left to take"));
                assert!(sent.load(Ordering::SeqCst), "it does not wait yet");
            });
            let tid = tid.recv().expect("a thread");
            while !sleeps(tid) && !follower.is_finished() {
                thread::yield_now();
            }
            let _ = go_on.send(());
        });
    }
}
