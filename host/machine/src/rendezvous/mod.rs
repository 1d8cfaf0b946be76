//! The yods of a job find each other before there is a node (docs/adr/0021).
//!
//! A launcher starts a yod per rank. The first to come gathers the others: it listens at a socket that is named after the job
//! ([`socket_file`]); they connect and introduce themselves. Only when all are there is it known how many cores they may use
//! together, so that the node can be planned. The connections then become the keeper's, and the socket is gone.

mod gathering;
mod peer;
mod socket_file;
#[cfg(test)]
mod testing;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use serde::{Deserialize, Serialize};

use crate::message::{Message, receive, send};
use crate::resources::Resources;
use gathering::Table;
pub use peer::{Peer, is_yod};
use socket_file::{Found, SocketFile};

/// What all yods of a job must have in common.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Terms {
    /// The path of yod's own file, for people.
    pub yod: String,
    /// What distinguishes that file from others: device, inode, and its time of change.
    pub file: [u64; 3],
    /// Ranks of the job on this host.
    pub size: usize,
    /// Options that concern the node, by name and value.
    pub options: Vec<(String, String)>,
}

/// A yod as it introduces itself.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Member {
    /// Its rank on this host.
    pub rank: usize,
    /// CPUs of the host that it may run on.
    pub cpus: Vec<u32>,
    /// Cores and memory that it may use.
    pub resources: Resources,
    /// It takes the kernel log.
    pub log: bool,
    /// What it must have in common with the others.
    pub terms: Terms,
    /// It cannot run its rank: the exit status, and why, as a line. It comes nevertheless, and waits: so one yod of the job says it,
    /// and all end with that status.
    pub unfit: Option<(u8, String)>,
}

/// Another yod of the job.
#[derive(Debug)]
pub struct Guest {
    /// Who it is.
    pub member: Member,
    /// The connection to it.
    pub socket: OwnedFd,
}

/// What the caller is to do now.
#[derive(Debug)]
pub enum Role {
    /// It was the first: start the node for all.
    First(Vec<Guest>),
    /// Another yod starts the node; it is handed over here.
    Later(OwnedFd),
}

/// Why the yods of a job do not come together.
#[derive(Debug)]
pub enum Why {
    /// The ids of users cannot be distinguished in this user namespace.
    NoUser,
    /// No socket can be made, or something else that Linux says.
    Io(io::Error),
    /// The caller does not wait any longer; ranks that are missing, as far as known.
    GivenUp(Vec<usize>),
    /// A yod has other terms; what differs, as a sentence.
    Differs(String),
    /// A yod cannot run its rank: the exit status, and why.
    Unfit(u8, String),
    /// This rank was there and has ended.
    Gone(usize),
    /// The first yod has ended.
    FirstGone,
}

/// They do not come together.
#[derive(Debug)]
pub struct NoMeeting {
    /// The reason.
    pub why: Why,
    /// Those that wait for an answer: see [`dismiss`].
    pub waiting: Vec<OwnedFd>,
}

impl NoMeeting {
    fn alone(why: Why) -> NoMeeting {
        NoMeeting {
            why,
            waiting: Vec::new(),
        }
    }
}

/// Waits until one of the descriptors is readable, or some milliseconds; false: no longer.
pub type Wait<'a> = &'a mut dyn FnMut(&[BorrowedFd<'_>]) -> bool;

/// Brings the yods of `job` together, of which `me` is one.
///
/// # Errors
/// [`NoMeeting`].
pub fn meet(job: &str, me: &Member, wait: Wait<'_>) -> Result<Role, NoMeeting> {
    let file = SocketFile::new(job).ok_or(NoMeeting::alone(Why::NoUser))?;
    loop {
        let found = file.find();
        match found.map_err(|error| NoMeeting::alone(Why::Io(error)))? {
            Found::Connection(socket) => {
                let hello = Message::Hello(me.clone());
                return match send(socket.as_fd(), &hello, &[]) {
                    Ok(()) => Ok(Role::Later(socket)),
                    Err(_) => Err(NoMeeting::alone(Why::FirstGone)),
                };
            }
            Found::Listener(listener) => {
                let met = Table::new(me).gather(&listener, wait);
                file.remove();
                return met.map(Role::First);
            }
            Found::Busy if wait(&[]) => {}
            Found::Busy => return Err(NoMeeting::alone(Why::GivenUp(Vec::new()))),
        }
    }
}

/// Removes what the first yod of `job` has left that was killed before all had met.
pub fn clear_up(job: &str) {
    SocketFile::new(job)
        .iter()
        .for_each(SocketFile::remove_stale);
}

/// Notifies yods that there will be no node; they end with `status`.
pub fn dismiss(waiting: &[OwnedFd], status: u8) {
    for socket in waiting {
        let _ = send(socket.as_fd(), &Message::Dismissed { status }, &[]);
    }
}

/// Waits for the first yod's word that there will be no node: the status to end with; `None`: it is gone, or the caller does not wait
/// any longer.
pub fn dismissed(socket: &OwnedFd, wait: Wait<'_>) -> Option<u8> {
    loop {
        match receive(socket, false) {
            Ok((Message::Dismissed { status }, _)) => return Some(status),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            _ => return None,
        }
        if !wait(&[socket.as_fd()]) {
            return None;
        }
    }
}

/// What several yods may use together: the union of their CPUs as far as no quota forbids it, and the memory that all of them see.
#[must_use]
pub fn together<'a>(members: impl Iterator<Item = &'a Member> + Clone) -> Resources {
    let mut cpus: Vec<u32> = members.clone().flat_map(|m| m.cpus.clone()).collect();
    cpus.sort_unstable();
    cpus.dedup();
    let quotas = members.clone().filter_map(|member| {
        let cores = member.resources.cores;
        (cores < member.cpus.len()).then_some(cores)
    });
    let memory = members.map(|member| member.resources.memory_bytes);
    Resources {
        cores: quotas.min().unwrap_or(cpus.len()).min(cpus.len()).max(1),
        memory_bytes: memory.min().unwrap_or(0),
    }
}

#[cfg(test)]
pub use gathering::tests::member;

#[cfg(test)]
mod tests {
    use super::*;

    fn member(cpus: &[u32], cores: usize, memory_bytes: u64) -> Member {
        let resources = Resources {
            cores,
            memory_bytes,
        };
        Member {
            cpus: cpus.to_vec(),
            resources,
            ..super::member(0, 1)
        }
    }

    #[test]
    fn bindings_add_up_and_limits_hold() {
        let of = |members: &[Member]| {
            let all = together(members.iter());
            (all.cores, all.memory_bytes)
        };
        assert_eq!(of(&[member(&[0], 1, 9), member(&[3], 1, 7)]), (2, 7));
        assert_eq!(of(&[member(&[0, 1], 2, 9), member(&[0, 1], 2, 9)]), (2, 9));
        let quota = member(&[0, 1, 2, 3], 2, 9);
        assert_eq!(of(&[quota.clone(), quota]), (2, 9));
        assert_eq!(of(&[member(&[5], 1, 9), member(&[5], 1, 9)]).0, 1);
    }
}
