//! What a program has said of its process by prctl(2) and personality(2), and what children inherit of it.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Attributes of a process.
pub struct Attributes {
    /// prctl's PR_SET_DUMPABLE: whether there may be a core file.
    dumpable: AtomicBool,
    /// prctl's PR_SET_NO_NEW_PRIVS.
    no_new_privs: AtomicBool,
    /// personality(2).
    personality: AtomicU64,
    /// prctl's PR_SET_PDEATHSIG. A rank does not outlive its parent, yod, so it is only kept to be returned.
    parent_death_signal: AtomicU64,
    /// The commands of membarrier(2) by which it has registered.
    barriers: AtomicU64,
    /// Some descriptor may signal it (O_ASYNC, F_NOTIFY, mq_notify).
    signalling_descriptors: AtomicBool,
    /// It has started children.
    has_children: AtomicBool,
}

impl Attributes {
    /// Those of a process that nothing was said of.
    pub(super) fn new() -> Attributes {
        Attributes {
            dumpable: AtomicBool::new(true),
            no_new_privs: AtomicBool::new(false),
            personality: AtomicU64::new(0),
            parent_death_signal: AtomicU64::new(0),
            barriers: AtomicU64::new(0),
            signalling_descriptors: AtomicBool::new(false),
            has_children: AtomicBool::new(false),
        }
    }

    /// Whether its memory may be read by others of its user, and dumped.
    pub fn is_dumpable(&self) -> bool {
        self.dumpable.load(Ordering::Relaxed)
    }

    /// Allows that, or forbids it.
    pub fn set_dumpable(&self, dumpable: bool) {
        self.dumpable.store(dumpable, Ordering::Relaxed);
    }

    /// Whether execve(2) gives no privileges.
    pub fn has_no_new_privs(&self) -> bool {
        self.no_new_privs.load(Ordering::Relaxed)
    }

    /// From now on it gives none: that is never taken back.
    pub fn deny_new_privs(&self) {
        self.no_new_privs.store(true, Ordering::Relaxed);
    }

    /// Its personality, as children begin with it.
    pub fn personality(&self) -> u64 {
        self.personality.load(Ordering::Relaxed)
    }

    /// Sets it; returns the one before.
    pub fn set_personality(&self, personality: u64) -> u64 {
        self.personality.swap(personality, Ordering::Relaxed)
    }

    /// The signal that it wants when its parent ends; 0: none.
    pub fn parent_death_signal(&self) -> u64 {
        self.parent_death_signal.load(Ordering::Relaxed)
    }

    /// Sets it.
    pub fn set_parent_death_signal(&self, signo: u64) {
        self.parent_death_signal.store(signo, Ordering::Relaxed);
    }

    /// The commands of membarrier(2) by which it has registered.
    pub fn barriers(&self) -> u64 {
        self.barriers.load(Ordering::Relaxed)
    }

    /// It registers by one more.
    pub fn register_barrier(&self, command: u64) {
        self.barriers.fetch_or(command, Ordering::Relaxed);
    }

    /// A new program has registered nothing.
    pub fn forget_barriers(&self) {
        self.barriers.store(0, Ordering::Relaxed);
    }

    /// Whether some descriptor may signal it.
    #[inline]
    pub fn has_signalling_descriptors(&self) -> bool {
        self.signalling_descriptors.load(Ordering::Relaxed)
    }

    /// From now on one may.
    pub fn note_signalling_descriptor(&self) {
        self.signalling_descriptors.store(true, Ordering::Relaxed);
    }

    /// It starts a child.
    pub fn note_child(&self) {
        self.has_children.store(true, Ordering::Relaxed);
    }

    /// Whether it ever started one.
    pub fn has_children(&self) -> bool {
        self.has_children.load(Ordering::Relaxed)
    }
}
