//! A mutex and a condition variable as libraries build them on futexes.

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::thread;

use super::{A, B, Me, Table, User, try_all};

const FREE: u32 = 0;
const TAKEN: u32 = 1;
/// Taken, and others wait.
const WANTED: u32 = 2;

/// A mutex of three states (U. Drepper, "Futexes Are Tricky", 2011, section 5) at key B, a condition variable that counts
/// signals at A, and what the mutex guards; loom says so if two use it at once.
#[derive(Clone)]
struct Program {
    table: Table,
    mutex: User,
    signals: User,
    guarded: Arc<UnsafeCell<u32>>,
}

impl Program {
    fn new(table: Table) -> Program {
        Program {
            table,
            mutex: User::new(FREE),
            signals: User::new(0),
            guarded: Arc::new(UnsafeCell::new(0)),
        }
    }

    fn lock(&self, me: Me) {
        if self.mutex.replace(FREE, TAKEN) != FREE {
            self.lock_as_wanted(me);
        }
    }

    fn lock_as_wanted(&self, me: Me) {
        while self.mutex.swap(WANTED) != FREE {
            self.table.wait(B, &self.mutex, WANTED, me);
        }
    }

    fn unlock(&self) {
        if self.mutex.swap(FREE) == WANTED {
            self.table.wake(B, 1);
        }
    }

    /// Waits for the next signal, the mutex being free meanwhile.
    fn wait(&self, me: Me) {
        let before = self.signals.peek();
        self.unlock();
        self.table.wait(A, &self.signals, before, me);
        // Others may have been moved to the mutex together with this one.
        self.lock_as_wanted(me);
    }

    /// Lets all go on: one now, the others when the mutex is free. The caller has the mutex.
    fn broadcast(&self) {
        let now = self.signals.peek() + 1;
        self.signals.store(now);
        self.table
            .requeue([A, B], [1, i32::MAX], Some((&self.signals, now)));
    }

    fn set(&self) {
        self.guarded.with_mut(|_| ());
    }
}

#[test]
fn a_mutex_of_three_states_excludes_and_wakes() {
    try_all(|| {
        let program = Program::new(Table::one_bucket());
        let run = |me: Me| {
            let program = program.clone();
            move || {
                program.lock(me);
                program.set();
                program.unlock();
            }
        };
        let others = [1, 2].map(|n| thread::spawn(run(Me(n))));
        run(Me(0))();
        for other in others {
            other.join().expect("it ends");
        }
    });
}

#[test]
fn a_broadcast_moves_all_to_the_mutex() {
    try_all(|| {
        let program = Program::new(Table::two_buckets());
        let flag = User::new(0);
        let wait = |me: Me| {
            let (program, flag) = (program.clone(), flag.clone());
            move || {
                program.lock(me);
                while flag.peek() == 0 {
                    program.wait(me);
                }
                program.set();
                program.unlock();
            }
        };
        let others = [1, 2].map(|n| thread::spawn(wait(Me(n))));
        program.lock(Me(0));
        program.set();
        flag.store(1);
        program.broadcast();
        program.unlock();
        for other in others {
            other.join().expect("it ends");
        }
    });
}
