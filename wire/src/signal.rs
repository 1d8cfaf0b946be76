//! The signal mailbox: signals that the host has for a rank. Host to QK; one producer, one consumer. And the other way: those that
//! are to wait in Linux, where a program's descriptors find them (signalfd(2)).

use zerocopy::{FromBytes, KnownLayout};

use crate::ring::{self, Ring};
use crate::word::Word;

/// Signals that fit; a power of two. When it is full the proxy waits: signals then stay pending in Linux.
/// (Rings are short under loom, so that it sees them wrap around.)
pub const CAPACITY: usize = if cfg!(loom) { 2 } else { 32 };

/// Real-time signals of the host that may be under way or pending on the node, of all that are sent to a process: the node
/// keeps this many places for them, the others wait in Linux. Standard signals need no place.
pub const QUEUED: u64 = 32;

/// First real-time signal (SIGRTMIN of the kernel, uapi/asm/signal.h).
pub const FIRST_REAL_TIME: u32 = 32;

/// In place of a signal's number: the debugger's requests have changed, see [`crate::rank::FromHost::debugger`].
pub const LOOK: u32 = 0;

/// A signal with what siginfo says of its sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Signal {
    /// 1..=64, or [`LOOK`].
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

impl ring::Entry for Entry {
    type Record = Signal;

    fn put(&self, signal: &Signal) {
        self.signo_code
            .put(u64::from(signal.signo) << 32 | u64::from(signal.code as u32));
        self.pid_uid
            .put(u64::from(signal.pid) << 32 | u64::from(signal.uid));
        self.value.put(signal.value);
    }

    fn get(&self) -> Signal {
        let (signo_code, pid_uid) = (self.signo_code.peek(), self.pid_uid.peek());
        Signal {
            signo: (signo_code >> 32) as u32,
            code: signo_code as u32 as i32,
            pid: (pid_uid >> 32) as u32,
            uid: pid_uid as u32,
            value: self.value.peek(),
        }
    }
}

/// The mailbox in shared memory.
#[derive(FromBytes, KnownLayout, Default, Debug)]
#[repr(transparent)]
pub struct Mailbox(Ring<Entry, CAPACITY>);

impl Mailbox {
    /// Posts a signal (host only); `false` when the mailbox is full. Ring the rank's core afterwards.
    #[must_use]
    pub fn post(&self, signal: &Signal) -> bool {
        self.0.append(signal)
    }

    /// Whether there is nothing to take.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes the next signal (QK only). Numbers that are no signals are dropped, as many as fit in one go.
    pub fn take(&self) -> Option<Signal> {
        for _ in 0..CAPACITY {
            let signal = self.0.take()?;
            if (LOOK..=abi::ident::NSIG).contains(&signal.signo) {
                return Some(signal);
            }
        }
        None
    }
}

/// Signals that always wait on the node, a bit each (signo - 1), whatever descriptors a program makes for them: SIGKILL, SIGSTOP;
/// SIGSTKFLT, by which proxies interrupt calls; SIGCONT, SIGTTIN, SIGTTOU and SIGURG, of which they have to know.
pub const NEVER_LEFT: u64 = 1 << 8 | 1 << 15 | 1 << 17 | 1 << 18 | 1 << 20 | 1 << 21 | 1 << 22;

/// A signal that is to wait in Linux.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Left {
    /// With what siginfo says: the words of its union may be those of any code.
    pub signal: Signal,
    /// The thread that it is for; 0: the process.
    pub tid: u32,
}

/// A shared one; see [`Left`].
#[derive(FromBytes, KnownLayout, Default, Debug)]
#[repr(C)]
pub struct LeftEntry {
    signal: Entry,
    tid: Word,
}

impl ring::Entry for LeftEntry {
    type Record = Left;

    fn put(&self, left: &Left) {
        self.signal.put(&left.signal);
        self.tid.put(left.tid.into());
    }

    fn get(&self) -> Left {
        Left {
            signal: self.signal.get(),
            tid: self.tid.peek() as u32,
        }
    }
}

/// Signals that are to wait in Linux, in shared memory: QK to host.
#[derive(FromBytes, KnownLayout, Default, Debug)]
#[repr(transparent)]
pub struct Outbox(Ring<LeftEntry, CAPACITY>);

impl Outbox {
    /// Leaves a signal (QK only); `false` when there is no room. Ring the proxy afterwards.
    #[must_use]
    pub fn leave(&self, left: &Left) -> bool {
        self.0.append(left)
    }

    /// Whether another one can be left (QK only).
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.0.has_room()
    }

    /// Whether there is none to take.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes the next one (host only). What is no signal, or always waits on the node, is dropped, as many as fit in one go.
    pub fn take(&self) -> Option<Left> {
        for _ in 0..CAPACITY {
            let left = self.0.take()?;
            let signo = left.signal.signo;
            if (1..=abi::ident::NSIG).contains(&signo) && NEVER_LEFT >> (signo - 1) & 1 == 0 {
                return Some(left);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_arrives_but_what_always_waits_on_the_node() {
        let outbox = Outbox::default();
        let left = |signo| Left {
            signal: Signal {
                signo,
                ..Signal::default()
            },
            tid: 7,
        };
        for signo in [0, 9, 16, 65, 10] {
            assert!(outbox.leave(&left(signo)));
        }
        assert_eq!((outbox.take(), outbox.take()), (Some(left(10)), None));
    }

    #[test]
    fn a_signal_arrives_with_all_that_is_said_of_its_sender() {
        let mailbox = Mailbox::default();
        let signal = Signal {
            signo: 64,
            code: -6,
            pid: 7,
            uid: u32::MAX,
            value: u64::MAX - 1,
        };
        assert!(mailbox.is_empty() && mailbox.post(&signal) && !mailbox.is_empty());
        assert_eq!(mailbox.take(), Some(signal));
        assert_eq!(mailbox.take(), None);
    }

    #[test]
    fn numbers_that_are_no_signals_are_dropped() {
        let mailbox = Mailbox::default();
        for signo in [65, u32::MAX, 2] {
            assert!(mailbox.post(&Signal {
                signo,
                ..Default::default()
            }));
        }
        assert_eq!(mailbox.take().map(|s| s.signo), Some(2));
    }
}
