//! The doorbell: the eventfd by which the node signals this process, and the epoll sets that wait for it.

use std::os::fd::OwnedFd;

use rustix::event::epoll;
use rustix::io;

/// Blocks until the node signals.
pub fn wait(doorbell_set: &OwnedFd) {
    let mut events = [const { std::mem::MaybeUninit::<epoll::Event>::uninit() }; 1];
    // Interrupted or not: the caller polls again.
    let _ = epoll::wait(doorbell_set, &mut events, None);
}

/// An epoll set that wakes one waiter for each signal of the doorbell: the worker's when it is made first.
///
/// # Errors
/// What epoll says.
pub fn set(doorbell: &OwnedFd) -> io::Result<OwnedFd> {
    let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let events = epoll::EventFlags::IN | epoll::EventFlags::ET | epoll::EventFlags::EXCLUSIVE;
    epoll::add(&set, doorbell, epoll::EventData::new_u64(0), events)?;
    Ok(set)
}
