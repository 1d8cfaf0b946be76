//! A rank's end of the port: what its proxy says of it, and what its proxy and yod are to know.
//!
//! What the kernel publishes here it never reads back to decide by: the words lie where the host can write.

use core::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use abi::control::RankInfo;
use abi::ident::{ADDR_NO_RANDOMIZE, RLIM_NLIMITS};
use hal::addr::{Phys, PhysRange};
use hal::sync::{Mutex, class};
use qk_core::aspace::Usage;
use qk_core::sched::CoreSet;
use wire::child::Child;
use wire::info::InfoPage;
use wire::rank::{Crash, RankArea, proxy, state};
use wire::region_log::{Change, RegionLog};
use wire::registers::Registers;
use wire::signal::{Left, Signal};
use wire::trace::TraceRing;
use wire::word::Word;

use super::{area, bell};

/// Where a rank is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Stage {
    /// It has no proxy yet, or the PCT has not been notified of it.
    Empty,
    /// The PCT loads its program.
    Loading,
    /// Its program runs.
    Running,
    /// It is over.
    Over,
}

/// What a proxy says of its rank when it attaches.
pub struct Proxy {
    /// Its process id: the rank's.
    pub pid: u64,
    /// Its parent's.
    pub ppid: u64,
    /// Resource limits, soft and hard.
    pub limits: [[u64; 2]; RLIM_NLIMITS],
    /// Signals ignored, inherited as across exec (bit signo - 1).
    pub ignored: u64,
    /// Signals blocked.
    pub blocked: u64,
    /// Those bits of personality(2) that mean something here.
    pub personality: u64,
}

/// A rank's end of the port.
pub struct RankPort {
    id: usize,
    area: &'static RankArea,
    log: &'static RegionLog,
    pub(super) trace: Option<&'static TraceRing>,
    /// Held while a record is added to its trace.
    pub(super) tracing: Mutex<(), class::Tracing>,
    /// As [`wire::rank::FromNode::state`] has it, for the kernel itself.
    stage: AtomicU8,
    /// Its proxy does not follow the changes of its mappings.
    ignores_mappings: AtomicBool,
}

impl RankPort {
    /// That of rank `id`.
    pub fn new(id: usize) -> RankPort {
        let area = area::get();
        RankPort {
            id,
            area: area.rank(id),
            log: area.region_log(id),
            trace: area.trace(id),
            tracing: Mutex::new(()),
            stage: AtomicU8::new(Stage::Empty as u8),
            ignores_mappings: AtomicBool::new(false),
        }
    }

    /// Rings its proxy.
    pub fn bell(&self) {
        bell::rank(self.id);
    }

    /// Where it is in its life.
    pub fn is(&self, stage: Stage) -> bool {
        self.stage.load(Ordering::Acquire) == stage as u8
    }

    fn reach(&self, stage: Stage, state: u64) {
        self.stage.store(stage as u8, Ordering::Release);
        self.area.node.state.store(state);
    }

    /// The PCT loads its program from now on.
    pub fn loads(&self) {
        self.reach(Stage::Loading, state::LOADING);
    }

    /// Its program runs from now on: the host's signals are the program's, and its debugger's stop.
    pub fn runs(&self) {
        self.reach(Stage::Running, state::RUNNING);
    }

    /// It is over, with this status as wait(2) says it; `mxcsr` is its program's.
    pub fn exited(&self, wait_status: u64, mxcsr: u32) {
        self.area.node.mxcsr.put(mxcsr.into());
        self.area.node.wait_status.put(wait_status);
        self.reach(Stage::Over, state::EXITED);
        self.bell();
    }

    /// Its program cannot be loaded, which `line` tells the user; it is over with this status as wait(2) says it.
    pub fn refused(&self, wait_status: u64, line: &[u8]) {
        self.area.node.message.put(line);
        self.area.node.wait_status.put(wait_status);
        self.reach(Stage::Over, state::REFUSED);
        self.bell();
    }

    /// Whether it has a proxy.
    pub fn has_proxy(&self) -> bool {
        self.area.host.state.load() == proxy::ATTACHED
    }

    /// What its proxy says of it; to be looked at when there is [one](Self::has_proxy).
    pub fn proxy(&self) -> Proxy {
        let host = &self.area.host;
        Proxy {
            pid: host.pid.peek(),
            ppid: host.ppid.peek(),
            limits: host
                .rlimits
                .each_ref()
                .map(|limit| limit.each_ref().map(Word::peek)),
            ignored: host.ignored.peek(),
            blocked: host.blocked.peek(),
            personality: host.personality.peek() & ADDR_NO_RANDOMIZE,
        }
    }

    /// What its proxy says of it and of the program that is to be loaded.
    pub fn described(&self) -> RankInfo {
        RankInfo::from_words(&self.area.host.info.each_ref().map(Word::peek))
    }

    /// uname's node and domain names.
    pub fn names<'a>(&self, node: &'a mut [u8], domain: &'a mut [u8]) -> [&'a [u8]; 2] {
        let host = &self.area.host;
        [host.nodename.get(node), host.domainname.get(domain)]
    }

    /// How many threads have a worker.
    pub fn workers(&self) -> u64 {
        self.area.host.workers.load()
    }

    /// Bits of [`abi::halt::debugger`] that its debugger has set.
    pub fn debugger(&self) -> u64 {
        self.area.host.debugger.load()
    }

    /// How often its debugger's watches were written.
    pub fn watch_version(&self) -> u64 {
        self.area.host.watch_version.load()
    }

    /// DR0 to DR3 and DR7 for its threads.
    pub fn watches(&self) -> [u64; 5] {
        self.area.host.watches.each_ref().map(Word::peek)
    }

    /// Registers that a thread which has halted is to take over.
    pub fn given_registers(&self) -> &'static Registers {
        &self.area.host.registers
    }

    /// Where a thread that has halted shows its registers.
    pub fn shown_registers(&self) -> &'static Registers {
        &self.area.node.registers
    }

    /// Where it is said how a signal ended it.
    pub fn crash(&self) -> &'static Crash {
        &self.area.node.crash
    }

    /// What the child that it forks begins with.
    pub fn child(&self) -> &'static Child {
        &self.area.child
    }

    /// Its information page.
    pub fn info(&self) -> &'static InfoPage {
        area::get().info(self.id)
    }

    /// Physical address of its information page.
    pub fn info_page(&self) -> Phys {
        area::get().info_page(self.id)
    }

    /// The next signal of the host. One consumer at a time.
    pub fn take_signal(&self) -> Option<Signal> {
        self.area.mailbox.take()
    }

    /// Whether the host has a signal for it.
    pub fn has_signals(&self) -> bool {
        !self.area.mailbox.is_empty()
    }

    /// How many of the host's real-time signals are no longer pending.
    pub fn publish_taken(&self, signals: u64) {
        self.area.node.signals_taken.store(signals);
    }

    /// Has a signal wait in Linux; `false`: there is no room. One producer at a time.
    pub fn leave_signal(&self, left: &Left) -> bool {
        self.area.outbox.leave(left)
    }

    /// Whether there is room for another one.
    pub fn may_leave_signal(&self) -> bool {
        self.area.outbox.has_room()
    }

    /// These signals wait in Linux from now on.
    pub fn publish_left(&self, set: u64) {
        self.area.node.left.store(set);
    }

    /// Core `core` is rung for it from now on.
    pub fn publish_home(&self, core: usize) {
        self.area.node.cpus[0].store(core as u64);
    }

    /// Its cores.
    pub fn publish_cores(&self, cores: &CoreSet) {
        let [first, count] = &self.area.node.cpus;
        first.put(cores.first().unwrap_or(0) as u64);
        count.put(cores.len() as u64);
    }

    /// Where its partition lies, and the pool that all ranks share.
    pub fn publish_memory(&self, partition: PhysRange, pool: PhysRange) {
        let node = &self.area.node;
        for ([at, bytes], range) in [(&node.partition, partition), (&node.pool, pool)] {
            at.put(range.start.0);
            bytes.put(range.len_bytes());
        }
    }

    /// Where its heap begins.
    pub fn publish_heap(&self, heap: u64) {
        self.area.node.heap_start.put(heap);
    }

    /// What the node's processors can, and which they are.
    pub fn publish_processors(&self, features: [u64; 5], identity: [u64; 8]) {
        let node = &self.area.node;
        let words = node.features.iter().chain(&node.identity);
        // BOUND: the words of a record.
        for (word, said) in words.zip(features.into_iter().chain(identity)) {
            word.put(said);
        }
    }

    /// What it uses of its partition, and how often that was too small.
    pub fn publish_usage(&self, usage: Usage, shortages: u64) {
        let node = &self.area.node;
        node.used_bytes.put(usage.used);
        node.peak_bytes.put(usage.peak);
        node.locked_bytes.put(usage.locked);
        // For yod to say, should the rank end badly.
        node.refusals.memory.put(shortages);
    }

    /// Its program is replaced: the next one's peak begins anew, the process's does not.
    pub fn program_ends(&self) {
        let node = &self.area.node;
        node.past_peak_bytes.put(node.most_bytes());
    }

    /// Its program has been replaced once more.
    pub fn note_exec(&self) {
        self.area.node.execs.add(1);
    }

    /// The most bytes of the partition that were ever in use.
    pub fn most_bytes(&self) -> u64 {
        self.area.node.most_bytes()
    }

    /// A resource limit as it is now.
    pub fn publish_limit(&self, resource: usize, limit: [u64; 2]) {
        let words = self.area.node.rlimits[resource].iter();
        // BOUND: two words.
        words.zip(limit).for_each(|(word, value)| word.put(value));
    }

    /// So many thread numbers have been used.
    pub fn publish_threads(&self, made: usize) {
        self.area.node.threads.put(made as u64);
    }

    /// Ranks that had windows when it started, and the TSC ticks that it took to open them.
    pub fn publish_windows(&self, ranks: usize, ticks: u64) {
        let [count, took] = &self.area.node.windows;
        count.put(ranks as u64);
        took.put(ticks);
    }

    /// It made a call that is refused.
    pub fn note_refused(&self, nr: u64) {
        self.area.node.refusals.note_call(nr);
    }

    /// The node pool had no room for a shared mapping of its.
    pub fn note_shared_map(&self) {
        self.area.node.refusals.shared_maps.add(1);
    }

    /// Publishes a change of its mappings; `false` when its proxy has to catch up first. To one that does not, nothing is published any
    /// more.
    pub fn publish_mapping(&self, change: &Change) -> bool {
        self.log.append(change).is_some() || self.ignores_mappings.load(Ordering::Relaxed)
    }

    /// To be called when its proxy says that it has caught up, and nothing was published since: whether it has not. Then it never will.
    pub fn has_lost_mappings(&self) -> bool {
        let lost = self.log.room() == 0;
        if lost {
            self.ignores_mappings.store(true, Ordering::Relaxed);
        }
        lost
    }

    /// The position after the last change that was published.
    pub fn mappings(&self) -> u64 {
        self.log.position()
    }

    /// Up to which position its proxy has carried them out.
    pub fn mappings_applied(&self) -> u64 {
        self.log.applied()
    }
}
