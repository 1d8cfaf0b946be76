//! Which pending signal a thread acts on next, and what it does.

use super::{
    DefaultAction, Delivery, Process, SIG_DFL, SIG_IGN, SigInfo, SigSet, Signal, Thread, code, sa,
};

impl Process {
    /// The signal that [`Self::next_of`] takes of all.
    pub fn coming(&self, thread: &mut Thread) -> Option<Signal> {
        thread.forget(&self.forgotten);
        self.first(thread, self.deliverable(thread))
            .map(|(signal, _)| signal)
    }

    /// [`Self::next_of`] all.
    #[cfg(test)]
    pub(super) fn next(&mut self, thread: &mut Thread) -> Option<Delivery> {
        self.next_of(thread, SigSet(u64::MAX))
    }

    /// Takes the next signal `among` those that `thread` must act on or that are ignored, and changes disposition and mask as
    /// its delivery does. None: nothing (more) to do.
    #[inline(always)] // Of every delivery, in one place of each of its two forms.
    pub fn next_of(&mut self, thread: &mut Thread, among: SigSet) -> Option<Delivery> {
        thread.forget(&self.forgotten);
        let (signal, of_thread) = self.first(thread, self.deliverable(thread).and(among))?;
        let action = self.action(signal);
        let pending = if of_thread {
            &mut thread.pending
        } else {
            &mut self.pending
        };
        if action.ignores(signal) {
            return Some(Delivery::Ignored(pending.pop(signal)));
        }
        if action.handler == SIG_DFL {
            let info = pending.pop(signal);
            if self.decided().contains(signal) {
                self.put_back(info);
            }
            return Some(match signal.default_action() {
                DefaultAction::Stop => {
                    self.continued = false;
                    Delivery::Stop(info)
                }
                ends => Delivery::Terminate {
                    info,
                    core: ends == DefaultAction::Core,
                },
            });
        }
        if action.flags & sa::RESETHAND != 0 {
            self.actions[signal.index()].handler = SIG_DFL;
        }
        let restore = thread.saved.take().unwrap_or(thread.blocked);
        let blocked = thread.blocked.union(action.blocks(signal));
        thread.blocked = blocked.without(SigSet::UNSTOPPABLE);
        Some(Delivery::Handler {
            info: pending.pop(signal),
            action,
            restore,
        })
    }

    /// Sends a signal that the thread cannot go on without taking: a fault, or a frame that could
    /// not be written. Blocked or ignored, it becomes fatal (Linux: force_sig_info_to_task).
    pub fn force(&mut self, thread: &mut Thread, info: SigInfo) {
        let signal = info.signal;
        thread.forget(&self.forgotten);
        let action = &mut self.actions[signal.index()];
        if thread.blocks(signal) || action.handler == SIG_IGN {
            action.handler = SIG_DFL;
            thread.blocked = thread.blocked.without(SigSet::of(signal));
        }
        // A real-time signal cannot be a fault, so the queue being full loses particulars at most.
        let _ = thread.pending.push(info, usize::MAX, &self.kept);
    }

    /// The same of a fault that is told some instructions late. Where the signal is blocked and has a handler, the thread may be in that,
    /// for an earlier one: then it waits.
    pub fn force_late(&mut self, thread: &mut Thread, info: SigInfo) {
        let handler = self.action(info.signal).handler;
        let is_handled = handler != SIG_DFL && handler != SIG_IGN;
        match is_handled && thread.blocks(info.signal) {
            true => drop(thread.pending.push(info, usize::MAX, &self.kept)),
            false => self.force(thread, info),
        }
    }

    /// The frame of the handler for `failed` could not be pushed: the thread gets SIGSEGV instead, and when that was the
    /// signal itself, its default action, for a second try would fail like the first (Linux: force_sigsegv).
    pub fn force_segv(&mut self, thread: &mut Thread, failed: Signal) {
        if failed == Signal::SEGV {
            self.actions[failed.index()].handler = SIG_DFL;
            thread.blocked = thread.blocked.without(SigSet::of(failed));
        }
        self.force(thread, SigInfo::new(Signal::SEGV, code::KERNEL));
    }

    /// Takes a pending signal of `wanted`, blocked or not, without acting on it (sigtimedwait).
    pub fn take(&mut self, thread: &mut Thread, wanted: SigSet) -> Option<SigInfo> {
        thread.forget(&self.forgotten);
        let (signal, of_thread) = self.first(thread, wanted.without(self.decided()))?;
        let pending = if of_thread {
            &mut thread.pending
        } else {
            &mut self.pending
        };
        Some(pending.pop(signal))
    }

    /// What waits for the process and for the thread.
    #[inline]
    fn waiting(&self, thread: &Thread) -> SigSet {
        let own = thread.pending.set();
        let forgotten = self.forgotten.since(thread.forgets, own);
        self.pending.set().union(own.without(forgotten))
    }

    /// What a thread acts on: what it does not block, and what ends the process.
    #[inline]
    fn deliverable(&self, thread: &Thread) -> SigSet {
        SigSet(!thread.blocked.0).union(self.urgent)
    }

    /// The pending signal of `wanted` that comes first, and whether it is the thread's. What is urgent goes before all others; the
    /// thread's own come before the process's.
    #[inline]
    fn first(&self, thread: &Thread, wanted: SigSet) -> Option<(Signal, bool)> {
        let (own, all) = (thread.pending.set(), self.pending.set());
        let waiting = own.union(all).and(wanted);
        let urgent = match waiting.and(self.urgent) {
            SigSet::EMPTY => waiting,
            urgent => urgent,
        };
        let of_thread = !own.and(urgent).is_empty();
        let set = if of_thread { own } else { all };
        Some((set.and(urgent).first()?, of_thread))
    }

    /// Whether there is more after [`Self::next_of`], by which the thread has forgotten what it was to forget.
    #[inline]
    pub fn has_more(&self, thread: &Thread) -> bool {
        let waiting = thread.pending.set().union(self.pending.set());
        !waiting.and(self.deliverable(thread)).is_empty()
    }

    /// Whether [`Self::next`] has anything to look at: what a blocking call checks before it sleeps.
    pub fn has_deliverable(&self, thread: &Thread) -> bool {
        let deliverable = self.deliverable(thread);
        !self.waiting(thread).and(deliverable).is_empty()
    }

    /// Whether a signal waits that ends the process as soon as the thread looks at it, without a core file: what a wait that only
    /// such signals interrupt checks (Linux: complete_signal, sig_fatal).
    pub fn has_fatal(&self, thread: &Thread) -> bool {
        let waiting = self.waiting(thread).and(self.deliverable(thread));
        // BOUND: the signals.
        waiting.iter().any(|signal| self.is_fatal(signal))
    }

    /// Whether the signal's action ends the process, without a core file.
    #[inline]
    pub fn is_fatal(&self, signal: Signal) -> bool {
        self.actions[signal.index()].handler == SIG_DFL
            && signal.default_action() == DefaultAction::Terminate
    }

    /// rt_sigpending: what waits because it is blocked.
    pub fn blocked_pending(&self, thread: &Thread) -> SigSet {
        self.waiting(thread).and(thread.blocked)
    }
}
