//! Who holds the files: a thread with descriptors of its own.
//!
//! When a process closes a descriptor of a file, whichever it is, Linux takes all its record locks on the file away (fcntl(2)), and to Linux
//! a process is who uses the same table of descriptors. So files are not held in the rank's table: it would lose its locks
//! when one is let go. The thread, which is started for the first file, does all that needs a descriptor that is held.

use std::collections::HashMap;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, MutexGuard};
use std::thread;

use abi::Errno;
use rustix::cmsg_space;
use rustix::io::{self, retry_on_intr};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

use super::held::{Content, Held};
use crate::agent::Agent;
use crate::errno::linux;
use crate::fds::{self, Limits};
use crate::signals::{self, How};
use crate::sync::lock;

/// Bytes of its stack.
const STACK_BYTES: usize = 64 << 10;

/// What is held, and the way to the agent that lays it.
pub(super) struct Files {
    held: HashMap<Content, Held>,
    agent: Option<OwnedFd>,
}

impl Files {
    /// The way to the agent.
    ///
    /// # Errors
    /// ENODEV: the node's QEMU has none, so no file can be shared.
    pub(super) fn agent(&self) -> Result<Agent<'_>, Errno> {
        self.agent.as_ref().map(Agent::of).ok_or(Errno::ENODEV)
    }
}

impl Deref for Files {
    type Target = HashMap<Content, Held>;

    fn deref(&self) -> &Self::Target {
        &self.held
    }
}

impl DerefMut for Files {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.held
    }
}

type Job = Box<dyn FnOnce(&mut Files, BorrowedFd<'_>) + Send>;

/// The thread, as others see it.
#[derive(Debug)]
pub struct Holder {
    /// Descriptors for it are sent here,
    to: OwnedFd,
    /// and received there.
    from: OwnedFd,
    /// The way to the agent.
    agent: Option<OwnedFd>,
    /// What it is to do, one after the other; `None` before it is started.
    jobs: Mutex<Option<Sender<Job>>>,
    /// The process's own descriptors.
    limits: Limits,
}

impl Holder {
    /// One that holds nothing; `keep` moves its descriptors out of the rank's way. `agent` is the way to the agent.
    ///
    /// # Errors
    /// What Linux says.
    pub fn new(
        limits: Limits,
        agent: Option<OwnedFd>,
        keep: &impl Fn(OwnedFd) -> io::Result<OwnedFd>,
    ) -> io::Result<Holder> {
        let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
        let (to, from) = socketpair(AddressFamily::UNIX, kind, flags, None)?;
        Ok(Holder {
            to: keep(to)?,
            from: keep(from)?,
            agent: agent.map(keep).transpose()?,
            jobs: Mutex::default(),
            limits,
        })
    }

    /// Has it do something with what it holds, and waits.
    ///
    /// # Errors
    /// EAGAIN or ENOMEM: there is no such thread.
    pub(super) fn have<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Files) -> T + Send + 'static,
    ) -> Result<T, Errno> {
        let mut jobs = self.jobs();
        self.run(&mut jobs, |files, _| work(files))
    }

    /// Has it do something with a descriptor of its own of the same open file.
    ///
    /// # Errors
    /// As [`Self::have`]; ENFILE: the hard limit on descriptors has no room; EBADF.
    pub(super) fn give<T: Send + 'static>(
        &self,
        fd: BorrowedFd<'_>,
        work: impl FnOnce(&mut Files, OwnedFd) -> Result<T, Errno> + Send + 'static,
    ) -> Result<T, Errno> {
        // The limit first: who has raised it may come to wait for the files.
        self.limits.with_room(|| {
            let mut jobs = self.jobs(); // no thread sends another meanwhile
            send(&self.to, fd)?;
            self.run(&mut jobs, |files, from| work(files, receive(from)?))?
        })
    }

    fn jobs(&self) -> MutexGuard<'_, Option<Sender<Job>>> {
        lock(&self.jobs)
    }

    fn run<T: Send + 'static>(
        &self,
        jobs: &mut Option<Sender<Job>>,
        work: impl FnOnce(&mut Files, BorrowedFd<'_>) -> T + Send + 'static,
    ) -> Result<T, Errno> {
        let jobs = match jobs {
            Some(jobs) => jobs,
            None => jobs.insert(self.start()?),
        };
        let (done, result) = mpsc::channel();
        let job = move |files: &mut Files, from: BorrowedFd<'_>| {
            let _ = done.send(work(files, from));
        };
        let _ = jobs.send(Box::new(job));
        result.recv().map_err(|_| Errno::ENOMEM) // it has ended, for it could have no table of its own
    }

    fn start(&self) -> Result<Sender<Job>, Errno> {
        let (jobs, to_do) = mpsc::channel();
        let (from, agent) = (
            self.from.as_raw_fd(),
            self.agent.as_ref().map(AsRawFd::as_raw_fd),
        );
        let end = self.limits.raised;
        let run = move || {
            signals::mask(How::Set, signals::ALL);
            if fds::leave_table(&[from, agent.unwrap_or(from)], end) {
                // SAFETY: 1. Both are open, for they were in the table that this one is a copy of. 2. No other code uses this one.
                let own = |fd| unsafe { OwnedFd::from_raw_fd(fd) };
                serve(&to_do, &own(from), agent.map(own));
            }
        };
        let builder = thread::Builder::new().name("files".into());
        let started = builder.stack_size(STACK_BYTES).spawn(run);
        started.map(|_| jobs).map_err(|_| Errno::EAGAIN)
    }
}

fn serve(jobs: &Receiver<Job>, from: &OwnedFd, agent: Option<OwnedFd>) {
    let mut files = Files {
        held: HashMap::new(),
        agent,
    };
    for job in jobs {
        job(&mut files, from.as_fd());
    }
}

fn send(to: &OwnedFd, fd: BorrowedFd<'_>) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut sent = SendAncillaryBuffer::new(&mut space);
    let fds = [fd];
    sent.push(SendAncillaryMessage::ScmRights(&fds));
    let bytes = [IoSlice::new(&[0])]; // not even one would be no message
    retry_on_intr(|| sendmsg(to, &bytes, &mut sent, SendFlags::empty()))
        .map(drop)
        .map_err(linux)
}

fn receive(from: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut received = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut bytes = [IoSliceMut::new(&mut byte)];
    recvmsg(
        from,
        &mut bytes,
        &mut received,
        RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT,
    )
    .map_err(linux)?;
    let fd = received.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    fd.ok_or(Errno::ENFILE) // Linux sends none for which there is no number
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    use crate::sync::{sleeps, thread_id};

    const LIMIT: Duration = Duration::from_secs(20);

    /// Who waited for room on the limit held the files already, and who had the room came to wait for them.
    #[test]
    fn who_waits_for_room_keeps_none_from_the_files() {
        let limits = Limits {
            soft: 512,
            first_own: 512,
            raised: 1024,
        };
        let holder = Holder::new(limits, None, &Ok).expect("a holder");
        let has_room = fds::turn();
        thread::scope(|scope| {
            let (started, tid) = mpsc::channel();
            let holder = &holder;
            scope.spawn(move || {
                let _ = started.send(thread_id());
                let kept = holder.give(holder.to.as_fd(), |_, fd| {
                    drop(fd);
                    Ok(())
                });
                assert_eq!(kept, Ok(()));
            });
            let tid = tid.recv_timeout(LIMIT).expect("a thread");
            while !sleeps(tid) {
                thread::yield_now();
            }
            let (done, is_done) = mpsc::channel();
            scope.spawn(move || {
                let _ = done.send(holder.have(|files| files.len()));
            });
            let files = is_done.recv_timeout(LIMIT);
            drop(has_room);
            assert_eq!(files, Ok(Ok(0)));
        });
    }
}
