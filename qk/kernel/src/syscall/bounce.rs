//! Shipped calls whose buffers lie in SMARTMAP windows. The proxy has only its own rank's memory, so what Linux is to read is
//! copied to a place there first, what it wrote is copied back afterwards, and Linux is given that place.
//!
//! The owner's protections hold: all of a buffer must be readable, or writable, when the call begins. A pointer of which that
//! is not so is left as it is; it leads nowhere for the proxy, and Linux finds out in its own order of looking at things.
//! Not bounced are structures of ethtool, whose length is the device's affair, and questions about mappings: EFAULT.

mod plan;

use abi::Errno;
use abi::map::{PAGE, USER_TOP};
use abi::syscall::Call as Row;
use abi::syscall::operand::Operand;
use alloc::vec::Vec;
use hal::addr::{Va, VaRange};
use plan::{Back, PASS_WORK, Piece, Plan, Value, WORD_WORK, stop_there};
use qk_core::mman::{self, MmapArgs};

use crate::rank::Rank;
use crate::thread::Thread;
use crate::user::{Program, copy_between, put_words};
use crate::{preempt, shared};

/// Work of going over a piece, in instructions.
const PIECE_WORK: u32 = 20;
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
    row.pieces(args, &Program(PASS_WORK), &mut stop_there)
        .is_break()
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
        for i in 0..row.args.len() {
            plan.argument(row.operand(i, &asked), i, asked[i])?;
        }
        Bounce::of(plan, rank, args)
    }

    /// The same for execve: a path and two vectors of strings. `None`: none of them is in a window.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn of_exec(rank: &Rank, args: &mut [u64; 3]) -> Result<Option<Bounce>, Errno> {
        let mut plan = Plan::default();
        let [path, argv, envp] = *args;
        plan.argument(Operand::String, 0, path)?;
        plan.strings(1, argv)?;
        plan.strings(2, envp)?;
        // BOUND: the arguments of a call.
        if plan.args.iter().all(Option::is_none) {
            return Ok(None);
        }
        Bounce::of(plan, rank, args).map(Some)
    }

    fn of(plan: Plan, rank: &Rank, args: &mut [u64]) -> Result<Bounce, Errno> {
        let len_bytes = plan.len_bytes.next_multiple_of(PAGE).max(PAGE);
        let base = rank.with_aspace(|aspace| {
            let args = MmapArgs {
                addr: Va(0),
                len_bytes,
                prot: READ_WRITE,
                flags: PRIVATE_ANONYMOUS,
                offset: 0,
            };
            let plan = mman::mmap(&args, None, aspace.regions(), &aspace.bounds())?;
            aspace.map_new(plan.region).map(|()| plan.region.start.0)
        })?;
        let bounce = Bounce {
            base,
            len_bytes,
            pieces: plan.pieces,
        };
        // BOUND: the arguments of a call.
        for (arg, value) in args.iter_mut().zip(&plan.args) {
            match *value {
                Some(Value::At(offset)) => *arg = base + offset,
                Some(Value::Number(number)) => *arg = number,
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
        for piece in &self.pieces {
            preempt::point(PIECE_WORK);
            let bytes = match piece.back {
                Back::Always => piece.len_bytes,
                _ if ret < 0 => 0,
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
        let place = VaRange::new(Va(self.base), self.len_bytes);
        // Another thread may have mapped a file there meanwhile.
        let rank = thread.rank();
        let _ = rank
            .with_aspace(|aspace| shared::complete(thread, aspace, |aspace| aspace.unmap(place)));
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
