//! The signal mailbox: signals that the host has for a rank. Host to QK; one producer, one consumer.

use zerocopy::{FromBytes, KnownLayout};

use crate::word::Word;

/// Signals that fit; a power of two. When it is full the proxy waits: signals then stay pending in Linux.
/// (Rings are short under loom, so that it sees them wrap around.)
pub const CAPACITY: usize = if cfg!(loom) { 2 } else { 32 };

/// A signal with what siginfo says of its sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Signal {
    /// 1..=64.
    pub signo: u32,
    /// si_code.
    pub code: i32,
    /// si_pid of the sender.
    pub pid: u32,
    /// si_uid of the sender.
    pub uid: u32,
    /// si_value.
    pub value: u64,
}

/// A shared signal; see [`Signal`].
#[derive(FromBytes, KnownLayout, Default, Debug)]
#[repr(C)]
pub struct Entry {
    signo_code: Word,
    pid_uid: Word,
    value: Word,
}

/// The mailbox in shared memory.
#[derive(FromBytes, KnownLayout, Default, Debug)]
#[repr(C, align(64))]
pub struct Mailbox {
    /// Signals ever posted; written by the host.
    head: Word,
    _pad0: [Word; 7],
    /// Signals ever taken; written by the QK.
    tail: Word,
    _pad1: [Word; 7],
    ring: [Entry; CAPACITY],
}

impl Mailbox {
    /// Posts a signal (host only); `false` when the mailbox is full. Ring the rank's core afterwards.
    #[must_use]
    pub fn post(&self, signal: &Signal) -> bool {
        let head = self.head.peek();
        if head.wrapping_sub(self.tail.load()) >= CAPACITY as u64 {
            return false;
        }
        let entry = &self.ring[head as usize % CAPACITY];
        entry
            .signo_code
            .put(u64::from(signal.signo) << 32 | u64::from(signal.code as u32));
        entry
            .pid_uid
            .put(u64::from(signal.pid) << 32 | u64::from(signal.uid));
        entry.value.put(signal.value);
        self.head.store(head.wrapping_add(1));
        true
    }

    /// Whether there is something to take.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.head.load() == self.tail.peek()
    }

    /// Takes the next signal (QK only). Numbers that are no signals are dropped.
    ///
    /// A mailbox that claims to hold more than fits is emptied: with such a count, taking would not end.
    pub fn take(&self) -> Option<Signal> {
        for _ in 0..CAPACITY {
            let (head, tail) = (self.head.load(), self.tail.peek());
            if head == tail {
                return None;
            }
            if head.wrapping_sub(tail) > CAPACITY as u64 {
                self.tail.store(head);
                return None;
            }
            let entry = &self.ring[tail as usize % CAPACITY];
            let (signo_code, pid_uid) = (entry.signo_code.peek(), entry.pid_uid.peek());
            let signal = Signal {
                signo: (signo_code >> 32) as u32,
                code: signo_code as u32 as i32,
                pid: (pid_uid >> 32) as u32,
                uid: pid_uid as u32,
                value: entry.value.peek(),
            };
            self.tail.store(tail.wrapping_add(1));
            if (1..=abi::ident::NSIG).contains(&signal.signo) {
                return Some(signal);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_kept_and_full_is_said() {
        let mailbox = Mailbox::default();
        for signo in 1..=CAPACITY as u32 {
            assert!(mailbox.post(&Signal {
                signo,
                code: -6,
                pid: 7,
                uid: 8,
                value: 9
            }));
        }
        assert!(!mailbox.post(&Signal {
            signo: 1,
            ..Default::default()
        }));
        for signo in 1..=CAPACITY as u32 {
            assert_eq!(
                mailbox.take(),
                Some(Signal {
                    signo,
                    code: -6,
                    pid: 7,
                    uid: 8,
                    value: 9
                })
            );
        }
        assert!(mailbox.is_empty() && mailbox.take().is_none());
    }

    #[test]
    fn numbers_that_are_no_signals_are_dropped() {
        let mailbox = Mailbox::default();
        for signo in [0, 65, u32::MAX, 2] {
            assert!(mailbox.post(&Signal {
                signo,
                ..Default::default()
            }));
        }
        assert_eq!(mailbox.take().map(|s| s.signo), Some(2));
    }
}
