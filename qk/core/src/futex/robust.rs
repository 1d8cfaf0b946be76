//! The robust list: locks that a thread holds, linked in its own memory, so that the kernel can release them when it ends
//! (set_robust_list(2); the layout is `struct robust_list_head` of include/uapi/linux/futex.h).

use abi::Errno;
use abi::addr::Va;

use super::pi::{OWNER_DIED, TID_MASK, WAITERS};
use super::{ANY, Futexes, Key, Locks, Waiter, Word};

/// Entries that are followed, at most: a list may be circular (ROBUST_LIST_LIMIT).
const LIMIT: usize = 2048;
/// Bytes of `struct robust_list_head`, which set_robust_list(2) has to be given.
pub const HEAD_BYTES: u64 = 24;

/// A lock that a thread leaves behind, unless it turns out not to be its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// Address of its word.
    pub at: Va,
    /// It is a lock with an owner (PI).
    pub pi: bool,
    /// The thread was just taking or releasing it.
    pub pending: bool,
}

/// Goes through the list at `head`, as far as it can be read, and calls `release` for each lock: what is in the list in its
/// order, the pending one last. `read` reads an aligned or unaligned 64-bit word of the program; both are called once per
/// entry, and may have preemption points. `release` may fail, which ends the walk.
pub fn walk(
    head: Va,
    read: impl Fn(Va) -> Result<u64, Errno>,
    mut release: impl FnMut(Left) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let mut entry = read(head)?;
    let offset = read(behind(head, 8))?;
    let pending = read(behind(head, 16))?;
    let left = |entry: u64, pending| Left {
        at: behind(address(entry), offset),
        pi: entry & 1 != 0,
        pending,
    };
    // BOUND: LIMIT; `read` and `release` take the point.
    for _ in 0..LIMIT {
        if address(entry) == head {
            break;
        }
        // Before it is released: from then on another thread may use its memory for something else.
        let next = read(address(entry));
        if address(entry) != address(pending) {
            release(left(entry, false))?;
        }
        entry = next?;
    }
    match address(pending) {
        Va(0) => Ok(()),
        _ => release(left(pending, true)),
    }
}

/// An entry's address: its lowest bit says that the lock has an owner.
const fn address(entry: u64) -> Va {
    Va(entry & !1)
}

/// A program's offset may be negative.
const fn behind(at: Va, offset: u64) -> Va {
    Va(at.0.wrapping_add(offset))
}

impl<L: Locks, W: Waiter> Futexes<L, W> {
    /// Releases a lock that thread `tid`, which ends, has left behind: marks its word FUTEX_OWNER_DIED, and wakes a waiter
    /// or, of a lock with an owner, gives it to the first. Does nothing to a lock of another thread.
    ///
    /// # Errors
    /// EINVAL: the word is not aligned. EFAULT.
    pub fn release(
        &self,
        left: Left,
        key: Key,
        word: &impl Word,
        tid: u32,
        mut point: impl FnMut(u32),
    ) -> Result<(), Errno> {
        if !left.at.is_aligned(4) {
            return Err(Errno::EINVAL);
        }
        if left.pi {
            return self.owner_died(key, word, tid, point).map(drop);
        }
        loop {
            let old = word.load()?;
            // It was released, and its waiter may not have been woken yet; or it was about to be taken by this
            // thread, which was woken for it: another has to be woken in its place.
            let free = left.pending && old & TID_MASK == 0;
            if !free {
                if old & TID_MASK != tid {
                    return Ok(());
                }
                if word.compare_exchange(old, old & WAITERS | OWNER_DIED)? != old {
                    point(super::wake::RETRY_WORK);
                    continue;
                }
            }
            if free || old & WAITERS != 0 {
                // A waiter for the word as another kind of lock is not woken.
                let _ = self.wake(key, 1, ANY, point);
            }
            return Ok(());
        }
    }
}
