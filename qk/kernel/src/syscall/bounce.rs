//! Shipped calls whose buffers lie in SMARTMAP windows. The proxy has only its own rank's memory, so what Linux is to read is
//! copied to a place there first, what it wrote is copied back afterwards, and Linux is given that place.
//!
//! The owner's protections hold: all of a buffer must be readable, or writable, when the call begins. A pointer of which that
//! is not so is left as it is; it leads nowhere for the proxy, and Linux finds out in its own order of looking at things.
//! Not bounced are structures of ethtool, whose length is the device's affair: EFAULT.

mod plan;

use abi::Errno;
use abi::map::{PAGE, USER_TOP, in_window};
use abi::syscall::{Arg, Call as Row};
use alloc::vec::Vec;
use plan::{Back, Piece, Plan, Value, is_remote_request};
use qk_core::mman::{self, MmapArgs};

use crate::rank::Rank;
use crate::thread::Thread;
use crate::user::{
    MAX_VECTORS, MESSAGE_BYTES, MESSAGE_WORDS, VECTOR_BYTES, copy_between, get_words, put_words,
};
use crate::{preempt, shared};

/// Most bytes that are bounced for one call: of longer buffers the beginning, and the call does as much.
const MAX_BYTES: u64 = 4 << 20;
/// Work of looking at a vector or a page, in instructions.
const LOOK_WORK: u32 = 150;
/// Work of going over a piece, and of writing a word, in instructions.
const PIECE_WORK: u32 = 20;
const WORD_WORK: u32 = 50;
/// Work of finding out that memory cannot be read: a page fault in the kernel.
const FAULT_WORK: u32 = 400;
/// PROT_READ | PROT_WRITE and MAP_PRIVATE | MAP_ANONYMOUS (include/uapi/asm-generic/mman-common.h).
const READ_WRITE: u64 = 3;
const PRIVATE_ANONYMOUS: u64 = 0x22;

/// A call's buffers, bounced.
pub struct Bounce {
    /// Where they are, page-aligned.
    base: u64,
    len_bytes: u64,
    pieces: Vec<Piece>,
}

/// Whether a pointer leads into a window.
#[inline]
fn is_remote(addr: u64) -> bool {
    in_window(addr).is_some()
}

/// Whether a call names memory in windows, directly or by its vectors.
#[inline]
pub fn is_needed(row: &Row, args: &[u64; 6]) -> bool {
    // Nearly always this settles it: no argument is as large as an address in a window.
    // BOUND: the arguments of a call.
    let bits = args.iter().fold(0, |bits, value| bits | value);
    (row.nests || bits >= USER_TOP) && names_remote(row, args)
}

#[inline(never)]
fn names_remote(row: &Row, args: &[u64; 6]) -> bool {
    let mut arguments = row.args.iter().zip(args).enumerate();
    // BOUND: the arguments of a call.
    arguments.any(|(i, (arg, &value))| match *arg {
        Arg::Mem(..) | Arg::Path | Arg::Str => is_remote(value),
        Arg::Request => is_remote_request(row, args[i - 1], value),
        Arg::SigsetPair => is_remote(value) || get_words(value).is_ok_and(|[mask]| is_remote(mask)),
        // POINT: has_remote_message
        Arg::Mmsghdr(_, count) => (0..messages(args[count as usize]))
            .any(|i| has_remote_message(value.wrapping_add(i * MESSAGE_BYTES))),
        Arg::Iovec(_, count) => has_remote_vectors(value, args[count as usize]),
        Arg::Msghdr(_) => has_remote_message(value),
        _ => false,
    })
}

/// How many messages Linux looks at of so many: an unsigned int, UIO_MAXIOV at most.
fn messages(count: u64) -> u64 {
    u64::from(count as u32).min(MAX_VECTORS)
}

fn has_remote_vectors(at: u64, count: u64) -> bool {
    if is_remote(at) {
        return true;
    }
    for i in 0..count.min(MAX_VECTORS) {
        preempt::point(LOOK_WORK / 4);
        match words(at.wrapping_add(i * VECTOR_BYTES)) {
            Some([base, _]) if is_remote(base) => return true,
            Some(_) => {}
            None => return false, // Linux refuses them all
        }
    }
    false
}

fn has_remote_message(at: u64) -> bool {
    preempt::point(LOOK_WORK);
    is_remote(at)
        || words(at).is_some_and(|[name, _, iov, count, control, ..]: [u64; MESSAGE_WORDS]| {
            is_remote(name) || is_remote(control) || has_remote_vectors(iov, count)
        })
}

/// Words of the program, where there are some.
fn words<const N: usize>(at: u64) -> Option<[u64; N]> {
    let words = get_words(at);
    if words.is_err() {
        preempt::point(FAULT_WORK);
    }
    words.ok()
}

impl Bounce {
    /// Copies what Linux is to read, and has `args` name the copies.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn begin(rank: &Rank, row: &Row, args: &mut [u64; 6]) -> Result<Bounce, Errno> {
        let mut plan = Plan::default();
        let asked = *args;
        // BOUND: the arguments of a call.
        for (i, arg) in row.args.iter().enumerate() {
            plan.argument(row, *arg, i, &asked)?;
        }
        let len_bytes = plan.len_bytes.next_multiple_of(PAGE).max(PAGE);
        let base = rank.with_aspace(|aspace| {
            let args = MmapArgs {
                addr: 0,
                len_bytes,
                prot: READ_WRITE,
                flags: PRIVATE_ANONYMOUS,
                offset: 0,
            };
            let plan = mman::mmap(&args, None, aspace.regions(), &aspace.bounds())?;
            aspace.map_new(plan.region).map(|()| plan.region.start)
        })?;
        let bounce = Bounce {
            base,
            len_bytes,
            pieces: plan.pieces,
        };
        // BOUND: the arguments of a call.
        for (i, value) in plan.args.iter().enumerate() {
            match *value {
                Some(Value::At(offset)) => args[i] = base + offset,
                Some(Value::Number(number)) => args[i] = number,
                None => {}
            }
        }
        bounce.fill(&plan.words);
        Ok(bounce)
    }

    /// Copies back what Linux wrote, and gives the place back. `ret` is what the call returned.
    ///
    /// # Errors
    /// EFAULT when the owner has taken away the memory meanwhile.
    pub fn end(self, thread: &'static Thread, ret: i64) -> Result<(), Errno> {
        let mut counted = u64::try_from(ret).unwrap_or(0);
        let mut complete = true;
        for piece in self.pieces.iter().filter(|_| ret >= 0) {
            preempt::point(PIECE_WORK);
            let bytes = match piece.back {
                Back::None => 0,
                Back::All => piece.len_bytes,
                Back::Counted => piece.len_bytes.min(counted),
                Back::Message(i) if i < ret as u64 => piece.len_bytes,
                Back::Message(_) => 0,
            };
            if piece.back == Back::Counted {
                counted -= bytes;
            }
            if let Some(theirs) = piece.theirs {
                complete &= copy_between(theirs, self.base + piece.at, bytes) == bytes;
            }
        }
        // The last piece may have been a whole one.
        preempt::take_interrupts();
        let (start, end) = (self.base, self.base + self.len_bytes);
        // Another thread may have mapped a file there meanwhile.
        let rank = thread.rank;
        let _ = rank.with_aspace(|aspace| {
            shared::complete(thread, aspace, |aspace| aspace.unmap(start, end))
        });
        if complete { Ok(()) } else { Err(Errno::EFAULT) }
    }

    /// Copies what Linux may read; `words` are structures that were taken apart.
    fn fill(&self, words: &[(u64, u64, bool)]) {
        for piece in self
            .pieces
            .iter()
            .filter(|piece| piece.back != Back::Counted)
        {
            preempt::point(PIECE_WORK);
            // What is not there any more reads as zeros.
            let _ = piece
                .theirs
                .map(|theirs| copy_between(self.base + piece.at, theirs, piece.len_bytes));
        }
        for &(at, word, is_offset) in words {
            preempt::point(WORD_WORK);
            let word = if is_offset { self.base + word } else { word };
            let _ = put_words(self.base + at, &[word]);
        }
    }
}
