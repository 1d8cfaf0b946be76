//! What others wait for when a thread ends.

use hal::addr::Va;
use qk_core::futex::{ANY, Key, robust};

use super::table::{ENTRY_WORK, UserWord, futexes, is_own, key, settled};
use crate::preempt;
use crate::shared::children;
use crate::thread::Thread;
use crate::user::{get_words, put_u32_opt, user};

/// What others wait for when a thread of a rank that goes on ends: its locks, and the word that says so.
pub fn thread_ends(thread: &'static Thread) {
    thread.program().begin_end();
    let tid = thread.tid() as u32;
    let head = thread.program().robust_list();
    if head != 0 {
        // A list that cannot be read ends there.
        let _ = robust::walk(
            Va(head),
            |at| {
                preempt::point(ENTRY_WORK);
                get_words(at.0).map(|[word]| word)
            },
            |left| {
                let word = UserWord(user(left.at.0, 4)?);
                let (at, key) = (left.at.0, key(thread, left.at.0, false));
                let released = settled(|| futexes().release(left, key, &word, tid, preempt::point));
                let _ = children::wake(thread, key, at, 1);
                released
            },
        );
    }
    let own = |key: Key| {
        let word = is_own(thread, key).then(|| user(key.at, 4));
        word.and_then(Result::ok).map(UserWord)
    };
    futexes().release_all(tid, own, preempt::point);
    let clear = thread.program().clear_tid();
    if put_u32_opt(clear, 0).is_ok() && clear != 0 {
        let key = key(thread, clear, false);
        let _ = futexes().wake(key, 1, ANY, preempt::point);
        let _ = children::wake(thread, key, clear, 1);
    }
}
