//! A rank's deadlines: a sleeping thread, the interval timers of setitimer(2), and the limit on processor time. One-shot: the
//! core's timer is armed only while there is one.

use core::sync::atomic::Ordering;

use qk_core::interval::Interval;
use qk_core::signals::{SigInfo, Signal, code};

use crate::rank::Rank;
use crate::syscall::limits::RLIMIT_CPU;
use crate::{clock, sched, signal};

const NS_PER_S: u64 = 1_000_000_000;

/// The clocks that interval timers run on: ITIMER_REAL, ITIMER_VIRTUAL and ITIMER_PROF (include/uapi/linux/time.h).
///
/// The two that count processor time count the same: what the kernel does for a rank is part of its time in ring 3, as
/// getrusage reports it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// Time that passes: SIGALRM.
    Real,
    /// Processor time: SIGVTALRM.
    Virtual,
    /// Processor time: SIGPROF.
    Prof,
}

impl Which {
    const ALL: [Which; 3] = [Which::Real, Which::Virtual, Which::Prof];

    /// The timer with this number.
    pub fn from_nr(nr: u64) -> Option<Which> {
        Self::ALL.get(nr as u32 as usize).copied()
    }

    const fn signal(self) -> Signal {
        match self {
            Which::Real => Signal::ALRM,
            Which::Virtual => Signal::VTALRM,
            Which::Prof => Signal::PROF,
        }
    }

    /// What its clock shows, in ns.
    fn now_ns(self, rank: &Rank) -> u64 {
        match self {
            Which::Real => clock::ticks_to_ns(hal::time::tsc()),
            Which::Virtual | Which::Prof => cpu_ns(rank),
        }
    }
}

/// Deadlines.
#[derive(Default)]
pub struct Timers {
    /// When a sleep ends, in TSC ticks.
    sleep: Option<u64>,
    /// By [`Which`].
    intervals: [Interval; Which::ALL.len()],
    /// The processor time at which RLIMIT_CPU's soft limit is reached.
    cpu_limit_ns: Option<u64>,
}

impl Timers {
    /// The earliest deadline on a clock of processor time, in ns.
    fn cpu_due_ns(&self) -> Option<u64> {
        let [_, of_cpu @ ..] = &self.intervals;
        let intervals = of_cpu.iter().filter_map(Interval::due_ns);
        intervals.chain(self.cpu_limit_ns).min()
    }
}

/// Processor time of the rank, in ns: since it started it had its core, but for when it waited.
pub fn cpu_ns(rank: &Rank) -> u64 {
    clock::ticks_to_ns(rank.cpu_ticks())
}

/// Arms or disarms this core's timer for the rank that runs here.
fn arm(rank: &Rank, timers: &Timers) {
    let cpu_due_ns = timers.cpu_due_ns();
    rank.counts_cpu_time
        .store(cpu_due_ns.is_some(), Ordering::Relaxed);
    let from_now = |due_ns: u64, now_ns: u64| deadline_after(due_ns.saturating_sub(now_ns));
    let real = timers.intervals[Which::Real as usize]
        .due_ns()
        .map(|due_ns| from_now(due_ns, Which::Real.now_ns(rank)));
    // Processor time stands still while the rank waits.
    let cpu = cpu_due_ns
        .filter(|_| !rank.is_waiting())
        .map(|due_ns| from_now(due_ns, cpu_ns(rank)));
    match [timers.sleep, real, cpu].into_iter().flatten().min() {
        Some(deadline) => hal::apic::timer_set(deadline),
        None => hal::apic::timer_off(),
    }
}

/// The rank goes on after it waited, and with it its processor time.
pub fn go_on(rank: &Rank) {
    arm(rank, &rank.timers.lock());
}

/// Sets or clears the end of a sleep.
pub fn set_sleep(rank: &Rank, deadline_tsc: Option<u64>) {
    let mut timers = rank.timers.lock();
    timers.sleep = deadline_tsc;
    arm(rank, &timers);
}

/// Sets a timer to expire `after_ns` from now (0: never) and then every `interval_ns` (0: not again).
/// Returns what was left of the old one, and its interval, in ns.
pub fn set_interval(rank: &Rank, which: Which, after_ns: u64, interval_ns: u64) -> (u64, u64) {
    let mut timers = rank.timers.lock();
    let now_ns = which.now_ns(rank);
    let new = Interval::new(now_ns, after_ns, interval_ns);
    let old = core::mem::replace(&mut timers.intervals[which as usize], new);
    arm(rank, &timers);
    old.left(now_ns)
}

/// What is left of a timer, and its interval, in ns; zero when it is off.
pub fn interval(rank: &Rank, which: Which) -> (u64, u64) {
    rank.timers.lock().intervals[which as usize].left(which.now_ns(rank))
}

/// Takes RLIMIT_CPU's soft limit from the rank's limits. The timer is armed when the rank goes on ([`go_on`]).
pub fn prepare_cpu_limit(rank: &Rank) {
    let [soft_s, _] = rank.limits.lock()[RLIMIT_CPU];
    let limit_ns = (soft_s != u64::MAX).then(|| soft_s.saturating_mul(NS_PER_S));
    rank.timers.lock().cpu_limit_ns = limit_ns;
    rank.counts_cpu_time
        .fetch_or(limit_ns.is_some(), Ordering::Relaxed);
}

/// As [`prepare_cpu_limit`], for the rank that runs on this core.
pub fn follow_cpu_limit(rank: &Rank) {
    prepare_cpu_limit(rank);
    go_on(rank);
}

/// Clears all deadlines of a rank that ends.
pub fn clear(rank: &Rank) {
    let mut timers = rank.timers.lock();
    *timers = Timers::default();
    arm(rank, &timers);
}

/// The TSC value `ns` from now, or just after it; of what is very far, one that is never reached.
pub fn deadline_after(ns: u64) -> u64 {
    hal::time::tsc()
        .saturating_add(clock::ticks(ns.min(clock::FAR_NS)))
        .saturating_add(1)
}

/// The timer interrupt on the core of `rank`.
pub fn expired(rank: &'static Rank) {
    let mut timers = rank.timers.lock();
    if timers.sleep.is_some_and(|at| at <= hal::time::tsc()) {
        timers.sleep = None;
        sched::unpark(rank.id);
    }
    let alarms = Which::ALL.map(|which| {
        let expired = timers.intervals[which as usize].expire(which.now_ns(rank));
        expired.then_some(which.signal())
    });
    let used_up = timers.cpu_limit_ns.is_some_and(|at| at <= cpu_ns(rank));
    arm(rank, &timers);
    drop(timers);
    let limit = used_up.then(|| raise_cpu_limit(rank));
    for signal in alarms.into_iter().flatten().chain(limit) {
        signal::send_process(rank, SigInfo::new(signal, code::KERNEL));
    }
}

/// The soft limit on processor time is reached: SIGXCPU, and again each second until the hard limit's SIGKILL
/// (Linux: kernel/time/posix-cpu-timers.c, check_process_timers).
fn raise_cpu_limit(rank: &Rank) -> Signal {
    let hard_s = {
        let mut limits = rank.limits.lock();
        let [soft_s, hard_s] = &mut limits[RLIMIT_CPU];
        *soft_s = soft_s.saturating_add(1);
        *hard_s
    };
    follow_cpu_limit(rank);
    if cpu_ns(rank) / NS_PER_S >= hard_s {
        Signal::KILL
    } else {
        Signal::XCPU
    }
}
