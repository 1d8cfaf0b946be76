//! Descriptors: which are the rank's and which are ours, and what the rank's are that differ from what Linux has.

use std::os::fd::OwnedFd;

use crate::fds::Limits;
use crate::special::marks::Marks;

/// What is known of the process's descriptors.
#[derive(Debug)]
pub struct Descriptors {
    limits: Limits,
    texts: Marks,
    devices: Marks,
    stderr: OwnedFd,
}

impl Descriptors {
    /// None of the rank's is marked; `stderr` is one of ours.
    pub fn new(limits: Limits, stderr: OwnedFd) -> Descriptors {
        Descriptors {
            limits,
            texts: Marks::new(limits.first_own),
            devices: Marks::new(limits.first_own),
            stderr,
        }
    }

    /// The rank's, and ours above them.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Which of the rank's are texts that are made here.
    pub fn texts(&self) -> &Marks {
        &self.texts
    }

    /// Which are the XPMEM device.
    pub fn devices(&self) -> &Marks {
        &self.devices
    }

    /// Where messages go, whatever the rank does with its descriptors.
    pub fn stderr(&self) -> &OwnedFd {
        &self.stderr
    }
}
