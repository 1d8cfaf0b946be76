//! The ranks' proxies: forking them, and what becomes of them.

use std::os::fd::{AsFd, OwnedFd};

use machine::node::Node;
use machine::resources::Resources;
use machine::sys::{self, Forked};
use rustix::fs::{OFlags, fcntl_getfl};
use rustix::io::{FdFlags, fcntl_getfd};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, WaitOptions, getpgid, getpgrp, kill_process, waitpid};

use crate::console;
use crate::failure::{Failure, status};
use crate::gdb::Sockets;
use crate::output::{Source, Stream};
use crate::place::Place;
use crate::program::Program;
use crate::verdict::How;

/// A rank's proxy.
#[derive(Debug)]
pub struct Rank {
    number: usize,
    pid: Pid,
    ended: bool,
    stopped: bool,
}

/// All ranks of this yod.
#[derive(Debug, Default)]
pub struct Ranks {
    all: Vec<Rank>,
    /// Their output, when it is merged.
    pub sources: Vec<Source>,
}

/// What all proxies have in common.
pub struct Job<'a> {
    pub node: &'a Node,
    pub place: &'a Place,
    pub program: &'a Program,
    pub inherited: proxy::Inherited,
    pub label: bool,
}

impl Ranks {
    /// Forks a proxy per rank. When one cannot be, those that are there end with this process.
    pub fn start(job: &Job<'_>, mut gdb: Option<&mut Sockets>) -> Result<Ranks, Failure> {
        let mut ranks = Ranks::default();
        for rank in job.place.ranks.clone() {
            let gdb = gdb.as_mut().and_then(|sockets| sockets.take(rank));
            ranks.start_one(job, rank, gdb)?;
        }
        Ok(ranks)
    }

    fn start_one(
        &mut self,
        job: &Job<'_>,
        rank: usize,
        gdb: Option<proxy::Gdb>,
    ) -> Result<(), Failure> {
        let cannot = |error: std::io::Error| Failure::os("start a rank", error);
        let pipe = |merged: bool| {
            let pipe = merged.then(|| pipe_with(PipeFlags::CLOEXEC)).transpose();
            pipe.map_err(std::io::Error::from).map_err(cannot)
        };
        // One that is a launcher's child alone writes where that says, unless its lines are to be labelled.
        let merged = job.place.ranks.len() > 1 || job.label && job.place.size > 1;
        let out = pipe(merged && is_open(std::io::stdout(), OFlags::WRONLY))?;
        let err = pipe(merged && is_open(std::io::stderr(), OFlags::WRONLY))?;
        let parent = std::process::id();
        match sys::fork().map_err(cannot)? {
            Forked::Child => {
                let writer = |pipe: Option<(OwnedFd, OwnedFd)>| pipe.map(|(_, writer)| writer);
                become_proxy(job, rank, parent, [writer(out), writer(err)], gdb)
            }
            Forked::Parent(pid) => {
                self.all.push(Rank {
                    number: rank,
                    pid,
                    ended: false,
                    stopped: false,
                });
                let label = if job.label {
                    format!("[{rank}] ")
                } else {
                    String::new()
                };
                for (pipe, stream) in [(out, Stream::Out), (err, Stream::Err)] {
                    if let Some((reader, _)) = pipe {
                        let source = Source::new(reader, label.clone(), stream);
                        self.sources.push(source.map_err(cannot)?);
                    }
                }
                Ok(())
            }
        }
    }

    /// Numbers of the ranks that have not ended.
    pub fn alive(&self) -> Vec<usize> {
        let alive = self.all.iter().filter(|rank| !rank.ended);
        alive.map(|rank| rank.number).collect()
    }

    pub fn all_ended(&self) -> bool {
        self.all.iter().all(|rank| rank.ended)
    }

    /// True when there are ranks and every one of them is stopped.
    pub fn all_stopped(&self) -> bool {
        !self.all_ended() && self.all.iter().all(|rank| rank.ended || rank.stopped)
    }

    /// Sends a signal to those that have not ended and satisfy `which`.
    pub fn kill(&self, signal: Signal, which: impl Fn(usize) -> bool) {
        let alive = self.all.iter().filter(|rank| !rank.ended);
        for rank in alive.filter(|rank| which(rank.number)) {
            // A proxy that has ended is not reaped yet: its process id is still its own.
            let _ = kill_process(rank.pid, signal);
        }
    }

    /// Whether a rank's proxy is in the process group of yod.
    pub fn shares_group(&self, number: usize) -> bool {
        let mut ranks = self.all.iter();
        let rank = ranks.find(|rank| rank.number == number);
        rank.is_some_and(|rank| getpgid(Some(rank.pid)) == Ok(getpgrp()))
    }

    /// Collects what became of the proxies since the last time.
    pub fn reap(&mut self) -> Vec<(usize, How)> {
        let mut ended = Vec::new();
        for rank in self.all.iter_mut().filter(|rank| !rank.ended) {
            let options = WaitOptions::NOHANG | WaitOptions::UNTRACED | WaitOptions::CONTINUED;
            while let Ok(Some((_, status))) = waitpid(Some(rank.pid), options) {
                if status.stopped() || status.continued() {
                    rank.stopped = status.stopped();
                    continue;
                }
                rank.ended = true;
                let how = match (status.exit_status(), status.terminating_signal()) {
                    (Some(code), _) => How::Exited(code as u8),
                    (None, signo) => How::Killed(signo.unwrap_or(0)),
                };
                ended.push((rank.number, how));
                break;
            }
        }
        ended
    }

    /// Continues those that are stopped.
    pub fn continue_stopped(&mut self) {
        for rank in self.all.iter_mut().filter(|rank| !rank.ended) {
            if std::mem::take(&mut rank.stopped) {
                let _ = kill_process(rank.pid, Signal::CONT);
            }
        }
    }
}

/// Whether a standard descriptor was open for this when yod was started. If not, all ranks have it as it is: they see
/// what one rank would. What stands in the place of a closed one is close-on-exec.
fn is_open(fd: impl AsFd, mode: OFlags) -> bool {
    let open = fcntl_getfd(&fd).is_ok_and(|flags| !flags.contains(FdFlags::CLOEXEC));
    let has = fcntl_getfl(&fd).map(|flags| flags & OFlags::RWMODE);
    open && has.is_ok_and(|has| has == mode || has == OFlags::RDWR)
}

/// The life of a proxy, from the fork on.
fn become_proxy(
    job: &Job<'_>,
    rank: usize,
    parent: u32,
    streams: [Option<OwnedFd>; 2],
    gdb: Option<proxy::Gdb>,
) -> ! {
    match proxy_config(job, rank, parent, streams) {
        Ok(config) => proxy::serve(proxy::Config { gdb, ..config }),
        Err(error) => {
            console::say(format_args!("cannot start rank {rank}: {error}"));
            std::process::exit(status::OS.into())
        }
    }
}

fn proxy_config(
    job: &Job<'_>,
    rank: usize,
    parent: u32,
    streams: [Option<OwnedFd>; 2],
) -> std::io::Result<proxy::Config> {
    let [out, err] = streams;
    out.map_or(Ok(()), rustix::stdio::dup2_stdout)?;
    err.map_or(Ok(()), rustix::stdio::dup2_stderr)?;
    if rank > job.place.ranks.start && is_open(std::io::stdin(), OFlags::RDONLY) {
        rustix::stdio::dup2_stdin(std::fs::File::open("/dev/null")?.as_fd())?;
    }
    let node = job.node;
    let several = node.plan.ranks > 1;
    Ok(proxy::Config {
        ram: node.memory.file.try_clone()?,
        pool: node.memory.pool.try_clone()?,
        agent: node.agent.as_ref().map(OwnedFd::try_clone).transpose()?,
        ram_layout: node.memory.ram.clone(),
        comm_gpa: node.plan.comm_base(&node.memory.ram),
        wire: node.plan.config(),
        rank,
        doorbell_in: node.host_bells[rank].try_clone()?,
        core_doorbells: node
            .node_bells
            .iter()
            .map(OwnedFd::try_clone)
            .collect::<Result<_, _>>()?,
        program: job.program.for_proxy(rank, node.plan.ranks)?,
        label: if several {
            format!("rank {rank}")
        } else {
            String::new()
        },
        inherited: job.inherited,
        gdb: None,
        room: proxy::Room(|| Resources::of_host().memory_bytes),
        parent,
    })
}
