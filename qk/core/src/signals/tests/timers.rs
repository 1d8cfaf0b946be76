//! Signals of POSIX timers: one place for each timer, and its overruns.

use super::*;

/// One signal per timer waits, whatever its number, and it has its place however full the queue is.
#[test]
fn a_timer_has_one_signal_and_a_place_for_it() {
    let (mut p, mut t) = pair();
    t.set_blocked(SigSet(u64::MAX));
    p.limit_queue(3);
    p.reserve_timer(None).unwrap();
    p.reserve_timer(Some(&mut t)).unwrap();
    let queued = SigInfo::sent(rt(40), code::QUEUE, 7, 0, 1);
    to_process(&mut p, &t, queued).unwrap();
    let full = Err(Errno::EAGAIN);
    assert_eq!(to_process(&mut p, &t, queued), full, "timers count");
    assert_eq!(p.reserve_timer(None), full.map(|_: Sent| ()));
    raise(&mut p, &mut t, Signal::ALRM);
    for turn in [7, 8] {
        for info in [
            expired(Signal::ALRM, 0, turn),
            expired(Signal::ALRM, 1, turn),
        ] {
            let sent = match info.timer.unwrap().id {
                0 => to_process(&mut p, &t, info),
                _ => p.send(Target::Thread(&mut t), info),
            };
            assert!(sent.unwrap().pending);
        }
    }
    let mut twice = [expired(Signal::ALRM, 1, 8), expired(Signal::ALRM, 0, 8)];
    twice.iter_mut().for_each(|info| info.add_overrun(1));
    let mut take = || p.take(&mut t, SigSet::of(Signal::ALRM));
    assert_eq!(take(), Some(twice[0]), "the thread's own");
    assert_eq!(take(), Some(kill(Signal::ALRM)));
    assert_eq!((take(), take()), (Some(twice[1]), None));
    assert_eq!(twice[1].fields, [1 << 32, 5, 0, 0]);
}

/// Any thread finds what a timer has sent to one and ends the process, also where there is no room for it.
#[test]
fn the_signal_of_a_timer_can_end_the_process() {
    for queued in [0, 8] {
        let (mut p, mut t) = pair();
        let mut other = Thread::new(SigSet(u64::MAX), 8);
        for _ in 0..queued {
            to_process(&mut p, &other, SigInfo::sent(rt(41), code::QUEUE, 7, 0, 1)).unwrap();
        }
        p.reserve_timer(Some(&mut t)).unwrap();
        p.send(Target::Thread(&mut t), expired(rt(40), 0, 1))
            .unwrap();
        p.decide(Some(&mut t), rt(40));
        for thread in [&mut other, &mut t] {
            let ends = p.next(thread);
            assert!(
                matches!(ends, Some(Delivery::Terminate { info, .. }) if info.signal == rt(40))
            );
        }
    }
}

/// A timer that is gone leaves its signal, and its place only with that; so does a thread that ends.
#[test]
fn the_place_of_a_deleted_timer_is_free_when_its_signal_is() {
    let (mut p, mut t) = pair();
    t.set_blocked(SigSet(u64::MAX));
    p.limit_queue(1);
    p.reserve_timer(None).unwrap();
    to_process(&mut p, &t, expired(rt(40), 0, 1)).unwrap();
    p.pending.release(0);
    assert_eq!(p.reserve_timer(None), Err(Errno::EAGAIN));
    assert_eq!(
        p.take(&mut t, SigSet(u64::MAX)),
        Some(expired(rt(40), 0, 1))
    );
    // One with the same id is another one, even while the last signal of the first waits.
    p.limit_queue(2);
    p.reserve_timer(None).unwrap();
    to_process(&mut p, &t, expired(rt(40), 0, 2)).unwrap();
    p.pending.release(0);
    p.reserve_timer(None).unwrap();
    to_process(&mut p, &t, expired(rt(40), 0, 3)).unwrap();
    p.pending.discard(SigSet::of(rt(40)));
    p.reserve_timer(Some(&mut t)).unwrap();
    assert_eq!(p.reserve_timer(None), Err(Errno::EAGAIN));
    drop(t);
    p.reserve_timer(None).unwrap();
}

/// Its timer goes on when the signal is taken, and it is taken also where nothing comes of it.
#[test]
fn ignored_signals_are_told() {
    let (mut p, mut t) = pair();
    t.set_blocked(SigSet(u64::MAX));
    p.reserve_timer(None).unwrap();
    for info in [expired(Signal::CHLD, 0, 1), kill(Signal::WINCH)] {
        to_process(&mut p, &t, info).unwrap();
    }
    t.set_blocked(SigSet::EMPTY);
    let mut told = p.next(&mut t).unwrap();
    assert_eq!(told, Delivery::Ignored(expired(Signal::CHLD, 0, 1)));
    assert_eq!(told.info_mut().overrun(), 0);
    let ignored = Delivery::Ignored(kill(Signal::WINCH));
    assert_eq!(p.next(&mut t), Some(ignored));
    assert_eq!(p.next(&mut t), None);
}

#[test]
fn overruns_stop_at_the_largest_int() {
    let mut info = expired(Signal::ALRM, 3, 1);
    info.add_overrun(5);
    assert_eq!(info.overrun(), 5);
    info.add_overrun(u64::MAX);
    assert_eq!(info.overrun(), i32::MAX as u32);
    assert_eq!(info.fields[0] as u32, 3);
}
