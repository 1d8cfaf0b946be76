//! Children of ranks share what the rank that forked had mapped and shared: the same frames, for as long as they map them. They
//! are processes of Linux, so the QK finds their end only when it looks ([`is_mapped`]).
//!
//! A futex in such memory has waiters on both sides: while children share frames, and in files always, a wake here wakes there, too
//! ([`wake`]), and who waits here waits there, by its worker ([`wait`]), for Linux wakes only its own.

use core::sync::atomic::{AtomicU64, Ordering};

use abi::Errno;
use abi::control::HostOp;
use hal::addr::Va;
use qk_core::futex::Key;

use super::keys::{is_in_file, is_shared};
use super::pool::pool;
use super::sharing::{self, SHARING, is_mapped};
use crate::clock;
use crate::host::ship;
use crate::result::SysResult;
use crate::thread::Thread;
use crate::user::is_shown;

/// Forks under way of ranks that map objects.
static FORKS: AtomicU64 = AtomicU64::new(0);
/// Threads of ranks that wait in Linux, which are woken there whether or not children share anything any more.
static WAITERS: AtomicU64 = AtomicU64::new(0);
/// Such waits so far.
static WAITS: AtomicU64 = AtomicU64::new(0);
/// A wait for so long, in nanoseconds, leaves time to look for children.
const LONG_NS: u64 = 5_000_000;
/// Of shorter waits every so manieth does so, too.
const SEARCH_EVERY: u64 = 64;

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
    rank.with_aspace(|_| {
        sharing::forks();
        if !rank.memory().maps_objects() {
            return fork();
        }
        FORKS.fetch_add(1, Ordering::SeqCst);
        sharing::begins();
        let forked = fork();
        sharing::begins();
        // Present waiters do not poll yet.
        wake_waiters();
        FORKS.fetch_sub(1, Ordering::SeqCst);
        forked
    })
}

/// Whether a wait for this futex is one in Linux, where others wake it: whoever maps its file, and children. Else all its wakers are
/// on the node.
#[inline]
pub fn waits_there(key: Key) -> bool {
    is_shared(key) && (is_in_file(key) || SHARING.load(Ordering::SeqCst) != 0)
}

/// Waits in Linux for a futex in shared memory, which the rank has at `at`, as FUTEX_WAIT_BITSET does, until `deadline` (TSC).
///
/// # Errors
/// As futex(2).
#[cold]
#[inline(never)]
pub fn wait(
    thread: &'static Thread,
    at: u64,
    expected: u32,
    bits: u32,
    deadline: Option<u64>,
) -> SysResult {
    let began = hal::time::tsc();
    // Who changes the word and sees no waiter here has changed it before Linux compares it.
    WAITERS.fetch_add(1, Ordering::SeqCst);
    let left_ns = deadline.map_or(u64::MAX, |tsc| {
        clock::ticks_to_ns(tsc.saturating_sub(hal::time::tsc()))
    });
    let args = [at, expected.into(), bits.into(), left_ns];
    let ended = ship::host_op_until_signal(thread, HostOp::WaitWithChildren, args);
    WAITERS.fetch_sub(1, Ordering::SeqCst);
    // Children may be gone: that is looked for after waits that were long, and now and then.
    let was_long = hal::time::tsc() - began > clock::ticks(LONG_NS);
    if was_long
        || WAITS
            .fetch_add(1, Ordering::Relaxed)
            .is_multiple_of(SEARCH_EVERY)
    {
        look(thread);
    }
    ended
}

/// Notes it if all children that shared frames are gone.
fn look(thread: &'static Thread) {
    let seen = SHARING.load(Ordering::SeqCst);
    if seen == 0 || FORKS.load(Ordering::SeqCst) != 0 {
        return;
    }
    let pool = pool();
    if !is_mapped(thread, pool.start, pool.len_bytes()) && FORKS.load(Ordering::SeqCst) == 0 {
        // One that was made meanwhile has changed the number.
        let _ = SHARING.compare_exchange(seen, 0, Ordering::SeqCst, Ordering::SeqCst);
    }
}

/// Wakes at most `count` that wait in Linux for the futex `key`, which the rank has at `at`; returns how many. None wait there for
/// memory that is not shared.
///
/// # Errors
/// What the host says.
#[inline]
pub fn wake(thread: &'static Thread, key: Key, at: u64, count: usize) -> Result<usize, Errno> {
    if is_shared(key) {
        move_there(thread, key, [at, 0], [count, 0])
    } else {
        Ok(0)
    }
}

/// Wakes at most `counts[0]` that wait in Linux for the futex `keys[0]`, and moves at most `counts[1]` to the other one; `places` are
/// where the rank has them. Returns how many. Who cannot be moved, since no child sees where to, is woken: it finds out that nothing has
/// changed.
///
/// # Errors
/// What the host says.
pub fn requeue(
    thread: &'static Thread,
    keys: [Key; 2],
    places: [u64; 2],
    counts: [usize; 2],
) -> Result<usize, Errno> {
    match keys.map(is_shared) {
        [true, true] => move_there(thread, keys[0], places, counts),
        _ => wake(thread, keys[0], places[0], counts[0] + counts[1]),
    }
}

#[cold]
#[inline(never)]
fn move_there(
    thread: &'static Thread,
    key: Key,
    [at, to]: [u64; 2],
    counts: [usize; 2],
) -> Result<usize, Errno> {
    let may_wait =
        || is_in_file(key) || SHARING.load(Ordering::SeqCst) | WAITERS.load(Ordering::SeqCst) != 0;
    if counts == [0, 0] || !may_wait() {
        return Ok(0);
    }
    let [woken, moved] = counts.map(|count| count as u64);
    let args = [at, woken, moved, to];
    let wake = || ship::host_op(thread, HostOp::WakeChildren, args);
    // POINT: ship::spin
    loop {
        match wake() {
            Err(Errno::EFAULT) if is_word(thread, at) && (moved == 0 || is_word(thread, to)) => {}
            woken => return Ok(woken? as usize),
        }
    }
}

/// Whether an operation that failed with EFAULT is to be made again, for there is a word again since.
pub fn is_word(thread: &Thread, at: u64) -> bool {
    let word = Va(at).until(Va(at + size_of::<u32>() as u64));
    is_shown(thread, |aspace| aspace.allows(word, false))
}
