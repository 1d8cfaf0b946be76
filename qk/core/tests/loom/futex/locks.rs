//! Locks with an owner.

use std::sync::Arc;

use abi::Errno;
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;
use qk_core::futex::{Locked, Owner, Waiter};

use super::{A, Me, Table, User, park, try_all};

/// FUTEX_OWNER_DIED
const OWNER_DIED: u32 = 1 << 30;

fn take(table: &Table, word: &User, me: Me, owner: impl Fn(u32) -> Owner) -> Result<(), Errno> {
    if word.replace(0, me.tid()) == 0 {
        return Ok(());
    }
    loop {
        match table.0.lock_pi(A, word, me, &owner, drop)? {
            Locked::Acquired => return Ok(()),
            Locked::Queued => {
                park(me);
                return Ok(());
            }
            Locked::Busy => thread::yield_now(),
            Locked::Unknown(tid) => panic!("thread {tid} is known"),
        }
    }
}

fn release(table: &Table, word: &User, me: Me) {
    if word.replace(me.tid(), 0) != me.tid() {
        table
            .0
            .unlock_pi(A, word, me.tid(), drop)
            .expect("it has it");
    }
}

#[test]
fn a_lock_has_one_owner_at_a_time() {
    try_all(|| {
        let (table, word) = (Table::one_bucket(), User::new(0));
        let guarded = Arc::new(UnsafeCell::new(()));
        let run = |me: Me| {
            let (table, word, guarded) = (table.clone(), word.clone(), guarded.clone());
            move || {
                take(&table, &word, me, |_| Owner::Lives).expect("others live");
                guarded.with_mut(|_| ());
                release(&table, &word, me);
            }
        };
        let others = [1, 2].map(|n| thread::spawn(run(Me(n))));
        run(Me(0))();
        for other in others {
            other.join().expect("it ends");
        }
        assert_eq!(word.peek(), 0);
    });
}

/// A waiter that gives up has not been given the lock, or has.
#[test]
fn a_lock_is_not_given_to_who_gave_up() {
    try_all(|| {
        let (table, word) = (Table::one_bucket(), User::new(Me(0).tid()));
        let brief = thread::spawn({
            let (table, word, me) = (table.clone(), word.clone(), Me(1));
            move || match table.0.lock_pi(A, &word, me, |_| Owner::Lives, drop) {
                Ok(Locked::Queued) => !table.0.cancel(me),
                other => other == Ok(Locked::Acquired),
            }
        });
        release(&table, &word, Me(0));
        let owner = if brief.join().expect("it ends") {
            Me(1).tid()
        } else {
            0
        };
        assert_eq!(word.peek(), owner);
    });
}

/// The owner ends while another begins to wait: that gets the lock, or the error that its owner is gone.
#[test]
fn the_end_of_an_owner_leaves_nobody_waiting() {
    const STATES: [Owner; 3] = [Owner::Lives, Owner::Ends, Owner::Gone];
    try_all(|| {
        let (table, word) = (Table::one_bucket(), User::new(Me(0).tid()));
        let state = Arc::new(AtomicU32::new(0));
        let other = thread::spawn({
            let (table, word, state) = (table.clone(), word.clone(), state.clone());
            move || {
                let owner = |_| STATES[state.load(Ordering::Acquire) as usize];
                let taken = take(&table, &word, Me(1), owner);
                match taken {
                    Ok(()) => assert_eq!(word.peek(), Me(1).tid() | OWNER_DIED),
                    Err(errno) => assert_eq!(errno, Errno::ESRCH),
                }
            }
        });
        state.store(1, Ordering::Release);
        table
            .0
            .release_all(Me(0).tid(), |_| Some(word.clone()), drop);
        state.store(2, Ordering::Release);
        other.join().expect("it ends");
    });
}
