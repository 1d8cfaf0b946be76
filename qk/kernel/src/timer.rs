//! A core's timer: one-shot, and armed only while there is a deadline.
//!
//! Deadlines are of three sorts: sleeps, ITIMER_REAL and POSIX timers, kept by the core that they were set on; the end of a slice, while
//! tasks share the core; and those on the processor time of the rank that runs there, which stand still when it waits.

pub mod posix;

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use abi::Errno;
use hal::sync::Mutex;
use qk_core::interval::Interval;
use qk_core::posix_timers::{Clock, Table};
use qk_core::sched::deadlines::Deadlines;
use qk_core::signals::{SigInfo, Signal, code};
use wire::boot::MAX_CPUS;

use crate::rank::{self, Rank};
use crate::syscall::limits::RLIMIT_CPU;
use crate::thread::{self, Thread};
use crate::{clock, sched, signal};

const NS_PER_S: u64 = 1_000_000_000;
/// How long a task runs when others want its core.
const SLICE_NS: u64 = 4_000_000;
/// Deadlines that one interrupt acts on; another follows at once for the rest.
const AT_ONCE: usize = 16;
/// The TSC value of a timer that is off.
const NEVER: u64 = u64::MAX;

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

/// What a deadline of a core is about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Alarm {
    /// The sleep of a thread: its rank's number and its own.
    Sleep(u32, u32),
    /// ITIMER_REAL of a rank.
    Real(u32),
    /// A POSIX timer of a rank: the rank's number and its id.
    Posix(u32, u32),
}

impl Alarm {
    fn of(thread: &Thread) -> Alarm {
        Alarm::Sleep(thread.rank.id as u32, thread.index as u32)
    }
}

/// The timer of a core.
struct CoreTimer {
    deadlines: Mutex<Deadlines<Alarm>>,
    /// How many tasks and POSIX timers they have room for; changed by who has locked them.
    tasks: AtomicUsize,
    timers: AtomicUsize,
    /// When the running task's slice ends (TSC); 0: it has the core to itself.
    slice_end: AtomicU64,
    /// What the hardware is set to (TSC), or [`NEVER`].
    armed: AtomicU64,
}

static CORES: [CoreTimer; MAX_CPUS] = [const {
    CoreTimer {
        deadlines: Mutex::new(Deadlines::new()),
        tasks: AtomicUsize::new(0),
        timers: AtomicUsize::new(0),
        slice_end: AtomicU64::new(0),
        armed: AtomicU64::new(NEVER),
    }
}; MAX_CPUS];

fn here() -> &'static CoreTimer {
    &CORES[hal::cpu::id()]
}

/// Makes room for the deadlines of `tasks` tasks on core `cpu`: a sleep each, and that of its rank.
///
/// # Errors
/// ENOMEM.
pub fn make_room(cpu: usize, tasks: usize) -> Result<(), Errno> {
    let core = &CORES[cpu];
    let mut deadlines = core.deadlines.lock();
    deadlines.try_reserve(2 * tasks + core.timers.load(Ordering::Relaxed))?;
    core.tasks.store(tasks, Ordering::Relaxed);
    Ok(())
}

/// Interval timers and the limit on processor time of a rank.
#[derive(Default)]
pub struct Timers {
    /// By [`Which`].
    intervals: [Interval; Which::ALL.len()],
    /// Where ITIMER_REAL's deadline is kept: core and TSC.
    real_at: Option<(usize, u64)>,
    /// The processor time at which RLIMIT_CPU's soft limit is reached.
    cpu_limit_ns: Option<u64>,
    /// Those of timer_create.
    posix: Table,
}

impl Timers {
    /// The earliest deadline on the rank's processor time, in ns.
    fn cpu_due_ns(&self) -> Option<u64> {
        let [_, of_cpu @ ..] = &self.intervals;
        let intervals = of_cpu.iter().filter_map(Interval::due_ns);
        let posix = self.posix.next_on(Clock::Process);
        intervals.chain(self.cpu_limit_ns).chain(posix).min()
    }

    /// Says whether there is a deadline on processor time, the rank's or a thread's.
    fn count_cpu_time(&self, rank: &Rank) {
        rank.count_cpu_time(self.cpu_due_ns().is_some() || self.posix.counts_cpu_time());
    }

    /// Has a core keep the deadline of ITIMER_REAL: the one that the caller runs on.
    fn keep_real(&mut self, rank: &Rank) {
        let alarm = Alarm::Real(rank.id as u32);
        if let Some((cpu, tsc)) = self.real_at.take() {
            CORES[cpu].deadlines.lock().clear(alarm, tsc);
        }
        let interval = &self.intervals[Which::Real as usize];
        if let Some(due_ns) = interval.due_ns() {
            let from_now = due_ns.saturating_sub(Which::Real.now_ns(rank));
            let tsc = deadline_after(from_now);
            here().deadlines.lock().set(alarm, tsc);
            self.real_at = Some((hal::cpu::id(), tsc));
        }
    }
}

/// Sets this core's timer to what is due first.
fn arm() {
    let core = here();
    let kept = core.deadlines.lock().next();
    let mut due = kept.map_or(NEVER, |due| due.max(1));
    let slice_end = core.slice_end.load(Ordering::Relaxed);
    // Of a slice that is over the running thread knows.
    if slice_end != 0 && slice_end < due && slice_end > hal::time::tsc() {
        due = slice_end;
    }
    if let Some(thread) = thread::current()
        && thread.rank.counts_cpu_time()
        && let Some(used_up) = cpu_deadline(thread)
    {
        due = due.min(used_up);
    }
    set(core, due);
}

/// Sets this core's timer to `due`.
fn set(core: &CoreTimer, due: u64) {
    if core.armed.swap(due, Ordering::Relaxed) == due {
        return;
    }
    match due {
        NEVER => hal::apic::timer_off(),
        due => hal::apic::timer_set(due),
    }
}

/// When a deadline on the processor time of the rank could be reached at the earliest, as all its cores count; or one on the
/// thread's own.
#[cold]
fn cpu_deadline(thread: &Thread) -> Option<u64> {
    let rank = thread.rank;
    if !rank.counts_cpu_time() || !thread.clock.runs() {
        return None;
    }
    let (of_rank, of_thread) = {
        let timers = rank.timers.lock();
        let own = Clock::Thread(thread.index);
        (timers.cpu_due_ns(), timers.posix.next_on(own))
    };
    let runners = rank.threads.live().clamp(1, rank.cores().len().max(1)) as u64;
    let of_rank = of_rank.map(|due_ns| due_ns.saturating_sub(rank.cpu_ns()).div_ceil(runners));
    let of_thread = of_thread.map(|due_ns| due_ns.saturating_sub(thread.cpu_ns()));
    of_rank
        .into_iter()
        .chain(of_thread)
        .min()
        .map(deadline_after)
}

/// The thread that runs here goes on after it waited, and with it its rank's processor time.
pub fn go_on(_: &Thread) {
    arm();
}

/// A thread has got this core; `shared`: whoever had it before will wait for it. A timer that is set to an earlier slice's end
/// stays as it is, and is set anew when it expires: threads that switch often leave the hardware alone.
pub fn enter(thread: &Thread, shared: bool) {
    let core = here();
    let slice_end = if shared || sched::is_wanted() {
        slice()
    } else {
        0
    };
    core.slice_end.store(slice_end, Ordering::Relaxed);
    let armed = core.armed.load(Ordering::Relaxed);
    let as_it_is = match slice_end {
        0 => armed == NEVER,
        end => armed <= end,
    };
    if thread.rank.counts_cpu_time() || !as_it_is {
        arm();
    }
}

/// Nobody shares this core any more: it runs nothing, or what lets others go first by itself.
#[inline]
pub fn alone() {
    let slice_end = &here().slice_end;
    if slice_end.load(Ordering::Relaxed) != 0 {
        slice_end.store(0, Ordering::Relaxed);
        arm();
    }
}

fn slice() -> u64 {
    deadline_after(SLICE_NS)
}

/// Another core may have queued a task here, or changed what this core's timer depends on.
pub fn look() {
    if sched::is_wanted() {
        share();
    }
    if thread::current().is_some_and(|thread| thread.rank.counts_cpu_time()) {
        arm();
    }
}

/// Others wait for this core: what runs there has a slice from now on.
pub fn share() {
    let core = here();
    if core.slice_end.load(Ordering::Relaxed) == 0 && thread::current().is_some() {
        let end = slice();
        core.slice_end.store(end, Ordering::Relaxed);
        if end < core.armed.load(Ordering::Relaxed) {
            set(core, end);
        }
    }
}

/// What runs here lets others go first before it returns to ring 3.
pub fn end_slice() {
    if let Some(thread) = thread::current() {
        here().slice_end.store(1, Ordering::Relaxed);
        thread.attention.store(true, Ordering::Relaxed);
    }
}

/// Whether what runs on core `cpu` has a slice only.
pub fn is_shared(cpu: usize) -> bool {
    CORES[cpu].slice_end.load(Ordering::Relaxed) != 0
}

/// Whether the slice of what runs here is over.
#[inline]
pub fn is_slice_over() -> bool {
    match here().slice_end.load(Ordering::Relaxed) {
        0 => false,
        end => hal::time::tsc() >= end,
    }
}

/// Sets the end of a thread's sleep; `None` clears it.
pub fn set_sleep(thread: &Thread, deadline_tsc: Option<u64>) {
    let alarm = Alarm::of(thread);
    let mut kept = thread.alarm.lock();
    if let Some((cpu, tsc)) = kept.take() {
        CORES[cpu].deadlines.lock().clear(alarm, tsc);
    }
    if let Some(tsc) = deadline_tsc {
        here().deadlines.lock().set(alarm, tsc);
        *kept = Some((hal::cpu::id(), tsc));
    }
    drop(kept);
    arm();
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
        let mut timers = rank.timers.lock();
        let old = core::mem::replace(&mut timers.intervals[which as usize], new);
        if which == Which::Real {
            timers.keep_real(rank);
        }
        timers.count_cpu_time(rank);
        old
    };
    tell_others(rank, which);
    arm();
    old.left(now_ns)
}

/// A deadline on processor time concerns every core that runs the rank.
fn tell_others(rank: &'static Rank, which: Which) {
    if which != Which::Real {
        rank.interrupt_others();
    }
}

/// What is left of a timer, and its interval, in ns; zero when it is off.
pub fn interval(rank: &Rank, which: Which) -> (u64, u64) {
    let now_ns = which.now_ns(rank);
    rank.timers.lock().intervals[which as usize].left(now_ns)
}

/// Takes RLIMIT_CPU's soft limit from the rank's limits. The timer is armed when a thread goes on ([`go_on`]).
pub fn prepare_cpu_limit(rank: &Rank) {
    let [soft_s, _] = rank.limits.lock()[RLIMIT_CPU];
    let limit_ns = (soft_s != u64::MAX).then(|| soft_s.saturating_mul(NS_PER_S));
    let mut timers = rank.timers.lock();
    timers.cpu_limit_ns = limit_ns;
    timers.count_cpu_time(rank);
}

/// As [`prepare_cpu_limit`], for the rank that runs on this core.
pub fn follow_cpu_limit(rank: &'static Rank) {
    prepare_cpu_limit(rank);
    rank.interrupt_others();
    arm();
}

/// Clears all deadlines of a rank that ends.
pub fn clear(rank: &Rank) {
    let mut timers = rank.timers.lock();
    timers.intervals = [Interval::default(); Which::ALL.len()];
    timers.keep_real(rank);
    timers.cpu_limit_ns = None;
    posix::clear(&mut timers, rank);
    timers.count_cpu_time(rank);
    drop(timers);
    arm();
}

/// The TSC value `ns` from now, or just after it; of what is very far, one that is never reached.
pub fn deadline_after(ns: u64) -> u64 {
    hal::time::tsc()
        .saturating_add(clock::ticks(ns.min(clock::FAR_NS)))
        .saturating_add(1)
}

/// The timer interrupt.
pub fn expired() {
    let core = here();
    core.armed.store(NEVER, Ordering::Relaxed);
    for _ in 0..AT_ONCE {
        let now = hal::time::tsc();
        let Some(alarm) = core.deadlines.lock().pop_due(now) else {
            break;
        };
        match alarm {
            Alarm::Sleep(rank, index) => wake_up(rank, index),
            Alarm::Real(rank) => alarm_real(rank),
            Alarm::Posix(rank, id) => posix::alarm(rank, id),
        }
    }
    if let Some(thread) = thread::current() {
        if is_slice_over() {
            thread.attention.store(true, Ordering::Relaxed);
        }
        if thread.rank.counts_cpu_time() {
            expire_cpu_time(thread.rank);
            posix::expire_cpu_time(thread);
        }
    }
    arm();
}

fn wake_up(rank: u32, index: u32) {
    if let Some(thread) = rank::all()
        .get(rank as usize)
        .and_then(|rank| rank.threads.get(index as usize))
    {
        *thread.alarm.lock() = None;
        sched::unpark(&thread.task);
    }
}

fn alarm_real(rank: u32) {
    let Some(rank) = rank::all().get(rank as usize) else {
        return;
    };
    let expired = {
        let mut timers = rank.timers.lock();
        timers.real_at = None;
        let now_ns = Which::Real.now_ns(rank);
        let expired = timers.intervals[Which::Real as usize].expire(now_ns);
        timers.keep_real(rank);
        expired
    };
    if expired {
        signal::send_process(rank, SigInfo::new(Which::Real.signal(), code::KERNEL));
    }
}

/// Acts on the deadlines of processor time.
fn expire_cpu_time(rank: &'static Rank) {
    let now_ns = rank.cpu_ns();
    let (alarms, used_up) = {
        let mut timers = rank.timers.lock();
        let alarms = [Which::Virtual, Which::Prof].map(|which| {
            let expired = timers.intervals[which as usize].expire(now_ns);
            expired.then_some(which.signal())
        });
        (alarms, timers.cpu_limit_ns.is_some_and(|at| at <= now_ns))
    };
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
    prepare_cpu_limit(rank);
    if rank.cpu_ns() / NS_PER_S >= hard_s {
        Signal::KILL
    } else {
        Signal::XCPU
    }
}
