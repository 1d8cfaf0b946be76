//! POSIX timers of a process (timer_create(2)).
//!
//! As on Linux (kernel/time/posix-timers.c) a timer that expires again and again stands still from the signal that it sends
//! until the program takes that signal: what expired meanwhile is counted then, as its overrun, from the time that has
//! passed. So a program that blocks the signal costs nothing, however short the period is.
//!
//! When a timer expires is in ns of the clock that it counts on, which callers read.

mod event;
#[cfg(test)]
mod tests;

pub use event::{Clock, Event, Notify, Setting};

use abi::Errno;
use alloc::vec::Vec;
use arrayvec::ArrayVec;

use crate::interval::Interval;
use crate::signals::{Expiration, SigInfo, SigSet};

/// Timers that a process may have at once: each core looks through those that it keeps the deadlines of.
pub const MAX_TIMERS: usize = 256;
/// Timers on processor time among them: each core that runs the process looks through all of these.
pub const MAX_ON_CPU: usize = 32;

/// The least time between expirations of a timer whose signal is ignored, in ns: there is no program that slows it down.
pub const IGNORED_NS: u64 = 1_000_000;

/// A timer.
#[derive(Clone, Copy, Debug)]
pub struct Timer {
    event: Event,
    /// What `interval` counts on.
    clock: Clock,
    interval: Interval,
    /// It stands still: the expiration whose signal has been sent and not been taken.
    waits: Option<u64>,
    /// Expirations without a signal, since the last one.
    missed: u64,
    /// timer_getoverrun.
    overrun: u32,
    /// Where its deadline is kept, for the caller: a core and a time there.
    pub kept_at: Option<(usize, u64)>,
}

impl Timer {
    fn new(event: Event) -> Self {
        Self {
            event,
            clock: event.clock,
            interval: Interval::default(),
            waits: None,
            missed: 0,
            overrun: 0,
            kept_at: None,
        }
    }

    /// The target of its signal.
    #[must_use]
    pub fn notify(&self) -> Notify {
        self.event.notify
    }

    /// The deadline to be kept, and its clock: none while it is off, stands still, or sends no signal.
    #[must_use]
    pub fn due(&self) -> Option<(Clock, u64)> {
        let runs =
            self.waits.is_none() && self.event.notify != Notify::None && self.clock != Clock::Ended;
        let due_ns = self.interval.due_ns().filter(|_| runs)?;
        Some((self.clock, due_ns))
    }

    /// What is left until it expires next, and its period; zeros when it is off. Expirations that were not
    /// notified yet are over.
    fn left(&self, now: impl Fn(Clock) -> u64) -> (u64, u64) {
        if self.clock == Clock::Ended {
            return (0, 0);
        }
        let now_ns = now(self.clock);
        let mut interval = self.interval;
        if self.waits.is_some() || self.event.notify == Notify::None {
            interval.expire(now_ns);
        }
        interval.due_ns().map_or((0, 0), |due_ns| {
            // Zero says that it is off.
            (due_ns.saturating_sub(now_ns).max(1), interval.period_ns())
        })
    }

    /// Its signal is dropped or forgotten: it goes on, though not at once.
    fn skip(&mut self, now_ns: u64) {
        self.pass(now_ns);
        let soon_ns = now_ns.saturating_add(IGNORED_NS);
        if self
            .interval
            .due_ns()
            .is_some_and(|due_ns| due_ns < soon_ns)
        {
            self.pass(soon_ns);
        }
    }

    /// Expirations up to now are over.
    fn pass(&mut self, now_ns: u64) {
        let passed = self.interval.expirations(now_ns);
        self.missed = self.missed.saturating_add(passed);
        self.waits = None;
    }
}

/// The timers of a process, by id.
#[derive(Default)]
pub struct Table {
    slots: Vec<Option<Timer>>,
    /// Those on a clock of processor time that has not ended.
    on_cpu: ArrayVec<u32, MAX_ON_CPU>,
    /// Expirations so far.
    turns: u64,
}

impl Table {
    /// No timers.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            slots: Vec::new(),
            on_cpu: ArrayVec::new_const(),
            turns: 0,
        }
    }

    /// The id of the next timer, which is on `clock`, and whether no timer has had it: callers make room for its deadline then.
    ///
    /// # Errors
    /// EAGAIN: there are as many as may be, or there is no memory.
    pub fn next_id(&mut self, clock: Clock) -> Result<(u32, bool), Errno> {
        if clock.is_cpu() && self.on_cpu.is_full() {
            return Err(Errno::EAGAIN);
        }
        // BOUND: MAX_TIMERS, three instructions each.
        if let Some(id) = self.slots.iter().position(Option::is_none) {
            return Ok((id as u32, false));
        }
        if self.slots.len() == MAX_TIMERS {
            return Err(Errno::EAGAIN);
        }
        self.slots.try_reserve(1).map_err(|_| Errno::EAGAIN)?;
        Ok((self.slots.len() as u32, true))
    }

    /// Adds a timer, which is off, under the id from [`Self::next_id`].
    ///
    /// # Panics
    /// When the id is another.
    pub fn create(&mut self, id: u32, mut event: Event) {
        event.value.get_or_insert(u64::from(id));
        if event.clock.is_cpu() {
            self.on_cpu.push(id);
        }
        if id as usize == self.slots.len() {
            self.slots.push(None);
        }
        let before = self.slots[id as usize].replace(Timer::new(event));
        assert!(before.is_none(), "a timer's id is its own");
    }

    /// Takes a timer out.
    ///
    /// # Errors
    /// EINVAL: there is none with this id.
    pub fn delete(&mut self, id: u32) -> Result<Timer, Errno> {
        // BOUND: MAX_ON_CPU.
        self.on_cpu.retain(|on_cpu| *on_cpu != id);
        let slot = self.slots.get_mut(id as usize);
        slot.and_then(Option::take).ok_or(Errno::EINVAL)
    }

    /// The timer.
    ///
    /// # Errors
    /// EINVAL: there is none with this id.
    pub fn get(&self, id: u32) -> Result<&Timer, Errno> {
        let slot = self.slots.get(id as usize);
        slot.and_then(Option::as_ref).ok_or(Errno::EINVAL)
    }

    /// As [`Self::get`], to be changed.
    ///
    /// # Errors
    /// EINVAL: there is none with this id.
    pub fn get_mut(&mut self, id: u32) -> Result<&mut Timer, Errno> {
        let slot = self.slots.get_mut(id as usize);
        slot.and_then(Option::as_mut).ok_or(Errno::EINVAL)
    }

    /// All timers, with their ids.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Timer)> {
        let timers = self.slots.iter().enumerate();
        timers.filter_map(|(id, slot)| Some((id as u32, slot.as_ref()?)))
    }

    /// The earliest deadline on a clock of processor time.
    #[must_use]
    pub fn next_on(&self, clock: Clock) -> Option<u64> {
        // BOUND: MAX_ON_CPU.
        self.due_on(clock).map(|(_, due_ns)| due_ns).min()
    }

    /// How long it is until one of these signals is sent by a clock that goes on while the process is stopped, in ns.
    #[must_use]
    pub fn sends_after(&self, signals: SigSet, now: impl Fn(Clock) -> u64) -> Option<u64> {
        let after = |wanted: Clock| {
            let sends = self
                .iter()
                .filter(|(_, timer)| signals.contains(timer.event.signal));
            let due = sends.filter_map(|(_, timer)| timer.due());
            let due = due.filter(|(clock, _)| *clock == wanted);
            // BOUND: MAX_TIMERS, a few instructions each: the clock is read once.
            let first = due.map(|(_, due_ns)| due_ns).min()?;
            Some(first.saturating_sub(now(wanted)))
        };
        // BOUND: two.
        [Clock::Monotonic, Clock::Real]
            .into_iter()
            .filter_map(after)
            .min()
    }

    /// A timer that is due on such a clock, which shows `now_ns`.
    #[must_use]
    pub fn is_due_on(&self, clock: Clock, now_ns: u64) -> Option<u32> {
        let mut due = self.due_on(clock);
        // BOUND: MAX_ON_CPU.
        due.find(|(_, due_ns)| *due_ns <= now_ns).map(|(id, _)| id)
    }

    fn due_on(&self, clock: Clock) -> impl Iterator<Item = (u32, u64)> {
        self.all_due_on_cpu()
            .filter_map(move |(id, counts_on, due_ns)| (counts_on == clock).then_some((id, due_ns)))
    }

    /// Whether there is a deadline on processor time.
    #[must_use]
    pub fn counts_cpu_time(&self) -> bool {
        self.all_due_on_cpu().next().is_some()
    }

    /// The deadlines on processor time: whose, on which clock, when.
    fn all_due_on_cpu(&self) -> impl Iterator<Item = (u32, Clock, u64)> {
        self.on_cpu.iter().filter_map(|id| {
            let (clock, due_ns) = self.get(*id).ok()?.due()?;
            Some((*id, clock, due_ns))
        })
    }

    /// timer_settime; returns what timer_gettime said before. A signal that waits stays, and is no longer this timer's.
    ///
    /// # Errors
    /// EINVAL: there is none with this id; ESRCH: the thread whose time it counts has ended.
    pub fn set(
        &mut self,
        id: u32,
        setting: Setting,
        now: impl Fn(Clock) -> u64,
    ) -> Result<(u64, u64), Errno> {
        let timer = self.get_mut(id)?;
        if timer.event.clock == Clock::Ended {
            return Err(Errno::ESRCH);
        }
        let old = timer.left(&now);
        timer.clock = timer.event.clock.measures(setting.absolute);
        timer.interval = match setting {
            Setting { value_ns: 0, .. } => Interval::default(),
            Setting { absolute: true, .. } => Interval::at(setting.value_ns, setting.period_ns),
            _ => Interval::new(now(timer.clock), setting.value_ns, setting.period_ns),
        };
        (timer.waits, timer.missed, timer.overrun) = (None, 0, 0);
        Ok(old)
    }

    /// timer_gettime: what is left, and the period.
    ///
    /// # Errors
    /// EINVAL: there is none with this id.
    pub fn left(&self, id: u32, now: impl Fn(Clock) -> u64) -> Result<(u64, u64), Errno> {
        Ok(self.get(id)?.left(now))
    }

    /// timer_getoverrun: what the last signal that was taken said.
    ///
    /// # Errors
    /// EINVAL: there is none with this id.
    pub fn overrun(&self, id: u32) -> Result<u32, Errno> {
        Ok(self.get(id)?.overrun)
    }

    /// The deadline of a timer may have come: the signal to send, if so. [`Self::dropped`] is to be
    /// called when it is not.
    pub fn expire(&mut self, id: u32, now: impl Fn(Clock) -> u64) -> Option<SigInfo> {
        let turn = self.turns;
        let timer = self.get_mut(id).ok()?;
        let (clock, due_ns) = timer.due()?;
        if due_ns > now(clock) {
            return None;
        }
        if timer.interval.period_ns() == 0 {
            timer.interval = Interval::default();
        } else {
            timer.waits = Some(turn);
        }
        let Event { signal, value, .. } = timer.event;
        self.turns += 1;
        let expiration = Expiration { id, turn };
        Some(SigInfo::expired(signal, value.unwrap_or(0), expiration))
    }

    /// The program takes the signal: it gets the number of expirations it missed, and the timer goes on. Returns whether it does.
    pub fn taken(&mut self, info: &mut SigInfo, now: impl Fn(Clock) -> u64) -> bool {
        let Some((timer, expiration)) = info
            .timer
            .and_then(|expiration| Some((self.get_mut(expiration.id).ok()?, expiration)))
        else {
            return false;
        };
        if timer.waits != Some(expiration.turn) {
            return false;
        }
        if timer.clock != Clock::Ended {
            timer.pass(now(timer.clock));
        }
        // The first is the one that sent the signal.
        info.add_overrun(core::mem::take(&mut timer.missed).saturating_sub(1));
        timer.overrun = info.overrun();
        true
    }

    /// The signal was dropped when it was sent.
    pub fn dropped(&mut self, info: &SigInfo, now: impl Fn(Clock) -> u64) {
        if let Some(expiration) = info.timer
            && let Ok(timer) = self.get_mut(expiration.id)
            && timer.waits == Some(expiration.turn)
        {
            timer.skip(now(timer.clock));
        }
    }

    /// Timers have ids below this.
    #[must_use]
    pub fn ids(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Signals of this set that waited are forgotten: if this timer sent one, it goes on. Returns whether it does.
    pub fn forgotten(&mut self, id: u32, set: SigSet, now: impl Fn(Clock) -> u64) -> bool {
        let Ok(timer) = self.get_mut(id) else {
            return false;
        };
        let stood = timer.waits.is_some() && set.contains(timer.event.signal);
        if stood {
            timer.skip(now(timer.clock));
        }
        stood
    }

    /// A thread ends: if this timer is for it, it sends nothing from now on, and if it counts its processor time, that stands
    /// still. Returns whether the timer has changed.
    pub fn thread_ends(&mut self, id: u32, thread: usize) -> bool {
        let Ok(timer) = self.get_mut(id) else {
            return false;
        };
        let notifies = timer.event.notify == Notify::Thread(thread);
        let counts = timer.event.clock == Clock::Thread(thread);
        if notifies {
            timer.event.notify = Notify::None;
            timer.waits = None;
        }
        if counts {
            timer.event.clock = Clock::Ended;
            timer.clock = Clock::Ended;
            // BOUND: MAX_ON_CPU.
            self.on_cpu.retain(|on_cpu| *on_cpu != id);
        }
        notifies || counts
    }
}
