//! Ship slots: how a thread of the node has a call carried out on the host.
//!
//! A slot holds the request's cache lines, written by the QK, and the response's, written by the proxy. The caller
//! publishes a sequence number; the proxy answers with the same number.
//!
//! ```text
//!  caller (QK)                                      server (proxy worker)
//!  put arguments; seq = n            ─────────────► sees seq == n, copies the arguments once
//!  fence; server_waiting? ring                      ... carries the call out ...
//!  spin a little on done == n        ◄───────────── put ret; done = n
//!  caller_waiting = n; fence;                       fence; caller_waiting == n?
//!  check (both ways); halt       ◄───────────────── bell = n, yes or no; if yes, ring the core
//! ```
//!
//! Each side says that it is going to block *before* its last look, with a full fence between, so one of the two always
//! sees the other. QEMU leaves the guest's fences out when it runs all CPUs on one thread, so the QK must put something
//! between that the emulator itself cannot reorder (a device register read takes QEMU's lock), and must also look at
//! `server_waiting` once more there.
//!
//! A caller that said that it is going to wait may find the answer before it halts, without a sign of whether it is being rung
//! nevertheless. An interrupt that comes when the program computes again is noise; so the server says in `bell` what it
//! does, and the caller waits for the ring if there is to be one.

use zerocopy::{FromBytes, KnownLayout};

use crate::word::{Word, full_fence};

/// What is requested.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Request {
    /// Sequence number, from 1.
    pub seq: u64,
    /// `false`: a Linux system call; `true`: an [`abi::control::HostOp`].
    pub host_op: bool,
    /// The call's number.
    pub nr: u64,
    /// Its arguments.
    pub args: [u64; 6],
    /// Position in the region log up to which mappings must be applied before.
    pub log_position: u64,
}

/// A slot in shared memory.
#[derive(FromBytes, KnownLayout, Default, Debug)]
#[repr(C, align(64))]
pub struct Slot {
    // Written by the QK.
    seq: Word,
    nr: Word,
    args: [Word; 6],
    log_position: Word,
    host_op: Word,
    caller_waiting: Word,
    cancel: Word,
    _pad0: [Word; 4],
    // Written by the proxy.
    done: Word,
    ret: Word,
    server_waiting: Word,
    bell: Word,
    more: [Word; 2],
    _pad1: [Word; 2],
}

/// The caller's side of a slot (QK). One per [thread area](crate::thread), whichever thread has it, kept in the kernel's own memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct Caller {
    seq: u64,
}

impl Caller {
    /// Publishes a request and returns whether the server must be rung. Earlier requests must have been answered.
    pub fn post(
        &mut self,
        slot: &Slot,
        nr: u64,
        args: &[u64; 6],
        host_op: bool,
        log_position: u64,
    ) -> bool {
        self.seq += 1;
        slot.nr.put(nr);
        for (to, from) in slot.args.iter().zip(args) {
            to.put(*from);
        }
        slot.host_op.put(u64::from(host_op));
        slot.log_position.put(log_position);
        slot.seq.store(self.seq);
        full_fence();
        slot.server_waiting.load() != 0
    }

    /// The result, once the server has answered.
    #[inline]
    #[must_use]
    pub fn result(&self, slot: &Slot) -> Option<i64> {
        (slot.done.load() == self.seq).then(|| slot.ret.load() as i64)
    }

    /// Says that the caller will halt until its core is rung. Look at [`Self::result`] and [`Self::must_ring`] once more
    /// after this, behind a fence that the emulator keeps.
    pub fn announce_wait(&self, slot: &Slot) {
        slot.caller_waiting.store(self.seq);
        full_fence();
    }

    /// Whether the server rings the core for the answer, which must be there; `None`: it has not decided yet, and will at
    /// once.
    #[must_use]
    pub fn is_rung(&self, slot: &Slot) -> Option<bool> {
        let bell = slot.bell.load();
        (bell >> 1 == self.seq).then_some(bell & 1 != 0)
    }

    /// Whether the server has blocked without seeing the request.
    #[must_use]
    pub fn must_ring(&self, slot: &Slot) -> bool {
        slot.done.load() != self.seq && slot.server_waiting.load() != 0
    }

    /// Has the server give up on the request if it blocks (a signal is to be delivered); the server must be rung by
    /// the caller's doorbell if it [waits](Self::must_ring), and interrupts its own worker otherwise.
    pub fn cancel(&self, slot: &Slot) {
        slot.cancel.store(self.seq);
        full_fence();
    }
}

/// The server's side of a slot (proxy worker).
#[derive(Debug, Default)]
pub struct Server {
    seen: u64,
}

impl Server {
    /// One that goes on where the answers in the slot end: all requests so far have been answered.
    #[must_use]
    pub fn after_answers(slot: &Slot) -> Server {
        Server {
            seen: slot.done.load(),
        }
    }

    /// A copy of the next request, if there is one.
    pub fn poll(&mut self, slot: &Slot) -> Option<Request> {
        let seq = slot.seq.load();
        if seq == self.seen {
            return None;
        }
        self.seen = seq;
        let mut args = [0; 6];
        for (to, from) in args.iter_mut().zip(&slot.args) {
            *to = from.peek();
        }
        Some(Request {
            seq,
            host_op: slot.host_op.peek() != 0,
            nr: slot.nr.peek(),
            args,
            log_position: slot.log_position.peek(),
        })
    }

    /// Says that the server will block (`true`) or has woken. After `true`, [`Self::poll`] once more before blocking.
    pub fn announce_wait(&self, slot: &Slot, waiting: bool) {
        slot.server_waiting.store(u64::from(waiting));
        full_fence();
    }

    /// Answers the request that was polled last; returns whether the caller's core must be rung.
    #[must_use]
    pub fn answer(&self, slot: &Slot, ret: i64) -> bool {
        slot.ret.put(ret as u64);
        slot.done.store(self.seen);
        full_fence();
        let ring = slot.caller_waiting.load() == self.seen;
        slot.bell.store(self.seen << 1 | u64::from(ring));
        ring
    }
}

impl Slot {
    /// What an operation found besides its result. Of a Linux call: the number of the signal that it raised, if it
    /// [may](abi::syscall::Call::may_raise), or 0; whether EINTR is final, 0 or 1, if it returned that. To be written before the answer
    /// (server), and read after it (caller).
    pub fn put_more(&self, more: [u64; 2]) {
        for (word, value) in self.more.iter().zip(more) {
            word.put(value);
        }
    }

    /// See [`Self::put_more`].
    #[must_use]
    pub fn more(&self) -> [u64; 2] {
        [self.more[0].peek(), self.more[1].peek()]
    }

    /// The position of the region log that the last request named (caller).
    #[must_use]
    pub fn posted_position(&self) -> u64 {
        self.log_position.peek()
    }

    /// Whether the server has said that it waits although there is a request: it has to be woken, unless it has seen that
    /// itself. For the one that waits for the doorbell in the server's place.
    #[must_use]
    pub fn is_overdue(&self) -> bool {
        self.server_waiting.load() != 0 && self.seq.load() != self.done.load()
    }

    /// Whether the caller has cancelled the request `seq`.
    #[must_use]
    pub fn cancelled(&self, seq: u64) -> bool {
        self.cancel.load() == seq
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_seen_once_and_answered_once() {
        let slot = Slot::default();
        let (mut caller, mut server) = (Caller::default(), Server::default());
        assert!(server.poll(&slot).is_none());
        assert!(!caller.post(&slot, 8, &[1, 2, 3, 4, 5, 6], false, 7));
        assert_eq!(caller.result(&slot), None);
        let request = server.poll(&slot).unwrap();
        assert_eq!(
            request,
            Request {
                seq: 1,
                host_op: false,
                nr: 8,
                args: [1, 2, 3, 4, 5, 6],
                log_position: 7
            }
        );
        assert!(server.poll(&slot).is_none());
        assert_eq!(caller.is_rung(&slot), None);
        assert!(!server.answer(&slot, -22));
        assert_eq!(caller.result(&slot), Some(-22));
        assert_eq!(caller.is_rung(&slot), Some(false));
    }

    #[test]
    fn those_who_wait_are_rung() {
        let slot = Slot::default();
        let (mut caller, mut server) = (Caller::default(), Server::default());
        server.announce_wait(&slot, true);
        assert!(caller.post(&slot, 0, &[0; 6], false, 0));
        server.announce_wait(&slot, false);
        server.poll(&slot).unwrap();
        caller.announce_wait(&slot);
        assert!(server.answer(&slot, 0));
        assert_eq!(caller.is_rung(&slot), Some(true));
    }

    #[test]
    fn only_the_current_request_is_cancelled() {
        let slot = Slot::default();
        let (mut caller, mut server) = (Caller::default(), Server::default());
        caller.post(&slot, 0, &[0; 6], false, 0);
        let first = server.poll(&slot).unwrap();
        caller.cancel(&slot);
        assert!(slot.cancelled(first.seq));
        let _ = server.answer(&slot, -4);
        caller.post(&slot, 0, &[0; 6], false, 0);
        assert!(!slot.cancelled(server.poll(&slot).unwrap().seq));
    }
}
