//! Waiting for one descriptor.

use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Whether `fd` is ready for `events`, or has failed, within `limit`. `false` also if a signal comes before: retry to be certain.
pub fn within(limit: Duration, fd: impl AsFd, events: PollFlags) -> bool {
    let limit = Timespec {
        tv_sec: limit.as_secs() as i64,
        tv_nsec: limit.subsec_nanos().into(),
    };
    poll(&mut [PollFd::new(&fd, events)], Some(&limit)).is_ok_and(|ready| ready > 0)
}
