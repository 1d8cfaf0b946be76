//! The trace ring: what a rank's system calls and signals were, for `--strace`. QK to host; one producer, one consumer.
//!
//! A call gives a record when it begins and one when it returns. Each carries copies of the memory that its arguments point to
//! ([`Pieces`]), taken at that moment: what the call reads when it begins, what it wrote when it returns. The table gives
//! the QK only which memory that is; what it means is decided by the reader. Of long buffers the beginning is kept, and a record
//! has room for [`DATA_BYTES`], so a program cannot make tracing expensive by what it passes.

use zerocopy::{FromBytes, KnownLayout};

use crate::ring::{self, Ring};
use crate::word::Word;

/// Records that fit; a power of two. A rank whose ring is full waits, so that nothing is lost.
pub const CAPACITY: usize = 128;
/// Bytes for copies of memory in a record, their addresses and lengths included.
pub const DATA_BYTES: usize = 1024;
/// Bytes before each piece: address and length.
const HEAD_BYTES: usize = 16;

/// What a record is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum Kind {
    /// A call begins: `nr` and `args`.
    Enter = 0,
    /// The call returned `ret`; `nr` and `args` as when it began.
    Exit = 1,
    /// A signal is acted on: `nr` is its number, `ret` its si_code, `args` begins with the union behind it (siginfo_t from byte
    /// 16 on).
    Signal = 2,
}

/// One record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// What it is about.
    pub kind: Kind,
    /// Thread id of the thread that makes the call or takes the signal.
    pub tid: u64,
    /// CLOCK_REALTIME of the node.
    pub time_ns: u64,
    /// Linux's number, or whatever the program put into rax.
    pub nr: u64,
    /// Its arguments.
    pub args: [u64; 6],
    /// What it returned.
    pub ret: i64,
    /// Memory behind the arguments.
    pub pieces: Pieces,
}

/// Copies of memory, each with its address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pieces {
    len: usize,
    data: [u8; DATA_BYTES],
}

impl Default for Pieces {
    fn default() -> Pieces {
        Pieces {
            len: 0,
            data: [0; DATA_BYTES],
        }
    }
}

impl Pieces {
    /// Adds a piece of at most `max_bytes` from `addr` on. `copy` is given the room and says how much of it was copied; without
    /// anything there is no piece.
    pub fn add(
        &mut self,
        addr: u64,
        max_bytes: usize,
        copy: impl FnOnce(&mut [u8]) -> Option<usize>,
    ) {
        let start = self.len + HEAD_BYTES;
        let room = DATA_BYTES.saturating_sub(start).min(max_bytes);
        if room == 0 {
            return;
        }
        let Some(len) = copy(&mut self.data[start..start + room]) else {
            return;
        };
        let len = len.min(room);
        self.data[self.len..][..8].copy_from_slice(&addr.to_le_bytes());
        self.data[self.len + 8..][..8].copy_from_slice(&(len as u64).to_le_bytes());
        self.len = (start + len).next_multiple_of(8).min(DATA_BYTES);
    }

    /// The pieces with their addresses.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let mut rest = &self.data[..self.len.min(DATA_BYTES)];
        core::iter::from_fn(move || {
            let (head, behind) = rest.split_at_checked(HEAD_BYTES)?;
            let word = |at: usize| {
                let mut bytes = [0; 8];
                bytes.copy_from_slice(&head[at..at + 8]);
                u64::from_le_bytes(bytes)
            };
            let len = usize::try_from(word(8))
                .ok()
                .filter(|len| *len <= behind.len())?;
            rest = behind.get(len.next_multiple_of(8)..).unwrap_or_default();
            Some((word(0), &behind[..len]))
        })
    }
}

/// A shared record; see [`Record`].
#[derive(FromBytes, KnownLayout, Debug)]
#[repr(C)]
pub struct Entry {
    kind: Word,
    tid: Word,
    time_ns: Word,
    nr: Word,
    args: [Word; 6],
    ret: Word,
    len: Word,
    data: [Word; DATA_BYTES / 8],
    _pad: [Word; 4],
}

impl ring::Entry for Entry {
    type Record = Record;

    fn put(&self, record: &Record) {
        self.kind.put(record.kind as u64);
        self.tid.put(record.tid);
        self.time_ns.put(record.time_ns);
        self.nr.put(record.nr);
        for (to, from) in self.args.iter().zip(&record.args) {
            to.put(*from);
        }
        self.ret.put(record.ret as u64);
        let len = record.pieces.len.min(DATA_BYTES);
        self.len.put(len as u64);
        for (to, from) in self.data.iter().zip(record.pieces.data[..len].chunks(8)) {
            let mut bytes = [0; 8];
            bytes[..from.len()].copy_from_slice(from);
            to.put(u64::from_le_bytes(bytes));
        }
    }

    fn get(&self) -> Record {
        let mut record = Record {
            kind: match self.kind.peek() {
                0 => Kind::Enter,
                2 => Kind::Signal,
                _ => Kind::Exit,
            },
            tid: self.tid.peek(),
            time_ns: self.time_ns.peek(),
            nr: self.nr.peek(),
            args: core::array::from_fn(|i| self.args[i].peek()),
            ret: self.ret.peek() as i64,
            pieces: Pieces::default(),
        };
        let len = usize::try_from(self.len.peek())
            .unwrap_or(0)
            .min(DATA_BYTES);
        for (to, from) in record.pieces.data[..len].chunks_mut(8).zip(&self.data) {
            to.copy_from_slice(&from.peek().to_le_bytes()[..to.len()]);
        }
        record.pieces.len = len;
        record
    }
}

/// The ring in shared memory.
pub type TraceRing = Ring<Entry, CAPACITY>;

#[cfg(test)]
mod tests {
    extern crate std;

    use zerocopy::FromZeros;

    use super::*;

    fn copy(bytes: &'static [u8]) -> impl FnOnce(&mut [u8]) -> Option<usize> {
        move |room| {
            let len = bytes.len().min(room.len());
            room[..len].copy_from_slice(&bytes[..len]);
            Some(len)
        }
    }

    #[test]
    fn a_record_is_copied_whole() {
        let ring = TraceRing::new_zeroed();
        let mut pieces = Pieces::default();
        pieces.add(0x1000, 3, copy(b"hello"));
        pieces.add(0x2000, 9, copy(b""));
        pieces.add(0x3000, 9, |_| None);
        pieces.add(0x4000, 99, copy(b"123456789"));
        let record = Record {
            kind: Kind::Exit,
            tid: 4,
            time_ns: 7,
            nr: u64::MAX,
            args: [1, 2, 3, 4, 5, 6],
            ret: -14,
            pieces,
        };
        assert!(ring.append(&record));
        let taken = ring.take().expect("one");
        let seen: std::vec::Vec<_> = taken.pieces.iter().collect();
        assert_eq!(
            seen,
            [(0x1000, &b"hel"[..]), (0x2000, b""), (0x4000, b"123456789")]
        );
        assert_eq!(
            (taken.tid, taken.nr, taken.ret, taken.args[5]),
            (4, u64::MAX, -14, 6)
        );
    }

    #[test]
    fn what_does_not_fit_is_cut() {
        let mut pieces = Pieces::default();
        pieces.add(1, 900, |room| Some(room.len()));
        pieces.add(2, 900, |room| Some(room.len()));
        pieces.add(3, 900, |room| Some(room.len()));
        let lens: std::vec::Vec<usize> = pieces.iter().map(|(_, bytes)| bytes.len()).collect();
        assert_eq!(lens, [900, DATA_BYTES - 16 - 904 - 16]);
    }

    proptest::proptest! {
        /// The node may have written anything.
        #[test]
        fn any_data_is_read_without_panicking(len in 0usize..2000, words: [u64; 12]) {
            let mut pieces = Pieces { len, ..Pieces::default() };
            for (to, word) in pieces.data.chunks_mut(8).zip(words) {
                to.copy_from_slice(&(word % 64).to_le_bytes());
            }
            let total: usize = pieces.iter().map(|(_, bytes)| bytes.len()).sum();
            proptest::prop_assert!(total <= DATA_BYTES);
        }
    }
}
