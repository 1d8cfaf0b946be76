//! siginfo and the queue of pending signals.

use super::set::{SigSet, Signal};
use abi::{Errno, addr::Va};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};

/// si_code values (include/uapi/asm-generic/siginfo.h).
pub mod code {
    /// kill(2)
    pub const USER: i32 = 0;
    /// The kernel itself.
    pub const KERNEL: i32 = 0x80;
    /// sigqueue(3)
    pub const QUEUE: i32 = -1;
    /// An expired timer.
    pub const TIMER: i32 = -2;
    /// tkill(2), tgkill(2)
    pub const TKILL: i32 = -6;
}

/// What Linux keeps of a siginfo_t: its first 48 bytes (struct kernel_siginfo).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SigInfo {
    /// si_signo
    pub signal: Signal,
    /// si_errno
    pub errno: i32,
    /// si_code
    pub code: i32,
    /// The union from byte 16 on: sender and value, fault address, child status, as `code` says.
    pub fields: [u64; 4],
    /// The timer that sent it. Programs do not see it, nor can they make it up as they can `code`.
    pub timer: Option<Expiration>,
}

/// An expiration of a POSIX timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expiration {
    /// The timer's id.
    pub id: u32,
    /// Which expiration; no two of a process have the same.
    pub turn: u64,
}

impl SigInfo {
    /// One without particulars.
    pub const fn new(signal: Signal, code: i32) -> Self {
        Self {
            signal,
            errno: 0,
            code,
            fields: [0; 4],
            timer: None,
        }
    }

    /// Sent by a process: si_pid, si_uid, si_value.
    pub const fn sent(signal: Signal, code: i32, pid: u32, uid: u32, value: u64) -> Self {
        Self {
            signal,
            errno: 0,
            code,
            fields: [pid as u64 | (uid as u64) << 32, value, 0, 0],
            timer: None,
        }
    }

    /// Raised by an instruction: si_addr.
    pub const fn fault(signal: Signal, code: i32, addr: Va) -> Self {
        Self {
            signal,
            errno: 0,
            code,
            fields: [addr.0, 0, 0, 0],
            timer: None,
        }
    }

    /// Sent by a POSIX timer: si_timerid, si_overrun of 0, si_value.
    pub const fn expired(signal: Signal, value: u64, timer: Expiration) -> Self {
        Self {
            signal,
            errno: 0,
            code: code::TIMER,
            fields: [timer.id as u64, value, 0, 0],
            timer: Some(timer),
        }
    }

    /// si_overrun of a timer's signal.
    pub const fn overrun(&self) -> u32 {
        (self.fields[0] >> 32) as u32
    }

    /// Counts `more` expirations in si_overrun, which goes no further than an int
    /// (Linux: timer_overrun_to_int).
    pub fn add_overrun(&mut self, more: u64) {
        let sum = u64::from(self.overrun())
            .saturating_add(more)
            .min(i32::MAX as u64);
        self.fields[0] = self.fields[0] & u64::from(u32::MAX) | sum << 32;
    }

    /// The siginfo_t a program sees, in words: the first of its 16, the others are zero.
    pub const fn to_words(&self) -> [u64; 6] {
        let signo = self.signal.number() as u64;
        let [a, b, c, d] = self.fields;
        [
            signo | (self.errno as u32 as u64) << 32,
            self.code as u32 as u64,
            a,
            b,
            c,
            d,
        ]
    }

    /// The same in bytes, all 128.
    pub fn to_bytes(&self) -> [u8; 128] {
        let mut out = [0; 128];
        // BOUND: the words of a record.
        for (to, word) in out.chunks_exact_mut(8).zip(self.to_words()) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        out
    }

    /// Reads the siginfo_t a program passed to rt_sigqueueinfo, for `signal`, which replaces
    /// si_signo as on Linux.
    pub fn from_bytes(signal: Signal, bytes: &[u8; 128]) -> Self {
        let word = |at: usize| {
            i32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let wide = |at: usize| u64::from(word(at) as u32) | u64::from(word(at + 4) as u32) << 32;
        Self {
            signal,
            errno: word(4),
            code: word(8),
            fields: [16, 24, 32, 40].map(wide),
            timer: None,
        }
    }
}

/// How many signals have their particulars kept, for a process and its threads together.
#[derive(Clone, Default)]
pub struct Kept(Arc<AtomicUsize>);

impl Kept {
    fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Whether there are `limit`, or more.
    pub fn reach(&self, limit: usize) -> bool {
        self.get() >= limit
    }

    fn add(&self, signals: usize) {
        self.0.fetch_add(signals, Ordering::Relaxed);
    }

    fn subtract(&self, signals: usize) {
        self.0.fetch_sub(signals, Ordering::Relaxed);
    }
}

/// Signals that wait to be delivered, to a process or to one of its threads.
///
/// A POSIX timer has a place of its own, taken when it is made: its signal is never lost, and is there at most once (Linux:
/// a preallocated sigqueue).
pub struct Pending {
    set: SigSet,
    /// In order of arrival, with room for those of all timers. A member of `set` without an entry here is one whose
    /// particulars found no room.
    queue: Vec<Entry>,
    /// Places for what timers did not send, and how many are taken.
    places: usize,
    queued: usize,
    /// Places of timers; one that is gone leaves its place when its signal does.
    timers: usize,
    /// Where what is queued and places of timers are counted too; from the first of them on.
    kept: Option<Kept>,
}

#[derive(Clone, Copy)]
struct Entry {
    info: SigInfo,
    /// The timer that sent it has been deleted.
    orphan: bool,
}

impl Pending {
    /// Nothing pending, with room for the particulars of `capacity` signals.
    pub fn new(capacity: usize) -> Self {
        Self {
            set: SigSet::EMPTY,
            queue: Vec::new(),
            places: capacity,
            queued: 0,
            timers: 0,
            kept: None,
        }
    }

    /// Which signals wait.
    pub fn set(&self) -> SigSet {
        self.set
    }

    /// How many have their particulars kept, without those of timers.
    pub fn queued(&self) -> usize {
        self.queued
    }

    /// Makes a place for the signal of a timer, to be given back by [`Self::release`]. At most `limit` are counted by `kept`.
    ///
    /// # Errors
    /// EAGAIN: the limit is reached, or there is no memory.
    pub fn reserve(&mut self, limit: usize, kept: &Kept) -> Result<(), Errno> {
        if kept.reach(limit) {
            return Err(Errno::EAGAIN);
        }
        if !self.has_room() {
            return Err(Errno::EAGAIN);
        }
        self.timers += 1;
        self.count(kept);
        Ok(())
    }

    /// The timer `id` is gone. A signal of it that waits stays.
    pub fn release(&mut self, id: u32) {
        match self.of_timer(id) {
            Some(entry) => entry.orphan = true,
            None => self.give_up(0, 1),
        }
    }

    /// The waiting signal of a timer.
    fn of_timer(&mut self, id: u32) -> Option<&mut Entry> {
        let is_it = |entry: &&mut Entry| {
            !entry.orphan && entry.info.timer.is_some_and(|timer| timer.id == id)
        };
        // BOUND: the signals that may be queued, and the timers.
        self.queue.iter_mut().find(is_it)
    }

    fn count(&mut self, kept: &Kept) {
        self.kept.get_or_insert_with(|| kept.clone()).add(1);
    }

    /// Adds one. At most `limit` of those that `kept` counts may keep their particulars, but for standard signals of a kill or
    /// of the kernel. A standard signal that waits already is not added again, unless a timer sent it; that of a timer whose
    /// last one still waits counts as an overrun there (Linux: send_sigqueue).
    ///
    /// # Errors
    /// EAGAIN: a real-time signal found the queue full, and it was not sent by kill, which is
    /// allowed to lose particulars (Linux: __send_signal_locked).
    #[inline(always)] // Of every signal, once in each of few callers.
    pub fn push(&mut self, info: SigInfo, limit: usize, kept: &Kept) -> Result<(), Errno> {
        let signal = info.signal;
        match info.timer {
            Some(timer) => self.push_expired(timer, info)?,
            None if !signal.is_real_time() && self.set.contains(signal) => return Ok(()),
            None => {
                let exempt = !signal.is_real_time() && info.code >= 0;
                let may_keep = self.queued < self.places && (exempt || !kept.reach(limit));
                if may_keep && self.has_room() {
                    self.put(info);
                    self.queued += 1;
                    self.count(kept);
                } else if signal.is_real_time() && info.code != code::USER {
                    return Err(Errno::EAGAIN);
                }
            }
        }
        self.set = self.set.union(SigSet::of(signal));
        Ok(())
    }

    fn push_expired(&mut self, timer: Expiration, info: SigInfo) -> Result<(), Errno> {
        if let Some(entry) = self.of_timer(timer.id) {
            entry.info.add_overrun(1);
            entry.info.timer = Some(timer);
        } else if self.to_come() > 0 {
            self.put(info);
        } else {
            // Another thread has come after the one that the place was made for.
            return Err(Errno::EAGAIN);
        }
        Ok(())
    }

    /// How many timers have no signal here.
    fn to_come(&self) -> usize {
        self.timers - (self.queue.len() - self.queued)
    }

    /// Whether one more fits into memory, besides the signals of timers that are to come.
    #[inline(always)] // Of every signal once.
    fn has_room(&mut self) -> bool {
        let more = self.to_come() + 1;
        more <= self.queue.capacity() - self.queue.len() || self.make_room(more)
    }

    #[cold]
    fn make_room(&mut self, more: usize) -> bool {
        self.queue.try_reserve(more).is_ok()
    }

    #[inline(always)]
    fn put(&mut self, info: SigInfo) {
        let orphan = false;
        self.queue.push(Entry { info, orphan });
    }

    /// Takes out the first `signal`, which is pending.
    #[inline(never)] // So that the result is written in place, and not copied there.
    pub fn pop(&mut self, signal: Signal) -> SigInfo {
        let is_one = |entry: &Entry| entry.info.signal == signal;
        // BOUND: the signals that may be queued, and the timers.
        let Some(i) = self.queue.iter().position(is_one) else {
            self.set = self.set.without(SigSet::of(signal));
            return SigInfo::new(signal, code::USER);
        };
        let Entry { info, orphan } = self.queue[i];
        // Mostly it is the last one.
        let more = if i + 1 == self.queue.len() {
            self.queue.truncate(i);
            false
        } else {
            self.queue.remove(i);
            // BOUND: the signals that may be queued, and the timers.
            self.queue[i..].iter().any(is_one)
        };
        if !more {
            self.set = self.set.without(SigSet::of(signal));
        }
        self.give_up(info.timer.is_none().into(), orphan.into());
        info
    }

    /// Forgets all of `set`.
    pub fn discard(&mut self, set: SigSet) {
        if self.set.and(set).is_empty() {
            return;
        }
        self.set = self.set.without(set);
        let (mut queued, mut timers) = (0, 0);
        // BOUND: the signals that may be queued, and the timers.
        self.queue.retain(|entry| {
            let stays = !set.contains(entry.info.signal);
            queued += usize::from(!stays && entry.info.timer.is_none());
            timers += usize::from(!stays && entry.orphan);
            stays
        });
        self.give_up(queued, timers);
    }

    /// Forgets what timers sent, or what says that it is from one (Linux: flush_itimer_signals). The timers are gone.
    pub fn discard_expired(&mut self) {
        let (mut queued, mut timers, mut gone) = (0, 0, SigSet::EMPTY);
        // BOUND: the signals that may be queued, and the timers.
        self.queue.retain(|Entry { info, orphan }| {
            let stays = info.code != code::TIMER;
            queued += usize::from(!stays && info.timer.is_none());
            timers += usize::from(!stays && *orphan);
            if !stays {
                gone = gone.union(SigSet::of(info.signal));
            }
            stays
        });
        self.set = self.set.without(gone);
        // BOUND: the signals that may be queued, and the timers.
        for entry in &self.queue {
            self.set = self.set.union(SigSet::of(entry.info.signal));
        }
        self.give_up(queued, timers);
    }

    /// So many places of signals and of timers are free again.
    fn give_up(&mut self, queued: usize, timers: usize) {
        self.queued -= queued;
        self.timers -= timers;
        if let Some(kept) = &self.kept {
            kept.subtract(queued + timers);
        }
    }
}

/// A thread that ends leaves the room that its signals took to the others.
impl Drop for Pending {
    fn drop(&mut self) {
        self.give_up(self.queued, self.timers);
    }
}
