//! Signal state of a rank as a whole.

use abi::Errno;
use qk_core::signals::{Action, Process, SIG_IGN, SigSet};

use crate::host::RankPort;

/// Particulars of pending signals kept for a process besides those of the host.
const QUEUE: usize = 256;
/// Places for real-time signals of the host.
const HOST_QUEUE: usize = wire::signal::QUEUED as usize;

/// Signal state of a rank as a whole.
pub struct Signals {
    /// Dispositions, and what was sent to the process.
    pub process: Process,
    /// Real-time signals of the host so far, and how many of them are no longer pending, at least.
    from_host: u64,
    taken: u64,
}

impl Signals {
    /// Defaults, nothing pending.
    pub fn new() -> Signals {
        Signals {
            process: Process::new(QUEUE + HOST_QUEUE),
            from_host: 0,
            taken: 0,
        }
    }

    /// What survived the exec of the program: ignored signals, and how many signals may be queued.
    pub fn inherit(&mut self, ignored: u64, queue_limit: u64) {
        self.process.limit_queue(queue_limit);
        let ignore = Action {
            handler: SIG_IGN,
            ..Action::DEFAULT
        };
        // BOUND: the signals.
        for signal in SigSet(ignored).iter() {
            // KILL and STOP cannot be ignored, whatever the host says.
            let _ = self.process.set_action(signal, ignore);
        }
    }

    /// Whether the program may queue one more signal for itself: the host's keep their places.
    ///
    /// # Errors
    /// EAGAIN: it may not.
    pub fn check_room(&self) -> Result<(), Errno> {
        let places = HOST_QUEUE.saturating_sub((self.from_host - self.taken) as usize);
        let has_room = self.process.pending.queued() + places < QUEUE + HOST_QUEUE;
        has_room.then_some(()).ok_or(Errno::EAGAIN)
    }

    /// A real-time signal of the host has become pending.
    pub fn note_from_host(&mut self) {
        self.from_host += 1;
    }

    /// Publishes to the proxy how many of the host's signals are no longer pending, after some were taken or forgotten.
    #[inline]
    pub fn publish_taken(&mut self, port: &RankPort) {
        if self.taken != self.from_host {
            let pending = self.process.pending.queued() as u64;
            self.taken = self.taken.max(self.from_host.saturating_sub(pending));
            port.publish_taken(self.taken);
        }
    }
}
