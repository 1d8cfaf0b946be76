//! A node with one rank, played by the test.

mod agent;
mod directory;
mod memory;
mod threads;

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use abi::map::MAX_THREADS;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::mm::{MapFlags, ProtFlags, mmap};
use wire::boot::Config;
use wire::layout::Layout;
use wire::ram::{Place, Ram, RamRange};
use wire::rank::{RankArea, proxy as attached, state};
use wire::region_log::RegionLog;
use wire::ship::Caller;
use wire::signal::Signal;
use wire::thread::ThreadAreas;

use crate::launch::{Setup, start};

pub use directory::Directory;

/// Bytes of guest RAM, in one piece.
const RAM_BYTES: u64 = 128 << 20;
pub const COMM_GPA: u64 = 1 << 20;
/// Where the rank's partition lies, and how long it is.
pub const PARTITION: (u64, u64) = (16 << 20, 96 << 20);
/// Where the node pool lies, and how long it is.
pub const POOL: (u64, u64) = (112 << 20, 8 << 20);
/// Bytes of its file, to the end of RAM.
const POOL_FILE_BYTES: u64 = RAM_BYTES - POOL.0;
/// Rank memory that every test has, readable and writable: address and length; its frames are the first of the partition.
pub const DATA: (u64, u64) = (0x40_0000, 4 << 20);
const LIMIT: Duration = Duration::from_secs(20);
/// More than most hosts of tests have.
const CORES: usize = 5;

/// RAM, with its end in the pool's file.
pub fn ram() -> Ram {
    let range = |gpa, len_bytes, place| RamRange {
        gpa,
        len_bytes,
        place,
    };
    Ram::new([
        range(0, POOL.0, Place::Ram(0)),
        range(POOL.0, POOL_FILE_BYTES, Place::Pool(0)),
    ])
    .unwrap()
}

pub const WIRE: Config = Config {
    ranks: 1,
    cpus: CORES,
    flags: 0,
    tsc_hz: 0,
    partition_bytes: 0,
    pool_bytes: 0,
};

/// The node, and the proxy that serves its rank.
pub struct Node {
    ram: *mut u8,
    area: &'static RankArea,
    threads: &'static ThreadAreas,
    pub log: &'static RegionLog,
    callers: Vec<Caller>,
    /// Guest RAM's file.
    pub memfd: OwnedFd,
    doorbell: OwnedFd,
    cores: Vec<OwnedFd>,
    pub proxy: Child,
}

impl Node {
    /// A node whose rank runs, with [`DATA`] mapped.
    pub fn new() -> Node {
        Node::with(Setup::default())
    }

    pub fn with(setup: Setup) -> Node {
        let file = |name, len_bytes| {
            let memfd = rustix::fs::memfd_create(name, rustix::fs::MemfdFlags::CLOEXEC).unwrap();
            rustix::fs::ftruncate(&memfd, len_bytes).unwrap();
            memfd
        };
        let (memfd, pool) = (file("ram", POOL.0), file("pool", POOL_FILE_BYTES));
        let (prot, shared) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: 1. A new mapping replaces nothing.
        let ram = unsafe {
            mmap(
                std::ptr::null_mut(),
                RAM_BYTES as usize,
                prot,
                shared,
                &memfd,
                0,
            )
            .unwrap()
        };
        let ram = ram.cast::<u8>();
        // SAFETY: 1. What is replaced is the end of what was just mapped.
        unsafe {
            let (end, fixed) = (ram.add(POOL.0 as usize), shared | MapFlags::FIXED);
            mmap(end.cast(), POOL_FILE_BYTES as usize, prot, fixed, &pool, 0).unwrap();
        }
        let layout = Layout::new(&WIRE);
        // SAFETY: 1. All lie in the mapping, page-aligned, and consist of atomic words. 2. It is never unmapped.
        let (area, threads, log) = unsafe {
            let at = |offset: usize| ram.add(COMM_GPA as usize + offset);
            (
                &*at(layout.rank(0)).cast::<RankArea>(),
                &*at(layout.threads(0)).cast::<ThreadAreas>(),
                &*at(layout.region_log(0)).cast::<RegionLog>(),
            )
        };
        let event = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
        let doorbell = event();
        let cores: Vec<OwnedFd> = (0..CORES).map(|_| event()).collect();
        for ([at, bytes], range) in [(&area.node.partition, PARTITION), (&area.node.pool, POOL)] {
            at.store(range.0);
            bytes.store(range.1);
        }
        area.node.cpus[0].store(1);
        threads.iter().for_each(|thread| thread.node.core.store(1));
        let agent = agent::start(agent::Pool {
            address: ram.expose_provenance() + POOL.0 as usize,
            file: pool.try_clone().unwrap(),
        });
        let passed: Vec<&OwnedFd> = [&memfd, &pool, &agent, &doorbell]
            .into_iter()
            .chain(&cores)
            .collect();
        let proxy = start(&setup, &passed);
        let node = Node {
            ram,
            area,
            threads,
            log,
            memfd,
            callers: (0..MAX_THREADS).map(|_| Caller::default()).collect(),
            doorbell,
            cores,
            proxy,
        };
        if setup.attach {
            node.wait_attached();
            node.area.node.state.store(state::RUNNING);
            node.map(DATA.0, DATA.1, PARTITION.0, true, true);
        }
        node
    }

    pub fn area(&self) -> &'static RankArea {
        self.area
    }

    pub fn threads(&self) -> &'static ThreadAreas {
        self.threads
    }

    pub fn core_count(&self) -> usize {
        self.cores.len()
    }

    pub fn pid(&self) -> i32 {
        self.proxy.id() as i32
    }

    pub fn wait_attached(&self) {
        wait_for(|| self.area.host.state.load() == attached::ATTACHED);
    }

    /// Has a call carried out.
    pub fn call(&mut self, nr: i64, args: &[u64]) -> i64 {
        self.begin(nr, args);
        self.finish()
    }

    /// Has a host operation carried out.
    pub fn host_op(&mut self, op: abi::control::HostOp, args: &[u64]) -> i64 {
        self.post(0, op as u64, args, true);
        self.finish()
    }

    /// Posts a host operation.
    pub fn begin_host_op(&mut self, op: abi::control::HostOp, args: &[u64]) {
        self.post(0, op as u64, args, true);
    }

    /// Posts a call without arguments that needs a position of the region log.
    pub fn begin_at(&mut self, nr: i64, position: u64) {
        if self.callers[0].post(&self.threads[0].slot, nr as u64, &[0; 6], false, position) {
            self.doorbell();
        }
    }

    /// Takes the next signal, once the core is signalled.
    pub fn wait_signal(&self) -> Option<Signal> {
        let end = Instant::now() + LIMIT;
        loop {
            if let Some(signal) = self.area.mailbox.take() {
                return Some(signal);
            }
            if Instant::now() > end {
                return None;
            }
            self.wait_for_doorbell(Duration::from_secs(1));
        }
    }

    /// Posts a call.
    pub fn begin(&mut self, nr: i64, args: &[u64]) {
        self.post(0, nr as u64, args, false);
    }

    /// Posts a call that waits, and returns when the proxy's thread sleeps in it.
    pub fn begin_and_wait(&mut self, nr: i64, args: &[u64]) {
        let before = self.sleeps();
        self.begin(nr, args);
        wait_for(|| self.sleeps() > before && self.is_asleep());
    }

    /// Posts a call of another thread.
    pub fn begin_on(&mut self, thread: usize, nr: i64, args: &[u64]) {
        self.post(thread, nr as u64, args, false);
    }

    /// Has a call of another thread carried out.
    pub fn call_on(&mut self, thread: usize, nr: i64, args: &[u64]) -> i64 {
        self.begin_on(thread, nr, args);
        self.finish_on(thread)
    }

    /// Thread `index` starts, created by `creator`.
    pub fn start_thread(&self, index: usize, creator: usize) {
        let used = self.area.node.threads.peek().max(index as u64 + 1);
        self.area.node.threads.store(used);
        self.threads[index].node.starts(creator);
    }

    fn post(&mut self, thread: usize, nr: u64, args: &[u64], host_op: bool) {
        let mut six = [0; 6];
        six[..args.len()].copy_from_slice(args);
        let slot = &self.threads[thread].slot;
        if self.callers[thread].post(slot, nr, &six, host_op, self.log.position()) {
            self.doorbell();
        }
    }

    /// Waits for the result, as the QK does: it spins, then halts until it is signalled.
    pub fn finish(&mut self) -> i64 {
        self.finish_on(0)
    }

    /// Waits for the result of another thread's call.
    pub fn finish_on(&mut self, thread: usize) -> i64 {
        let (slot, caller) = (&self.threads[thread].slot, &self.callers[thread]);
        let end = Instant::now() + LIMIT;
        let mut spins = 0;
        loop {
            if let Some(ret) = caller.result(slot) {
                return ret;
            }
            spins += 1;
            if spins > 1000 {
                caller.announce_wait(slot);
                if caller.must_ring(slot) {
                    self.doorbell();
                }
                if caller.result(slot).is_none() {
                    self.wait_for_doorbell(Duration::from_secs(1));
                }
            }
            assert!(Instant::now() < end, "no answer");
        }
    }

    pub fn answered(&self) -> bool {
        self.answered_on(0)
    }

    pub fn answered_on(&self, thread: usize) -> bool {
        self.callers[thread]
            .result(&self.threads[thread].slot)
            .is_some()
    }

    /// Gives up the call under way.
    pub fn cancel(&self) {
        self.cancel_on(0);
    }

    /// Gives up another thread's.
    pub fn cancel_on(&self, thread: usize) {
        self.callers[thread].cancel(&self.threads[thread].slot);
        self.doorbell();
    }

    /// Signals the proxy's doorbell.
    pub fn doorbell(&self) {
        rustix::io::write(&self.doorbell, &1u64.to_ne_bytes()).unwrap();
    }

    /// Waits until the doorbell of the rank's core is signalled; whether it was.
    pub fn wait_for_doorbell(&self, limit: Duration) -> bool {
        let core = &self.cores[1]; // as `cpus` says
        let limit = limit.try_into().unwrap();
        let mut fds = [PollFd::new(core, PollFlags::IN)];
        let signalled = poll(&mut fds, Some(&limit)).unwrap() > 0;
        let _ = rustix::io::read(core, &mut [0u8; 8]);
        signalled
    }

    /// Ends the rank.
    pub fn exit(&mut self, wait_status: u64) -> ExitStatus {
        self.area.node.wait_status.store(wait_status);
        self.area.node.state.store(state::EXITED);
        self.doorbell();
        self.wait()
    }

    /// Waits for the proxy's end.
    pub fn wait(&mut self) -> ExitStatus {
        let end = Instant::now() + LIMIT;
        loop {
            if let Some(status) = self.proxy.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < end, "the proxy does not end");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// What the proxy printed, once it has ended.
    pub fn stderr(&mut self) -> String {
        let mut text = String::new();
        self.proxy
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        text
    }

    /// What the rank wrote to its descriptor 1 so far, at least `len` bytes.
    pub fn stdout(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.proxy
            .stdout
            .as_mut()
            .unwrap()
            .read_exact(&mut bytes)
            .unwrap();
        bytes
    }

    pub fn stdin(&mut self, bytes: &[u8]) {
        self.proxy.stdin.as_mut().unwrap().write_all(bytes).unwrap();
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.proxy.kill();
        let _ = self.proxy.wait();
    }
}

/// Polls a condition for at most [`LIMIT`].
pub fn wait_for(mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !condition() {
        assert!(Instant::now() < end, "waited in vain");
        std::thread::sleep(Duration::from_micros(200));
    }
}
