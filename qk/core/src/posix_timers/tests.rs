//! timer_create(2), timer_settime(2) and timer_getoverrun(2), and what Linux 6.1 does where they are silent.

use super::*;
use crate::signals::Signal;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::vec::Vec;

const SIGNAL: Signal = Signal::ALRM;

fn event(clock: Clock) -> Event {
    Event {
        clock,
        notify: Notify::Process,
        signal: SIGNAL,
        value: Some(77),
    }
}

fn after(value_ns: u64, period_ns: u64) -> Setting {
    Setting {
        value_ns,
        period_ns,
        absolute: false,
    }
}

fn at(value_ns: u64, period_ns: u64) -> Setting {
    Setting {
        absolute: true,
        ..after(value_ns, period_ns)
    }
}

/// A table with one timer, whose id is 0.
fn one(event: Event) -> Table {
    let mut table = Table::new();
    assert_eq!(table.next_id(Clock::Monotonic), Ok((0, true)));
    table.create(0, event);
    table
}

#[test]
fn it_expires_once_and_is_off_then() {
    let mut table = one(event(Clock::Monotonic));
    assert_eq!(table.left(0, |_| 5), Ok((0, 0)), "made, not set");
    assert_eq!(table.set(0, after(10, 0), |_| 100), Ok((0, 0)));
    assert_eq!(table.left(0, |_| 104), Ok((6, 0)));
    assert_eq!(table.left(0, |_| 110), Ok((1, 0)), "its signal is to come");
    assert_eq!(table.expire(0, |_| 109), None);
    let mut info = table.expire(0, |_| 110).unwrap();
    assert_eq!((info.signal, info.fields), (SIGNAL, [0, 77, 0, 0]));
    assert_eq!(table.left(0, |_| 111), Ok((0, 0)));
    assert!(!table.taken(&mut info, |_| 999) && table.expire(0, |_| 999).is_none());
    assert_eq!((info.overrun(), table.overrun(0)), (0, Ok(0)));
}

#[test]
fn what_expires_while_the_signal_waits_is_counted() {
    let mut table = one(Event {
        value: None,
        ..event(Clock::Monotonic)
    });
    table.set(0, at(100, 10), |_| 500).unwrap();
    assert_eq!(table.get(0).unwrap().due(), Some((Clock::Monotonic, 100)));
    let mut info = table.expire(0, |_| 500).unwrap();
    assert_eq!(table.get(0).unwrap().due(), None, "it stands still");
    assert_eq!(table.left(0, |_| 524), Ok((6, 10)), "at 530");
    assert_eq!(table.expire(0, |_| 600), None);
    assert!(table.taken(&mut info, |_| 525));
    assert_eq!(info.fields, [42 << 32, 0, 0, 0], "110 to 520");
    assert_eq!(table.overrun(0), Ok(42));
    assert_eq!(table.get(0).unwrap().due(), Some((Clock::Monotonic, 530)));
    assert!(!table.taken(&mut info, |_| 600), "once");
    let mut info = table.expire(0, |_| 530).unwrap();
    assert!(table.taken(&mut info, |_| 530));
    assert_eq!((info.overrun(), table.overrun(0)), (0, Ok(0)));
}

/// A rank that stopped itself stayed so, whatever its timers sent.
#[test]
fn when_a_stop_ends_is_known_beforehand() {
    let clocks = [Clock::Monotonic, Clock::Real, Clock::Process];
    let mut table = Table::new();
    for (clock, value_ns) in clocks.into_iter().zip([40, 30, 10]) {
        let (id, _) = table.next_id(Clock::Monotonic).unwrap();
        table.create(id, event(clock));
        table.set(id, at(value_ns, 0), |_| 0).unwrap();
    }
    let sent = SigSet::of(SIGNAL);
    assert_eq!(table.sends_after(sent, |_| 25), Some(5));
    assert_eq!(table.sends_after(sent, |_| 35), Some(0), "it is due");
    assert_eq!(table.sends_after(SigSet::STOPPING, |_| 25), None);
    table.delete(1).unwrap();
    assert_eq!(table.sends_after(sent, |_| 25), Some(15));
    table.delete(0).unwrap();
    let stands_still = table.sends_after(sent, |_| 25);
    assert_eq!(stands_still, None, "as long as nothing runs");
}

/// A signal of the old setting that waits still is delivered, and says nothing of the new one.
#[test]
fn a_new_setting_forgets_the_old_ones_overruns() {
    let mut table = one(event(Clock::Monotonic));
    table.set(0, after(10, 10), |_| 0).unwrap();
    let mut old = table.expire(0, |_| 10).unwrap();
    assert_eq!(table.set(0, after(100, 7), |_| 95), Ok((5, 10)));
    assert!(!table.taken(&mut old, |_| 1000));
    assert_eq!((old.overrun(), table.overrun(0)), (0, Ok(0)));
    assert_eq!(table.set(0, after(0, 7), |_| 100), Ok((95, 7)));
    assert_eq!(table.left(0, |_| 100), Ok((0, 0)), "off, period or not");
}

/// Setting CLOCK_REALTIME moves what is due at a time of day, not what is due in an hour.
#[test]
fn relative_times_are_measured_by_the_monotonic_clock() {
    let now = |clock| match clock {
        Clock::Real => 1_000,
        Clock::Monotonic => 50,
        _ => 0,
    };
    let mut table = one(event(Clock::Real));
    table.set(0, after(5, 0), now).unwrap();
    assert_eq!(table.get(0).unwrap().due(), Some((Clock::Monotonic, 55)));
    table.set(0, at(1_007, 0), now).unwrap();
    assert_eq!(table.get(0).unwrap().due(), Some((Clock::Real, 1_007)));
    assert_eq!(table.left(0, now), Ok((7, 0)));
}

#[test]
fn without_notification_it_can_be_looked_at() {
    let mut table = one(Event {
        notify: Notify::None,
        ..event(Clock::Monotonic)
    });
    table.set(0, after(10, 0), |_| 0).unwrap();
    assert_eq!(table.get(0).unwrap().due(), None);
    assert_eq!(table.left(0, |_| 4), Ok((6, 0)));
    assert_eq!(table.left(0, |_| 10), Ok((0, 0)), "it has expired");
    table.set(0, after(10, 4), |_| 0).unwrap();
    assert_eq!(table.left(0, |_| 21), Ok((1, 4)));
    assert_eq!(table.expire(0, |_| 21), None);
}

/// With its thread a timer loses what it was for; with the thread whose time it counts, its clock.
#[test]
fn a_thread_ends() {
    let mut table = one(Event {
        notify: Notify::Thread(3),
        ..event(Clock::Monotonic)
    });
    table.create(1, event(Clock::Thread(3)));
    for id in [0, 1] {
        table.set(id, after(10, 10), |_| 0).unwrap();
    }
    let _ = table.expire(0, |_| 10).unwrap();
    table.create(2, event(Clock::Thread(4)));
    let changed = (0..table.ids()).map(|id| table.thread_ends(id, 3));
    assert_eq!(changed.collect::<Vec<_>>(), [true, true, false]);
    assert!(table.iter().all(|(_, timer)| timer.due().is_none()));
    assert_eq!(table.get(0).unwrap().notify(), Notify::None);
    assert_eq!(table.left(0, |_| 11), Ok((9, 10)));
    assert_eq!(table.left(1, |_| 11), Ok((0, 0)));
    assert_eq!(table.set(1, after(10, 0), |_| 0), Err(Errno::ESRCH));
    assert!(table.set(0, after(10, 0), |_| 0).is_ok());
}

#[test]
fn deadlines_on_processor_time_are_found_by_clock() {
    let mut table = one(event(Clock::Process));
    table.create(1, event(Clock::Thread(2)));
    table.create(2, event(Clock::Monotonic));
    assert!(!table.counts_cpu_time());
    for (id, after_ns) in [(2, 5), (1, 10), (0, 20)] {
        table.set(id, after(after_ns, 0), |_| 100).unwrap();
        assert_eq!(table.counts_cpu_time(), id < 2);
    }
    assert_eq!(table.next_on(Clock::Process), Some(120));
    assert_eq!(table.next_on(Clock::Thread(2)), Some(110));
    assert_eq!(table.next_on(Clock::Thread(1)), None);
    assert_eq!(table.is_due_on(Clock::Process, 119), None);
    assert_eq!(table.is_due_on(Clock::Process, 120), Some(0));
}

/// No program slows down a timer whose signal is ignored: it would keep its core busy.
#[test]
fn ignored_signals_come_at_most_once_in_a_while() {
    let mut table = one(event(Clock::Monotonic));
    table.set(0, at(10, 1), |_| 0).unwrap();
    let info = table.expire(0, |_| 12).unwrap();
    table.dropped(&info, |_| 13);
    let next = 14 + IGNORED_NS;
    assert_eq!(table.get(0).unwrap().due(), Some((Clock::Monotonic, next)));
    let _ = table.expire(0, |_| next).unwrap();
    for (signal, goes_on) in [(Signal::USR1, false), (SIGNAL, true), (SIGNAL, false)] {
        let found = table.forgotten(0, SigSet::of(signal), |_| next);
        assert_eq!(found, goes_on, "{signal:?}");
    }
    let next = next + IGNORED_NS + 1;
    let mut info = table.expire(0, |_| next).unwrap();
    assert!(table.taken(&mut info, |_| next));
    assert_eq!(u64::from(info.overrun()), next - 10);
}

#[test]
fn ids_are_the_lowest_free_and_end() {
    let mut table = Table::new();
    for id in 0..MAX_TIMERS as u32 {
        assert_eq!(table.next_id(Clock::Monotonic), Ok((id, true)));
        table.create(id, event(Clock::Real));
    }
    assert_eq!(table.next_id(Clock::Monotonic), Err(Errno::EAGAIN));
    assert!(table.delete(7).is_ok() && table.delete(7).is_err());
    assert_eq!(table.next_id(Clock::Monotonic), Ok((7, false)));
    for id in [7, MAX_TIMERS as u32, u32::MAX] {
        assert_eq!(table.get(id).err(), Some(Errno::EINVAL));
        assert_eq!(table.overrun(id), Err(Errno::EINVAL));
        assert_eq!(table.left(id, |_| 0), Err(Errno::EINVAL));
        assert_eq!(table.set(id, after(1, 1), |_| 0), Err(Errno::EINVAL));
        assert_eq!(table.delete(id).err(), Some(Errno::EINVAL));
    }
}

#[derive(Clone, Debug)]
enum Op {
    Create,
    Delete(u32),
    Set(u32, Setting),
    /// Time passes, and then the timer interrupt comes.
    Pass(u64),
    /// The program takes the signal of this timer.
    Take(u32),
}

fn op() -> impl Strategy<Value = Op> {
    let id = 0..4u32;
    let setting =
        (0..40u64, 0..12u64, any::<bool>()).prop_map(|(value_ns, period_ns, absolute)| {
            let value_ns = value_ns * if absolute { 5 } else { 1 };
            Setting {
                value_ns,
                period_ns,
                absolute,
            }
        });
    prop_oneof![
        2 => Just(Op::Create),
        1 => id.clone().prop_map(Op::Delete),
        3 => (id.clone(), setting).prop_map(|(id, setting)| Op::Set(id, setting)),
        5 => (0..30u64).prop_map(Op::Pass),
        5 => id.prop_map(Op::Take),
    ]
}

/// What the manual says: when it was due first, and all expirations that have been reported to the program.
#[derive(Clone, Copy, Default)]
struct Model {
    first_ns: Option<u64>,
    period_ns: u64,
    told: u64,
    overrun: u32,
}

impl Model {
    /// Expirations until now.
    fn until(&self, now_ns: u64) -> u64 {
        match (self.first_ns, self.period_ns) {
            (Some(first_ns), 0) if first_ns <= now_ns => 1,
            (Some(first_ns), period_ns) if first_ns <= now_ns => {
                (now_ns - first_ns) / period_ns + 1
            }
            _ => 0,
        }
    }

    /// When it expires next, but for what has not been reported to the program.
    fn next(&self, now_ns: u64) -> Option<u64> {
        let (first_ns, count) = (self.first_ns?, self.until(now_ns));
        (count == 0 || self.period_ns > 0).then_some(first_ns + count * self.period_ns)
    }
}

proptest! {
    /// Each expiration is reported once: by a signal, or as the overrun of one. Each deadline is met at the next interrupt.
    #[test]
    fn no_expiration_is_lost(ops in proptest::collection::vec(op(), 1..120)) {
        let (mut table, mut now_ns) = (Table::new(), 0);
        let mut models = BTreeMap::<u32, Model>::new();
        let mut waiting = BTreeMap::<u32, SigInfo>::new();
        for op in ops {
            match op {
                Op::Create => {
                    let free = (0..).find(|id| !models.contains_key(id)).unwrap();
                    prop_assert_eq!(table.next_id(Clock::Monotonic).map(|(id, _)| id), Ok(free));
                    table.create(free, event(Clock::Monotonic));
                    models.insert(free, Model::default());
                    waiting.remove(&free);
                }
                Op::Delete(id) => {
                    prop_assert_eq!(table.delete(id).is_ok(), models.remove(&id).is_some());
                }
                Op::Set(id, setting) => {
                    let done = table.set(id, setting, |_| now_ns);
                    prop_assert_eq!(done.is_ok(), models.contains_key(&id));
                    if let Some(model) = models.get_mut(&id) {
                        let from_ns = if setting.absolute { 0 } else { now_ns };
                        *model = Model {
                            first_ns: (setting.value_ns > 0).then_some(from_ns + setting.value_ns),
                            period_ns: setting.period_ns,
                            ..Model::default()
                        };
                        // The program takes what still waits before anything comes of the new setting.
                        if let Some(mut old) = waiting.remove(&id) {
                            prop_assert!(!table.taken(&mut old, |_| now_ns));
                        }
                    }
                }
                Op::Pass(ns) => {
                    now_ns += ns;
                    for id in models.keys() {
                        if let Some(info) = table.expire(*id, |_| now_ns) {
                            prop_assert!(waiting.insert(*id, info).is_none());
                        }
                    }
                }
                Op::Take(id) => {
                    let Some(mut info) = waiting.remove(&id) else { continue };
                    table.taken(&mut info, |_| now_ns);
                    let Some(model) = models.get_mut(&id) else { continue };
                    model.told += 1 + u64::from(info.overrun());
                    model.overrun = info.overrun();
                    prop_assert_eq!(model.told, model.until(now_ns));
                }
            }
            for (id, model) in &models {
                let told_all = model.told == model.until(now_ns);
                prop_assert_eq!(table.overrun(*id), Ok(model.overrun));
                let timer = table.get(*id).unwrap();
                if told_all {
                    prop_assert_eq!(timer.due().map(|(_, due_ns)| due_ns), model.next(now_ns));
                }
                if told_all || waiting.contains_key(id) {
                    let left = model.next(now_ns).map_or((0, 0), |at| (at - now_ns, model.period_ns));
                    prop_assert_eq!(table.left(*id, |_| now_ns), Ok(left));
                }
            }
        }
    }
}

#[test]
fn few_timers_count_processor_time() {
    let mut table = Table::new();
    let create = |table: &mut Table, clock| {
        let (id, _) = table.next_id(clock)?;
        table.create(id, event(clock));
        Ok(id)
    };
    for id in 0..MAX_ON_CPU as u32 {
        let clock = [Clock::Process, Clock::Thread(7)][id as usize % 2];
        assert_eq!(create(&mut table, clock), Ok(id));
    }
    assert_eq!(create(&mut table, Clock::Process), Err(Errno::EAGAIN));
    assert!(create(&mut table, Clock::Monotonic).is_ok());
    assert!(table.delete(0).is_ok() && table.thread_ends(1, 7));
    for id in [0, MAX_ON_CPU as u32 + 1] {
        assert_eq!(create(&mut table, Clock::Process), Ok(id));
    }
    assert_eq!(create(&mut table, Clock::Process), Err(Errno::EAGAIN));
}
