//! What workers and watcher share.

mod descriptors;
mod link;
mod reception;
mod running;
mod stops;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use abi::Errno;
use wire::thread::ThreadArea;
use wire::word::Word;

use crate::child::children::Children;
use crate::debug::state::Debug;
use crate::dump::state::Dump;
use crate::exec::state::Exec;
use crate::fds::Limits;
use crate::halt::Halted;
use crate::memory::{BadChange, Memory, RankMemory};
use crate::objects::Objects;
use crate::posted::Posted;
use crate::shared::RankWords;
use crate::special::marks::Marks;
use crate::sync::lock;
use crate::workers::Workers;
use crate::{Program, Room};

pub use descriptors::Descriptors;
pub use link::Link;
pub use reception::Reception;
pub use running::Running;

/// What a rank is made of.
#[derive(Debug)]
pub struct Parts {
    /// How messages name it besides its program: "rank N", or nothing if it is the only one.
    pub label: String,
    /// Its end of the node.
    pub link: Link,
    /// Its memory here.
    pub memory: Memory,
    /// Files that ranks share mappings of.
    pub objects: Arc<Objects>,
    /// The process's descriptors.
    pub descriptors: Descriptors,
    /// Its program.
    pub program: Program,
    /// How signals are received.
    pub reception: Reception,
    /// What it needs for its children.
    pub children: Children,
    /// Threads that have halted: none.
    pub halted: Halted,
    /// See [`crate::Config::room`].
    pub room: Room,
}

/// A rank as its proxy sees it. There is one per process.
#[derive(Debug)]
pub struct Rank {
    label: String,
    /// This process, whose number is also the first worker's thread id.
    pid: u32,
    proc_device: u64,
    room: Room,
    link: Link,
    memory: Mutex<Memory>,
    objects: Arc<Objects>,
    descriptors: Descriptors,
    running: Running,
    reception: Reception,
    workers: Workers,
    children: Children,
    halted: Halted,
    debug: Debug,
    dump: Dump,
    /// A thread ends the process already.
    ending: AtomicBool,
}

impl Rank {
    /// The rank of this process.
    pub fn new(parts: Parts) -> Rank {
        Rank {
            label: parts.label,
            pid: std::process::id(),
            proc_device: rustix::fs::stat("/proc").map_or(0, |stat| stat.st_dev),
            room: parts.room,
            link: parts.link,
            memory: Mutex::new(parts.memory),
            objects: parts.objects,
            descriptors: parts.descriptors,
            running: Running::new(parts.program),
            reception: parts.reception,
            workers: Workers::new(),
            children: parts.children,
            halted: parts.halted,
            debug: Debug::default(),
            dump: Dump::default(),
            ending: AtomicBool::new(false),
        }
    }

    /// How messages begin: "yod: PROGRAM" or "yod: rank N: PROGRAM".
    pub fn name(&self) -> String {
        let program = self.program();
        let path = program.started_as.to_string_lossy();
        match self.label.as_str() {
            "" => format!("yod: {path}"),
            label => format!("yod: {label}: {path}"),
        }
    }

    /// Whether it is the only one of its job.
    pub fn is_alone(&self) -> bool {
        self.label.is_empty()
    }

    /// This process.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// st_dev of /proc, where this process's entries are.
    pub fn proc_device(&self) -> u64 {
        self.proc_device
    }

    /// See [`crate::Config::room`].
    pub fn room(&self) -> Room {
        self.room
    }

    /// Its words in the communication area.
    pub fn words(&self) -> &RankWords {
        self.link.words()
    }

    /// Its end of the node.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// A resource limit of the program, soft and hard; u64::MAX: unlimited.
    pub fn limit(&self, resource: usize) -> [u64; 2] {
        let limit = self.words().area.node.rlimits.get(resource);
        limit.map_or([u64::MAX; 2], |words| words.each_ref().map(Word::load))
    }

    /// See [`Link::posting`].
    pub fn posting(&self) -> MutexGuard<'_, Posted> {
        self.link.posting()
    }

    /// Files that ranks share mappings of.
    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// The process's descriptors.
    pub fn descriptors(&self) -> &Descriptors {
        &self.descriptors
    }

    /// The rank's descriptors, and ours above them.
    pub fn limits(&self) -> &Limits {
        self.descriptors.limits()
    }

    /// Which of its descriptors are texts that are made here.
    pub fn texts(&self) -> &Marks {
        self.descriptors.texts()
    }

    /// The program, and the one that is to replace it.
    pub fn running(&self) -> &Running {
        &self.running
    }

    /// The program that it runs.
    pub fn program(&self) -> Arc<Program> {
        self.running.program()
    }

    /// The program that execve has prepared.
    pub fn next_program(&self) -> &Exec {
        self.running.next()
    }

    /// How signals are received.
    pub fn reception(&self) -> &Reception {
        &self.reception
    }

    /// Wakes the watcher.
    pub fn wake_watcher(&self) {
        self.reception.wake_watcher();
    }

    /// Its workers.
    pub fn workers(&self) -> &Workers {
        &self.workers
    }

    /// What it needs for its children.
    pub fn children(&self) -> &Children {
        &self.children
    }

    /// Threads that have halted.
    pub fn halted(&self) -> &Halted {
        &self.halted
    }

    /// Its debugger.
    pub fn debug(&self) -> &Debug {
        &self.debug
    }

    /// What goes into a core file besides.
    pub fn dump(&self) -> &Dump {
        &self.dump
    }

    /// The calling thread ends the process; `false`: another does so already.
    pub fn begin_end(&self) -> bool {
        !self.ending.swap(true, Ordering::SeqCst)
    }

    /// Whether a thread of this process is one of the rank's.
    pub fn has_thread(&self, tid: u32) -> bool {
        self.tids().any(|own| own == tid)
    }

    /// Ids of the threads that the rank has now.
    pub fn tids(&self) -> impl Iterator<Item = u32> {
        self.workers.tids(self.threads())
    }

    /// See [`Link::threads`].
    pub fn threads(&self) -> &[ThreadArea] {
        self.link.threads()
    }

    /// Wakes the workers but the first that have a request and wait.
    pub fn wake_workers(&self) {
        self.workers.wake(self.threads());
    }

    /// Whether a call that is under way is to be given up.
    pub fn has_calls_to_kick(&self) -> bool {
        self.workers
            .any_to_kick(self.threads(), &self.children.fork_lock)
    }

    /// Interrupts the calls that are to be given up (watcher only). Returns whether there were any: then it has to be called
    /// again until there are none.
    pub fn kick_calls(&self) -> bool {
        self.workers
            .kick(self.pid, self.threads(), &self.children.fork_lock)
    }

    /// The rank's memory, for as long as the guard lives as it is now.
    pub fn memory(&self) -> MutexGuard<'_, Memory> {
        lock(&self.memory)
    }

    /// Applies the region log up to a position.
    ///
    /// # Errors
    /// A line for the user when a record cannot be: then the rank has to end.
    pub fn catch_up(&self, position: u64) -> Result<(), String> {
        let log = self.words().log;
        if log.applied() >= position {
            return Ok(());
        }
        let allowed = self.link.mappable();
        let mut memory = self.memory();
        let mut bad: Option<BadChange> = None;
        let read = log.catch_up(position, |change| {
            if bad.is_none() {
                bad = memory.apply(&change, &allowed).err();
            }
        });
        match (read, bad) {
            (_, Some(bad)) => Err(bad.to_string()),
            (Err(_), None) => Err("the node's kernel wrote a mapping that cannot be".into()),
            (Ok(()), None) => Ok(()),
        }
    }
}

/// Each copy sees the rank's mappings of one moment.
impl RankMemory for Rank {
    fn read(&self, addr: u64, into: &mut [u8]) -> Result<(), Errno> {
        self.memory().read(addr, into)
    }

    fn write(&self, addr: u64, bytes: &[u8]) -> Result<(), Errno> {
        self.memory().write(addr, bytes)
    }

    fn read_string(&self, addr: u64, into: &mut [u8]) -> Result<usize, Errno> {
        self.memory().read_string(addr, into)
    }
}
