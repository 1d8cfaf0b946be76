//! signal(7) and sigaction(2), sentence by sentence.

mod faults;
mod queue;
mod threads;
mod timers;

use super::*;
use abi::addr::Va;

fn pair() -> (Process, Thread) {
    (Process::new(8), Thread::new(SigSet::EMPTY, 8))
}

fn handler(flags: u64, mask: SigSet) -> Action {
    Action {
        handler: 0x1000,
        flags: flags | sa::RESTORER,
        restorer: 0x2000,
        mask,
    }
}

fn kill(signal: Signal) -> SigInfo {
    SigInfo::sent(signal, code::USER, 7, 0, 0)
}

/// Sends it to the process whose main thread `t` is.
fn to_process(p: &mut Process, t: &Thread, info: SigInfo) -> Result<Sent, Errno> {
    let main_blocks = t.blocked().contains(info.signal);
    p.send(Target::Process { main_blocks }, info)
}

fn raise(p: &mut Process, t: &mut Thread, signal: Signal) -> Sent {
    to_process(p, t, kill(signal)).unwrap()
}

fn rt(n: u64) -> Signal {
    Signal::new(n).unwrap()
}

/// A signal ends the process with a core dump.
fn dump_for(info: SigInfo) -> Option<Delivery> {
    Some(Delivery::Terminate { info, core: true })
}

#[test]
fn default_actions_are_those_of_signal_7() {
    let by = |action| {
        (1..=64)
            .filter(|n| rt(*n).default_action() == action)
            .collect::<std::vec::Vec<_>>()
    };
    assert_eq!(by(DefaultAction::Core), [3, 4, 5, 6, 7, 8, 11, 24, 25, 31]);
    assert_eq!(by(DefaultAction::Stop), [19, 20, 21, 22]);
    assert_eq!(by(DefaultAction::Ignore), [17, 23, 28]);
    assert_eq!(by(DefaultAction::Continue), [18]);
    assert_eq!((Signal::new(0), Signal::new(65)), (None, None));
}

#[test]
fn kill_and_stop_can_be_neither_caught_nor_blocked() {
    let (mut p, mut t) = pair();
    for signal in [Signal::KILL, Signal::STOP] {
        assert_eq!(
            p.set_action(signal, handler(0, SigSet::EMPTY)),
            Err(Errno::EINVAL)
        );
    }
    t.change_mask(2, SigSet(u64::MAX)).unwrap();
    assert_eq!(t.blocked(), SigSet(u64::MAX).without(SigSet::UNSTOPPABLE));
    raise(&mut p, &mut t, Signal::TERM);
    raise(&mut p, &mut t, Signal::KILL);
    assert!(
        matches!(p.next(&mut t), Some(Delivery::Terminate { info, core: false }) if info.signal == Signal::KILL)
    );
    assert_eq!(p.next(&mut t), None);
    assert_eq!(t.change_mask(3, SigSet::EMPTY), Err(Errno::EINVAL));
}

#[test]
fn a_handler_runs_with_its_mask_and_its_own_signal_blocked() {
    let (mut p, mut t) = pair();
    t.set_blocked(SigSet::of(Signal::USR2));
    p.set_action(Signal::USR1, handler(0, SigSet::of(Signal::ALRM)))
        .unwrap();
    raise(&mut p, &mut t, Signal::USR1);
    let Some(Delivery::Handler {
        info,
        action,
        restore,
    }) = p.next(&mut t)
    else {
        panic!()
    };
    assert_eq!((info, action.restorer), (kill(Signal::USR1), 0x2000));
    assert_eq!(restore, SigSet::of(Signal::USR2));
    let blocked = [Signal::USR1, Signal::USR2, Signal::ALRM]
        .map(|s| SigSet::of(s).0)
        .iter()
        .sum();
    assert_eq!(t.blocked(), SigSet(blocked));
    raise(&mut p, &mut t, Signal::USR1);
    assert_eq!(
        (p.next(&mut t), p.blocked_pending(&t)),
        (None, SigSet::of(Signal::USR1))
    );
    t.set_blocked(restore);
    assert!(p.has_deliverable(&t));
}

#[test]
fn nodefer_and_resethand() {
    let (mut p, mut t) = pair();
    p.set_action(
        Signal::SEGV,
        handler(sa::NODEFER | sa::RESETHAND | sa::SIGINFO, SigSet::EMPTY),
    )
    .unwrap();
    let fault = SigInfo::fault(Signal::SEGV, 1, Va(0xdead));
    p.force(&mut t, fault);
    let Some(Delivery::Handler { info, action, .. }) = p.next(&mut t) else {
        panic!()
    };
    assert_eq!(
        (info, action.handler, t.blocked()),
        (fault, 0x1000, SigSet::EMPTY)
    );
    p.force(&mut t, fault);
    assert_eq!(p.next(&mut t), dump_for(fault));
}

/// A SIGSEGV handler that may interrupt itself has nowhere to put its frame: tried again, it would fail for ever.
#[test]
fn a_frame_that_cannot_be_pushed_ends_in_sigsegv() {
    let (mut p, mut t) = pair();
    for signal in [Signal::USR1, Signal::SEGV] {
        p.set_action(signal, handler(sa::NODEFER, SigSet::EMPTY))
            .unwrap();
    }
    raise(&mut p, &mut t, Signal::USR1);
    let entered = |delivery, signal| matches!(delivery, Some(Delivery::Handler { info, .. }) if info.signal == signal);
    assert!(entered(p.next(&mut t), Signal::USR1));
    p.force_segv(&mut t, Signal::USR1);
    assert!(
        entered(p.next(&mut t), Signal::SEGV),
        "its handler may have another stack"
    );
    p.force_segv(&mut t, Signal::SEGV);
    assert!(matches!(
        p.next(&mut t),
        Some(Delivery::Terminate { core: true, .. })
    ));
}

#[test]
fn ignored_signals_are_dropped_unless_blocked() {
    let (mut p, mut t) = pair();
    assert!(!raise(&mut p, &mut t, Signal::CHLD).pending);
    t.set_blocked(SigSet::of(Signal::CHLD));
    assert!(raise(&mut p, &mut t, Signal::CHLD).pending);
    let wanted = SigSet::of(Signal::CHLD);
    assert_eq!(p.take(&mut t, wanted).map(|i| i.signal), Some(Signal::CHLD));
    // Setting "ignore" discards what waits, for the threads too.
    raise(&mut p, &mut t, Signal::CHLD);
    let ignore = Action {
        handler: SIG_IGN,
        ..Action::DEFAULT
    };
    assert_eq!(p.set_action(Signal::CHLD, ignore).unwrap().1, wanted);
    assert_eq!(p.pending.set(), SigSet::EMPTY);
}

/// What Linux looks at before it sends them.
#[test]
fn who_uses_a_terminal_takes_what_neither_it_blocks_nor_its_process_ignores() {
    let (mut p, mut t) = pair();
    let mut other = Thread::new(SigSet::of(Signal::TTOU), 8);
    let takes = |p: &Process, t: &Thread| t.takes(p, SigSet::BACKGROUND);
    let (ttin, ttou) = (SigSet::of(Signal::TTIN), SigSet::of(Signal::TTOU));
    assert_eq!(takes(&p, &t), SigSet::BACKGROUND);
    assert_eq!(takes(&p, &other), ttin, "masks are a thread's own");
    p.set_action(Signal::TTOU, handler(0, SigSet::EMPTY))
        .unwrap();
    assert_eq!(
        (takes(&p, &t), takes(&p, &other)),
        (SigSet::BACKGROUND, ttin)
    );
    let ignore = Action {
        handler: SIG_IGN,
        ..Action::DEFAULT
    };
    p.set_action(Signal::TTIN, ignore).unwrap();
    assert_eq!((takes(&p, &t), takes(&p, &other)), (ttou, SigSet::EMPTY));
    t.set_blocked(ttou);
    other.set_blocked(SigSet::EMPTY);
    assert_eq!((takes(&p, &t), takes(&p, &other)), (SigSet::EMPTY, ttou));
}

#[test]
fn stop_and_continue_cancel_each_other() {
    let (mut p, mut t) = pair();
    let stops = [Signal::STOP, Signal::TSTP, Signal::TTIN];
    for signal in stops {
        raise(&mut p, &mut t, signal);
    }
    let sent = raise(&mut p, &mut t, Signal::CONT);
    assert_eq!(
        sent,
        Sent {
            pending: false,
            left: false,
            resume: true,
            cancelled: SigSet::STOPPING
        }
    );
    assert_eq!(p.next(&mut t), None);
    p.set_action(Signal::CONT, handler(0, SigSet::EMPTY))
        .unwrap();
    assert!(raise(&mut p, &mut t, Signal::CONT).pending);
    assert_eq!(
        raise(&mut p, &mut t, Signal::TSTP).cancelled,
        SigSet::of(Signal::CONT)
    );
    assert_eq!(p.next(&mut t), Some(Delivery::Stop(kill(Signal::TSTP))));
    assert_eq!(p.next(&mut t), None);
}

/// Between the decision to stop and the stop a timer may expire: what it sent was forgotten.
#[test]
fn what_continues_after_the_last_stop_is_known() {
    let (mut p, mut t) = pair();
    p.note_continued();
    raise(&mut p, &mut t, Signal::STOP);
    assert_eq!(p.next(&mut t), Some(Delivery::Stop(kill(Signal::STOP))));
    assert!(!p.is_continued(), "that was before");
    p.note_continued();
    assert!(p.is_continued());
}

#[test]
fn sigsuspend_restores_the_old_mask_with_or_without_a_handler() {
    let (mut p, mut t) = pair();
    let usr1 = SigSet::of(Signal::USR1);
    t.set_blocked(usr1);
    p.set_action(Signal::USR1, handler(0, SigSet::EMPTY))
        .unwrap();
    t.set_saved_mask(SigSet::EMPTY);
    raise(&mut p, &mut t, Signal::USR1);
    assert!(matches!(p.next(&mut t), Some(Delivery::Handler { restore, .. }) if restore == usr1));
    t.restore_mask();
    assert_eq!(t.blocked(), usr1);
    // What is ignored while the borrowed mask lets it through does not end the wait.
    t.set_blocked(SigSet::of(Signal::CHLD));
    t.set_saved_mask(SigSet::EMPTY);
    assert!(!raise(&mut p, &mut t, Signal::CHLD).pending);
    t.restore_mask();
    assert_eq!(t.blocked(), SigSet::of(Signal::CHLD));
}

#[test]
fn what_is_blocked_handled_ignored_or_leaves_a_core_file_ends_no_vfork() {
    let (mut p, mut t) = pair();
    t.set_blocked(SigSet::of(Signal::USR1));
    p.set_action(Signal::USR2, handler(0, SigSet::EMPTY))
        .unwrap();
    for signal in [
        Signal::USR1,
        Signal::USR2,
        Signal::CHLD,
        Signal::STOP,
        Signal::ABRT,
    ] {
        raise(&mut p, &mut t, signal);
        assert!(!p.has_fatal(&t));
    }
    raise(&mut p, &mut t, Signal::TERM);
    assert!(p.has_fatal(&t));
}

#[test]
fn exec_keeps_only_what_is_ignored() {
    let (mut p, mut t) = pair();
    t.altstack.base = Va(0x1000);
    t.set_blocked(SigSet(u64::MAX));
    p.set_action(Signal::USR1, handler(0, SigSet::EMPTY))
        .unwrap();
    p.set_action(
        Signal::INT,
        Action {
            handler: SIG_IGN,
            ..handler(0, SigSet::EMPTY)
        },
    )
    .unwrap();
    // Signals that wait stay, but for those of timers.
    p.reserve_timer(None).unwrap();
    let timer = Expiration { id: 3, turn: 1 };
    for info in [
        SigInfo::expired(Signal::ALRM, 0, timer),
        SigInfo::sent(rt(40), code::TIMER, 7, 0, 1),
        SigInfo::sent(rt(40), code::QUEUE, 7, 0, 2),
    ] {
        to_process(&mut p, &t, info).unwrap();
    }
    p.pending.release(timer.id);
    raise(&mut p, &mut t, Signal::TERM);
    p.reset_for_exec(&mut t);
    let kept = SigSet::of(Signal::TERM).union(SigSet::of(rt(40)));
    assert_eq!(p.blocked_pending(&t), kept);
    assert_eq!(p.take(&mut t, kept).unwrap().signal, Signal::TERM);
    assert_eq!(p.take(&mut t, kept).unwrap().fields[1], 2);
    assert_eq!((p.take(&mut t, kept), t.altstack), (None, AltStack::NONE));
    assert_eq!(p.action(Signal::USR1), Action::DEFAULT);
    assert_eq!(
        p.action(Signal::INT),
        Action {
            handler: SIG_IGN,
            ..Action::DEFAULT
        }
    );
}

#[test]
fn unknown_action_flags_are_cleared() {
    let (mut p, _) = pair();
    p.set_action(Signal::USR1, handler(u64::MAX, SigSet(u64::MAX)))
        .unwrap();
    let action = p.action(Signal::USR1);
    assert_eq!(
        (action.flags, action.mask),
        (sa::KNOWN, SigSet(u64::MAX).without(SigSet::UNSTOPPABLE))
    );
}

fn expired(signal: Signal, id: u32, turn: u64) -> SigInfo {
    SigInfo::expired(signal, 5, Expiration { id, turn })
}
