//! A keeper with a node: setting it up, and the loop that serves it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use wire::boot::node;
use wire::lost::LostPage;
use wire::ram::Place;
use wire::rank::state;

use super::client::Client;
use super::lost::LostPages;
use super::ticker::Ticker;
use super::{Job, Launch};
use crate::agent::Lost;
use crate::bells::Bells;
use crate::binding::Binding;
use crate::comm::Comm;
use crate::machine::{Boot, Instance, Machine};
use crate::memory::Memory;
use crate::message::{Ended, Event};
use crate::plan::Plan;
use crate::populate::Populating;
use crate::serial::Log;
use crate::sys;

/// Bytes of the log that go with the report of the node's end: a panic report is far shorter.
const LAST_WORDS_BYTES: usize = 16 << 10;

/// For the kernel log. What to do is the doctor's to say.
pub const NO_AGENT: &[u8] = b"agent: the machine has none, no file can be laid over the pool\n";

pub struct Running<I> {
    plan: Plan,
    binding: Option<Binding>,
    memory: Memory,
    comm: Comm,
    machine: I,
    machine_ended: bool,
    ticker: Ticker,
    populate: bool,
    populating: Option<Populating>,
    lost: LostPages,
    log: Log,
    state: u64,
    events: Vec<Event>,
    clients: Vec<Client>,
    /// Have left, and are not let go before the yod that reports to the user has left as well.
    held: Vec<Client>,
}

impl<I: Instance> Running<I> {
    /// Makes RAM, writes the boot information and starts the machine.
    pub fn start<M: Machine<Instance = I>>(
        launch: &Launch<M>,
        job: &Job,
    ) -> io::Result<Running<I>> {
        let plan = job.plan;
        let (memory, reserved) = launch.machine.memory(&plan)?;
        let comm = Comm::map(&memory, &plan)?;
        for (to, from) in comm.header().refuse.iter().zip(launch.refuse) {
            to.put(from);
        }
        plan.config().write(comm.header());
        let boot = Boot {
            kernel: &launch.kernel,
            pct: &launch.pct,
            command_line: &plan.command_line(&memory.ram),
        };
        let machine = launch.machine.start(&plan, &memory, reserved, &boot)?;
        // The node waits for its clock while it boots. Not before the machine is started: it would inherit this.
        sys::prefer_short_slices();
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZero::new(1));
        Ok(Running {
            plan,
            binding: job.binding.clone(),
            memory,
            comm,
            machine,
            machine_ended: false,
            ticker: Ticker::new(launch.first),
            populate: launch.populate,
            populating: None,
            lost: LostPages::default(),
            log: Log::default(),
            state: node::RESET,
            events: Vec::new(),
            clients: Vec::new(),
            held: Vec::new(),
        })
    }

    /// Serves until the last yod has left.
    pub fn run(mut self, clients: Vec<Client>) -> io::Result<()> {
        self.clients = clients;
        let agent = self.machine.agent().map(AsFd::as_fd);
        let mut fds = descriptors(&self.memory, self.machine.bells(), &self.plan);
        fds.extend(agent);
        for client in &self.clients {
            // One that is gone is noticed when it is read from.
            let _ = client.welcome(&self.plan, &self.memory.ram, &fds);
        }
        while !self.clients.is_empty() {
            let again = self.notify();
            self.wait(again)?;
            self.poll_machine();
            self.serve_clients();
        }
        self.machine.end();
        Ok(())
    }

    fn notify(&mut self) -> bool {
        let mut again = false;
        for (i, client) in self.clients.iter_mut().enumerate() {
            again |= client.notify(&self.log, &self.events, i == 0);
        }
        again
    }

    /// Blocks until something happens or the clock is due.
    fn wait(&self, again: bool) -> io::Result<()> {
        let mut fds = Vec::new();
        // Signalled when the node's state changes.
        if let Some(bell) = self.machine.bells().host.get(self.plan.ranks) {
            fds.push(PollFd::new(bell, PollFlags::IN));
        }
        if !self.machine_ended {
            self.machine.watch(&mut fds);
            let agent = self.machine.agent().filter(|agent| agent.is_there());
            fds.extend(agent.map(|agent| PollFd::new(agent, PollFlags::IN)));
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
        let clock = (!self.machine_ended).then(|| self.ticker.timeout(&self.comm));
        let guards = self.clients.iter();
        let guards = guards.filter_map(|client| client.timeout(self.machine_ended));
        let lost = self.lost.timeout(Instant::now());
        let lost = lost.filter(|_| !self.machine_ended);
        let timeout = clock.into_iter().chain(guards).chain(lost).min();
        let timeout = timeout.map(|t| Timespec {
            tv_sec: t.as_secs() as i64,
            tv_nsec: t.subsec_nanos().into(),
        });
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Serves the machine and reads the node's state.
    fn poll_machine(&mut self) {
        self.machine.bells().clear(self.plan.ranks);
        if self.machine_ended {
            return;
        }
        self.ticker.tick(&self.comm, self.plan.flags);
        if let Some(populating) = &mut self.populating {
            populating.poll(&self.comm);
        }
        self.machine.serve();
        self.read_agent();
        // First: the node of one that has ended may have come up a moment before.
        let death = self.machine.death();
        self.note_state();
        self.read_log();
        if let Some(death) = death {
            self.machine_ended = true;
            self.events.push(Event::Ended(Ended {
                cause: death.cause,
                complaint: death.complaint,
                log: self.last_words(),
                used_up: death.used_up,
            }));
        }
    }

    fn note_state(&mut self) {
        let state = self.comm.header().node_state.load();
        if state == self.state {
            return;
        }
        self.state = state;
        if state == node::UP {
            self.check_agent();
        }
        if let Some(binding) = self.binding.as_ref().filter(|_| state == node::UP) {
            self.machine.bind(binding, &self.plan);
        }
        if self.populate && state == node::UP {
            // What it could be given it then is when it is touched.
            self.populating = Populating::start(&self.memory, &self.plan).ok();
        }
        let log = if state > node::UP {
            self.read_log();
            self.last_words()
        } else {
            String::new()
        };
        self.events.push(Event::State { state, log });
    }

    fn read_agent(&mut self) {
        let Some(agent) = self.machine.agent() else {
            return;
        };
        let now = Instant::now();
        agent.read(|Lost { offset, core }| {
            if let Some(address) = self.memory.ram.gpa(Place::Pool(offset), abi::map::PAGE) {
                say_lost(&self.comm, self.machine.bells(), address, core);
            }
            if !self.lost.note(offset, now) {
                return;
            }
            let by = core.map_or(String::new(), |core| format!(", touched by core {core}"));
            let line = format!("agent: a page of a file is gone, at {offset:#x} of the pool{by}\n");
            self.log.append(line.as_bytes());
        });
        self.lost.request_due(now, |offset| agent.restore(offset));
    }

    /// A machine that has come so far has its agent, or none.
    fn check_agent(&mut self) {
        self.read_agent();
        if let Some(agent) = self.machine.agent().filter(|agent| !agent.is_there()) {
            agent.refuse();
            self.log.append(NO_AGENT);
        }
    }

    fn last_words(&self) -> String {
        let log = self.log.tail();
        String::from_utf8_lossy(&log[log.len().saturating_sub(LAST_WORDS_BYTES)..]).into_owned()
    }

    fn read_log(&mut self) {
        self.machine.read_log(|bytes| self.log.append(bytes));
    }

    fn serve_clients(&mut self) {
        let mut left = Vec::new();
        for (i, client) in self.clients.iter_mut().enumerate() {
            client.check_guard(self.machine_ended);
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
                // Its socket must end after the machine, and with this process.
                std::mem::forget(client);
                return;
            }
            let lost = client.ranks.clone().find(|&rank| !self.has_ended(rank));
            self.events.push(Event::Left { lost });
            if i > 0 && self.machine_ended {
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

/// Has the node know of a page that was lost: each core, for its program may map it, too, and one that it has touched it.
fn say_lost(comm: &Comm, bells: &Bells, address: u64, core: Option<u64>) {
    let words = comm.header().lost.iter();
    for (i, (word, bell)) in words.zip(&bells.node).enumerate() {
        let is_touched = core == Some(i as u64);
        let page = LostPage {
            address,
            is_touched,
        };
        page.say(word);
        let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
    }
}

fn descriptors<'a>(memory: &'a Memory, bells: &'a Bells, plan: &Plan) -> Vec<BorrowedFd<'a>> {
    let bells = bells.node[..plan.cpus]
        .iter()
        .chain(&bells.host[..plan.ranks]);
    let bells = bells.map(AsFd::as_fd);
    memory.files().into_iter().chain(bells).collect()
}
