//! The interval timers of setitimer(2), and the limit on processor time of a rank.

use abi::rlimit;
use qk_core::interval::Interval;
use qk_core::posix_timers::{Clock, Table};
use qk_core::signals::{SigInfo, Signal, code};

use super::{Alarm, CORES, arm, here, posix};
use crate::rank::{self, Rank};
use crate::{clock, preempt, signal};

const NS_PER_S: u64 = 1_000_000_000;
/// What giving back the place of a POSIX timer's signal counts at preemption points: as many may wait, and are looked through.
const RELEASE_WORK: u32 = 2000;

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
            Which::Virtual | Which::Prof => rank.cpu_ns(),
        }
    }
}

/// Interval timers and the limit on processor time of a rank.
#[derive(Default)]
pub struct Timers {
    /// By [`Which`].
    intervals: [Interval; Which::ALL.len()],
    /// Where ITIMER_REAL's deadline is kept: core and TSC. `None` while it is off, or stands still.
    real_at: Option<(usize, u64)>,
    /// The processor time at which RLIMIT_CPU's soft limit is reached.
    cpu_limit_ns: Option<u64>,
    /// Those of timer_create.
    pub(super) posix: Table,
}

impl Timers {
    /// The earliest deadline on the rank's processor time, in ns.
    pub(super) fn cpu_due_ns(&self) -> Option<u64> {
        let [_, of_cpu @ ..] = &self.intervals;
        let intervals = of_cpu.iter().filter_map(Interval::due_ns);
        let posix = self.posix.next_on(Clock::Process);
        // BOUND: the intervals, and MAX_ON_CPU timers.
        intervals.chain(self.cpu_limit_ns).chain(posix).min()
    }

    /// Says whether there is a deadline on processor time, the rank's or a thread's.
    pub(super) fn count_cpu_time(&self, rank: &Rank) {
        rank.cpu_time()
            .set_deadline(self.cpu_due_ns().is_some() || self.posix.counts_cpu_time());
    }

    /// Has a core keep the deadline of ITIMER_REAL: the one that the caller runs on.
    fn keep_real(&mut self, rank: &Rank) {
        self.forget_real(rank);
        let interval = &self.intervals[Which::Real as usize];
        if let Some(due_ns) = interval.due_ns() {
            let from_now = due_ns.saturating_sub(Which::Real.now_ns(rank));
            let tsc = clock::deadline_after(from_now);
            let alarm = Alarm::Real(rank.id() as u32);
            here().keep(alarm, tsc);
            self.real_at = Some((hal::cpu::id(), tsc));
        }
    }

    /// Has no core keep the deadline of ITIMER_REAL.
    fn forget_real(&mut self, rank: &Rank) {
        if let Some((cpu, tsc)) = self.real_at.take() {
            let alarm = Alarm::Real(rank.id() as u32);
            CORES[cpu].forget(alarm, tsc);
        }
    }

    /// Whether ITIMER_REAL has expired. A periodic one then stands still until the program takes SIGALRM, or sets it: an expiration
    /// meanwhile would send nothing, and interrupt the running thread (Linux: kernel/time/itimer.c, it_real_fn).
    fn expire_real(&mut self, rank: &Rank) -> bool {
        let interval = &mut self.intervals[Which::Real as usize];
        let now_ns = Which::Real.now_ns(rank);
        if self.real_at.is_none() {
            return false;
        }
        if interval.due_ns().is_some_and(|due_ns| due_ns > now_ns) {
            self.keep_real(rank);
            return false;
        }
        if interval.period_ns() == 0 {
            *interval = Interval::default();
        }
        self.forget_real(rank);
        true
    }

    /// What is left of a timer, and its interval. Of one that stands still nothing is left (Linux: itimer_get_remtime).
    fn left(&self, which: Which, now_ns: u64) -> (u64, u64) {
        let (left_ns, interval_ns) = self.intervals[which as usize].left(now_ns);
        match which {
            Which::Real if self.real_at.is_none() => (0, interval_ns),
            _ => (left_ns, interval_ns),
        }
    }
}

/// Sets a timer to expire `after_ns` from now (0: never) and then every `interval_ns` (0: not again).
/// Returns what was left of the old one, and its interval, in ns.
pub fn set_interval(
    rank: &'static Rank,
    which: Which,
    after_ns: u64,
    interval_ns: u64,
) -> (u64, u64) {
    let now_ns = which.now_ns(rank);
    let new = Interval::new(now_ns, after_ns, interval_ns);
    let old = {
        let mut timers = rank.timers();
        let old = timers.left(which, now_ns);
        timers.intervals[which as usize] = new;
        if which == Which::Real {
            timers.keep_real(rank);
        }
        timers.count_cpu_time(rank);
        old
    };
    interrupt_others(rank, which);
    arm();
    old
}

/// A deadline on processor time concerns every core that runs the rank.
fn interrupt_others(rank: &'static Rank, which: Which) {
    if which != Which::Real {
        rank.interrupt_others();
    }
}

/// What is left of a timer, and its interval, in ns; zero when it is off.
pub fn interval(rank: &Rank, which: Which) -> (u64, u64) {
    let now_ns = which.now_ns(rank);
    rank.timers().left(which, now_ns)
}

/// Takes RLIMIT_CPU's soft limit from the rank's limits. The timer is armed when a thread goes on ([`go_on`]).
pub fn prepare_cpu_limit(rank: &Rank) {
    let [soft_s, _] = rank.limit(rlimit::CPU);
    let limit_ns = (soft_s != u64::MAX).then(|| soft_s.saturating_mul(NS_PER_S));
    let mut timers = rank.timers();
    timers.cpu_limit_ns = limit_ns;
    timers.count_cpu_time(rank);
}

/// As [`prepare_cpu_limit`], for the rank that runs on this core.
pub fn follow_cpu_limit(rank: &'static Rank) {
    prepare_cpu_limit(rank);
    rank.interrupt_others();
    arm();
}

/// Deletes the rank's POSIX timers: its program is replaced. ITIMERs and the limit stay.
pub fn clear_posix(rank: &'static Rank) {
    let mut timers = rank.timers();
    let posix = core::mem::take(&mut timers.posix);
    timers.count_cpu_time(rank);
    drop(timers);
    posix::clear(&posix, rank);
    for (id, timer) in posix.iter() {
        preempt::point(RELEASE_WORK);
        posix::release_place(rank, timer.notify(), id);
    }
    arm();
}

/// Clears all deadlines of a rank that ends.
pub fn clear(rank: &Rank) {
    let mut timers = rank.timers();
    timers.intervals = [Interval::default(); Which::ALL.len()];
    timers.keep_real(rank);
    timers.cpu_limit_ns = None;
    let posix = core::mem::take(&mut timers.posix);
    timers.count_cpu_time(rank);
    drop(timers);
    posix::clear(&posix, rank);
    arm();
}

pub(super) fn alarm_real(rank: u32) {
    let Some(rank) = rank::all().get(rank as usize) else {
        return;
    };
    let expired = rank.timers().expire_real(rank);
    if expired {
        let signal = Which::Real.signal();
        signal::send_process(rank, SigInfo::new(signal, code::KERNEL));
        if rank.signals().process.left.now().contains(signal) {
            real_taken(rank); // when it is read, is not known here
        }
    }
}

/// The program takes any SIGALRM: if ITIMER_REAL stands still, it goes on at a multiple of its interval that is still to
/// come (Linux: posixtimer_rearm_itimer).
#[cold]
pub(super) fn real_taken(rank: &Rank) {
    {
        let mut timers = rank.timers();
        if timers.real_at.is_some() {
            return;
        }
        timers.intervals[Which::Real as usize].expire(Which::Real.now_ns(rank));
        timers.keep_real(rank);
    }
    arm();
}

/// Acts on the deadlines of processor time.
pub(super) fn expire_cpu_time(rank: &'static Rank) {
    let now_ns = rank.cpu_ns();
    let (alarms, used_up) = {
        let mut timers = rank.timers();
        let alarms = [Which::Virtual, Which::Prof].map(|which| {
            let expired = timers.intervals[which as usize].expire(now_ns);
            expired.then_some(which.signal())
        });
        (alarms, timers.cpu_limit_ns.is_some_and(|at| at <= now_ns))
    };
    let limit = used_up.then(|| raise_cpu_limit(rank));
    // BOUND: two timers and a limit.
    for signal in alarms.into_iter().flatten().chain(limit) {
        signal::send_process(rank, SigInfo::new(signal, code::KERNEL));
    }
}

/// The soft limit on processor time is reached: SIGXCPU, and again each second until the hard limit's SIGKILL
/// (Linux: kernel/time/posix-cpu-timers.c, check_process_timers).
fn raise_cpu_limit(rank: &Rank) -> Signal {
    let [_, hard_s] = rank.change_limit(rlimit::CPU, |[soft_s, _]| {
        *soft_s = soft_s.saturating_add(1);
    });
    prepare_cpu_limit(rank);
    if rank.cpu_ns() / NS_PER_S >= hard_s {
        Signal::KILL
    } else {
        Signal::XCPU
    }
}
