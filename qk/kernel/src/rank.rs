//! Ranks: the processes of the job, one per core set, each with its share of memory and its proxy on the host.

use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use abi::Errno;
use abi::control::RankInfo;
use abi::ident::RLIM_NLIMITS;
use alloc::boxed::Box;
use hal::cpu::PerCpu;
use hal::sync::{Mutex, Once};
use hal::vectors::VEC_WAKE;
use wire::boot::MAX_CPUS;
use wire::rank::{RankArea, proxy, state};
use wire::region_log::RegionLog;
use wire::ship::Caller;
use wire::thread::ThreadAreas;

use crate::aspace::Aspace;
use crate::signal::Signals;
use crate::sleep_lock::SleepLock;
use crate::syscall::limits::RLIMIT_SIGPENDING;
use crate::syscall::policy::Policy;
use crate::timer::Timers;
use crate::{comm, preempt, timer};

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
    /// Its words in the communication area.
    pub area: &'static RankArea,
    /// The words of its threads.
    pub threads: &'static ThreadAreas,
    /// Set when the PCT is told of its proxy.
    pub identity: Once<Identity>,
    /// Its memory; `None` before it is loaded and after it is reaped. Held from the decision of a change to its end.
    pub aspace: SleepLock<Option<Aspace>>,
    /// How its proxy learns of changes of its memory.
    pub log: &'static RegionLog,
    /// Thread 0's end of its ship slot.
    pub caller: Mutex<Caller>,
    /// Task that waits for the slot's answer, plus one; 0: nobody.
    pub slot_waiter: AtomicUsize,
    /// Doorbells of its core so far.
    pub rings: AtomicU64,
    /// Dispositions, pending signals, the mask, timers.
    pub signals: Mutex<Signals>,
    /// Something is to be done before the rank goes back to ring 3.
    pub attention: AtomicBool,
    /// Soft and hard resource limits by RLIMIT_*.
    pub limits: Mutex<[[u64; 2]; RLIM_NLIMITS]>,
    /// Its first core; the PCT has the last word when it starts the rank.
    cpu: AtomicUsize,
    /// Address of its restartable-sequence area (rseq(2)), 0: none; and its signature.
    pub rseq: [AtomicU64; 2],
    /// What sleeps and ITIMER_REAL wait for.
    pub timers: Mutex<Timers>,
    /// The cores that the thread said it wants to run on, a bit per CPU; `None`: all of the rank's.
    pub affinity: Mutex<Option<[u8; MAX_CPUS / 8]>>,
    /// prctl's PR_SET_DUMPABLE, which changes nothing else: the program is never dumped or traced.
    pub dumpable: AtomicBool,
    /// prctl's PR_SET_NO_NEW_PRIVS.
    pub no_new_privs: AtomicBool,
    /// set_mempolicy's mode and nodes.
    pub memory_policy: Mutex<Policy>,
    /// set_robust_list's head.
    pub robust_list: AtomicU64,
    /// TSC when the program started, and ticks that it has waited since, for the host or for time to pass.
    started_tsc: AtomicU64,
    waited_ticks: AtomicU64,
    /// When it began to wait (TSC); 0: it does not.
    waiting_since: AtomicU64,
    /// A deadline on its processor time is set: the core's timer is to be armed whenever it goes on.
    pub counts_cpu_time: AtomicBool,
    /// Where an interrupted sleep ends (TSC), should it go on; 0: none.
    sleep_end: AtomicU64,
    /// Told to the PCT already.
    announced: AtomicBool,
}

static RANKS: Once<Box<[Rank]>> = Once::new();

/// Makes the ranks of the configuration.
pub fn init(comm: &'static comm::Comm) {
    let ranks = (0..comm.config.ranks).map(|id| Rank {
        id,
        area: comm.rank(id),
        threads: comm.threads(id),
        identity: Once::new(),
        aspace: SleepLock::new(None),
        log: comm.region_log(id),
        caller: Mutex::new(Caller::default()),
        slot_waiter: AtomicUsize::new(0),
        rings: AtomicU64::new(0),
        signals: Mutex::new(Signals::new()),
        attention: AtomicBool::new(false),
        limits: Mutex::new([[u64::MAX; 2]; RLIM_NLIMITS]),
        cpu: AtomicUsize::new(id * (comm.config.cpus / comm.config.ranks)),
        rseq: [AtomicU64::new(0), AtomicU64::new(0)],
        timers: Mutex::new(Timers::default()),
        affinity: Mutex::new(None),
        dumpable: AtomicBool::new(true),
        no_new_privs: AtomicBool::new(false),
        memory_policy: Mutex::new(Policy::DEFAULT),
        robust_list: AtomicU64::new(0),
        started_tsc: AtomicU64::new(0),
        waited_ticks: AtomicU64::new(0),
        waiting_since: AtomicU64::new(0),
        counts_cpu_time: AtomicBool::new(false),
        sleep_end: AtomicU64::new(0),
        announced: AtomicBool::new(false),
    });
    assert!(RANKS.set(ranks.collect()).is_ok(), "ranks made twice");
    // Proxies ring a core that is idle until their rank runs there, not one where another rank computes.
    for rank in all() {
        rank.threads[0].node.core.store(rank.core() as u64);
        rank.area.node.cpus[0].store(rank.core() as u64);
    }
}

/// All ranks.
#[inline]
pub fn all() -> &'static [Rank] {
    RANKS.get().map_or(&[], |ranks| ranks)
}

/// The rank whose program runs on each core.
static CURRENT: PerCpu<Rank> = PerCpu::new();

/// The rank whose program runs on this core; `None`: the PCT does, or nobody.
#[inline]
pub fn current() -> Option<&'static Rank> {
    CURRENT.get()
}

/// Says that task `task` now runs on this core (see `sched` for the numbers).
pub fn set_current(task: usize) {
    CURRENT.set(all().get(task));
}

/// Called before a task enters ring 3: a signal that came while the program was loaded must not wait for its first system
/// call. An interrupt that strikes right there delivers it. A limit on processor time counts from here on.
pub fn interrupt_if_wanted() {
    let Some(rank) = current() else { return };
    if rank.attention.load(Ordering::Relaxed) {
        hal::cpu::send_ipi(hal::cpu::id(), VEC_WAKE);
    }
    if rank.counts_cpu_time.load(Ordering::Relaxed) {
        timer::go_on(rank);
    }
}

/// The rank with this number, if there is one.
pub fn get(id: u64) -> Result<&'static Rank, Errno> {
    usize::try_from(id)
        .ok()
        .and_then(|id| all().get(id))
        .ok_or(Errno::EINVAL)
}

impl Rank {
    /// Takes over what the proxy says of the rank, once; `true` when it is new.
    pub fn attach(&self) -> bool {
        let host = &self.area.host;
        if host.state.load() != proxy::ATTACHED || self.announced.swap(true, Ordering::AcqRel) {
            return false;
        }
        let mut words = [0; RankInfo::WORDS];
        words
            .iter_mut()
            .zip(&host.info)
            .for_each(|(to, from)| *to = from.peek());
        let identity = Identity {
            pid: host.pid.peek(),
            ppid: host.ppid.peek(),
            info: RankInfo::from_words(&words),
        };
        *self.limits.lock() =
            core::array::from_fn(|i| core::array::from_fn(|j| host.rlimits[i][j].peek()));
        let queue_limit = self.limits.lock()[RLIMIT_SIGPENDING][0];
        self.signals
            .lock()
            .inherit(host.ignored.peek(), host.blocked.peek(), queue_limit);
        self.identity.set(identity).is_ok()
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

    /// Carries out `change` on the address space, or asks it something.
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
        let usage = aspace.usage();
        self.area.node.used_bytes.put(usage.used);
        self.area.node.peak_bytes.put(usage.peak);
        // For yod to say, should the rank end badly.
        self.area.node.refusals.memory.put(aspace.shortages());
        result
    }

    /// Its first core, which its proxy rings.
    #[inline]
    pub fn core(&self) -> usize {
        self.cpu.load(Ordering::Relaxed)
    }

    /// The program starts now, on core `cpu`.
    pub fn starts(&self, cpu: usize, cpus: usize) {
        self.cpu.store(cpu, Ordering::Release);
        self.started_tsc.store(hal::time::tsc(), Ordering::Relaxed);
        timer::prepare_cpu_limit(self);
        self.area.node.cpus[0].put(cpu as u64);
        self.area.node.cpus[1].put(cpus as u64);
        self.area.node.threads.put(1);
        let main = &self.threads[0].node;
        main.core.put(cpu as u64);
        main.starts(0);
        self.area.node.state.store(state::RUNNING);
    }

    /// TSC ticks that the program or the kernel for it used its core.
    pub fn cpu_ticks(&self) -> u64 {
        let until = match self.waiting_since.load(Ordering::Relaxed) {
            0 => hal::time::tsc(),
            waiting_since => waiting_since,
        };
        let since = until - self.started_tsc.load(Ordering::Relaxed);
        since.saturating_sub(self.waited_ticks.load(Ordering::Relaxed))
    }

    /// Runs `wait`, counting its time as waiting.
    pub fn waiting<R>(&self, wait: impl FnOnce() -> R) -> R {
        let from = hal::time::tsc();
        self.waiting_since.store(from, Ordering::Relaxed);
        let result = wait();
        self.waiting_since.store(0, Ordering::Relaxed);
        let ticks = hal::time::tsc() - from;
        // Only the rank's own core counts here.
        let before = self.waited_ticks.load(Ordering::Relaxed);
        self.waited_ticks.store(before + ticks, Ordering::Relaxed);
        crate::stats::waited(ticks);
        if self.counts_cpu_time.load(Ordering::Relaxed) {
            timer::go_on(self);
        }
        result
    }

    /// Whether it waits: its processor time stands still.
    pub fn is_waiting(&self) -> bool {
        self.waiting_since.load(Ordering::Relaxed) != 0
    }

    /// A call of the rank ends early with `errno` ([`crate::syscall::RESTART`] or its kin): what it becomes is settled on the way
    /// back to ring 3.
    pub fn interrupted(&self, errno: Errno) -> Errno {
        self.attention.store(true, Ordering::Relaxed);
        errno
    }

    /// Remembers the end of a sleep that a signal interrupts.
    pub fn keep_sleep_end(&self, tsc: u64) {
        self.sleep_end.store(tsc, Ordering::Relaxed);
    }

    /// The end of the interrupted sleep that is now to go on.
    pub fn take_sleep_end(&self) -> Option<u64> {
        Some(self.sleep_end.swap(0, Ordering::Relaxed)).filter(|tsc| *tsc != 0)
    }

    /// Publishes how the rank ended; its proxy does the same on the host.
    pub fn exited(&self, wait_status: u64) {
        self.area.node.wait_status.put(wait_status);
        self.area.node.state.store(state::EXITED);
        hal::doorbell::ring(self.id as u16);
    }

    /// Whether the rank has been started and has not ended.
    pub fn is_running(&self) -> bool {
        self.area.node.state.peek() == state::RUNNING
    }
}
