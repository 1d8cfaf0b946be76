//! A keeper with a node: setting it up, and the loop that serves it.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, OFlags, fcntl_setfl, ftruncate, memfd_create};
use rustix::process::{Pid, Resource, Signal, getrlimit, kill_process};
use wire::boot::node;
use wire::rank::state;

use super::client::Client;
use super::ticker::Ticker;
use super::{Job, Launch};
use crate::binding::Binding;
use crate::comm::Comm;
use crate::memory::Memory;
use crate::message::{Cause, Ended, Event, UsedUp};
use crate::plan::Plan;
use crate::qemu::{self, ivshmem::Doorbells};
use crate::serial::Log;
use crate::sys;

/// Bytes of the log that go with the report of the node's end: a panic report is far shorter.
const LAST_WORDS_BYTES: usize = 16 << 10;
/// Bytes of QEMU's own messages that are kept.
const COMPLAINT_BYTES: usize = 2 << 10;
/// For QEMU to end in order, when it has a plugin. Writing takes milliseconds.
const END_LIMIT: Duration = Duration::from_secs(10);

/// QEMU has used up the limit on processor time when it has used so many percent of it: getrusage's account is exact, what
/// Linux compares with the limit is a count of ticks, and on a machine with much to do the two are tenths of a second apart.
const USED_UP_PERCENT: u64 = 75;

pub struct Running {
    plan: Plan,
    binding: Option<Binding>,
    memory: Memory,
    comm: Comm,
    bells: Doorbells,
    bells_sent: bool,
    qemu: Child,
    qemu_ended: bool,
    signals: sys::Signals,
    ticker: Ticker,
    log: Log,
    complaint: Vec<u8>,
    state: u64,
    events: Vec<Event>,
    clients: Vec<Client>,
    /// Have left, and are not let go before the yod that reports to the user has left as well.
    held: Vec<Client>,
}

impl Running {
    /// Makes RAM and doorbells, writes the boot information and starts QEMU.
    pub fn start(launch: &Launch, job: &Job, signals: sys::Signals) -> io::Result<Running> {
        let plan = job.plan;
        let ram = qemu::ram(&plan).map_err(io::Error::other)?;
        let file = memfd_create("margay-ram", MemfdFlags::CLOEXEC)?;
        ftruncate(&file, ram.bytes() - plan.pool_file_bytes())?;
        let pool = memfd_create("margay-pool", MemfdFlags::CLOEXEC)?;
        ftruncate(&pool, plan.pool_file_bytes())?;
        let memory = Memory { ram, file, pool };
        let comm = Comm::map(&memory, &plan)?;
        for (to, from) in comm.header().refuse.iter().zip(launch.refuse) {
            to.put(from);
        }
        plan.config().write(comm.header());
        let (mut bells, qemu_end) = Doorbells::new(plan.vectors())?;
        let bells_sent = bells.send()?;
        let [file, pool] = memory.files();
        let descriptors = [file, pool, qemu_end.as_fd()];
        // QEMU sets handlers for some of them, which end it. One that runs a plugin must be able to end in order.
        let blocked = match &launch.plugin {
            None => &super::OF_THE_RANKS[..],
            Some(_) => &[],
        };
        let qemu = sys::spawn_bound(
            Command::new(&launch.qemu.path)
                .args(
                    launch
                        .machine(&plan, &memory.ram)
                        .arguments_with(descriptors),
                )
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped()),
            &descriptors,
            blocked,
        )
        .map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("{}: {error}", launch.qemu.path.display()),
            )
        })?;
        if let (Some(out), Some(err)) = (&qemu.stdout, &qemu.stderr) {
            fcntl_setfl(out, OFlags::NONBLOCK)?;
            fcntl_setfl(err, OFlags::NONBLOCK)?;
        }
        // The node waits for its clock while it boots. Not before QEMU is started: it would inherit this.
        sys::prefer_short_slices();
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZero::new(1));
        Ok(Running {
            plan,
            binding: job.binding.clone(),
            memory,
            comm,
            bells,
            bells_sent,
            qemu,
            qemu_ended: false,
            signals,
            ticker: Ticker::new(launch.first),
            log: Log::default(),
            complaint: Vec::new(),
            state: node::RESET,
            events: Vec::new(),
            clients: Vec::new(),
            held: Vec::new(),
        })
    }

    /// Serves until the last yod has left.
    pub fn run(mut self, clients: Vec<Client>, launch: &Launch) -> io::Result<()> {
        self.clients = clients;
        let fds = descriptors(&self.memory, &self.bells, &self.plan);
        for client in &self.clients {
            // One that is gone is noticed when it is read from.
            let _ = client.welcome(&self.plan, &self.memory.ram, &fds);
        }
        while !self.clients.is_empty() {
            let again = self.tell();
            self.wait(again)?;
            self.look();
            self.serve_clients();
        }
        if launch.plugin.is_some() {
            self.end_in_order();
        }
        // Dying takes QEMU a while: its memory is given back. It must not be seen alive after yod has ended.
        if self.qemu.kill().is_ok() {
            let _ = self.qemu.wait();
        }
        Ok(())
    }

    /// Lets QEMU's plugin write what it has; a QEMU that cannot end is killed by the caller.
    fn end_in_order(&mut self) {
        let pid = Pid::from_child(&self.qemu);
        if self.qemu_ended || kill_process(pid, Signal::TERM).is_err() {
            return;
        }
        let start = Instant::now();
        while matches!(self.qemu.try_wait(), Ok(None)) && start.elapsed() < END_LIMIT {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn tell(&mut self) -> bool {
        let mut again = false;
        for (i, client) in self.clients.iter_mut().enumerate() {
            again |= client.tell(&self.log, &self.events, i == 0);
        }
        again
    }

    /// Blocks until something happens or the clock is due.
    fn wait(&self, again: bool) -> io::Result<()> {
        let mut fds = vec![PollFd::new(&self.signals, PollFlags::IN)];
        // Rung when the node's state changes.
        if let Some(bell) = self.bells.host.get(self.plan.ranks) {
            fds.push(PollFd::new(bell, PollFlags::IN));
        }
        if let Some(pipe) = self.qemu.stdout.as_ref().filter(|_| !self.qemu_ended) {
            fds.push(PollFd::new(pipe, PollFlags::IN));
        }
        if let Some(pipe) = self.qemu.stderr.as_ref().filter(|_| !self.qemu_ended) {
            fds.push(PollFd::new(pipe, PollFlags::IN));
        }
        let bells = self.bells.socket();
        if !self.bells_sent {
            fds.push(PollFd::new(&bells, PollFlags::OUT));
        }
        let events = if again {
            PollFlags::IN | PollFlags::OUT
        } else {
            PollFlags::IN
        };
        fds.extend(
            self.clients
                .iter()
                .map(|client| PollFd::new(client, events)),
        );
        let clock = (!self.qemu_ended).then(|| self.ticker.timeout(&self.comm));
        let guards = self.clients.iter();
        let guards = guards.filter_map(|client| client.timeout(self.qemu_ended));
        let timeout = clock.into_iter().chain(guards).min();
        let timeout = timeout.map(|t| Timespec {
            tv_sec: t.as_secs() as i64,
            tv_nsec: t.subsec_nanos().into(),
        });
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Looks after QEMU and the node.
    fn look(&mut self) {
        while self.signals.next().is_some() {}
        self.bells.clear(self.plan.ranks);
        if self.qemu_ended {
            return;
        }
        self.ticker.tick(&self.comm, self.plan.flags);
        self.bells_sent = self.bells_sent || self.bells.send().unwrap_or(true);
        // First: the node of one that has ended may have come up a moment before.
        let ended = self.qemu.try_wait();
        self.note_state();
        self.read_pipes();
        if let Ok(Some(status)) = ended {
            self.qemu_ended = true;
            let cause = match std::os::unix::process::ExitStatusExt::signal(&status) {
                Some(signo) => Cause::Killed(signo),
                None => Cause::Exited(status.code().unwrap_or(-1)),
            };
            self.events.push(Event::Ended(Ended {
                cause,
                complaint: String::from_utf8_lossy(&self.complaint).trim().to_owned(),
                log: self.last_words(),
                used_up: used_up_cpu_limit(),
            }));
        }
    }

    fn note_state(&mut self) {
        let state = self.comm.header().node_state.load();
        if state == self.state {
            return;
        }
        self.state = state;
        if let Some(binding) = self.binding.as_ref().filter(|_| state == node::UP) {
            binding.bind_cpus(Pid::from_child(&self.qemu), &self.plan);
        }
        let log = if state > node::UP {
            self.read_pipes();
            self.last_words()
        } else {
            String::new()
        };
        self.events.push(Event::State { state, log });
    }

    fn last_words(&self) -> String {
        let log = self.log.tail();
        String::from_utf8_lossy(&log[log.len().saturating_sub(LAST_WORDS_BYTES)..]).into_owned()
    }

    fn read_pipes(&mut self) {
        drain(&mut self.qemu.stdout, |bytes| self.log.append(bytes));
        drain(&mut self.qemu.stderr, |bytes| {
            let room = COMPLAINT_BYTES.saturating_sub(self.complaint.len());
            self.complaint
                .extend_from_slice(&bytes[..bytes.len().min(room)]);
        });
    }

    fn serve_clients(&mut self) {
        let mut left = Vec::new();
        for (i, client) in self.clients.iter_mut().enumerate() {
            client.look_after(self.qemu_ended);
            if client.read() {
                left.push(i);
            }
        }
        for i in left.into_iter().rev() {
            let client = self.clients.remove(i);
            if i == 0 {
                self.held.drain(..).for_each(Client::dismiss);
            }
            if self.clients.is_empty() {
                // Its socket must end after QEMU, and with this process.
                std::mem::forget(client);
                return;
            }
            let lost = client.ranks.clone().find(|&rank| !self.has_ended(rank));
            self.events.push(Event::Left { lost });
            if i > 0 && self.qemu_ended {
                self.held.push(client);
            } else {
                client.dismiss();
            }
        }
    }

    /// Whether a rank has ended on the node: then nothing is left of it there.
    fn has_ended(&self, rank: usize) -> bool {
        let state = self.comm.rank(rank).node.state.load();
        matches!(state, state::EXITED | state::REFUSED)
    }
}

fn descriptors<'a>(memory: &'a Memory, bells: &'a Doorbells, plan: &Plan) -> Vec<BorrowedFd<'a>> {
    let bells = bells.node[..plan.cpus]
        .iter()
        .chain(&bells.host[..plan.ranks]);
    let bells = bells.map(AsFd::as_fd);
    memory.files().into_iter().chain(bells).collect()
}

/// The limit on processor time, if QEMU, the only child, has used it up.
fn used_up_cpu_limit() -> Option<UsedUp> {
    used_up(
        sys::ended_children_cpu_time().as_millis() as u64,
        getrlimit(Resource::Cpu).current?,
    )
}

fn used_up(used_ms: u64, limit_s: u64) -> Option<UsedUp> {
    let up = used_ms / 10 >= limit_s.saturating_mul(USED_UP_PERCENT);
    up.then_some(UsedUp { used_ms, limit_s })
}

/// Reads what is there; drops a pipe that has ended, for poll would report it for ever.
fn drain(pipe: &mut Option<impl Read>, mut take: impl FnMut(&[u8])) {
    let mut bytes = [0u8; 4096];
    while let Some(open) = pipe {
        match open.read(&mut bytes) {
            Ok(0) => *pipe = None,
            Ok(n) => take(&bytes[..n]),
            Err(_) => break,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At once it was taken for a lack of memory; and what has used little was killed by another process.
    #[test]
    fn a_limit_is_used_up_shortly_before_it_is_reached() {
        let what = |used_ms, limit_s| used_up(used_ms, limit_s).map(|up| (up.used_ms, up.limit_s));
        assert_eq!(what(0, 2), None);
        assert_eq!(what(1490, 2), None);
        assert_eq!(what(1500, 2), Some((1500, 2)));
        assert_eq!(what(2000, 2), Some((2000, 2)));
        assert_eq!(what(9000, 2), Some((9000, 2)));
        assert_eq!(what(u64::MAX, u64::MAX), None);
    }
}
