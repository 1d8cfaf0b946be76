//! A core's timer: one-shot, and armed only while there is a deadline.
//!
//! Deadlines are of three sorts: sleeps, ITIMER_REAL and POSIX timers, kept by the core that they were set on; the end of a slice, while
//! tasks share the core; and those on the processor time of the rank that runs there, which stand still when it waits.

mod intervals;
pub mod posix;

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use abi::Errno;
use alloc::boxed::Box;
use hal::sync::{Mutex, MutexGuard, Once, class};
use qk_core::posix_timers::Clock;
use qk_core::sched::deadlines::Deadlines;
use qk_core::signals::{SigInfo, Signal};
use wire::boot::MAX_CPUS;

use crate::one_shot::{self, NEVER};
use crate::rank::{self, Rank};
use crate::thread::{self, Thread};
use crate::{clock, sched};

pub use intervals::{
    Timers, Which, clear, clear_posix, follow_cpu_limit, interval, prepare_cpu_limit, set_interval,
};
use intervals::{alarm_real, expire_cpu_time, real_taken};

/// Deadlines that one interrupt acts on; another follows at once for the rest.
const AT_ONCE: usize = 2;

/// What a deadline of a core is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
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
        Alarm::Sleep(thread.rank().id() as u32, thread.index() as u32)
    }
}

/// The timer of a core.
struct CoreTimer {
    deadlines: Once<Box<Mutex<Deadlines<Alarm>, class::Deadlines>>>,
    /// The earliest of them (TSC), or [`NEVER`], for who arms the timer without taking the lock; changed with them locked.
    first: AtomicU64,
    /// How many tasks and POSIX timers they have room for; changed with the deadlines locked.
    tasks: AtomicUsize,
    timers: AtomicUsize,
}

/// All zeros until [`init`]: so they take no room in the kernel's file.
static CORES: [CoreTimer; MAX_CPUS] = [const {
    CoreTimer {
        deadlines: Once::new(),
        first: AtomicU64::new(0),
        tasks: AtomicUsize::new(0),
        timers: AtomicUsize::new(0),
    }
}; MAX_CPUS];

/// Makes the timers of all cores, which are off.
pub fn init(cpus: usize) {
    one_shot::init(cpus);
    // BOUND: the cores.
    for core in &CORES[..cpus] {
        core.first.store(NEVER, Ordering::Relaxed);
        let none = Box::new(Mutex::new(Deadlines::new()));
        assert!(core.deadlines.set(none).is_ok(), "timers set up twice");
    }
}

impl CoreTimer {
    fn deadlines(&self) -> MutexGuard<'_, Deadlines<Alarm>, class::Deadlines> {
        let made = self.deadlines.get();
        made.expect("made before there is a program").lock()
    }

    /// Changes the deadlines.
    fn change<R>(&self, change: impl FnOnce(&mut Deadlines<Alarm>) -> R) -> R {
        let mut deadlines = self.deadlines();
        let done = change(&mut deadlines);
        let first = deadlines.next().unwrap_or(NEVER);
        self.first.store(first, Ordering::Relaxed);
        done
    }

    /// Sets the deadline of `alarm`, which has none.
    fn keep(&self, alarm: Alarm, tsc: u64) {
        self.change(|deadlines| deadlines.set(alarm, tsc));
    }

    /// Forgets the deadline of `alarm`, if it was not taken.
    fn forget(&self, alarm: Alarm, tsc: u64) {
        self.change(|deadlines| deadlines.clear(alarm, tsc));
    }
}

fn here() -> &'static CoreTimer {
    &CORES[hal::cpu::id()]
}

/// Makes room for the deadlines of `tasks` tasks on core `cpu`: a sleep each, and that of its rank.
///
/// # Errors
/// ENOMEM.
pub fn make_room(cpu: usize, tasks: usize) -> Result<(), Errno> {
    let core = &CORES[cpu];
    let mut deadlines = core.deadlines();
    deadlines.try_reserve(2 * tasks + core.timers.load(Ordering::Relaxed))?;
    // Another core may have made room for more meanwhile.
    let tasks = tasks.max(core.tasks.load(Ordering::Relaxed));
    core.tasks.store(tasks, Ordering::Relaxed);
    Ok(())
}

/// Sets this core's timer to what is due first.
#[inline(never)] // It is in many functions, which are to stay small.
pub fn arm() {
    let core = here();
    let mut due = sched::slice_due(core.first.load(Ordering::Relaxed).max(1));
    if let Some(thread) = thread::current()
        && thread.rank().cpu_time().has_deadline()
        && let Some(used_up) = cpu_deadline(thread)
    {
        due = due.min(used_up);
    }
    one_shot::set(due);
}

/// When a deadline on the processor time of the rank could be reached at the earliest, as all its cores count; or one on the
/// thread's own.
#[cold]
fn cpu_deadline(thread: &Thread) -> Option<u64> {
    let rank = thread.rank();
    if !rank.cpu_time().has_deadline() || !thread.is_timed() {
        return None;
    }
    let (of_rank, of_thread) = {
        let timers = rank.timers();
        let own = Clock::Thread(thread.index());
        (timers.cpu_due_ns(), timers.posix.next_on(own))
    };
    let runners = rank.threads().live().clamp(1, rank.cores().len().max(1)) as u64;
    let of_rank = of_rank.map(|due_ns| due_ns.saturating_sub(rank.cpu_ns()).div_ceil(runners));
    let of_thread = of_thread.map(|due_ns| due_ns.saturating_sub(thread.cpu_ns()));
    // BOUND: two.
    of_rank
        .into_iter()
        .chain(of_thread)
        .min()
        .map(clock::deadline_after)
}

/// A thread has got this core; `shared`: the one before it will wait for it. A timer that is set to an earlier slice's end
/// stays as it is, and is set anew when it expires: threads that switch often leave the hardware alone.
pub fn enter(thread: &Thread, shared: bool) {
    let slice_end = sched::begin_slice(shared);
    let armed = one_shot::due();
    let as_it_is = match slice_end {
        0 => armed == NEVER,
        end => armed <= end,
    };
    if thread.rank().cpu_time().has_deadline() || !as_it_is {
        arm();
    }
}

/// Another core may have queued a task here, or changed what this core's timer depends on.
pub fn look() {
    if sched::is_wanted() {
        sched::share();
    }
    if thread::current().is_some_and(|thread| thread.rank().cpu_time().has_deadline()) {
        arm();
    }
}

/// Sets the end of a thread's sleep; `None` clears it.
pub fn set_sleep(thread: &Thread, deadline_tsc: Option<u64>) {
    let alarm = Alarm::of(thread);
    let mut kept = thread.alarm();
    let before = kept.take();
    if let Some((cpu, tsc)) = before {
        CORES[cpu].forget(alarm, tsc);
    }
    if let Some(tsc) = deadline_tsc {
        here().keep(alarm, tsc);
        *kept = Some((hal::cpu::id(), tsc));
    }
    drop(kept);
    // Else nothing has changed: a sleep that was over has had the timer set anew.
    if before.is_some() || deadline_tsc.is_some() {
        arm();
    }
}

/// The timer interrupt.
pub fn expired() {
    let core = here();
    one_shot::expired();
    // BOUND: AT_ONCE.
    for _ in 0..AT_ONCE {
        let now = hal::time::tsc();
        let Some((due, alarm)) = core.change(|deadlines| deadlines.pop_due(now)) else {
            break;
        };
        match alarm {
            Alarm::Sleep(rank, index) => wake_up(rank, index, due),
            Alarm::Real(rank) => alarm_real(rank),
            Alarm::Posix(rank, id) => posix::alarm(rank, id),
        }
    }
    if let Some(thread) = thread::current() {
        if sched::is_slice_over() {
            thread.pending().note_own_work();
        }
        if thread.rank().cpu_time().has_deadline() {
            expire_cpu_time(thread.rank());
            posix::expire_cpu_time(thread);
        }
    }
    arm();
}

/// The program takes a signal, or its debugger takes it away: a timer that stands still until then goes on.
#[inline]
pub fn taken(rank: &'static Rank, info: &mut SigInfo) {
    if info.timer.is_some() {
        posix::taken(rank, info);
    }
    if info.signal == Signal::ALRM {
        real_taken(rank);
    }
}

/// The sleep of a thread that was set to end at `due` is over.
fn wake_up(rank: u32, index: u32, due: u64) {
    if let Some(thread) = rank::all()
        .get(rank as usize)
        .and_then(|rank| rank.threads().get(index as usize))
    {
        // Meanwhile it may have another one, on another core.
        let mut kept = thread.alarm();
        let _ = kept.take_if(|kept| *kept == (hal::cpu::id(), due));
        drop(kept);
        sched::unpark(thread.task());
    }
}
