//! A thread's share of the signals of its process.

use abi::Errno;

use super::forgotten::Forgotten;
use super::{AltStack, Pending, Process, SigSet, Signal};

/// A thread's share.
pub struct Thread {
    pub(super) blocked: SigSet,
    /// The mask that a sigsuspend or the like has put aside.
    pub(super) saved: Option<SigSet>,
    /// Signals for this thread alone. Some may be forgotten: see `forgets`.
    pub pending: Pending,
    /// What it has forgotten so far, of what the process says.
    pub(super) forgets: u64,
    /// Its alternate stack.
    pub altstack: AltStack,
}

impl Thread {
    /// A thread that blocks `blocked`, with room for `queue` pending siginfos.
    pub fn new(blocked: SigSet, queue: usize) -> Self {
        Self {
            blocked: blocked.without(SigSet::UNSTOPPABLE),
            saved: None,
            pending: Pending::new(queue),
            forgets: 0,
            altstack: AltStack::NONE,
        }
    }

    /// Makes it another thread of the same process, which blocks `blocked`, with room for `queue` pending siginfos: nothing of
    /// this one stays.
    pub fn begin(&mut self, blocked: SigSet, queue: usize) {
        *self = Thread::new(blocked, queue);
    }

    /// Takes mask, pending signals and all, for another thread of the process; what is left is one that has ended.
    #[must_use]
    pub fn take(&mut self) -> Thread {
        core::mem::replace(self, Thread::new(SigSet::EMPTY, 0))
    }

    /// It ends: what waits for it is forgotten, and what is sent to it from now on finds no room.
    pub fn end(&mut self) {
        self.pending = Pending::new(0);
    }

    /// Forgets what all threads were to forget meanwhile.
    #[inline]
    pub(super) fn forget(&mut self, forgotten: &Forgotten) {
        if self.forgets != forgotten.times() {
            self.catch_up(forgotten);
        }
    }

    #[cold]
    fn catch_up(&mut self, forgotten: &Forgotten) {
        let set = forgotten.since(self.forgets, self.pending.set());
        self.pending.discard(set);
        self.forgets = forgotten.times();
    }

    /// What it blocks now.
    pub fn blocked(&self) -> SigSet {
        self.blocked
    }

    /// Those of a set that would do something to it at once: it does not block them, and its process does not ignore them.
    pub fn takes(&self, process: &Process, set: SigSet) -> SigSet {
        let open = set.without(self.blocked);
        // BOUND: the signals.
        let ignored = open
            .iter()
            .filter(|signal| process.action(*signal).ignores(*signal));
        // BOUND: the signals.
        ignored.fold(open, |takes, signal| takes.without(SigSet::of(signal)))
    }

    pub(super) fn blocks(&self, signal: Signal) -> bool {
        self.blocked.contains(signal)
    }

    /// Sets the mask (sigreturn).
    pub fn set_blocked(&mut self, set: SigSet) {
        self.blocked = set.without(SigSet::UNSTOPPABLE);
    }

    /// rt_sigprocmask with a new set.
    ///
    /// # Errors
    /// EINVAL: unknown `how`.
    pub fn change_mask(&mut self, how: u64, set: SigSet) -> Result<(), Errno> {
        match how {
            0 => self.set_blocked(self.blocked.union(set)),
            1 => self.set_blocked(self.blocked.without(set)),
            2 => self.set_blocked(set),
            _ => return Err(Errno::EINVAL),
        }
        Ok(())
    }

    /// Puts the mask aside for the time of a sigsuspend, ppoll or the like. A handler that ends the
    /// wait restores it; call [`Self::restore_mask`] when none did.
    pub fn set_saved_mask(&mut self, set: SigSet) {
        let old = self.blocked;
        self.set_blocked(set);
        self.saved.get_or_insert(old);
    }

    /// Ends [`Self::set_saved_mask`] if no handler has.
    pub fn restore_mask(&mut self) {
        if let Some(old) = self.saved.take() {
            self.blocked = old;
        }
    }
}
