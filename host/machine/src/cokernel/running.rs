//! A co-kernel that runs.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};
use wire::cokernel::LOG_BELL;

use super::device::{Device, Way};
use super::{Reserved, line, not_done, refused};
use crate::agent::Agent;
use crate::bells::Bells;
use crate::binding::Binding;
use crate::machine::{Death, Instance};
use crate::message::Cause;
use crate::plan::Plan;

/// The device, and what it signals.
#[derive(Debug)]
pub struct Running {
    /// `None`: it has ended.
    device: Option<Device>,
    bells: Bells,
    /// There is more of the log, or the node has ended.
    log: OwnedFd,
    is_dead: bool,
}

impl Running {
    /// Gives the device its doorbells, and starts the node.
    pub fn start(plan: &Plan, reserved: Reserved) -> io::Result<Running> {
        let Reserved { device, cpus } = reserved;
        let bells = Bells::new(plan.cpus, plan.ranks + 1)?;
        let log = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let to_node = bells.node.iter().enumerate();
        let to_node = to_node.map(|(index, bell)| (Way::ToNode, index, bell));
        let to_host = bells.host.iter().enumerate();
        let to_host = to_host.chain([(usize::from(LOG_BELL), &log)]);
        let to_host = to_host.map(|(index, bell)| (Way::ToHost, index, bell));
        for (way, index, bell) in to_node.chain(to_host) {
            let made = device.bell(way, index, bell.as_fd());
            made.map_err(|errno| not_done("make doorbells", errno))?;
        }
        let started = device.start();
        started.map_err(|errno| line(refused::start(errno, &cpus)))?;
        Ok(Running {
            device: Some(device),
            bells,
            log,
            is_dead: false,
        })
    }
}

impl Instance for Running {
    fn bells(&self) -> &Bells {
        &self.bells
    }

    fn watch<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        fds.push(PollFd::new(&self.log, PollFlags::IN));
    }

    fn serve(&mut self) {
        // Before the log is read: what is written after that rings again.
        let _ = rustix::io::read(&self.log, &mut [0u8; 8]);
    }

    fn agent(&self) -> Option<&Agent> {
        None
    }

    fn read_log(&mut self, take: impl FnMut(&[u8])) {
        if let Some(device) = &self.device {
            device.read_log(take);
        }
    }

    /// A kernel that panicked has said so by the node's state; why else it ends is in its log.
    fn death(&mut self) -> Option<Death> {
        let code = self.device.as_ref().filter(|_| !self.is_dead)?.ended()?;
        self.is_dead = true;
        Some(Death {
            cause: Cause::Exited(code),
            complaint: String::new(),
            used_up: None,
        })
    }

    /// Each core is a CPU.
    fn bind(&self, _: &Binding, _: &Plan) {}

    fn end(&mut self) {
        // Linux has the CPUs back when close(2) returns.
        self.device = None;
    }
}
