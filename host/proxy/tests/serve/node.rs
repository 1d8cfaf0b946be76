//! A node with one rank, played by the test.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use abi::map::MAX_THREADS;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::mm::{MapFlags, ProtFlags, mmap};
use wire::boot::Config;
use wire::layout::Layout;
use wire::objects::Directory as Objects;
use wire::ram::{Place, Ram, RamRange};
use wire::rank::{RankArea, proxy as attached, state};
use wire::region_log::{Change, RegionLog, prot};
use wire::ship::Caller;
use wire::signal::Signal;
use wire::thread::ThreadAreas;

use crate::launch::{Setup, start};

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
    /// The directory of the pool.
    pub objects: &'static Objects,
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
        let (area, threads, log, objects) = unsafe {
            let at = |offset: usize| ram.add(COMM_GPA as usize + offset);
            (
                &*at(layout.rank(0)).cast::<RankArea>(),
                &*at(layout.threads(0)).cast::<ThreadAreas>(),
                &*at(layout.region_log(0)).cast::<RegionLog>(),
                &*at(layout.objects).cast::<Objects>(),
            )
        };
        let event = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
        let doorbell = event();
        let cores: Vec<OwnedFd> = (0..CORES).map(|_| event()).collect();
        objects.set_pool(POOL.0, POOL.1);
        area.node.partition[0].store(PARTITION.0);
        area.node.partition[1].store(PARTITION.1);
        area.node.cpus[0].store(1);
        threads.iter().for_each(|thread| thread.node.core.store(1));
        let passed: Vec<&OwnedFd> = [&memfd, &pool, &doorbell]
            .into_iter()
            .chain(&cores)
            .collect();
        let proxy = start(&setup, &passed);
        let node = Node {
            ram,
            area,
            threads,
            log,
            objects,
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

    /// Appends a mapping to the region log.
    pub fn map(&self, addr: u64, len_bytes: u64, gpa: u64, read: bool, write: bool) {
        self.log
            .append(&Change::Map {
                addr,
                len_bytes,
                gpa,
                prot: [0, prot::READ][usize::from(read)] | [0, prot::WRITE][usize::from(write)],
            })
            .unwrap();
    }

    pub fn unmap(&self, addr: u64, len_bytes: u64) {
        self.log.append(&Change::Unmap { addr, len_bytes }).unwrap();
    }

    /// Writes rank memory in [`DATA`]; returns the address.
    pub fn put(&self, addr: u64, bytes: &[u8]) -> u64 {
        self.put_gpa(gpa(addr, bytes.len()), bytes);
        addr
    }

    /// Writes guest RAM.
    pub fn put_gpa(&self, gpa: u64, bytes: &[u8]) {
        assert!(gpa + bytes.len() as u64 <= RAM_BYTES);
        // SAFETY: 1. In the mapping (just checked); the proxy touches it only during calls.
        unsafe {
            self.ram
                .add(gpa as usize)
                .copy_from(bytes.as_ptr(), bytes.len())
        };
    }

    pub fn put_words(&self, addr: u64, words: &[u64]) -> u64 {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.put(addr, &bytes)
    }

    /// Reads rank memory in [`DATA`].
    pub fn get(&self, addr: u64, len: usize) -> Vec<u8> {
        self.get_gpa(gpa(addr, len), len)
    }

    pub fn get_gpa(&self, gpa: u64, len: usize) -> Vec<u8> {
        assert!(gpa + len as u64 <= RAM_BYTES);
        let mut bytes = vec![0; len];
        // SAFETY: 1. In the mapping (just checked).
        unsafe { self.ram.add(gpa as usize).copy_to(bytes.as_mut_ptr(), len) };
        bytes
    }

    pub fn get_i32(&self, addr: u64) -> i32 {
        i32::from_le_bytes(self.get(addr, 4).try_into().unwrap())
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
            self.ring();
        }
    }

    /// Takes the next signal, once the core is rung for it.
    pub fn wait_signal(&self) -> Option<Signal> {
        let end = Instant::now() + LIMIT;
        loop {
            if let Some(signal) = self.area.mailbox.take() {
                return Some(signal);
            }
            if Instant::now() > end {
                return None;
            }
            self.wait_rung(Duration::from_secs(1));
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

    fn status(&self, line: &str) -> String {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let mut lines = status.lines();
        let found = lines.find_map(|text| text.strip_prefix(line)?.strip_prefix(":\t"));
        found.unwrap().to_owned()
    }

    /// Whether the thread with this name blocks a signal. It has its name only once the C library has set its first mask.
    pub fn is_blocked_by(&self, thread: &str, signo: u32) -> bool {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid())).unwrap();
        tasks.flatten().any(|task| {
            let status = std::fs::read_to_string(task.path().join("status")).unwrap();
            let of = |line| {
                status
                    .lines()
                    .find_map(|text| text.strip_prefix(line)?.strip_prefix(":\t"))
            };
            let blocked = u64::from_str_radix(of("SigBlk").unwrap(), 16).unwrap();
            of("Name") == Some(thread) && blocked & 1 << (signo - 1) != 0
        })
    }

    /// How often the proxy's thread went to sleep.
    fn sleeps(&self) -> u64 {
        self.status("voluntary_ctxt_switches").parse().unwrap()
    }

    fn is_asleep(&self) -> bool {
        self.status("State").starts_with('S')
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
            self.ring();
        }
    }

    /// Waits for the result, as the QK does: it spins, then halts until it is rung.
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
                    self.ring();
                }
                if caller.result(slot).is_none() {
                    self.wait_rung(Duration::from_secs(1));
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
        self.ring();
    }

    /// Rings the proxy.
    pub fn ring(&self) {
        rustix::io::write(&self.doorbell, &1u64.to_ne_bytes()).unwrap();
    }

    /// Waits until the rank's core is rung.
    pub fn wait_rung(&self, limit: Duration) -> bool {
        let core = &self.cores[1]; // as `cpus` says
        let limit = limit.try_into().unwrap();
        let mut fds = [PollFd::new(core, PollFlags::IN)];
        let rung = poll(&mut fds, Some(&limit)).unwrap() > 0;
        let _ = rustix::io::read(core, &mut [0u8; 8]);
        rung
    }

    /// Ends the rank.
    pub fn exit(&mut self, wait_status: u64) -> ExitStatus {
        self.area.node.wait_status.store(wait_status);
        self.area.node.state.store(state::EXITED);
        self.ring();
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

fn gpa(addr: u64, len: usize) -> u64 {
    assert!(addr >= DATA.0 && addr + len as u64 <= DATA.0 + DATA.1);
    addr - DATA.0 + PARTITION.0
}

/// Polls a condition for at most [`LIMIT`].
pub fn wait_for(mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !condition() {
        assert!(Instant::now() < end, "waited in vain");
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// A directory that goes away with the value.
pub struct Directory(pub std::path::PathBuf);

impl Directory {
    pub fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("margay-{}-{name}", std::process::id()));
        // That of a test that was killed, whose process id comes again in another namespace.
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap();
        Directory(path)
    }

    /// A path in it, NUL-terminated.
    pub fn path(&self, name: &str) -> Vec<u8> {
        format!("{}/{name}\0", self.0.display()).into_bytes()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
