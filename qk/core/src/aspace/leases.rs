//! Who may still reach frames of the partition that are not mapped any more. Each has a lease on them, and they are free when
//! the last has ended:
//!
//! | who | ends when |
//! |---|---|
//! | the rank's cores | they are flushed, before the change ends |
//! | the proxy | it has applied the log up to the record of the change |
//! | peers, by a window | never while the job lives: the frames stay the rank's. What is mapped anew where they were waits for a flush ([`super::stale`]) |
//!
//! Retired frames are released together, so one position stands for all. Frames that the node pool lends have leases of the same
//! kind, of which the pool knows ([`crate::objects::Lease`]).

use super::Machine;

/// The leases on the frames that are retired.
pub(super) struct Leases {
    /// Position of the log that covers the removal of all of them.
    proxy: u64,
}

impl Leases {
    /// None.
    pub const NONE: Leases = Leases { proxy: 0 };

    /// More frames were retired; the log has the change.
    #[inline]
    pub fn begin(&mut self, machine: impl Machine) {
        self.proxy = machine.log_position();
    }

    /// Whether none is left.
    #[inline]
    pub fn have_ended(&self, machine: impl Machine) -> bool {
        machine.log_applied() >= self.proxy
    }
}
