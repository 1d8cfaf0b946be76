//! The trace ring: one record per system call of a rank, for `--strace`. QK to host; one producer, one consumer.

use zerocopy::{FromBytes, KnownLayout};

use crate::word::{Text, Word};

/// Records that fit; a power of two. A rank whose ring is full waits, so that nothing is lost.
pub const CAPACITY: usize = if cfg!(loom) { 2 } else { 256 };
/// Bytes of text kept of a call's path or buffer.
pub const TEXT_BYTES: usize = 48;

/// A finished system call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// Linux's number, or whatever the program put into rax.
    pub nr: u64,
    /// Its arguments.
    pub args: [u64; 6],
    /// What it returned.
    pub ret: i64,
    /// Start of the path or buffer that the call names.
    pub text: [u8; TEXT_BYTES],
    /// How many bytes of `text` there are; `None`: the call names none, or it cannot be read.
    pub text_len: Option<usize>,
}

/// A shared record; see [`Record`].
#[derive(FromBytes, KnownLayout, Debug)]
#[repr(C)]
pub struct Entry {
    nr: Word,
    args: [Word; 6],
    ret: Word,
    text_len: Word,
    text: Text<{ TEXT_BYTES / 8 }>,
    _pad: Word,
}

/// The ring in shared memory.
#[derive(FromBytes, KnownLayout, Debug)]
#[repr(C, align(64))]
pub struct TraceRing {
    /// Records ever written; by the QK.
    head: Word,
    _pad0: [Word; 7],
    /// Records ever taken; by the host.
    tail: Word,
    _pad1: [Word; 7],
    ring: [Entry; CAPACITY],
}

impl TraceRing {
    /// Appends a record (QK only); `false` when the ring is full.
    #[must_use]
    pub fn append(&self, record: &Record) -> bool {
        let head = self.head.peek();
        if head.wrapping_sub(self.tail.load()) >= CAPACITY as u64 {
            return false;
        }
        let entry = &self.ring[head as usize % CAPACITY];
        entry.nr.put(record.nr);
        for (to, from) in entry.args.iter().zip(&record.args) {
            to.put(*from);
        }
        entry.ret.put(record.ret as u64);
        let len = record.text_len.map(|len| len.min(TEXT_BYTES));
        entry.text.put(&record.text);
        entry.text_len.put(len.map_or(u64::MAX, |len| len as u64));
        self.head.store(head.wrapping_add(1));
        true
    }

    /// Takes the next record (host only). A ring that claims to hold more than fits is emptied.
    pub fn take(&self) -> Option<Record> {
        let (head, tail) = (self.head.load(), self.tail.peek());
        if head == tail {
            return None;
        }
        if head.wrapping_sub(tail) > CAPACITY as u64 {
            self.tail.store(head);
            return None;
        }
        let entry = &self.ring[tail as usize % CAPACITY];
        let mut args = [0; 6];
        for (to, from) in args.iter_mut().zip(&entry.args) {
            *to = from.peek();
        }
        let mut text = [0; TEXT_BYTES];
        entry.text.get(&mut text);
        let text_len = entry.text_len.peek();
        let record = Record {
            nr: entry.nr.peek(),
            args,
            ret: entry.ret.peek() as i64,
            text,
            text_len: (text_len <= TEXT_BYTES as u64).then_some(text_len as usize),
        };
        self.tail.store(tail.wrapping_add(1));
        Some(record)
    }
}
