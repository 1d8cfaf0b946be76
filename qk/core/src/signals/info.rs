//! siginfo and the queue of pending signals.

use super::set::{SigSet, Signal};
use abi::Errno;
use alloc::boxed::Box;
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
}

impl SigInfo {
    /// One without particulars.
    pub const fn new(signal: Signal, code: i32) -> Self {
        Self {
            signal,
            errno: 0,
            code,
            fields: [0; 4],
        }
    }

    /// Sent by a process: si_pid, si_uid, si_value.
    pub const fn sent(signal: Signal, code: i32, pid: u32, uid: u32, value: u64) -> Self {
        Self {
            signal,
            errno: 0,
            code,
            fields: [pid as u64 | (uid as u64) << 32, value, 0, 0],
        }
    }

    /// Raised by an instruction: si_addr.
    pub const fn fault(signal: Signal, code: i32, addr: u64) -> Self {
        Self {
            signal,
            errno: 0,
            code,
            fields: [addr, 0, 0, 0],
        }
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

    fn add(&self, signals: usize) {
        self.0.fetch_add(signals, Ordering::Relaxed);
    }

    fn subtract(&self, signals: usize) {
        self.0.fetch_sub(signals, Ordering::Relaxed);
    }
}

/// Signals that wait to be delivered, to a process or to one of its threads.
pub struct Pending {
    set: SigSet,
    /// In order of arrival; `len` are in use. A member of `set` without an entry here is one whose
    /// particulars found no room.
    queue: Box<[SigInfo]>,
    len: usize,
    /// Where `len` is counted too; from the first push on.
    kept: Option<Kept>,
}

impl Pending {
    /// Nothing pending, with room for the particulars of `capacity` signals.
    ///
    /// # Panics
    /// When there is no memory for them.
    pub fn new(capacity: usize) -> Self {
        Self::try_new(capacity).expect("memory for a queue of signals")
    }

    /// As [`Self::new`]; `None` when there is no memory.
    pub fn try_new(capacity: usize) -> Option<Self> {
        let mut queue = Vec::new();
        queue.try_reserve_exact(capacity).ok()?;
        queue.resize(capacity, SigInfo::new(Signal::KILL, code::KERNEL));
        Some(Self {
            set: SigSet::EMPTY,
            queue: queue.into_boxed_slice(),
            len: 0,
            kept: None,
        })
    }

    /// Which signals wait.
    pub fn set(&self) -> SigSet {
        self.set
    }

    /// How many have their particulars kept.
    pub fn queued(&self) -> usize {
        self.len
    }

    /// Adds one. At most `limit` of those that `kept` counts may keep their particulars, but for standard signals of a kill or
    /// of the kernel. A standard signal that waits already is not added again.
    ///
    /// # Errors
    /// EAGAIN: a real-time signal found the queue full, and it was not sent by kill, which is
    /// allowed to lose particulars (Linux: __send_signal_locked).
    pub fn push(&mut self, info: SigInfo, limit: usize, kept: &Kept) -> Result<(), Errno> {
        let signal = info.signal;
        if !signal.is_real_time() && self.set.contains(signal) {
            return Ok(());
        }
        let exempt = !signal.is_real_time() && info.code >= 0;
        if self.len < self.queue.len() && (exempt || kept.get() < limit) {
            self.queue[self.len] = info;
            self.len += 1;
            self.kept.get_or_insert_with(|| kept.clone()).add(1);
        } else if signal.is_real_time() && info.code != code::USER {
            return Err(Errno::EAGAIN);
        }
        self.set = self.set.union(SigSet::of(signal));
        Ok(())
    }

    /// Takes out the next one among `wanted`.
    pub fn pop(&mut self, wanted: SigSet) -> Option<SigInfo> {
        let signal = self.set.and(wanted).first()?;
        let mut same = (0..self.len).filter(|i| self.queue[*i].signal == signal);
        let (found, more) = (same.next(), same.next().is_some());
        if !more {
            self.set = self.set.without(SigSet::of(signal));
        }
        Some(match found {
            Some(i) => {
                let info = self.queue[i];
                self.queue.copy_within(i + 1..self.len, i);
                self.shrink_to(self.len - 1);
                info
            }
            None => SigInfo::new(signal, code::USER),
        })
    }

    /// Forgets all of `set`.
    pub fn discard(&mut self, set: SigSet) {
        if self.set.and(set).is_empty() {
            return;
        }
        self.set = self.set.without(set);
        let mut kept = 0;
        for i in 0..self.len {
            if !set.contains(self.queue[i].signal) {
                self.queue[kept] = self.queue[i];
                kept += 1;
            }
        }
        self.shrink_to(kept);
    }

    fn shrink_to(&mut self, len: usize) {
        if let Some(kept) = &self.kept {
            kept.subtract(self.len - len);
        }
        self.len = len;
    }
}

/// A thread that ends leaves the room that its signals took to the others.
impl Drop for Pending {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}
