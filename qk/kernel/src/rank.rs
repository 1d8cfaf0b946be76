//! Ranks: the processes of the job, each with its cores, its partition of memory, its threads and its proxy on the host.

mod attributes;
mod calls;
mod cpu_time;
mod ending;
pub mod home;
mod identity;
mod limits;
mod memory;
mod root;
mod stops;
mod turns;

pub use identity::Identity;
pub use root::Root;
pub use turns::Reload;

use attributes::Attributes;
use cpu_time::CpuTime;
use ending::Ending;
use memory::MemoryUse;
use stops::Stops;
use turns::Turns;

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use abi::Errno;
use abi::halt::debugger;
use abi::ident::RLIM_NLIMITS;
use abi::rlimit;
use alloc::boxed::Box;
use hal::sync::{Mutex, MutexGuard, Once, class};
use qk_core::aio::Contexts;
use qk_core::sched::{AtomicCoreSet, CoreSet};
use qk_core::signals::SigSet;
use wire::boot::Config;

use crate::aspace::Aspace;
use crate::host::{RankPort, Stage};
use crate::shootdown::Shootdown;
use crate::signal::claims::Claims;
use crate::signal::state::Signals;
use crate::sleep_lock::SleepLock;
use crate::thread::policy::Policy;
use crate::thread::{self, Thread, Threads};
use crate::timer::Timers;
use crate::xpmem::Xpmem;
use crate::{clock, preempt, sched};

/// A rank. What its program, its threads and the host may ask of it has a verb, in the file of what the verb keeps right.
pub struct Rank {
    /// Its number.
    id: usize,
    /// Its end of the port to the host.
    host: RankPort,
    /// Set when the PCT is notified of its proxy.
    identity: Once<Identity>,
    /// Reported to the PCT already.
    announced: AtomicBool,
    /// Its memory; `None` before it is loaded and after it is reaped. Held from the decision of a change to its end.
    aspace: SleepLock<Option<Aspace>, class::Aspace>,
    memory: MemoryUse,
    /// Its threads.
    threads: Threads,
    /// Dispositions, and signals for the process as a whole.
    signals: Mutex<Signals, class::RankSignals>,
    /// Held while signals are taken from the mailbox and become pending: there is one consumer.
    collecting: Mutex<(), class::Collecting>,
    claims: Claims,
    /// Soft and hard resource limits by RLIMIT_*.
    limits: Mutex<[[u64; 2]; RLIM_NLIMITS], class::Limits>,
    /// RLIMIT_AS or RLIMIT_DATA is not unlimited.
    limits_memory: AtomicBool,
    attributes: Attributes,
    /// See [`home`].
    home: AtomicUsize,
    /// Its cores.
    cores: AtomicCoreSet,
    /// Cores whose translations are to be dropped.
    shootdown: Shootdown,
    /// Its page tables, for as long as peers have windows on them.
    root: Root,
    /// ITIMERs and the limit on processor time.
    timers: Mutex<Timers, class::Timers>,
    cpu_time: CpuTime,
    /// How it ends, once that is decided, and why its threads are to come back to where they look: see [`ending`].
    ending: Ending,
    stops: Stops,
    turns: Turns,
    /// What it offers to attach, and may attach.
    xpmem: Xpmem<&'static Rank>,
    /// Its contexts of kernel AIO.
    aio: Mutex<Contexts, class::Aio>,
}

static RANKS: Once<Box<[Rank]>> = Once::new();

/// Makes the ranks of the configuration.
pub fn init(config: &Config) {
    // BOUND: before the first program.
    let ranks = (0..config.ranks).map(|id| Rank {
        id,
        host: RankPort::new(id),
        identity: Once::new(),
        announced: AtomicBool::new(false),
        aspace: SleepLock::new(None),
        memory: MemoryUse::default(),
        threads: Threads::new(),
        signals: Mutex::new(Signals::new()),
        collecting: Mutex::new(()),
        claims: Claims::default(),
        limits: Mutex::new([[u64::MAX; 2]; RLIM_NLIMITS]),
        limits_memory: AtomicBool::new(false),
        attributes: Attributes::new(),
        home: AtomicUsize::new(home::first(id, config)),
        cores: AtomicCoreSet::new(),
        shootdown: Shootdown::new(),
        root: Root::default(),
        timers: Mutex::new(Timers::default()),
        cpu_time: CpuTime::default(),
        ending: Ending::default(),
        stops: Stops::default(),
        turns: Turns::new(),
        xpmem: Xpmem::new(),
        aio: Mutex::new(Contexts::default()),
    });
    // BOUND: before the first program.
    assert!(RANKS.set(ranks.collect()).is_ok(), "ranks made twice");
    home::init(config.cpus);
    // BOUND: before the first program.
    for rank in all() {
        let main = rank.threads.take(rank);
        assert!(main.is_ok(), "every rank has room for its main thread");
        // Proxies ring a core that is idle until their rank runs there, not one where another rank computes.
        rank.main().host().set_core(rank.home());
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
    /// Its number.
    #[inline]
    pub fn id(&self) -> usize {
        self.id
    }

    /// Its end of the port to the host.
    #[inline]
    pub fn host(&self) -> &RankPort {
        &self.host
    }

    /// Its threads.
    #[inline]
    pub fn threads(&self) -> &Threads {
        &self.threads
    }

    /// Its requests to the cores that are in it.
    #[inline]
    pub fn shootdown(&self) -> &Shootdown {
        &self.shootdown
    }

    /// Its page tables, for as long as peers have windows on them.
    #[inline]
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// What it offers to attach, and may attach.
    pub fn xpmem(&self) -> &Xpmem<&'static Rank> {
        &self.xpmem
    }

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
        let queue_limit = self.limit(rlimit::SIGPENDING)[0];
        self.signals().inherit(proxy.ignored, queue_limit);
        self.attributes.set_personality(proxy.personality);
        let blocked = SigSet(proxy.blocked);
        self.main().begin(identity.pid, 0, blocked, Policy::DEFAULT);
        self.identity.set(identity).is_ok()
    }

    /// Whether its proxy has attached, and was taken over.
    pub fn is_attached(&self) -> bool {
        self.identity.get().is_some()
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

    /// It has this address space from now on.
    pub fn give_aspace(&self, aspace: Aspace) {
        self.host.publish_usage(aspace.usage(), aspace.shortages());
        *self.aspace.lock() = Some(aspace);
    }

    /// It has none any more; returns the one that it had.
    pub fn take_aspace(&self) -> Option<Aspace> {
        self.aspace.lock().take()
    }

    /// Its dispositions, and signals for the process as a whole.
    #[inline]
    pub fn signals(&self) -> MutexGuard<'_, Signals, class::RankSignals> {
        self.signals.lock()
    }

    /// Its contexts of kernel AIO.
    pub fn aio(&self) -> MutexGuard<'_, Contexts, class::Aio> {
        self.aio.lock()
    }

    /// Held while signals are taken from the host's mailbox and become pending.
    pub fn lock_mailbox(&self) -> MutexGuard<'_, (), class::Collecting> {
        self.collecting.lock()
    }

    /// ITIMERs, POSIX timers and the limit on processor time.
    #[inline]
    pub fn timers(&self) -> MutexGuard<'_, Timers, class::Timers> {
        self.timers.lock()
    }

    /// Makes room on its cores for `tasks` more.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn make_room(&self, tasks: usize) -> Result<(), Errno> {
        sched::make_room(self.cores(), tasks)
    }

    /// How its memory is used.
    #[inline]
    pub fn memory(&self) -> &MemoryUse {
        &self.memory
    }

    /// What its program has said of the process.
    #[inline]
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// Its processor time.
    #[inline]
    pub fn cpu_time(&self) -> &CpuTime {
        &self.cpu_time
    }

    /// How it ends, and why its threads are to come back.
    #[inline]
    pub fn ending(&self) -> &Ending {
        &self.ending
    }

    /// Why no thread of it goes back to ring 3.
    #[inline]
    pub fn stops(&self) -> &Stops {
        &self.stops
    }

    /// What its proxy does one at a time.
    #[inline]
    pub fn turns(&self) -> &Turns {
        &self.turns
    }

    /// What its threads are still to do about signals.
    #[inline]
    pub fn claims(&self) -> &Claims {
        &self.claims
    }

    /// Its identity; all zero before the proxy attached.
    #[inline]
    pub fn identity(&self) -> &Identity {
        self.identity.get().unwrap_or(&Identity::UNKNOWN)
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

    /// Processor time of all threads, ended ones too, in ns.
    pub fn cpu_ns(&self) -> u64 {
        let running = |cpu| {
            thread::on_core(cpu)
                .filter(|thread| core::ptr::eq(thread.rank(), self))
                .map_or(0, |thread| thread.running_ticks())
        };
        // BOUND: the cores of a rank.
        let running: u64 = self.cores().iter().map(running).sum();
        clock::ticks_to_ns(self.cpu_time.used() + running)
    }

    /// Its cores.
    pub fn cores(&self) -> CoreSet {
        self.cores.load()
    }

    /// Its program starts on `cores`, and its proxy rings `first` of them.
    pub fn place(&self, cores: CoreSet, first: usize) {
        self.settle(first);
        self.cores.store(cores);
        self.host.publish_cores(&cores);
    }

    /// Whether a debugger is notified of what it does.
    pub fn is_debugged(&self) -> bool {
        self.host.debugger() & debugger::ATTACHED != 0
    }

    /// Whether a debugger wants all its threads to halt. One that comes to a rank that has started without may not, where that lets
    /// no process look into it (PR_SET_DUMPABLE), as ptrace(2) has it.
    pub fn is_to_halt(&self) -> bool {
        let requests = self.host.debugger();
        requests & debugger::STOP != 0
            && (requests & debugger::ATTACHED != 0 || self.attributes.is_dumpable())
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
