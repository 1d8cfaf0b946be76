//! What each operation does, as futex(2) says, by one thread at a time. What threads see of each other is tried by
//! `tests/loom`.

mod memory;
mod model;
mod pi;
mod plain;

use std::boxed::Box;
use std::cell::{Cell, RefCell};
use std::sync::Mutex;
use std::vec::Vec;

use super::*;

/// A lock that notices when it is taken twice, or under another one with a larger address.
struct Checked;

impl Locks for Checked {
    type Of<T> = Mutex<T>;

    fn new<T>(value: T) -> Mutex<T> {
        Mutex::new(value)
    }

    fn with<T, R>(lock: &Mutex<T>, section: impl FnOnce(&mut T) -> R) -> R {
        let address = &raw const *lock as usize;
        let outer = HELD.replace(address);
        assert!(outer < address, "lock order");
        let result = section(&mut lock.lock().expect("no test goes on after a panic"));
        HELD.set(outer);
        result
    }
}

std::thread_local! {
    /// Address of the lock that was taken last.
    static HELD: Cell<usize> = const { Cell::new(0) };
    /// Ids of threads, as they were woken.
    static ORDER: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
}

fn no_lock_held() -> bool {
    HELD.get() == 0
}

/// A thread that counts how often it was woken.
#[derive(Default)]
struct Thread {
    tid: u32,
    place: Place,
    woken: Mutex<usize>,
}

type Handle = &'static Thread;

impl Waiter for Handle {
    fn wake(self) {
        assert!(no_lock_held(), "woken under a lock");
        *self.woken.lock().unwrap() += 1;
        ORDER.with_borrow_mut(|order| order.push(self.tid));
    }

    fn tid(self) -> u32 {
        self.tid
    }

    fn place(&self) -> &Place {
        &self.place
    }
}

fn thread(tid: u32) -> Handle {
    Box::leak(Box::new(Thread {
        tid,
        ..Thread::default()
    }))
}

fn threads<const N: usize>() -> [Handle; N] {
    core::array::from_fn(|n| thread(n as u32 + 1))
}

/// How often each was woken.
fn woken(threads: &[Handle]) -> Vec<usize> {
    threads.iter().map(|t| *t.woken.lock().unwrap()).collect()
}

/// A word in memory, or where there is none.
struct Memory(Cell<Option<u32>>);

impl Memory {
    fn of(value: u32) -> Memory {
        Memory(Cell::new(Some(value)))
    }

    fn get(&self) -> u32 {
        self.0.get().expect("there is memory")
    }

    fn set(&self, value: u32) {
        self.0.set(Some(value));
    }
}

/// Where there is no memory.
fn nothing() -> Memory {
    Memory(Cell::new(None))
}

impl Word for Memory {
    fn load(&self) -> Result<u32, Errno> {
        self.0.get().ok_or(Errno::EFAULT)
    }

    fn compare_exchange(&self, old: u32, new: u32) -> Result<u32, Errno> {
        let found = self.load()?;
        if found == old {
            self.set(new);
        }
        Ok(found)
    }
}

impl<T: Word> Word for &T {
    fn load(&self) -> Result<u32, Errno> {
        (*self).load()
    }

    fn compare_exchange(&self, old: u32, new: u32) -> Result<u32, Errno> {
        (*self).compare_exchange(old, new)
    }
}

type Table = Futexes<Checked, Handle>;

fn table(buckets: usize) -> Table {
    Table::new(buckets, 1).unwrap()
}

fn key(at: u64) -> Key {
    Key { space: 1, at }
}

/// A preemption point.
fn point(_work: u32) {
    assert!(no_lock_held(), "preemption point under a lock");
}
