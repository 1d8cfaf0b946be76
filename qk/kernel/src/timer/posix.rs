//! POSIX timers: what the cores' deadlines and the rank's signals have to do with them. The rules are
//! `qk_core::posix_timers`'.
//!
//! A timer's signal is sent with the rank's timers locked, so that one that is deleted, or whose thread has ended, sends
//! none; threads are notified of it without.

use core::sync::atomic::Ordering;

use abi::Errno;
use qk_core::posix_timers::{Clock, Event, Notify, Setting, Table, Timer};
use qk_core::sched::CoreSet;
use qk_core::signals::{Sent, SigInfo, SigSet, Signal};

use super::{AT_ONCE, Alarm, CORES, Timers, arm, here};
use crate::rank::{self, Rank};
use crate::thread::Thread;
use crate::{clock, preempt, signal};

/// Signals that a stopped process does not stay stopped after.
const CONTINUING: SigSet = SigSet::of(Signal::CONT).union(SigSet::of(Signal::KILL));
/// What forgetting a timer counts at preemption points, in instructions at most.
const FORGET_WORK: u32 = 2000;
/// What letting one go on counts, and looking whether it is for a thread that ends.
const KEEP_WORK: u32 = 1000;
const LOOK_WORK: u32 = 100;

/// What a clock shows, in ns.
fn now_ns(rank: &Rank, clock: Clock) -> u64 {
    let (monotonic_ns, real_ns) = clock::now_ns();
    match clock {
        Clock::Monotonic => monotonic_ns,
        Clock::Real => real_ns,
        Clock::Process => rank.cpu_ns(),
        Clock::Thread(index) => rank.threads().get(index).map_or(0, Thread::cpu_ns),
        Clock::Ended => 0,
    }
}

/// Has the core that the caller runs on keep the timer's deadline, and no other.
fn keep(rank: &Rank, id: u32, timer: &mut Timer) {
    forget(rank, id, timer);
    if let Some((clock, due_ns)) = timer.due().filter(|(clock, _)| !clock.is_cpu()) {
        let tsc = clock::deadline_after(due_ns.saturating_sub(now_ns(rank, clock)));
        let alarm = Alarm::Posix(rank.id() as u32, id);
        here().keep(alarm, tsc);
        timer.kept_at = Some((hal::cpu::id(), tsc));
    }
}

/// Has no core keep the timer's deadline.
fn forget(rank: &Rank, id: u32, timer: &mut Timer) {
    if let Some((cpu, tsc)) = timer.kept_at.take() {
        let alarm = Alarm::Posix(rank.id() as u32, id);
        CORES[cpu].forget(alarm, tsc);
    }
}

/// Makes room for the deadline of one more timer on each of these cores.
///
/// # Errors
/// EAGAIN; nothing has changed then.
fn make_room(cores: CoreSet) -> Result<(), Errno> {
    // BOUND: the cores.
    for (done, cpu) in cores.iter().enumerate() {
        let core = &CORES[cpu];
        let mut deadlines = core.deadlines();
        let timers = core.timers.load(Ordering::Relaxed) + 1;
        let keys = 2 * core.tasks.load(Ordering::Relaxed) + timers;
        if deadlines.try_reserve(keys).is_err() {
            drop(deadlines);
            // BOUND: the cores.
            for cpu in cores.iter().take(done) {
                let _deadlines = CORES[cpu].deadlines();
                CORES[cpu].timers.fetch_sub(1, Ordering::Relaxed);
            }
            return Err(Errno::EAGAIN);
        }
        core.timers.store(timers, Ordering::Relaxed);
    }
    Ok(())
}

/// The thread that a timer's signal is for; `None`: the process.
fn target(rank: &'static Rank, notify: Notify) -> Option<&'static Thread> {
    match notify {
        Notify::Thread(index) => rank.threads().get(index),
        Notify::Process | Notify::None => None,
    }
}

/// Makes a timer and returns its id.
///
/// # Errors
/// EAGAIN: there are as many as may be, RLIMIT_SIGPENDING is reached, or there is no memory. EINVAL: its thread has ended.
pub fn create(rank: &'static Rank, event: Event) -> Result<u32, Errno> {
    signal::forget_if_full(rank);
    let mut timers = rank.timers();
    let thread = target(rank, event.notify);
    if thread.is_some_and(|thread| !thread.is_live()) {
        return Err(Errno::EINVAL);
    }
    let (id, is_first) = timers.posix.next_id(event.clock)?;
    if event.notify != Notify::None {
        signal::reserve_timer(rank, thread)?;
    }
    if is_first && let Err(errno) = make_room(rank.cores()) {
        release_place(rank, event.notify, id);
        return Err(errno);
    }
    timers.posix.create(id, event);
    Ok(id)
}

/// Deletes a timer. Its signal, if it waits, is still delivered (Linux 6.1: sigqueue_free).
///
/// # Errors
/// EINVAL: there is none with this id.
pub fn delete(rank: &'static Rank, id: u32) -> Result<(), Errno> {
    {
        let mut timers = rank.timers();
        let mut timer = timers.posix.delete(id)?;
        forget(rank, id, &mut timer);
        release_place(rank, timer.notify(), id);
        timers.count_cpu_time(rank);
    }
    arm();
    Ok(())
}

pub(super) fn release_place(rank: &'static Rank, notify: Notify, id: u32) {
    if notify != Notify::None {
        signal::release_timer(rank, target(rank, notify), id);
    }
}

/// Sets a timer. Returns what was left of the old setting, and its period, in ns.
///
/// # Errors
/// EINVAL: there is none with this id; ESRCH: the thread whose processor time it counts has ended.
pub fn set(rank: &'static Rank, id: u32, setting: Setting) -> Result<(u64, u64), Errno> {
    let (old, on_cpu_time) = {
        let mut timers = rank.timers();
        let old = timers.posix.set(id, setting, |clock| now_ns(rank, clock))?;
        let on_cpu_time = goes_on(rank, id, timers.posix.get_mut(id)?);
        timers.count_cpu_time(rank);
        (old, on_cpu_time)
    };
    follow(rank, on_cpu_time);
    Ok(old)
}

/// What is left of a timer, and its period, in ns.
///
/// # Errors
/// EINVAL: there is none with this id.
pub fn left(rank: &Rank, id: u32) -> Result<(u64, u64), Errno> {
    let timers = rank.timers();
    timers.posix.left(id, |clock| now_ns(rank, clock))
}

/// How many expirations the last signal of a timer that was taken stood for, besides its own.
///
/// # Errors
/// EINVAL: there is none with this id.
pub fn overrun(rank: &Rank, id: u32) -> Result<u32, Errno> {
    rank.timers().posix.overrun(id)
}

/// A deadline has changed: one on processor time concerns every core that runs the rank.
fn follow(rank: &'static Rank, on_cpu_time: bool) {
    if on_cpu_time {
        rank.interrupt_others();
    }
    arm();
}

/// Has the timer's deadline kept; `true`: it is one on processor time, which all cores of the rank look at.
fn goes_on(rank: &Rank, id: u32, timer: &mut Timer) -> bool {
    keep(rank, id, timer);
    timer.due().is_some_and(|(clock, _)| clock.is_cpu())
}

/// The program takes a signal: if a timer sent it, it gets the number of expirations it missed, and the timer goes on.
pub fn taken(rank: &'static Rank, info: &mut SigInfo) {
    let Some(expiration) = info.timer else { return };
    let on_cpu_time = {
        let mut timers = rank.timers();
        let stood = timers.posix.taken(info, |clock| now_ns(rank, clock));
        let timer = timers.posix.get_mut(expiration.id);
        let Some(timer) = timer.ok().filter(|_| stood) else {
            return;
        };
        let on_cpu_time = goes_on(rank, expiration.id, timer);
        timers.count_cpu_time(rank);
        on_cpu_time
    };
    follow(rank, on_cpu_time);
}

/// Whether the rank has ever made a timer.
pub fn has_any(rank: &Rank) -> bool {
    rank.timers().posix.ids() > 0
}

/// Timers whose signals were among [`Rank::forgotten`] go on. One that sent its signal since goes on, too: that signal then counts
/// what comes before it is taken.
pub fn forgotten(rank: &'static Rank) {
    let set = rank.claims().take_forgotten();
    if set.is_empty() {
        return;
    }
    let (mut any, mut on_cpu_time) = (false, false);
    let ids = rank.timers().posix.ids();
    for id in 0..ids {
        preempt::point(KEEP_WORK);
        let mut timers = rank.timers();
        let goes = timers.posix.forgotten(id, set, |clock| now_ns(rank, clock));
        if let Ok(timer) = timers.posix.get_mut(id)
            && goes
        {
            any = true;
            on_cpu_time |= goes_on(rank, id, timer);
        }
    }
    if any {
        rank.timers().count_cpu_time(rank);
        follow(rank, on_cpu_time);
    }
}

/// The thread has ended: timers that were for it send nothing.
pub fn thread_ends(thread: &Thread) {
    let rank = thread.rank();
    let mut any = false;
    let ids = rank.timers().posix.ids();
    for id in 0..ids {
        preempt::point(LOOK_WORK);
        let mut timers = rank.timers();
        let changes = timers.posix.thread_ends(id, thread.index());
        if let Ok(timer) = timers.posix.get_mut(id)
            && changes
        {
            any = true;
            keep(rank, id, timer);
        }
    }
    if any {
        rank.timers().count_cpu_time(rank);
    }
}

/// No core keeps the deadlines of these timers any more, which were the rank's.
pub fn clear(posix: &Table, rank: &Rank) {
    for (id, timer) in posix.iter() {
        preempt::point(FORGET_WORK);
        forget(rank, id, &mut timer.clone());
    }
}

/// The deadline of a timer has come.
pub fn alarm(rank: u32, id: u32) {
    if let Some(rank) = rank::all().get(rank as usize) {
        expire(rank, id);
    }
}

/// Acts on deadlines on the processor time of the rank and of the thread, which runs here.
pub fn expire_cpu_time(thread: &Thread) {
    let rank = thread.rank();
    let due = || {
        let timers = rank.timers();
        let is_due = |clock| timers.posix.is_due_on(clock, now_ns(rank, clock));
        is_due(Clock::Process).or_else(|| is_due(Clock::Thread(thread.index())))
    };
    // BOUND: AT_ONCE.
    for _ in 0..AT_ONCE {
        let Some(id) = due() else { break };
        expire(rank, id);
    }
}

/// Sends the signal of a timer that is due.
fn expire(rank: &'static Rank, id: u32) {
    let sent = {
        let mut timers = rank.timers();
        let sent = send(&mut timers, rank, id);
        if let Ok(timer) = timers.posix.get_mut(id) {
            keep(rank, id, timer);
        }
        timers.count_cpu_time(rank);
        sent
    };
    if let Some((to, info, sent)) = sent {
        signal::announce(rank, to, info.signal, sent);
    }
}

/// How long a stop of the rank that has just been decided can last, in ns, for the timers that it has: u64::MAX: for ever; 0: it
/// is over.
pub fn stop_limit_ns(rank: &Rank) -> u64 {
    let timers = rank.timers();
    // What expires is sent with the timers locked: it is found here, or there.
    if rank.signals().process.is_continued() {
        return 0;
    }
    let after_ns = timers
        .posix
        .sends_after(CONTINUING, |clock| now_ns(rank, clock));
    after_ns.map_or(u64::MAX, |ns| ns.max(1))
}

type Announced = (Option<&'static Thread>, SigInfo, Sent);

fn send(timers: &mut Timers, rank: &'static Rank, id: u32) -> Option<Announced> {
    let now = |clock| now_ns(rank, clock);
    let to = target(rank, timers.posix.get(id).ok()?.notify());
    let info = timers.posix.expire(id, now)?;
    let sent = signal::add(rank, to, info).ok();
    if CONTINUING.contains(info.signal) {
        signal::note_continued(rank);
    }
    if !sent.is_some_and(|sent| sent.pending) {
        timers.posix.dropped(&info, now);
    }
    sent.map(|sent| (to, info, sent))
}
