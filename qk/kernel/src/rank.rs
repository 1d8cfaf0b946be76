//! Ranks: the processes of the job, each with its cores, its partition of memory, its threads and its proxy on the host.

mod ending;
pub mod home;
mod root;
mod still;

pub use root::Root;

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use abi::Errno;
use abi::control::RankInfo;
use abi::halt::debugger;
use abi::ident::RLIM_NLIMITS;
use abi::rlimit;
use alloc::boxed::Box;
use hal::sync::{Mutex, Once};
use qk_core::sched::{AtomicCoreSet, CoreSet};
use qk_core::signals::SigSet;
use wire::boot::Config;

use crate::aspace::Aspace;
use crate::host::{RankPort, Stage};
use crate::shootdown::Shootdown;
use crate::signal::Signals;
use crate::sleep_lock::SleepLock;
use crate::thread::policy::Policy;
use crate::thread::{self, Thread, Threads};
use crate::timer::Timers;
use crate::xpmem::Xpmem;
use crate::{clock, preempt, sched};

/// What never changes after the proxy attached: served without a lock.
pub struct Identity {
    /// The proxy's pid is the rank's.
    pub pid: u64,
    /// Its parent: yod.
    pub ppid: u64,
    /// User, group, and so on.
    pub info: RankInfo,
}

/// A rank.
pub struct Rank {
    /// Its number.
    pub id: usize,
    /// Its end of the port to the host.
    pub host: RankPort,
    /// Set when the PCT is told of its proxy.
    pub identity: Once<Identity>,
    /// Its memory; `None` before it is loaded and after it is reaped. Held from the decision of a change to its end.
    pub aspace: SleepLock<Option<Aspace>>,
    /// Pages of its mappings that show objects ([`crate::shared`]), for those who do not have the lock on its memory.
    pub object_pages: AtomicU64,
    /// Calls under way by which Linux may write to its memory.
    pub writers: AtomicU32,
    /// Its threads.
    pub threads: Threads,
    /// Dispositions, and signals for the process as a whole.
    pub signals: Mutex<Signals>,
    /// Soft and hard resource limits by RLIMIT_*.
    pub limits: Mutex<[[u64; 2]; RLIM_NLIMITS]>,
    /// See [`home`].
    home: AtomicUsize,
    /// Its cores.
    cores: AtomicCoreSet,
    /// Cores whose translations are to be dropped.
    pub shootdown: Shootdown,
    /// Its page tables, for as long as peers have windows on them.
    pub root: Root,
    /// ITIMERs and the limit on processor time.
    pub timers: Mutex<Timers>,
    /// Processor time of its threads but what runs now, in TSC ticks.
    pub used: AtomicU64,
    /// A deadline on its processor time is set: a core's timer is to be armed whenever a thread goes on.
    counts_cpu_time: AtomicBool,
    /// How it ends, once that is decided, and why its threads are to come back to where they look: see [`ending`].
    ending: AtomicU64,
    /// The status of the thread that exited last by itself: the rank's, should nothing else decide it.
    exit_status: AtomicU64,
    /// There was no time to find which thread takes a signal of the process ([`crate::signal::claim`]).
    pub unclaimed: AtomicBool,
    /// Signals that were forgotten since timers that sent some went on ([`crate::timer::posix::forgotten`]).
    pub forgotten: AtomicU64,
    /// A signal stopped it: no thread goes back to ring 3.
    stopped: AtomicBool,
    /// A child gets a copy of its memory: neither does one meanwhile.
    is_copied: AtomicBool,
    /// prctl's PR_SET_DUMPABLE: whether there may be a core file.
    pub dumpable: AtomicBool,
    /// prctl's PR_SET_NO_NEW_PRIVS.
    pub no_new_privs: AtomicBool,
    /// personality(2): children begin with it.
    pub personality: AtomicU64,
    /// Held while signals are taken from the mailbox and become pending: there is one consumer.
    pub collecting: Mutex<()>,
    /// Held while a child is made: there is one record for it.
    pub births: SleepLock<()>,
    /// Held while a program is found that is to replace this one: its proxy keeps one.
    pub execs: SleepLock<()>,
    /// The thread that replaces the program, while the others end.
    executor: AtomicUsize,
    /// The old program is gone, and the PCT loads the new one: where it goes on.
    pub reload: Mutex<Option<Reload>>,
    /// It has started children.
    pub has_children: AtomicBool,
    /// What it offers to attach, and may attach.
    pub xpmem: Xpmem<&'static Rank>,
    /// Reported to the PCT already.
    announced: AtomicBool,
}

/// Where a rank whose program was replaced goes on: the core, and those that its thread was allowed.
#[derive(Clone, Copy)]
pub struct Reload {
    /// The core that the thread ran on.
    pub core: usize,
    /// Where it may run.
    pub allowed: CoreSet,
}

static RANKS: Once<Box<[Rank]>> = Once::new();

/// Makes the ranks of the configuration.
pub fn init(config: &Config) {
    // BOUND: before the first program.
    let ranks = (0..config.ranks).map(|id| Rank {
        id,
        host: RankPort::new(id),
        identity: Once::new(),
        aspace: SleepLock::new(None),
        object_pages: AtomicU64::new(0),
        writers: AtomicU32::new(0),
        threads: Threads::new(),
        signals: Mutex::new(Signals::new()),
        limits: Mutex::new([[u64::MAX; 2]; RLIM_NLIMITS]),
        home: AtomicUsize::new(home::first(id, config)),
        cores: AtomicCoreSet::new(),
        shootdown: Shootdown::new(),
        root: Root::default(),
        timers: Mutex::new(Timers::default()),
        used: AtomicU64::new(0),
        counts_cpu_time: AtomicBool::new(false),
        ending: AtomicU64::new(0),
        exit_status: AtomicU64::new(0),
        unclaimed: AtomicBool::new(false),
        forgotten: AtomicU64::new(0),
        stopped: AtomicBool::new(false),
        is_copied: AtomicBool::new(false),
        dumpable: AtomicBool::new(true),
        no_new_privs: AtomicBool::new(false),
        personality: AtomicU64::new(0),
        collecting: Mutex::new(()),
        births: SleepLock::new(()),
        execs: SleepLock::new(()),
        executor: AtomicUsize::new(0),
        reload: Mutex::new(None),
        has_children: AtomicBool::new(false),
        xpmem: Xpmem::new(),
        announced: AtomicBool::new(false),
    });
    // BOUND: before the first program.
    assert!(RANKS.set(ranks.collect()).is_ok(), "ranks made twice");
    home::init(config.cpus);
    // BOUND: before the first program.
    for rank in all() {
        let main = rank.threads.take(rank);
        assert!(main.is_ok(), "every rank has room for its main thread");
        // Proxies ring a core that is idle until their rank runs there, not one where another rank computes.
        rank.main().host.set_core(rank.home());
        rank.host.publish_home(rank.home());
    }
}

/// All ranks.
#[inline]
pub fn all() -> &'static [Rank] {
    RANKS.get().map_or(&[], |ranks| ranks)
}

/// The rank with this number, if there is one.
pub fn get(id: u64) -> Result<&'static Rank, Errno> {
    usize::try_from(id)
        .ok()
        .and_then(|id| all().get(id))
        .ok_or(Errno::EINVAL)
}

impl Rank {
    /// Whether its proxy has attached, and it was not [attached](Self::attach) yet.
    pub fn is_new(&self) -> bool {
        self.host.has_proxy() && !self.announced.load(Ordering::Acquire)
    }

    /// Takes over what the proxy says of the rank, once; `true` when it is new.
    pub fn attach(&self) -> bool {
        if !self.host.has_proxy() || self.announced.swap(true, Ordering::AcqRel) {
            return false;
        }
        let proxy = self.host.proxy();
        let identity = Identity {
            pid: proxy.pid,
            ppid: proxy.ppid,
            info: self.host.described(),
        };
        // BOUND: the limits.
        for (resource, limit) in proxy.limits.into_iter().enumerate() {
            self.change_limit(resource, |inherited| *inherited = limit);
        }
        let queue_limit = self.limits.lock()[rlimit::SIGPENDING][0];
        self.signals.lock().inherit(proxy.ignored, queue_limit);
        self.personality.store(proxy.personality, Ordering::Relaxed);
        let blocked = SigSet(proxy.blocked);
        self.main().begin(identity.pid, 0, blocked, Policy::DEFAULT);
        self.identity.set(identity).is_ok()
    }

    /// Changes a resource limit, here and for the proxy; returns what it is now.
    pub fn change_limit(&self, resource: usize, change: impl FnOnce(&mut [u64; 2])) -> [u64; 2] {
        let limit = &mut self.limits.lock()[resource];
        change(limit);
        self.host.publish_limit(resource, *limit);
        *limit
    }

    /// Makes room on its cores for `tasks` more.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn make_room(&self, tasks: usize) -> Result<(), Errno> {
        sched::make_room(self.cores(), tasks)
    }

    /// Its identity; all zero before the proxy attached.
    #[inline]
    pub fn identity(&self) -> &Identity {
        const NOBODY: Identity = Identity {
            pid: 0,
            ppid: 0,
            info: RankInfo::from_words(&[0; RankInfo::WORDS]),
        };
        self.identity.get().unwrap_or(&NOBODY)
    }

    /// Its main thread, which may have ended.
    #[inline]
    pub fn main(&self) -> &Thread {
        self.threads.get(0).expect("made with the rank")
    }

    /// Its thread with a Linux thread id.
    ///
    /// # Errors
    /// ESRCH when no live thread has it.
    pub fn by_tid(&self, tid: u64) -> Result<&Thread, Errno> {
        let is_it = |thread: &&Thread| tid != 0 && thread.tid() == tid;
        // POINT: thread::numbers::each
        self.threads.each().find(is_it).ok_or(Errno::ESRCH)
    }

    /// Carries out `change` on the address space, or reads from it.
    ///
    /// # Errors
    /// Those of `change`; ESRCH without an address space.
    pub fn with_aspace<R>(
        &self,
        change: impl FnOnce(&mut Aspace) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        let mut guard = self.aspace.lock();
        let aspace = guard.as_mut().ok_or(Errno::ESRCH)?;
        preempt::start();
        let result = change(aspace);
        self.host.publish_usage(aspace.usage(), aspace.shortages());
        result
    }

    /// Whether it maps anything that ranks share.
    #[inline]
    pub fn maps_objects(&self) -> bool {
        self.object_pages.load(Ordering::Relaxed) != 0
    }

    /// Its cores.
    pub fn cores(&self) -> CoreSet {
        self.cores.load()
    }

    /// Processor time of all threads, ended ones too, in ns.
    pub fn cpu_ns(&self) -> u64 {
        let running = |cpu| {
            thread::on_core(cpu)
                .filter(|thread| core::ptr::eq(thread.rank, self))
                .map_or(0, |thread| thread.running_ticks())
        };
        // BOUND: the cores of a rank.
        let running: u64 = self.cores().iter().map(running).sum();
        clock::ticks_to_ns(self.used.load(Ordering::Relaxed) + running)
    }

    /// Whether a deadline on its processor time is set.
    #[inline]
    pub fn counts_cpu_time(&self) -> bool {
        self.counts_cpu_time.load(Ordering::Relaxed)
    }

    /// Says whether one is.
    pub fn count_cpu_time(&self, counts: bool) {
        self.counts_cpu_time.store(counts, Ordering::Relaxed);
    }

    /// Has the other cores that run its threads enter the kernel.
    pub fn interrupt_others(&'static self) {
        let here = hal::cpu::id();
        // BOUND: the cores.
        for cpu in self.cores().iter().filter(|cpu| *cpu != here) {
            if let Some(thread) = thread::on_core(cpu)
                && core::ptr::eq(thread.rank, self)
            {
                sched::interrupt(&thread.task);
            }
        }
    }

    /// Stops its threads on their way back to ring 3, or lets them go on.
    pub fn stop(&'static self, stopped: bool) {
        self.stopped.store(stopped, Ordering::SeqCst);
        self.call_threads();
    }

    /// Whether its threads are to stop on their way back to ring 3: a signal stopped it, or a child is made.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst) || self.is_copied.load(Ordering::SeqCst)
    }

    /// Its program starts on `cores`, and its proxy rings `first` of them.
    pub fn place(&self, cores: CoreSet, first: usize) {
        self.settle(first);
        self.cores.store(cores);
        self.host.publish_cores(&cores);
    }

    /// The status that it ends with, as wait(2) says it: the decided one, or that of the last thread.
    pub fn status(&self) -> u64 {
        let of_last = || self.exit_status.load(Ordering::SeqCst);
        self.decided_status().unwrap_or_else(of_last)
    }

    /// Whether a debugger is told what it does.
    pub fn is_debugged(&self) -> bool {
        self.host.debugger() & debugger::ATTACHED != 0
    }

    /// Whether a debugger wants all its threads to halt.
    pub fn is_to_halt(&self) -> bool {
        self.host.debugger() & debugger::STOP != 0
    }

    /// The host says that its debugger's requests have changed.
    pub fn debugger_changed(&'static self) {
        if self.is_to_halt() {
            self.call_back();
        }
    }

    /// Whether the rank has been started and has not ended.
    pub fn is_running(&self) -> bool {
        self.host.is(Stage::Running)
    }
}
