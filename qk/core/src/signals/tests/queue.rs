//! What waits: how much, in which order, and what is lost.

use super::super::*;
use super::{handler, kill, pair, raise, rt, to_process};
use proptest::prelude::*;

/// RLIMIT_SIGPENDING counts for the process and its thread together; kill and the kernel may lose what it says, sigqueue not.
#[test]
fn the_limit_on_queued_signals_holds() {
    let (mut p, mut t) = pair();
    t.set_blocked(SigSet(u64::MAX));
    p.limit_queue(2);
    let queued = |signal| SigInfo::sent(signal, code::QUEUE, 7, 0, 1);
    to_process(&mut p, &t, queued(rt(40))).unwrap();
    p.send(Target::Thread(&mut t), queued(rt(40))).unwrap();
    for full in [rt(40), rt(41)] {
        assert_eq!(to_process(&mut p, &t, queued(full)), Err(Errno::EAGAIN));
        assert_eq!(
            p.send(Target::Thread(&mut t), queued(full)),
            Err(Errno::EAGAIN)
        );
    }
    assert!(to_process(&mut p, &t, kill(rt(42))).is_ok());
    to_process(&mut p, &t, queued(Signal::USR1)).unwrap();
    to_process(&mut p, &t, kill(Signal::USR2)).unwrap();
    let value = |p: &mut Process, t: &mut Thread, signal| {
        p.take(t, SigSet::of(signal))
            .map(|info| (info.code, info.fields[0]))
    };
    assert_eq!(
        value(&mut p, &mut t, Signal::USR1),
        Some((code::USER, 0)),
        "lost"
    );
    assert_eq!(value(&mut p, &mut t, Signal::USR2), Some((code::USER, 7)));
}

#[test]
fn standard_signals_merge_and_real_time_ones_queue_in_order() {
    let (mut p, mut t) = pair();
    t.set_blocked(SigSet(u64::MAX));
    for pid in 1..4 {
        for signal in [Signal::USR1, rt(40), rt(35)] {
            p.send(
                Target::Thread(&mut t),
                SigInfo::sent(signal, code::QUEUE, pid, 0, 0),
            )
            .unwrap();
        }
    }
    let order: std::vec::Vec<_> = core::iter::from_fn(|| p.take(&mut t, SigSet(u64::MAX)))
        .map(|i| (i.signal.number(), i.fields[0]))
        .collect();
    assert_eq!(
        order,
        [
            (10, 1),
            (35, 1),
            (35, 2),
            (35, 3),
            (40, 1),
            (40, 2),
            (40, 3)
        ]
    );
}

#[test]
fn a_full_queue_refuses_sigqueue_but_not_kill() {
    let (mut p, t) = pair();
    for _ in 0..8 {
        to_process(&mut p, &t, SigInfo::sent(rt(34), code::QUEUE, 1, 0, 0)).unwrap();
    }
    let more = SigInfo::sent(rt(35), code::QUEUE, 1, 0, 0);
    assert_eq!(to_process(&mut p, &t, more), Err(Errno::EAGAIN));
    assert!(to_process(&mut p, &t, kill(rt(35))).unwrap().pending);
    assert!(to_process(&mut p, &t, kill(Signal::TERM)).unwrap().pending);
    assert_eq!(
        p.pending.pop(Signal::TERM),
        SigInfo::new(Signal::TERM, code::USER)
    );
}

#[test]
fn siginfo_has_linux_layout() {
    let info = SigInfo::sent(
        rt(34),
        code::QUEUE,
        0x0102_0304,
        1000,
        0x1122_3344_5566_7788,
    );
    let bytes = info.to_bytes();
    assert_eq!(
        bytes[0..12],
        [34, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]
    );
    assert_eq!(bytes[16..24], [4, 3, 2, 1, 0xe8, 3, 0, 0]);
    assert_eq!(bytes[24..32], 0x1122_3344_5566_7788u64.to_le_bytes());
    assert_eq!(SigInfo::from_bytes(rt(34), &bytes), info);
}

proptest! {
    /// Whatever is sent and however masks change: SIGKILL comes through at once, nothing blocked
    /// is delivered, and no accepted real-time signal is lost.
    #[test]
    fn nothing_is_lost_or_delivered_early(
        ops in proptest::collection::vec((1u64..65, any::<u64>(), any::<bool>(), 0u8..4), 1..80),
    ) {
        let mut p = Process::new(64);
        let mut t = Thread::new(SigSet::EMPTY, 64);
        for n in 1..=64 {
            let _ = p.set_action(rt(n), handler(sa::NODEFER, SigSet::EMPTY));
        }
        let (mut sent, mut seen) = (0, 0);
        for (n, mask, to_thread, op) in ops {
            let signal = rt(n);
            if op == 0 {
                t.set_blocked(SigSet(mask));
            } else {
                let info = SigInfo::sent(signal, code::QUEUE, 1, 0, 0);
                let accepted = if to_thread {
                    p.send(Target::Thread(&mut t), info)
                } else {
                    to_process(&mut p, &t, info)
                };
                let accepted = accepted.is_ok();
                sent += usize::from(accepted && signal.is_real_time());
            }
            if signal == Signal::KILL && op != 0 {
                let fatal = matches!(p.next(&mut t), Some(Delivery::Terminate { .. }));
                prop_assert!(fatal);
            }
            if op == 3 {
                while let Some(delivery) = p.next(&mut t) {
                    if let Delivery::Handler { info, .. } = delivery {
                        prop_assert!(!t.blocked().contains(info.signal));
                        seen += usize::from(info.signal.is_real_time());
                    }
                }
                prop_assert!(!p.has_deliverable(&t));
            }
        }
        t.set_blocked(SigSet::EMPTY);
        while let Some(delivery) = p.next(&mut t) {
            seen += usize::from(matches!(delivery, Delivery::Handler { info, .. } if info.signal.is_real_time()));
        }
        prop_assert_eq!(sent, seen);
    }
}

/// What a descriptor is for waits outside while that is said, blocked as it is; other signals do not.
#[test]
fn what_is_left_outside_does_not_wait_here() {
    let (mut p, mut t) = pair();
    let (usr1, usr2) = (SigSet::of(Signal::USR1), SigSet::of(Signal::USR2));
    t.set_blocked(usr1.union(usr2));
    p.left.receive(usr1);
    assert_eq!((p.left.kept(), p.left.now()), (usr1, SigSet::EMPTY));
    p.left.leave(usr1.union(usr2));
    assert_eq!((p.left.kept(), p.left.now()), (SigSet::EMPTY, usr1));
    for target in [
        Target::Process { main_blocks: true },
        Target::Thread(&mut t),
    ] {
        let sent = p.send(target, kill(Signal::USR1)).unwrap();
        assert!(sent.left && !sent.pending);
    }
    assert!(!raise(&mut p, &mut t, Signal::USR2).left);
    assert_eq!(p.blocked_pending(&t), usr2);
    p.left.keep(usr1);
    assert!(raise(&mut p, &mut t, Signal::USR1).pending && p.left.received() == usr1);
}
