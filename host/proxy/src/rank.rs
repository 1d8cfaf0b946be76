//! What workers and watcher share.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use abi::Errno;
use wire::layout::Layout;
use wire::mappable::Mappable;
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
use crate::signalfds::Signalfds;
use crate::signals::Inherited;
use crate::special::marks::Marks;
use crate::terminal::takers::Takers;
use crate::workers::Workers;
use crate::{Program, Room};

/// A rank as its proxy sees it. There is one per process.
#[derive(Debug)]
pub struct Rank {
    /// How messages name it besides its program: "rank N", or nothing if it is the only one.
    pub label: String,
    /// Its words in the communication area.
    pub words: RankWords,
    /// Its memory here.
    pub memory: Mutex<Memory>,
    /// Files that ranks share mappings of.
    pub objects: Objects,
    /// The communication area: its guest-physical address, and what lies where in it.
    pub area: (u64, Layout),
    /// The node's cores.
    pub core_doorbells: Vec<OwnedFd>,
    /// Where messages go, whatever the rank does with its descriptors.
    pub stderr: OwnedFd,
    /// Its descriptors, and ours above them.
    pub limits: Limits,
    /// Which of the rank's descriptors are texts that are made here.
    pub texts: Marks,
    /// Which are the XPMEM device.
    pub devices: Marks,
    /// Where the program's strings are; 0 before it is loaded.
    pub strings_at: AtomicU64,
    /// st_dev of /proc.
    pub proc_device: u64,
    /// See [`Self::program`].
    pub running: Mutex<Arc<Program>>,
    /// What is to replace it.
    pub exec: Exec,
    /// Mask and dispositions at start.
    pub inherited: Inherited,
    /// Signals that workers block at first.
    pub blocked: u64,
    /// Where the others are received.
    pub signalfds: Signalfds,
    /// Its workers.
    pub workers: Workers,
    /// What it needs for its children.
    pub children: Children,
    /// Wakes the watcher.
    pub watcher_bell: OwnedFd,
    /// Stops and continues.
    pub stops: Stops,
    /// See [`Self::posting`].
    pub posted: Mutex<Posted>,
    /// Held while a worker takes over what its thread inherits.
    pub settling: Mutex<()>,
    /// Workers that receive signals themselves.
    pub takers: Mutex<Takers>,
    /// Threads that have halted.
    pub halted: Halted,
    /// Its debugger.
    pub debug: Debug,
    /// What goes into a core file besides.
    pub dump: Dump,
    /// Whether a thread ends the process already.
    pub ending: AtomicBool,
    /// See [`crate::Config::room`].
    pub room: Room,
    /// This process, whose number is also the first worker's thread id.
    pub pid: u32,
}

impl Rank {
    /// The program that it runs.
    pub fn program(&self) -> Arc<Program> {
        let running = self.running.lock();
        running.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A resource limit of the program, soft and hard; u64::MAX: unlimited.
    pub fn limit(&self, resource: usize) -> [u64; 2] {
        let limit = self.words.area.node.rlimits.get(resource);
        limit.map_or([u64::MAX; 2], |words| words.each_ref().map(Word::load))
    }

    /// To be held while something is posted to the node's mailbox, which takes from one at a time.
    pub fn posting(&self) -> MutexGuard<'_, Posted> {
        self.posted.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Interrupts the core that the node names for this rank; core 0 before the node is there.
    pub fn ring(&self) {
        self.ring_core(&self.words.area.node.cpus[0]);
    }

    /// Interrupts the core that the node names for a thread.
    pub fn ring_thread(&self, index: usize) {
        self.ring_core(&self.words.threads[index].node.core);
    }

    fn ring_core(&self, core: &Word) {
        let core = core.load() as usize;
        // A full counter rings as well; on a core that does not exist no thread waits.
        if let Some(doorbell) = self.core_doorbells.get(core) {
            let _ = rustix::io::write(doorbell, &1u64.to_ne_bytes());
        }
    }

    /// Wakes the watcher.
    pub fn ring_watcher(&self) {
        let _ = rustix::io::write(&self.watcher_bell, &1u64.to_ne_bytes());
    }

    /// Whether a thread of this process is one of the rank's.
    pub fn has_thread(&self, tid: u32) -> bool {
        self.tids().any(|own| own == tid)
    }

    /// Ids of the threads that the rank has now.
    pub fn tids(&self) -> impl Iterator<Item = u32> {
        self.workers.tids(self.threads())
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

    /// Interrupts the calls that are to be given up (watcher only). Says whether there were any: then it has to be called
    /// again until there are none.
    pub fn kick_calls(&self) -> bool {
        self.workers
            .kick(self.pid, self.threads(), &self.children.fork_lock)
    }

    /// The areas of the threads that the node has ever had, the first thread's in any case.
    pub fn threads(&self) -> &[ThreadArea] {
        let count = self.words.area.node.threads.load().max(1);
        let areas = self.words.threads;
        &areas[..areas
            .len()
            .min(usize::try_from(count).unwrap_or(usize::MAX))]
    }

    /// The rank's memory, for as long as the guard lives as it is now.
    pub fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies the region log up to a position.
    ///
    /// # Errors
    /// A line for the user when a record cannot be: then the rank has to end.
    pub fn catch_up(&self, position: u64) -> Result<(), String> {
        let log = self.words.log;
        if log.applied() >= position {
            return Ok(());
        }
        let node = &self.words.area.node;
        let (area_gpa, layout) = &self.area;
        let allowed = Mappable::of(*area_gpa, layout, node, self.words.objects);
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

/// Keeps a stop from outliving the SIGCONT that followed it.
///
/// A stop signal travels to the node and comes back as a request to stop; a SIGCONT may pass it on the way.
#[derive(Debug, Default)]
pub struct Stops(AtomicU8);

const IDLE: u8 = 0;
const POSTED: u8 = 1;
const CONTINUED: u8 = 2;

impl Stops {
    /// A stop signal was passed on.
    pub fn posted(&self) {
        self.0.store(POSTED, Ordering::SeqCst);
    }

    /// SIGCONT was passed on.
    pub fn continued(&self) {
        let _ = self
            .0
            .compare_exchange(POSTED, CONTINUED, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Whether a request to stop still holds.
    #[must_use]
    pub fn take(&self) -> bool {
        self.0.swap(IDLE, Ordering::SeqCst) != CONTINUED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_that_was_continued_does_not_hold() {
        let stops = Stops::default();
        assert!(stops.take());
        stops.posted();
        assert!(stops.take());
        stops.posted();
        stops.continued();
        assert!(!stops.take());
        stops.continued();
        assert!(stops.take());
    }
}
