//! futex_waitv: waiting for several words.

use abi::Errno;
use arrayvec::ArrayVec;
use qk_core::futex::{Key, MAX_MANY, One};

use super::table::{
    ENTRY_WORK, MONOTONIC, REALTIME, Sleeper, UserWord, futexes, key, op, settled, word,
};
use super::wait::{Ended, Until, absolute, sleep};
use crate::preempt;
use crate::result::{RESTART, SysResult};
use crate::thread::Thread;
use crate::user::get_words;

/// struct futex_waitv (include/uapi/linux/futex.h), in words.
const ONE_WORDS: usize = 3;

/// Carries out futex_waitv.
///
/// # Errors
/// As futex_waitv.
pub fn wait_many(
    thread: &'static Thread,
    [list, count, flags, timeout, clock, _]: [u64; 6],
) -> SysResult {
    /// FUTEX2_SIZE_U32, the only size there is.
    const SIZE_U32: u64 = 2;
    let count = u64::from(count as u32);
    if flags as u32 != 0 || count == 0 || count > MAX_MANY as u64 || list == 0 {
        return Err(Errno::EINVAL);
    }
    let until = match (timeout, clock) {
        (0, _) => Until::Woken,
        (_, REALTIME | MONOTONIC) => absolute(timeout, clock == REALTIME)?,
        _ => return Err(Errno::EINVAL),
    };
    let mut words = ArrayVec::<(UserWord, Key, u32), MAX_MANY>::new();
    for i in 0..count {
        preempt::point(ENTRY_WORK);
        // value, address, and in one word flags and what is reserved
        let at = list.wrapping_add(i * ONE_WORDS as u64 * 8);
        let [expected, at, flags] = get_words(at)?;
        if flags & !op::PRIVATE != SIZE_U32 || expected > u64::from(u32::MAX) {
            return Err(Errno::EINVAL);
        }
        let key = key(thread, at, flags & op::PRIVATE != 0);
        words.push((word(at)?, key, expected as u32));
    }
    let many = settled(|| {
        let all = words.iter().map(|(word, key, expected)| One {
            key: *key,
            word,
            expected: *expected,
        });
        futexes().wait_many(all, Sleeper(thread), preempt::point)
    })?;
    let ended = sleep(thread, until.deadline(), || true);
    match (
        futexes().finish(many, Sleeper(thread), preempt::point),
        ended,
    ) {
        (Some(index), _) => Ok(index as u64),
        (None, Ended::Interrupted) => Err(thread.interrupted(RESTART)),
        (None, _) => Err(Errno::ETIMEDOUT),
    }
}
