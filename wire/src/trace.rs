//! The trace ring: one record per system call of a rank, for `--strace`. QK to host; one producer, one consumer.

use zerocopy::{FromBytes, KnownLayout};

use crate::ring::{self, Ring};
use crate::word::{Text, Word};

/// Records that fit; a power of two. A rank whose ring is full waits, so that nothing is lost.
pub const CAPACITY: usize = 256;
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

impl ring::Entry for Entry {
    type Record = Record;

    fn put(&self, record: &Record) {
        self.nr.put(record.nr);
        for (to, from) in self.args.iter().zip(&record.args) {
            to.put(*from);
        }
        self.ret.put(record.ret as u64);
        let len = record.text_len.map(|len| len.min(TEXT_BYTES));
        self.text.put(&record.text);
        self.text_len.put(len.map_or(u64::MAX, |len| len as u64));
    }

    fn get(&self) -> Record {
        let mut args = [0; 6];
        for (to, from) in args.iter_mut().zip(&self.args) {
            *to = from.peek();
        }
        let mut text = [0; TEXT_BYTES];
        self.text.get(&mut text);
        let text_len = self.text_len.peek();
        Record {
            nr: self.nr.peek(),
            args,
            ret: self.ret.peek() as i64,
            text,
            text_len: (text_len <= TEXT_BYTES as u64).then_some(text_len as usize),
        }
    }
}

/// The ring in shared memory.
pub type TraceRing = Ring<Entry, CAPACITY>;

#[cfg(test)]
mod tests {
    use zerocopy::FromZeros;

    use super::*;

    #[test]
    fn a_record_is_copied_whole_and_its_text_cut() {
        let ring = TraceRing::new_zeroed();
        let mut record = Record {
            nr: u64::MAX,
            args: [1, 2, 3, 4, 5, 6],
            ret: -14,
            text: [b'x'; TEXT_BYTES],
            text_len: Some(3),
        };
        for (given, kept) in [
            (Some(3), Some(3)),
            (Some(1000), Some(TEXT_BYTES)),
            (None, None),
        ] {
            record.text_len = given;
            assert!(ring.append(&record));
            record.text_len = kept;
            assert_eq!(ring.take(), Some(record));
        }
    }
}
