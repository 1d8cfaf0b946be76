//! Signals as Linux keeps them (signal(7)): dispositions, masks, what is pending, and what comes
//! next. A process has one [`Process`] and, per thread, one [`Thread`].
//!
//! Pure bookkeeping: frames on user stacks, waking sleepers and stopping the proxy are the
//! kernel's, by the values returned here. Each signal takes the way
//! [`Process::send`] (may drop it) → pending → [`Process::next`] (decides) → the kernel acts.

mod altstack;
mod delivery;
mod forgotten;
mod info;
mod left;
mod set;
pub mod si;
#[cfg(test)]
mod tests;
mod thread;

pub use altstack::{AltStack, MINSIGSTKSZ, SS_AUTODISARM, SS_DISABLE, SS_ONSTACK};
use forgotten::Forgotten;
use info::Kept;
pub use info::{Expiration, Pending, SigInfo, code};
pub use left::Left;
pub use set::{DefaultAction, SigSet, Signal};
pub use thread::Thread;

use abi::Errno;

/// sa_handler: the default action.
pub const SIG_DFL: u64 = 0;
/// sa_handler: ignore.
pub const SIG_IGN: u64 = 1;

/// sa_flags (include/uapi/asm-generic/signal-defs.h, arch/x86/include/uapi/asm/signal.h).
pub mod sa {
    /// No SIGCHLD when children stop.
    pub const NOCLDSTOP: u64 = 1;
    /// Children leave no zombies.
    pub const NOCLDWAIT: u64 = 2;
    /// The handler takes siginfo and context.
    pub const SIGINFO: u64 = 4;
    /// Show tag bits of fault addresses.
    pub const EXPOSE_TAGBITS: u64 = 0x800;
    /// `restorer` is valid; required on x86-64.
    pub const RESTORER: u64 = 0x0400_0000;
    /// Use the alternate stack.
    pub const ONSTACK: u64 = 0x0800_0000;
    /// Restart interrupted calls.
    pub const RESTART: u64 = 0x1000_0000;
    /// Do not block the signal while its handler runs.
    pub const NODEFER: u64 = 0x4000_0000;
    /// Back to the default action on entry.
    pub const RESETHAND: u64 = 0x8000_0000;
    /// What a kernel keeps; it clears other bits, so that programs can test what is supported.
    pub const KNOWN: u64 = NOCLDSTOP
        | NOCLDWAIT
        | SIGINFO
        | EXPOSE_TAGBITS
        | RESTORER
        | ONSTACK
        | RESTART
        | NODEFER
        | RESETHAND;
}

/// x86-64's struct kernel_sigaction, in its order: four 8-byte words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Action {
    /// sa_handler: address, [`SIG_DFL`] or [`SIG_IGN`].
    pub handler: u64,
    /// sa_flags
    pub flags: u64,
    /// sa_restorer
    pub restorer: u64,
    /// sa_mask
    pub mask: SigSet,
}

impl Action {
    /// The action of a program that has set no other.
    pub const DEFAULT: Self = Self {
        handler: SIG_DFL,
        flags: 0,
        restorer: 0,
        mask: SigSet::EMPTY,
    };

    /// What the handler of `signal` blocks besides what its thread does.
    #[inline]
    fn blocks(&self, signal: Signal) -> SigSet {
        let own = match self.flags & sa::NODEFER {
            0 => SigSet::of(signal),
            _ => SigSet::EMPTY,
        };
        self.mask.union(own)
    }

    /// Whether delivering `signal` would do nothing.
    #[inline(always)] // Of every signal that is sent.
    fn ignores(&self, signal: Signal) -> bool {
        match self.handler {
            SIG_IGN => true,
            SIG_DFL => matches!(
                signal.default_action(),
                DefaultAction::Ignore | DefaultAction::Continue
            ),
            _ => false,
        }
    }
}

const KILL: SigSet = SigSet::of(Signal::KILL);

/// What became of a signal that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// It waits now: a thread that does not block it should look.
    pub pending: bool,
    /// It is to wait outside ([`Left`]): the caller sees to that.
    pub left: bool,
    /// The process continues if it was stopped (SIGCONT, SIGKILL), whatever becomes of the signal.
    pub resume: bool,
    /// Signals it cancelled, which all threads have forgotten: timers that sent some go on.
    pub cancelled: SigSet,
}

/// What a thread must do before it returns to its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Run a handler; the blocked mask has been changed for it already.
    Handler {
        /// What the handler gets.
        info: SigInfo,
        /// How; `flags` and `restorer` are as when it was installed.
        action: Action,
        /// The mask to restore when the handler returns.
        restore: SigSet,
    },
    /// End the process.
    Terminate {
        /// Why.
        info: SigInfo,
        /// With a crash report.
        core: bool,
    },
    /// Stop until SIGCONT, because of this signal.
    Stop(SigInfo),
    /// Nothing: the signal is ignored. If a timer sent it, that goes on now.
    Ignored(SigInfo),
}

impl Delivery {
    /// The signal.
    pub fn info_mut(&mut self) -> &mut SigInfo {
        match self {
            Self::Handler { info, .. } | Self::Terminate { info, .. } => info,
            Self::Stop(info) | Self::Ignored(info) => info,
        }
    }
}

/// A process's dispositions and the signals sent to it as a whole.
pub struct Process {
    actions: [Action; 64],
    /// Signals for whichever thread takes them.
    pub pending: Pending,
    /// What threads forget.
    forgotten: Forgotten,
    /// Of `pending` and of every thread's.
    kept: Kept,
    queue_limit: usize,
    /// What waits outside.
    pub left: Left,
    /// See [`Process::is_continued`].
    continued: bool,
    /// What goes before all others and is not held up: SIGKILL, or what [`Process::decide`] was given.
    urgent: SigSet,
}

/// The target of a signal.
pub enum Target<'a> {
    /// Any thread of the process.
    Process {
        /// The main one blocks it: then it is kept for sigwait even if it is [ignored](Process::ignores).
        main_blocks: bool,
    },
    /// One thread.
    Thread(&'a mut Thread),
}

impl Process {
    /// Everything at its default, with room for `queue` pending siginfos.
    pub fn new(queue: usize) -> Self {
        Self {
            actions: [Action::DEFAULT; 64],
            pending: Pending::new(queue),
            forgotten: Forgotten::new(),
            kept: Kept::default(),
            queue_limit: usize::MAX,
            left: Left::default(),
            continued: false,
            urgent: KILL,
        }
    }

    /// The action for `signal`.
    pub fn action(&self, signal: Signal) -> Action {
        self.actions[signal.index()]
    }

    /// Whether delivering `signal` would do nothing.
    #[inline(always)] // Of every signal that is sent.
    pub fn ignores(&self, signal: Signal) -> bool {
        self.actions[signal.index()].ignores(signal)
    }

    /// rt_sigaction with a new action. Returns the old one, and which pending signals are forgotten, by all threads, because they
    /// are ignored from now on (POSIX): timers that sent some go on.
    ///
    /// # Errors
    /// EINVAL for SIGKILL and SIGSTOP.
    pub fn set_action(
        &mut self,
        signal: Signal,
        mut new: Action,
    ) -> Result<(Action, SigSet), Errno> {
        if signal.is_unstoppable() {
            return Err(Errno::EINVAL);
        }
        new.flags &= sa::KNOWN;
        new.mask = new.mask.without(SigSet::UNSTOPPABLE);
        if self.decided().contains(signal) {
            return Ok((self.action(signal), SigSet::EMPTY));
        }
        let discard = if new.ignores(signal) {
            SigSet::of(signal)
        } else {
            SigSet::EMPTY
        };
        self.forget(discard);
        Ok((
            core::mem::replace(&mut self.actions[signal.index()], new),
            discard,
        ))
    }

    /// Sets how many signals may be queued for the process and all its threads together (RLIMIT_SIGPENDING's soft limit, which
    /// on Linux also counts those of the user's other processes).
    pub fn limit_queue(&mut self, limit: u64) {
        self.queue_limit = usize::try_from(limit).unwrap_or(usize::MAX);
    }

    /// Makes a place for the signal of a new timer, which is for the process (`None`) or for one thread.
    ///
    /// # Errors
    /// EAGAIN: as many signals are queued, or timers made, as may be.
    pub fn reserve_timer(&mut self, target: Option<&mut Thread>) -> Result<(), Errno> {
        let pending = match target {
            None => &mut self.pending,
            Some(thread) => {
                thread.forget(&self.forgotten);
                &mut thread.pending
            }
        };
        pending.reserve(self.queue_limit, &self.kept)
    }

    /// The program is replaced by another (execve(2)), of which `thread` is the only thread: handlers and the alternate stack are
    /// gone, ignored signals stay ignored, mask and pending signals stay, but for what timers sent, which have been deleted.
    pub fn reset_for_exec(&mut self, thread: &mut Thread) {
        thread.altstack = AltStack::NONE;
        thread.pending.discard_expired();
        if self.decided().is_empty() {
            self.pending.discard_expired();
        }
        // BOUND: the signals.
        for action in &mut self.actions {
            let handler = if action.handler == SIG_IGN {
                SIG_IGN
            } else {
                SIG_DFL
            };
            *action = Action {
                handler,
                ..Action::DEFAULT
            };
        }
    }

    /// Sends a signal (Linux: prepare_signal, sig_ignored, __send_signal_locked).
    ///
    /// # Errors
    /// EAGAIN, as [`Pending::push`].
    #[inline(always)] // As there.
    pub fn send(&mut self, target: Target<'_>, info: SigInfo) -> Result<Sent, Errno> {
        let signal = info.signal;
        let cancelled = match signal {
            Signal::CONT => SigSet::STOPPING,
            _ if SigSet::STOPPING.contains(signal) => SigSet::of(Signal::CONT),
            _ => SigSet::EMPTY,
        };
        if !cancelled.is_empty() {
            self.forget(cancelled);
        }
        let ignored = self.ignores(signal);
        let left = self.left.holds(signal);
        let (pending, blocked) = match target {
            Target::Process { main_blocks } => (&mut self.pending, main_blocks),
            Target::Thread(thread) => {
                thread.forget(&self.forgotten);
                let blocked = thread.blocks(signal);
                (&mut thread.pending, blocked)
            }
        };
        let pends = !left && (!ignored || blocked);
        if pends {
            pending.push(info, self.queue_limit, &self.kept)?;
        }
        let resume = matches!(signal, Signal::CONT | Signal::KILL);
        Ok(Sent {
            pending: pends,
            left,
            resume,
            cancelled,
        })
    }

    /// A signal that [ends the process](Self::is_fatal) was sent to it (`None`) or to one thread, and meets one that does not block it:
    /// nothing that threads block, wait for or set from now on takes that back (Linux: complete_signal).
    pub fn decide(&mut self, thread: Option<&mut Thread>, signal: Signal) {
        if self.decided().is_empty() && !self.pending.set().contains(Signal::KILL) {
            self.urgent = SigSet::of(signal);
            if let Some(thread) = thread {
                let info = thread.pending.pop(signal);
                self.put_back(info);
            }
        }
    }

    /// What ends the process, if that is decided and it is not SIGKILL: it waits in `pending`, and stays there.
    fn decided(&self) -> SigSet {
        self.urgent.without(KILL)
    }

    /// It waits for the process. Where there is no room its particulars are lost, as kill's may be. A timer's place is the timer's.
    #[cold]
    #[inline(never)]
    pub fn put_back(&mut self, info: SigInfo) {
        let bare = SigInfo::new(info.signal, code::USER);
        let info = SigInfo {
            timer: None,
            ..info
        };
        let mut push = |info| self.pending.push(info, usize::MAX, &self.kept);
        let _ = push(info).or_else(|_| push(bare));
    }

    /// Whether no more signals may be queued, as far as is known: threads may have to forget some ([`Self::forget_in`]).
    pub fn is_full(&self) -> bool {
        self.kept.reach(self.queue_limit)
    }

    /// Gives back the room of what the thread has to forget: it would do so itself when it is looked at next.
    pub fn forget_in(&self, thread: &mut Thread) {
        thread.forget(&self.forgotten);
    }

    /// What waits is forgotten, by all threads.
    fn forget(&mut self, set: SigSet) {
        self.pending.discard(set);
        self.forgotten.add(set);
    }

    /// A signal was sent that continues the process ([`Sent::resume`]).
    pub fn note_continued(&mut self) {
        self.continued = true;
    }

    /// Whether such a signal came after the last that stopped the process: it is not to stay stopped.
    pub fn is_continued(&self) -> bool {
        self.continued
    }
}
