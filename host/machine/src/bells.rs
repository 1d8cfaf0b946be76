//! Doorbells between host and node: eventfds, which carry no data.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFlags, eventfd};

use crate::ready;

/// The doorbells of a node.
#[derive(Debug)]
pub struct Bells {
    /// Rings core c of the node.
    pub node: Vec<OwnedFd>,
    /// Signalled by the node: rank r, and behind the ranks the keeper.
    pub host: Vec<OwnedFd>,
}

impl Bells {
    /// Makes so many towards node and host.
    ///
    /// # Errors
    /// No descriptors left.
    pub fn new(node: usize, host: usize) -> io::Result<Bells> {
        let bells = |count| -> io::Result<Vec<OwnedFd>> {
            (0..count)
                .map(|_| Ok(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
                .collect()
        };
        Ok(Bells {
            node: bells(node)?,
            host: bells(host)?,
        })
    }

    /// Forgets rings of the host's doorbell `number`. Without any it would block, now and then: a machine's process shares the
    /// open file, and QEMU takes O_NONBLOCK off a descriptor that it receives (io/channel-socket.c) until it knows what it is
    /// for (hw/misc/ivshmem.c).
    pub fn clear(&self, number: usize) {
        let is_signalled = |bell: &&OwnedFd| ready::within(Duration::ZERO, bell, PollFlags::IN);
        if let Some(bell) = self.host.get(number).filter(is_signalled) {
            let _ = rustix::io::read(bell, &mut [0u8; 8]);
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{OFlags, fcntl_setfl};

    use super::*;
    use crate::hang;

    /// A keeper that polled while QEMU started could block until the node's first signal.
    #[test]
    fn no_ring_is_not_waited_for() {
        let bells = Bells::new(1, 1).expect("doorbells");
        let bell = bells.host[0].try_clone().expect("a descriptor");
        let is_signalled = || ready::within(Duration::ZERO, &bell, PollFlags::IN);
        fcntl_setfl(&bell, OFlags::empty()).expect("a descriptor");
        rustix::io::write(&bell, &1u64.to_ne_bytes()).expect("room");
        assert!(is_signalled());
        hang::not(move || {
            bells.clear(0);
            bells.clear(0);
        });
        assert!(!is_signalled());
    }
}
