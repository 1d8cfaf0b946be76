//! Children of ranks share what the rank that forked had mapped and shared: the same frames, for as long as they map them. They
//! are processes of Linux, so the QK finds their end only when it looks ([`is_mapped`]).
//!
//! What a child stores shows in no page table of the node: all that its rank could have written counts as written by then.
//! A futex in such memory has waiters on both sides: a wake here wakes there, too ([`wake`]), and a waiter here reads
//! the word every few milliseconds ([`poll`]), for Linux wakes only its own.

use core::sync::atomic::{AtomicU64, Ordering};

use abi::Errno;
use abi::control::HostOp;
use abi::map::USER_TOP;
use hal::addr::Va;
use qk_core::futex::Key;
use qk_core::regions::RegionFlags;

use super::keys::is_shared;
use super::pool::node;
use super::sharing::{self, SHARING, is_mapped};
use crate::aspace::Aspace;
use crate::clock;
use crate::host::ship;
use crate::result::SysResult;
use crate::thread::Thread;

/// How long a waiter does not read the word, in nanoseconds.
const POLL_NS: u64 = 5_000_000;

/// Forks under way of ranks that map objects.
static FORKS: AtomicU64 = AtomicU64::new(0);
/// Has `fork` make a child that goes on with the rank's memory, and `wake_waiters` wake all that wait for futexes in shared memory. Nothing is mapped or unmapped meanwhile: what the child gets is
/// what is looked at here.
///
/// # Errors
/// What `fork` says.
pub fn share(
    thread: &'static Thread,
    fork: impl FnOnce() -> SysResult,
    wake_waiters: fn(),
) -> SysResult {
    let rank = thread.rank();
    rank.with_aspace(|aspace| {
        if !rank.memory().maps_objects() {
            return fork();
        }
        FORKS.fetch_add(1, Ordering::SeqCst);
        sharing::begins();
        mark_written(aspace);
        let forked = fork();
        sharing::begins();
        // Present waiters do not poll yet.
        wake_waiters();
        FORKS.fetch_sub(1, Ordering::SeqCst);
        forked
    })
}

/// What the child may write counts as written.
fn mark_written(aspace: &mut Aspace) {
    let mut at = Va(0);
    // POINT: mappings::regions
    while let Some(region) = aspace.object(at.until(Va(USER_TOP))) {
        if !region.flags.contains(RegionFlags::READ_ONLY) {
            aspace.mark_dirty(region.range());
        }
        at = region.end;
    }
}

/// When a wait for this futex looks at its word, whether or not it was woken (TSC); `None`: all its wakers are on the node.
#[inline]
pub fn poll(key: Key) -> Option<u64> {
    let shared = is_shared(key) && SHARING.load(Ordering::SeqCst) != 0;
    shared.then(|| clock::deadline_after(POLL_NS))
}

/// Notes it if all children that shared frames are gone.
pub fn look(thread: &'static Thread) {
    let seen = SHARING.load(Ordering::SeqCst);
    if seen == 0 || FORKS.load(Ordering::SeqCst) != 0 {
        return;
    }
    let Ok(pool) = node().map(|node| node.pool()) else {
        return;
    };
    if !is_mapped(thread, pool.start, pool.len_bytes()) && FORKS.load(Ordering::SeqCst) == 0 {
        // One that was made meanwhile has changed the number.
        let _ = SHARING.compare_exchange(seen, 0, Ordering::SeqCst, Ordering::SeqCst);
    }
}

/// Wakes at most `count` children that wait for a futex in shared memory, which the rank has at `at`; returns how many.
///
/// # Errors
/// What the host says.
#[cold]
#[inline(never)]
pub fn wake(thread: &'static Thread, at: u64, count: usize) -> Result<usize, Errno> {
    if count == 0 || SHARING.load(Ordering::SeqCst) == 0 {
        return Ok(0);
    }
    let woken = ship::host_op(thread, HostOp::WakeChildren, [at, count as u64])?;
    Ok(woken as usize)
}
