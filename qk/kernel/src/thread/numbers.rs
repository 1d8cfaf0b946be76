//! The threads of a rank by their numbers: which there are, which live, and which are free.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use abi::Errno;
use abi::map::MAX_THREADS;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use hal::heap::try_box;
use hal::sync::{Mutex, Once, class};

use super::{RECORD_BYTES, Thread, record};
use crate::preempt;
use crate::rank::Rank;
use crate::sleep_lock::SleepLock;

/// What looking at one number counts at preemption points.
const NUMBER_WORK: u32 = 25;
/// Of the free numbers so many are not taken as long as there is room for more: one that was freed just now is not the next
/// thread's, even if others that ended before it are freed after it, nor is it that of one of the next few.
const RESTING: usize = 12;
/// Threads made at once: the records of so many have one table.
const CHUNK: usize = 32;
const CHUNKS: usize = MAX_THREADS / CHUNK;
const WORD_BITS: usize = u64::BITS as usize;

type Chunk = [Once<Box<Thread>>; CHUNK];

/// The threads of a rank, by number.
pub struct Threads {
    chunks: [Once<Box<Chunk>>; CHUNKS],
    /// Numbers below this have a record.
    made: AtomicUsize,
    /// Threads that live.
    live: AtomicUsize,
    /// A bit for each number: set as long as its thread lives, and a moment before. For interrupts, which cannot look at all.
    living: [AtomicU64; MAX_THREADS / WORD_BITS],
    /// Numbers that are free again, the longest free first: a thread id is not soon another thread's.
    free: Mutex<VecDeque<usize>, class::Numbers>,
    /// Held by who makes the record of one more thread.
    making: SleepLock<(), class::Making>,
}

/// Threads besides the first that each rank may have: the kernel heap has room for as many of every rank.
static ROOM: AtomicUsize = AtomicUsize::new(0);

/// Bytes of kernel heap for a thread.
pub fn heap_bytes() -> usize {
    hal::task::KSTACK_BYTES as usize + hal::task::fpu_state_size() + RECORD_BYTES
}

/// Says for how many threads besides its first there is room in each rank. One that takes all it can get takes nothing from
/// others.
pub fn set_room(threads: usize) {
    ROOM.store(threads, Ordering::Relaxed);
}

impl Threads {
    /// None yet.
    pub fn new() -> Threads {
        Threads {
            chunks: [const { Once::new() }; CHUNKS],
            made: AtomicUsize::new(0),
            live: AtomicUsize::new(0),
            living: [const { AtomicU64::new(0) }; _],
            free: Mutex::new(VecDeque::new()),
            making: SleepLock::new(()),
        }
    }

    /// The thread with a number, if it was ever made.
    pub fn get(&self, index: usize) -> Option<&Thread> {
        self.chunks.get(index / CHUNK)?.get()?[index % CHUNK]
            .get()
            .map(|thread| &**thread)
    }

    /// Numbers that have been used so far.
    pub fn made(&self) -> usize {
        self.made.load(Ordering::Acquire)
    }

    /// How many live.
    pub fn live(&self) -> usize {
        self.live.load(Ordering::Acquire)
    }

    /// One more lives.
    pub fn born(&self) {
        self.live.fetch_add(1, Ordering::AcqRel);
    }

    /// One less lives; `true`: it was the last.
    pub fn died(&self) -> bool {
        self.live.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// An unused number, to be given back by [`Self::release`].
    ///
    /// # Errors
    /// EAGAIN: there is room for no more threads.
    pub fn take(&self, rank: &'static Rank) -> Result<&Thread, Errno> {
        let index = match self.take_free(RESTING) {
            Some(index) => index,
            None => match self.make(rank) {
                Ok(index) => index,
                Err(_) => self.take_free(0).ok_or(Errno::EAGAIN)?,
            },
        };
        self.get(index).ok_or(Errno::EAGAIN)
    }

    /// The number that has been free for longest, if more than `resting` are.
    #[inline]
    fn take_free(&self, resting: usize) -> Option<usize> {
        let mut free = self.free.lock();
        if free.len() > resting {
            free.pop_front()
        } else {
            None
        }
    }

    /// Makes the record of one more thread, unless a number has become free while another made one.
    #[cold]
    fn make(&self, rank: &'static Rank) -> Result<usize, Errno> {
        let _making = self.making.lock();
        if let Some(index) = self.take_free(RESTING) {
            return Ok(index);
        }
        let index = self.made.load(Ordering::Relaxed);
        if index == MAX_THREADS || index > ROOM.load(Ordering::Relaxed) {
            return Err(Errno::EAGAIN);
        }
        let reserved = self.free.lock().try_reserve(index + 1);
        reserved.map_err(|_| Errno::ENOMEM)?;
        self.make_record(rank, index)?;
        self.made.store(index + 1, Ordering::Release);
        rank.host().publish_threads(index + 1);
        Ok(index)
    }

    /// Makes the record of number `index`, and room for it wherever it may be listed.
    fn make_record(&self, rank: &'static Rank, index: usize) -> Result<(), Errno> {
        const NONE: Errno = Errno::ENOMEM;
        let chunk = &self.chunks[index / CHUNK];
        if chunk.get().is_none() {
            let _ = chunk.set(try_box([const { Once::new() }; CHUNK]).ok_or(NONE)?);
        }
        let thread = try_box(record(rank, index)).ok_or(NONE)?;
        // That of the main thread is made when the rank starts.
        if index > 0 {
            thread.task.make_context()?;
        }
        rank.make_room(1)?;
        let _ = chunk.get().ok_or(NONE)?[index % CHUNK].set(thread);
        Ok(())
    }

    /// A number that was taken is free again.
    pub fn release(&self, index: usize) {
        self.free.lock().push_back(index);
    }

    /// Notes that thread `index` lives, or that it has ended.
    pub(super) fn note_living(&self, index: usize, lives: bool) {
        let (word, bit) = (&self.living[index / WORD_BITS], 1 << (index % WORD_BITS));
        if lives {
            word.fetch_or(bit, Ordering::SeqCst);
        } else {
            word.fetch_and(!bit, Ordering::SeqCst);
        }
    }

    /// One that lives: mostly the main thread. Few instructions, for interrupts.
    pub fn first(&self) -> Option<&Thread> {
        // BOUND: the words, and threads that begin or end just now.
        for (i, word) in self.living.iter().enumerate() {
            let mut left = word.load(Ordering::SeqCst);
            // BOUND: as above.
            while left != 0 {
                let index = i * WORD_BITS + left.trailing_zeros() as usize;
                if let Some(thread) = self.living(index) {
                    return Some(thread);
                }
                left &= left - 1;
            }
        }
        None
    }

    /// All that live, with a preemption point for each number: most may be unused.
    pub fn each(&self) -> impl Iterator<Item = &Thread> {
        (0..self.made()).filter_map(|index| {
            preempt::point(NUMBER_WORK);
            self.living(index)
        })
    }

    fn living(&self, index: usize) -> Option<&Thread> {
        self.get(index).filter(|thread| thread.is_live())
    }
}
