//! Signals that wait in Linux, where a program's descriptors find them (signalfd(2), docs/adr/0050).
//!
//! They are those that some descriptor of the rank is for, while all its threads block them. What is sent of them on the node goes out
//! to the proxy, and what comes from elsewhere stays there. Before a thread lets one in, or waits for it, what waits of it in Linux is
//! taken back; when all block it again it is left again.

use abi::control::HostOp;
use qk_core::signals::{Process, Sent, SigInfo, SigSet};
use wire::signal::{self, NEVER_LEFT};

use super::{LOOK_WORK, change_mask, collect, send_process};
use crate::host::ship;
use crate::rank::Rank;
use crate::thread::Thread;
use crate::{preempt, timer};

/// A descriptor of the thread's rank is for these signals.
#[cold]
pub fn receive(thread: &'static Thread, set: SigSet) {
    let set = set.without(SigSet(NEVER_LEFT));
    thread.rank().signals().process.left.receive(set);
    leave_blocked(thread);
}

/// The signals that descriptors of the rank are for.
pub fn received(rank: &Rank) -> SigSet {
    rank.signals().process.left.received()
}

/// The thread blocks other signals than before.
#[cold]
#[inline(never)]
pub fn follow(thread: &'static Thread, before: SigSet, after: SigSet) {
    take_back(thread, before.without(after));
    if !after.without(before).is_empty() {
        leave_blocked(thread);
    }
}

/// The thread is about to end: what it alone let in is left.
pub fn thread_ends(thread: &'static Thread) {
    if !received(thread.rank()).is_empty() {
        change_mask(thread, |own| own.set_blocked(SigSet(u64::MAX)));
    }
}

/// A signal was sent that is to wait in Linux. The rank's signals are locked.
#[cold]
#[inline(never)]
pub(super) fn leave(rank: &Rank, process: &mut Process, to: Option<&Thread>, info: SigInfo) {
    let [pid_uid, value, ..] = info.fields;
    let left = signal::Left {
        signal: signal::Signal {
            signo: info.signal.number().into(),
            code: info.code,
            pid: pid_uid as u32,
            uid: (pid_uid >> 32) as u32,
            value,
        },
        tid: to.map_or(0, Thread::tid) as u32,
    };
    if rank.host().leave_signal(&left) {
        rank.host().bell();
    } else {
        process.put_back(info); // as if no descriptor were for it
    }
}

/// A signal that does not wait on the node was sent by a call of the thread.
#[cold]
#[inline(never)]
pub(super) fn sent(sender: &'static Thread, sent: Sent) {
    if sent.left {
        settle(sender);
    }
}

/// Waits until the proxy has done what was said of signals that wait there.
fn settle(thread: &'static Thread) {
    let _ = ship::host_op(thread, HostOp::LeaveSignals, []); // never fails
}

/// Leaves what no thread lets in.
#[cold]
pub fn leave_blocked(thread: &'static Thread) {
    let rank = thread.rank();
    let kept = rank.signals().process.left.kept();
    let blocked = kept.without(let_in(rank));
    if blocked.is_empty() {
        return;
    }
    publish(rank, |process| process.left.leave(blocked));
    // A thread that has let one in meanwhile may not have seen that it is left.
    let open = let_in(rank).and(blocked);
    take_back(thread, open);
    settle(thread);
    // Those that the proxy had posted before go out as well, and those that wait here.
    collect(rank);
    // BOUND: what was left is not taken again; where the proxy makes no room the others stay.
    while makes_room(thread) {
        preempt::point(LOOK_WORK);
        let taken = {
            let process = &mut rank.signals().process;
            let left = process.left.now();
            process.take(&mut thread.signals().thread, left)
        };
        let Some(mut info) = taken else { break };
        timer::taken(rank, &mut info);
        send_process(rank, info);
    }
    settle(thread);
}

/// Whether another signal can be left, by now.
fn makes_room(thread: &'static Thread) -> bool {
    let host = thread.rank().host();
    host.may_leave_signal() || {
        settle(thread);
        host.may_leave_signal()
    }
}

/// The signals that some thread lets in.
fn let_in(rank: &Rank) -> SigSet {
    let mut all = SigSet::EMPTY;
    for thread in rank.threads().each() {
        preempt::point(LOOK_WORK);
        all = all.union(thread.lets_in());
    }
    all
}

fn publish(rank: &Rank, change: impl FnOnce(&mut Process)) {
    let process = &mut rank.signals().process;
    change(process);
    rank.host().publish_left(process.left.now().0);
}

/// Of these signals none waits in Linux from now on: the thread lets them in, waits for them, or ignores them.
#[cold]
pub fn take_back(thread: &'static Thread, set: SigSet) {
    let rank = thread.rank();
    let set = set.and(received(rank));
    if set.is_empty() {
        return;
    }
    publish(rank, |process| process.left.keep(set));
    settle(thread);
    collect(rank);
}

/// Those that wait in Linux for the process, or for the thread.
pub fn pending(thread: &'static Thread) -> SigSet {
    let received = received(thread.rank());
    if received.is_empty() {
        return SigSet::EMPTY;
    }
    let pending = ship::host_op(thread, HostOp::LeftPending, []).unwrap_or(0);
    SigSet(pending).and(received)
}
