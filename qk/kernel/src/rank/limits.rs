//! A rank's resource limits.

use core::sync::atomic::Ordering;

use abi::rlimit;

use super::Rank;

impl Rank {
    /// A resource limit, soft and hard.
    #[inline]
    pub fn limit(&self, resource: usize) -> [u64; 2] {
        self.limits.lock()[resource]
    }

    /// Whether how much memory it may map is limited (RLIMIT_AS, RLIMIT_DATA).
    pub fn limits_memory(&self) -> bool {
        self.limits_memory.load(Ordering::Relaxed)
    }

    /// Changes a resource limit, here and for the proxy; returns what it is now.
    pub fn change_limit(&self, resource: usize, change: impl FnOnce(&mut [u64; 2])) -> [u64; 2] {
        let mut limits = self.limits.lock();
        change(&mut limits[resource]);
        let is_limited = limits[rlimit::AS][0] & limits[rlimit::DATA][0] != u64::MAX;
        self.limits_memory.store(is_limited, Ordering::Relaxed);
        self.host.publish_limit(resource, limits[resource]);
        limits[resource]
    }
}
