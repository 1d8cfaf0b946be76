//! Who a rank is.

use abi::control::RankInfo;

/// What never changes after the proxy attached: served without a lock.
pub struct Identity {
    /// The proxy's pid is the rank's.
    pub pid: u64,
    /// Its parent: yod.
    pub ppid: u64,
    /// User, group, and so on.
    pub info: RankInfo,
}

impl Identity {
    /// Before the proxy attached.
    pub(super) const UNKNOWN: Identity = Identity {
        pid: 0,
        ppid: 0,
        info: RankInfo::from_words(&[0; RankInfo::WORDS]),
    };
}
