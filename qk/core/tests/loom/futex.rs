//! What threads see of each other in the futex table, tried out by loom: every order that the memory model allows, with a
//! bound on how often a thread is preempted.
//!
//! Should a wake-up be lost, a thread stays parked for ever, and loom says that all threads are blocked.

mod locks;
mod plain;
mod sync;

use std::cell::Cell;
use std::sync::Arc;

use abi::Errno;
use loom::model::Builder;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::sync::{Mutex, Notify};
use loom::thread;
use qk_core::futex::{ANY, Futexes, Key, Locks, Place, Waiter, Word};

/// How often threads are preempted where they could go on, at most. Three take some seconds.
const PREEMPTIONS: usize = 3;

fn try_all(scene: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    builder.max_branches = 10_000;
    builder.check(scene);
}

/// loom's lock instead of the kernel's.
struct Loom;

impl Locks for Loom {
    type Of<T> = Mutex<T>;

    fn new<T>(value: T) -> Mutex<T> {
        Mutex::new(value)
    }

    fn with<T, R>(lock: &Mutex<T>, section: impl FnOnce(&mut T) -> R) -> R {
        LAST_LOCK.set(&raw const *lock as usize);
        section(&mut lock.lock().expect("no test goes on after a panic"))
    }
}

thread_local! {
    /// The lock that was taken last in this test (loom runs all threads of a scene on one of Linux), for [`Table::two_buckets`].
    static LAST_LOCK: Cell<usize> = const { Cell::new(0) };
}

/// Threads of a scene, at most.
const THREADS: usize = 3;

loom::lazy_static! {
    /// The threads' kernel sides, in the execution that loom tries just now.
    static ref TASKS: [Task; THREADS] = core::array::from_fn(|_| Task {
        place: Place::default(),
        parked: Notify::new(),
    });
}

struct Task {
    place: Place,
    parked: Notify,
}

/// Thread `0` has id 1, and so on.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Me(usize);

impl Waiter for Me {
    fn wake(self) {
        TASKS[self.0].parked.notify();
    }

    fn tid(self) -> u32 {
        self.0 as u32 + 1
    }

    fn place(&self) -> &Place {
        &TASKS[self.0].place
    }
}

/// A word of the program.
#[derive(Clone)]
struct User(Arc<AtomicU32>);

impl User {
    fn new(value: u32) -> User {
        User(Arc::new(AtomicU32::new(value)))
    }

    fn store(&self, value: u32) {
        self.0.store(value, Ordering::Relaxed);
    }

    fn swap(&self, value: u32) -> u32 {
        self.0.swap(value, Ordering::AcqRel)
    }

    fn peek(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    fn replace(&self, old: u32, new: u32) -> u32 {
        self.0
            .compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire)
            .unwrap_or_else(|found| found)
    }
}

impl Word for User {
    fn load(&self) -> Result<u32, Errno> {
        Ok(self.peek())
    }

    fn compare_exchange(&self, old: u32, new: u32) -> Result<u32, Errno> {
        Ok(self.replace(old, new))
    }
}

const A: Key = Key {
    space: 1,
    at: 0x1000,
};
const B: Key = Key {
    space: 1,
    at: 0x2000,
};

/// The table, and what the kernel does around it.
#[derive(Clone)]
struct Table(Arc<Futexes<Loom, Me>>);

impl Table {
    /// With the keys A and B in one bucket.
    fn one_bucket() -> Table {
        Table(Arc::new(Futexes::new(1, 0).expect("memory")))
    }

    /// With the keys A and B in two buckets.
    fn two_buckets() -> Table {
        let table = Table(Arc::new(Futexes::new(2, 0).expect("memory")));
        let bucket = |key| {
            table.wake(key, 1);
            LAST_LOCK.get()
        };
        assert_ne!(bucket(A), bucket(B), "choose other keys");
        table
    }

    /// FUTEX_WAIT without a timeout; whether it was woken (else: the word is another).
    fn wait(&self, key: Key, word: &User, expected: u32, me: Me) -> bool {
        match self.0.wait(key, ANY, word, expected, me) {
            Ok(()) => {
                park(me);
                true
            }
            Err(errno) => {
                assert_eq!(errno, Errno::EAGAIN);
                false
            }
        }
    }

    /// FUTEX_WAIT whose time is over at once; whether it was woken.
    fn wait_briefly(&self, key: Key, word: &User, expected: u32, me: Me) -> bool {
        self.0.wait(key, ANY, word, expected, me).is_ok() && {
            thread::yield_now();
            !self.0.cancel(me)
        }
    }

    fn wake(&self, key: Key, count: i32) -> usize {
        self.0.wake(key, count, ANY, drop).expect("good arguments")
    }

    fn requeue(&self, keys: [Key; 2], counts: [i32; 2], expected: Option<(&User, u32)>) -> usize {
        let expected = expected.map(|(word, value)| (word as &dyn Word, value));
        self.0
            .requeue(keys, counts, expected, drop)
            .map_or(0, |done| done.woken)
    }
}

/// As the kernel: until it was woken.
fn park(me: Me) {
    while !me.place().is_woken() {
        TASKS[me.0].parked.wait();
    }
}
