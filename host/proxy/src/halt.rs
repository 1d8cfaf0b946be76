//! Threads that have halted ([`abi::halt`]): what they are told, and the registers that they show.

use std::collections::BTreeMap;
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
}

/// The threads of a rank that have halted.
#[derive(Default, Debug)]
pub struct Halted {
    inner: Mutex<Inner>,
    free: Condvar,
}

#[derive(Default, Debug)]
struct Inner {
    /// The thread that has the rank's record of registers.
    showing: Option<usize>,
    shown: BTreeMap<usize, Shown>,
}

impl Halted {
    /// What thread `index`, which says why it has halted, is to do. A thread shows its registers, one at a time, and goes.
    pub fn order(&self, index: usize, why: Halt, registers: &Registers) -> Order {
        let mut inner = self.lock();
        match why {
            Halt::Ends => {
                while inner.showing.is_some_and(|other| other != index) {
                    inner = self
                        .free
                        .wait(inner)
                        .unwrap_or_else(PoisonError::into_inner);
                }
                inner.showing = Some(index);
                Order::Show
            }
            Halt::Done => {
                if inner.showing == Some(index) {
                    inner.showing = None;
                    inner.shown.insert(index, Shown::of(registers));
                    self.free.notify_all();
                }
                Order::Go
            }
        }
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

    #[test]
    fn threads_show_their_registers_one_after_the_other() {
        let (halted, record) = (Halted::default(), Registers::default());
        assert_eq!(halted.order(0, Halt::Ends, &record), Order::Show);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| halted.order(1, Halt::Ends, &record));
            record.general[16].put(0x1000);
            record.states.put(7);
            record.put_fpu(&[1; 832]);
            assert_eq!(halted.order(0, Halt::Done, &record), Order::Go);
            assert_eq!(other.join().expect("no panic"), Order::Show);
        });
        record.general[16].put(0x2000);
        assert_eq!(halted.order(1, Halt::Done, &record), Order::Go);
        let shown = halted.shown();
        assert_eq!(
            [0, 1].map(|index| shown[&index].general[16]),
            [0x1000, 0x2000]
        );
        assert_eq!((shown[&0].fpu.len(), shown[&0].fpu[464]), (832, 7));
        // Who says that it is done without having been told to do anything changes nothing.
        assert_eq!(halted.order(0, Halt::Done, &record), Order::Go);
        assert_eq!(halted.shown(), shown);
    }
}
