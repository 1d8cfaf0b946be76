//! What threads of a rank are to come back for from wherever they wait: the rank's end, the end of all but one when that replaces
//! the program, a debugger.
//!
//! One word says it, in which the rank's status is once that is decided; 0, nearly always, says that there is nothing.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Marks the status as wait(2) says it, in the lower half: the rank ends with it.
const ENDS: u64 = 1 << 32;
/// With a core file.
const DUMPS: u64 = 1 << 33;
/// A debugger has stopped the threads, at least once: whether it does is to be looked at.
const CALLED_BACK: u64 = 1 << 34;
/// A thread replaces the program, and the others end.
const EXECS: u64 = 1 << 35;

/// How a rank ends, and why its threads are to come back.
#[derive(Default)]
pub struct Ending {
    /// The bits above.
    word: AtomicU64,
    /// The status of the thread that exited last by itself: the rank's, should nothing else decide it.
    exit_status: AtomicU64,
    /// The thread that replaces the program, while the others end.
    executor: AtomicUsize,
}

impl Ending {
    /// Decides how the rank ends, and whether it is dumped, unless that is decided. Returns whether it was decided now.
    pub(super) fn decide(&self, wait_status: u64, dumped: bool) -> bool {
        let dumps = if dumped { DUMPS } else { 0 };
        let ending = ENDS | dumps | wait_status;
        self.word
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |was| {
                (was & ENDS == 0).then_some(was | ending)
            })
            .is_ok()
    }

    /// A thread ends by itself: if it is the last one, this is the rank's status (Linux: synchronize_group_exit).
    pub fn note_exit(&self, wait_status: u64) {
        self.exit_status.store(wait_status, Ordering::SeqCst);
    }

    /// The status that it ends with, as wait(2) says it: the decided one, or that of the last thread.
    pub fn status(&self) -> u64 {
        let word = self.word.load(Ordering::SeqCst);
        let decided = (word & ENDS != 0).then_some(u64::from(word as u32));
        decided.unwrap_or_else(|| self.exit_status.load(Ordering::SeqCst))
    }

    /// Whether it is decided.
    pub fn is_decided(&self) -> bool {
        self.word.load(Ordering::Relaxed) & ENDS != 0
    }

    /// Whether it ends with a core file.
    pub fn is_dumped(&self) -> bool {
        self.word.load(Ordering::Relaxed) & DUMPS != 0
    }

    /// Whether any of its threads are to come back from what they wait for: see [`Thread::is_called_back`].
    ///
    /// [`Thread::is_called_back`]: crate::thread::Thread::is_called_back
    #[inline]
    pub fn calls_back(&self) -> bool {
        self.word.load(Ordering::Relaxed) != 0
    }

    /// A debugger stops its threads.
    pub(super) fn call_back(&self) {
        self.word.fetch_or(CALLED_BACK, Ordering::SeqCst);
    }

    /// Thread `index` is to replace the program: the others end.
    pub(super) fn begin_exec(&self, index: usize) {
        self.executor.store(index, Ordering::SeqCst);
        self.word.fetch_or(EXECS, Ordering::SeqCst);
    }

    /// It has replaced the program.
    pub fn end_exec(&self) {
        self.word.fetch_and(!EXECS, Ordering::SeqCst);
    }

    /// The thread that replaces the program, if one does.
    pub(super) fn executor(&self) -> Option<usize> {
        let executes = self.word.load(Ordering::SeqCst) & EXECS != 0;
        executes.then(|| self.executor.load(Ordering::SeqCst))
    }

    /// Whether thread `index` is to end: the rank's end is decided, or another thread replaces the program.
    pub fn ends(&self, index: usize) -> bool {
        let word = self.word.load(Ordering::SeqCst);
        let executes = || self.executor.load(Ordering::SeqCst) == index;
        word & ENDS != 0 || (word & EXECS != 0 && !executes())
    }
}
