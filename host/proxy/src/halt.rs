//! Threads that have halted ([`abi::halt`]): their orders, and the registers that they show.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use abi::halt::{Halt, Order};
use wire::registers::{FPU_BYTES, GENERAL, Registers};
use wire::word::Word;

/// Where XSAVE leaves room for software; Linux writes there which state components the image has room for, and gdb reads it
/// (arch/x86/include/asm/user.h).
const STATES_AT: usize = 464;

/// Registers of a thread.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shown {
    /// In the order of [`wire::registers`].
    pub general: [u64; GENERAL],
    /// XSAVE's image, with the state components in the place that Linux has for them.
    pub fpu: Vec<u8>,
}

impl Shown {
    /// What the node has in its record.
    pub fn of(registers: &Registers) -> Shown {
        let mut fpu = [0; FPU_BYTES];
        let len_bytes = registers.get_fpu(&mut fpu);
        let states = registers.states.peek().to_le_bytes();
        fpu[STATES_AT..STATES_AT + states.len()].copy_from_slice(&states);
        Shown {
            general: registers.general.each_ref().map(Word::peek),
            fpu: fpu[..len_bytes].to_vec(),
        }
    }

    /// Puts them into the proxy's record.
    pub fn put(&self, registers: &Registers) {
        for (to, from) in registers.general.iter().zip(self.general) {
            to.put(from);
        }
        registers.put_fpu(&self.fpu);
    }
}

/// The threads of a rank that have halted.
#[derive(Debug)]
pub struct Halted {
    inner: Mutex<Inner>,
    changed: Condvar,
    /// Signalled when a thread halts.
    doorbell: OwnedFd,
}

#[derive(Default, Debug)]
struct Inner {
    /// The dying thread that has the rank's record of registers.
    showing: Option<usize>,
    shown: BTreeMap<usize, Shown>,
    /// Threads that wait for their debugger's orders, and why they halted.
    waiting: BTreeMap<usize, (Halt, u64)>,
    /// Orders that have not been taken.
    orders: BTreeMap<usize, Order>,
}

impl Halted {
    /// None; `doorbell` is an eventfd that does not block.
    pub fn new(doorbell: OwnedFd) -> Halted {
        Halted {
            inner: Mutex::default(),
            changed: Condvar::new(),
            doorbell,
        }
    }

    /// What thread `index`, which says why it has halted, is to do. One that dies shows its registers, one at a time, and
    /// goes; others wait for their debugger.
    pub fn order(&self, index: usize, why: Halt, with: u64, registers: &Registers) -> Order {
        let mut inner = self.lock();
        match why {
            Halt::Ends => {
                while inner.showing.is_some_and(|other| other != index) {
                    inner = self.wait(inner);
                }
                inner.showing = Some(index);
                return Order::Show;
            }
            Halt::Done if inner.showing == Some(index) => {
                inner.showing = None;
                inner.shown.insert(index, Shown::of(registers));
                self.changed.notify_all();
                return Order::Go(0);
            }
            _ => {}
        }
        inner.waiting.insert(index, (why, with));
        self.changed.notify_all();
        self.signal();
        loop {
            if let Some(order) = inner.orders.remove(&index) {
                return order;
            }
            inner = self.wait(inner);
        }
    }

    /// Threads that wait for orders, and why they halted.
    pub fn waiting(&self) -> BTreeMap<usize, (Halt, u64)> {
        self.lock().waiting.clone()
    }

    /// Gives an order to a thread that waits, and waits until it has been carried out. For the debugger, while no other
    /// thread gets orders.
    pub fn command(&self, index: usize, order: Order) {
        let mut inner = self.lock();
        let Some(why) = inner.waiting.remove(&index) else {
            return;
        };
        inner.orders.insert(index, order);
        self.changed.notify_all();
        while !inner.waiting.contains_key(&index) {
            inner = self.wait(inner);
        }
        inner.waiting.insert(index, why);
    }

    /// Lets a thread that waits go on.
    pub fn release(&self, index: usize, order: Order) {
        let mut inner = self.lock();
        if inner.waiting.remove(&index).is_some() {
            inner.orders.insert(index, order);
            self.changed.notify_all();
        }
    }

    /// Readable when a thread has halted since the last [`Self::clear`].
    pub fn doorbell(&self) -> BorrowedFd<'_> {
        self.doorbell.as_fd()
    }

    /// Makes the doorbell wait for the next one.
    pub fn clear(&self) {
        let _ = rustix::io::read(&self.doorbell, &mut [0; 8]);
    }

    /// Wakes the thread that waits for the doorbell.
    pub fn signal(&self) {
        let _ = rustix::io::write(&self.doorbell, &1u64.to_ne_bytes());
    }

    fn wait<'a>(&self, inner: MutexGuard<'a, Inner>) -> MutexGuard<'a, Inner> {
        self.changed
            .wait(inner)
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The registers that were shown, by the threads' indices.
    pub fn shown(&self) -> BTreeMap<usize, Shown> {
        self.lock().shown.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new() -> Halted {
        let flags = rustix::event::EventfdFlags::NONBLOCK;
        Halted::new(rustix::event::eventfd(0, flags).expect("a doorbell"))
    }

    #[test]
    fn threads_wait_for_orders() {
        let (halted, record) = (new(), Registers::default());
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let first = halted.order(3, Halt::Signal, 11, &record);
                (first, halted.order(3, Halt::Done, 0, &record))
            });
            while halted.waiting().is_empty() {
                std::thread::yield_now();
            }
            halted.command(3, Order::Show);
            assert_eq!(halted.waiting()[&3], (Halt::Signal, 11));
            halted.release(3, Order::Step(0));
            let orders = thread.join().expect("no panic");
            assert_eq!(orders, (Order::Show, Order::Step(0)));
        });
        assert!(halted.waiting().is_empty());
        // Of a thread that does not wait nothing is wanted.
        halted.command(3, Order::Show);
        halted.release(3, Order::Go(0));
    }

    #[test]
    fn threads_show_their_registers_one_after_the_other() {
        let (halted, record) = (new(), Registers::default());
        assert_eq!(halted.order(0, Halt::Ends, 0, &record), Order::Show);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| halted.order(1, Halt::Ends, 0, &record));
            record.general[16].put(0x1000);
            record.states.put(7);
            record.put_fpu(&[1; 832]);
            assert_eq!(halted.order(0, Halt::Done, 0, &record), Order::Go(0));
            assert_eq!(other.join().expect("no panic"), Order::Show);
        });
        record.general[16].put(0x2000);
        assert_eq!(halted.order(1, Halt::Done, 0, &record), Order::Go(0));
        let shown = halted.shown();
        assert_eq!(
            [0, 1].map(|index| shown[&index].general[16]),
            [0x1000, 0x2000]
        );
        assert_eq!((shown[&0].fpu.len(), shown[&0].fpu[464]), (832, 7));
    }
}
