//! The rings (the signal mailbox stands for `ring`, the region log has rules of its own), of two entries each: nothing is
//! lost, torn, or overwritten before it was taken.

use std::sync::Arc;

use abi::map::{PAGE, USER_BASE};
use loom::cell::UnsafeCell;
use loom::thread;
use margay_wire::region_log::{Change, RegionLog, prot};
use margay_wire::signal::{Mailbox, Signal};

use crate::{Doorbell, shared, try_all};

/// One more than fit, so that an entry is used again.
const ENTRIES: u64 = 3;

fn until(mut done: impl FnMut() -> bool) {
    while !done() {
        thread::yield_now();
    }
}

#[test]
fn signals_arrive_in_order_and_whole() {
    try_all(|| {
        let (mailbox, doorbell) = (shared::<Mailbox>(), Doorbell::new());
        let host = thread::spawn({
            let (mailbox, doorbell) = (mailbox.clone(), doorbell.clone());
            move || {
                for n in 1..=ENTRIES {
                    until(|| mailbox.post(&signal(n)));
                    doorbell.ring();
                }
            }
        });
        let mut next = 1;
        while next <= ENTRIES {
            doorbell.wait();
            while let Some(taken) = mailbox.take() {
                assert_eq!(taken, signal(next));
                next += 1;
            }
        }
        assert!(mailbox.is_empty());
        host.join().expect("the host ends");
    });
}

fn signal(n: u64) -> Signal {
    Signal {
        signo: n as u32,
        code: -(n as i32),
        pid: n as u32,
        uid: n as u32,
        value: n,
    }
}

/// The proxy looks at a frame until it has applied its removal; the node uses the frame again as soon as that is
/// acknowledged, and the proxy once more when the log says so.
#[test]
fn changes_arrive_in_order_and_frames_are_reused_when_the_proxy_let_go() {
    try_all(|| {
        let log = shared::<RegionLog>();
        let frame = Arc::new(UnsafeCell::new(()));
        let proxy = thread::spawn({
            let (log, frame) = (log.clone(), frame.clone());
            move || {
                let mut next = 1;
                while next <= ENTRIES {
                    let mut applied = false;
                    log.catch_up(log.position(), |got| {
                        assert_eq!(got, change(next));
                        frame.with_mut(drop);
                        next += 1;
                        applied = true;
                    })
                    .expect("good records");
                    if !applied {
                        thread::yield_now();
                    }
                }
            }
        });
        frame.with_mut(drop);
        for n in 1..=ENTRIES {
            let mut position = None;
            until(|| {
                position = log.append(&change(n));
                position.is_some()
            });
            assert_eq!(position, Some(n));
        }
        until(|| log.applied() >= ENTRIES);
        frame.with_mut(drop);
        proxy.join().expect("the proxy ends");
    });
}

fn change(n: u64) -> Change {
    let (addr, len_bytes) = (USER_BASE + n * PAGE, n * PAGE);
    if n.is_multiple_of(2) {
        return Change::Unmap { addr, len_bytes };
    }
    Change::Map {
        addr,
        len_bytes,
        gpa: n * PAGE,
        prot: n as u8 & prot::ALL,
    }
}
