//! The keeper with a machine that is no QEMU: RAM elsewhere and in pieces, no process, a death that is a descriptor.

mod agent;
mod yods;

use std::io::Write;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::pipe::{PipeFlags, pipe_with};
use wire::boot::{Config, flag, node};
use wire::ram::{Bad, MAX_RANGES, Place, Ram, RamRange};

use super::*;
use crate::agent::Agent;
use crate::bells::Bells;
use crate::hang;
use crate::machine::{Boot, Death, Instance, Limits};
use crate::memory::Memory;
use crate::message::UsedUp;
use crate::message::tests::pair;
use crate::node::Node;
use crate::pages;
use crate::plan::Plan;
use crate::plan::tests::two_ranks;
use crate::ready;
use crate::stat::field;

const MIB: u64 = 1 << 20;
/// What takes longer hangs.
const LIMIT: Duration = Duration::from_secs(60);

/// What is seen of the machine from outside.
enum Seen {
    Started { command_line: String, bells: Bells },
    Bound,
    Ended,
}

/// A machine of parts that the test holds the other ends of.
struct Fake {
    ram: Vec<RamRange>,
    /// Where its log comes from.
    log: Mutex<Option<OwnedFd>>,
    agent: Mutex<Option<Agent>>,
    /// Readable once it is dead.
    death: OwnedFd,
    seen: Sender<Seen>,
}

struct Runs {
    bells: Bells,
    agent: Option<Agent>,
    log: std::fs::File,
    death: OwnedFd,
    seen: Sender<Seen>,
}

fn copies(fds: &[OwnedFd]) -> Vec<OwnedFd> {
    let copies = fds.iter().map(|fd| fd.try_clone().expect("a descriptor"));
    copies.collect()
}

impl Machine for Fake {
    const NAME: &'static str = "fake";
    const LIMITS: Limits = Limits {
        cores: 3,
        default_fifths: 4,
        zeroed: false,
        unused: 0..0,
        above_kernel: 16 * MIB,
    };
    type Reserved = ();
    type Instance = Runs;

    fn memory(&self, _: &Plan) -> io::Result<(Memory, ())> {
        let ram = Ram::new(self.ram.iter().copied()).map_err(io::Error::other)?;
        let file = memfd_create("fake", MemfdFlags::CLOEXEC)?;
        ftruncate(&file, ram.bytes())?;
        let pool = memfd_create("fake-pool", MemfdFlags::CLOEXEC)?;
        Ok((Memory { ram, file, pool }, ()))
    }

    fn unfit(&self) -> Option<String> {
        None
    }

    fn start(&self, plan: &Plan, _: &Memory, (): (), boot: &Boot<'_>) -> io::Result<Runs> {
        let bells = Bells::new(plan.cpus, plan.ranks + 1)?;
        let started = Seen::Started {
            command_line: boot.command_line.into(),
            bells: Bells {
                node: copies(&bells.node),
                host: copies(&bells.host),
            },
        };
        self.seen.send(started).expect("the test goes on");
        let log = self.log.lock().expect("no panic").take();
        Ok(Runs {
            bells,
            agent: self.agent.lock().expect("no panic").take(),
            log: log.expect("one start").into(),
            death: self.death.try_clone()?,
            seen: self.seen.clone(),
        })
    }
}

impl Instance for Runs {
    fn bells(&self) -> &Bells {
        &self.bells
    }

    fn watch<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        fds.push(PollFd::new(&self.log, PollFlags::IN));
        fds.push(PollFd::new(&self.death, PollFlags::IN));
    }

    fn serve(&mut self) {}

    fn agent(&self) -> Option<&Agent> {
        self.agent.as_ref()
    }

    fn read_log(&mut self, mut take: impl FnMut(&[u8])) {
        let mut bytes = [0; 100];
        while let Ok(count @ 1..) = rustix::io::read(&self.log, &mut bytes[..]) {
            take(&bytes[..count]);
        }
    }

    fn death(&mut self) -> Option<Death> {
        ready::within(Duration::ZERO, &self.death, PollFlags::IN).then(|| Death {
            cause: Cause::Exited(3),
            complaint: "it is no machine".into(),
            used_up: None::<UsedUp>,
        })
    }

    fn bind(&self, _: &Binding, _: &Plan) {
        self.seen.send(Seen::Bound).expect("the test goes on");
    }

    fn end(&mut self) {
        self.seen.send(Seen::Ended).expect("the test goes on");
    }
}

/// A launch of a machine with this RAM, the other ends of its parts, and a plan for it.
struct Test {
    launch: Launch<Fake>,
    log: std::fs::File,
    death: OwnedFd,
    seen: Receiver<Seen>,
    plan: Plan,
}

impl Test {
    fn new(ram: Vec<RamRange>) -> Test {
        let (log_end, log) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).expect("a pipe");
        let death = eventfd(0, EventfdFlags::CLOEXEC).expect("a descriptor");
        let (sender, seen) = channel();
        Test {
            launch: Launch {
                machine: Fake {
                    ram,
                    log: Mutex::new(Some(log_end)),
                    agent: Mutex::new(None),
                    death: death.try_clone().expect("a descriptor"),
                    seen: sender,
                },
                kernel: "/kernel".into(),
                pct: "/pct".into(),
                refuse: [0; 8],
                populate: false,
                first: Sample::now(),
            },
            log: log.into(),
            death,
            seen,
            plan: two_ranks(&Fake::LIMITS, flag::OWN_CLOCK),
        }
    }

    fn job(&self) -> Job {
        Job {
            plan: self.plan,
            ranks: 0..2,
            log: true,
            due: None,
            guests: Vec::new(),
            binding: Binding::new(vec![vec![0], vec![1]]),
        }
    }
}

/// What a keeper with a node does until the last yod has left.
fn keep(launch: &Launch<Fake>, job: Job, first: OwnedFd) -> io::Result<()> {
    let running = Running::start(launch, &job)?;
    running.run(clients(first, job)?)
}

fn ring(bell: &OwnedFd) {
    rustix::io::write(bell, &1u64.to_ne_bytes()).expect("room");
}

fn rings(bell: &OwnedFd) -> bool {
    ready::within(LIMIT, bell, PollFlags::IN)
}

fn next_event(keeper: &Keeper) -> Event {
    loop {
        if let Some((event, reports)) = keeper.next_event() {
            assert!(reports);
            return event;
        }
        assert!(ready::within(LIMIT, keeper, PollFlags::IN), "no event");
    }
}

/// Two pieces as Linux may give them up, the lower one from further behind in the file.
fn pieces() -> Vec<RamRange> {
    let range = |gpa, len_bytes, offset| RamRange {
        gpa,
        len_bytes,
        place: Place::Ram(offset),
    };
    vec![
        range(0x6000_0000, 64 * MIB, 16 * MIB),
        range(0x1_4000_0000, 16 * MIB, 0),
    ]
}

fn join(ours: OwnedFd) -> (Keeper, Node) {
    let mut keeper = Keeper::of_job(ours);
    let node = keeper.node(|socket| ready::within(LIMIT, socket, PollFlags::IN));
    let node = node.expect("a node");
    (keeper, node)
}

/// Everything that a yod sees of a node, from its start to its end.
#[test]
fn a_node_is_made_of_what_the_machine_has() {
    hang::not(|| {
        let test = Test::new(pieces());
        let (plan, job) = (test.plan, test.job());
        assert_eq!((plan.cpus, plan.flags), (2, flag::OWN_CLOCK));
        let (ours, keepers) = pair();
        let Test {
            launch,
            mut log,
            death,
            seen,
            ..
        } = test;
        let keeper_thread = std::thread::spawn(move || keep(&launch, job, keepers));
        let Ok(Seen::Started {
            command_line,
            bells,
        }) = seen.recv()
        else {
            panic!("not started");
        };
        assert_eq!(command_line, "margay.comm=0x61000000");
        let (keeper, node) = join(ours);
        assert_eq!(node.memory.ram.ranges(), pieces());
        assert_eq!(Config::read(node.comm.header()), Ok(plan.config()));
        let place = node.memory.ram.place(0x6100_0000, 1);
        assert_eq!(place, Some(Place::Ram(32 * MIB)));

        // Doorbells in both directions, of every core and rank.
        for (to, from) in node.node_bells.iter().zip(&bells.node) {
            ring(to);
            assert!(rings(from));
        }
        for (to, from) in bells.host.iter().zip(&node.host_bells) {
            ring(to);
            assert!(rings(from));
        }
        node.comm.header().reach(node::UP);
        ring(&bells.host[plan.ranks]);
        let up = Event::State {
            state: node::UP,
            log: String::new(),
        };
        assert_eq!(next_event(&keeper), up);
        assert!(matches!(seen.recv(), Ok(Seen::Bound)));
        log.write_all(b"a word").expect("room");
        assert_eq!(next_event(&keeper), Event::Log("a word".into()));
        ring(&death);
        let ended = Event::Ended(Ended {
            cause: Cause::Exited(3),
            complaint: "it is no machine".into(),
            log: "a word".into(),
            used_up: None,
        });
        assert_eq!(next_event(&keeper), ended);

        drop((keeper, node));
        assert!(matches!(seen.recv(), Ok(Seen::Ended)));
        assert!(keeper_thread.join().expect("no panic").is_ok());
    });
}

/// Of a thread of this process with such a name (proc(5)).
fn niceness(name: &str) -> Option<i32> {
    let threads = std::fs::read_dir("/proc/self/task").expect("/proc");
    let stats = threads.filter_map(|it| std::fs::read_to_string(it.ok()?.path().join("stat")).ok());
    let mut named = stats.filter(|stat| stat.contains(&format!("({name})")));
    named.find_map(|stat| field(&stat, 19))
}

/// A first touch was a fault of the host's for each page. What is populated is what ranks are given, and nothing before they are.
#[test]
fn what_ranks_are_given_has_memory_before_it_is_touched() {
    let mut test = Test::new(pieces());
    test.launch.populate = true;
    let (job, plan) = (test.job(), test.plan);
    let (ours, keepers) = pair();
    std::thread::scope(|scope| {
        let launch = &test.launch;
        let keeper_thread = scope.spawn(move || keep(launch, job, keepers));
        let Ok(Seen::Started { bells, .. }) = test.seen.recv() else {
            panic!("not started");
        };
        let (keeper, node) = join(ours);
        let changed = || ring(&bells.host[plan.ranks]);
        node.comm.header().reach(node::UP);
        changed();
        assert!(matches!(next_event(&keeper), Event::State { .. }));
        assert_eq!(node.comm.header().populated_bytes.load(), 0);
        let before = pages::resident_bytes(&node.memory.file).expect("known");
        let first = &pieces()[0];
        let due = Instant::now() + LIMIT;
        for rank in 0..2 {
            let [base, bytes] = &node.comm.rank(rank).node.partition;
            base.put(first.gpa + rank as u64 * 2 * MIB);
            bytes.put(2 * MIB);
            changed();
            while node.comm.header().populated_bytes.load() < (rank as u64 + 1) * 2 * MIB {
                assert!(Instant::now() < due, "it is not done");
                std::thread::yield_now();
            }
        }
        assert_eq!(niceness("populate"), Some(19));
        let after = pages::resident_bytes(&node.memory.file).expect("known");
        // The records of the ranks are memory, too.
        let more = after - before;
        assert!((4 * MIB..5 * MIB).contains(&more), "{before}, {after}");
        drop(keeper);
        assert!(keeper_thread.join().expect("no panic").is_ok());
        while niceness("populate").is_some() {
            assert!(Instant::now() < due, "it goes on");
            std::thread::yield_now();
        }
        let all = node.comm.header().populated_bytes.load();
        assert_eq!(all, 4 * MIB, "each once");
    });
}

/// Memory behind the last place in the list would have been lost, or the node would have been one with less than it was given.
#[test]
fn memory_in_too_many_pieces_is_said() {
    let range = |i: u64| RamRange {
        gpa: 2 * i * MIB,
        len_bytes: MIB,
        place: Place::Ram(i * MIB),
    };
    let test = Test::new((0..=MAX_RANGES as u64).map(range).collect());
    let error = Running::start(&test.launch, &test.job()).err();
    let line = explain(&error.expect("too many"));
    assert_eq!(line, Bad::TooMany.to_string());
    assert!(test.seen.try_recv().is_err(), "started all the same");
}

/// The communication area must not be anywhere but in RAM.
#[test]
fn memory_without_room_for_the_communication_area_is_refused() {
    let short = RamRange {
        len_bytes: 16 * MIB + abi::map::PAGE,
        ..pieces()[0]
    };
    let test = Test::new(vec![short]);
    assert!(Running::start(&test.launch, &test.job()).is_err());
    assert!(test.seen.try_recv().is_err(), "started all the same");
}
