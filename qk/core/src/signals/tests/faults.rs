//! Signals that a thread cannot go on without taking.

use super::*;

#[test]
fn a_fault_that_is_blocked_or_ignored_is_fatal() {
    for block in [false, true] {
        let (mut p, mut t) = pair();
        let action = if block {
            handler(0, SigSet::EMPTY)
        } else {
            Action {
                handler: SIG_IGN,
                ..Action::DEFAULT
            }
        };
        p.set_action(Signal::SEGV, action).unwrap();
        if block {
            t.set_blocked(SigSet::of(Signal::SEGV));
        }
        let fault = SigInfo::fault(Signal::SEGV, 1, Va(0));
        p.force(&mut t, fault);
        assert_eq!(p.next(&mut t), dump_for(fault));
    }
}

/// A thread that was in the handler for a fault ended by another one that was told late.
#[test]
fn a_late_fault_waits_for_the_handler_of_another() {
    let fault = |page: u64| SigInfo::fault(Signal::BUS, 2, Va(page));
    let (mut p, mut t) = pair();
    p.set_action(Signal::BUS, handler(0, SigSet::EMPTY))
        .unwrap();
    for page in [4096, 8192] {
        p.force_late(&mut t, fault(page));
        assert!(
            matches!(p.next(&mut t), Some(Delivery::Handler { info, .. }) if info == fault(page))
        );
        // The handler runs, which blocks it.
        p.force_late(&mut t, fault(0));
        assert_eq!(p.next(&mut t), None);
        t.set_blocked(SigSet::EMPTY);
        assert!(matches!(p.next(&mut t), Some(Delivery::Handler { info, .. }) if info == fault(0)));
        t.set_blocked(SigSet::EMPTY);
    }
}

#[test]
fn a_late_fault_that_is_blocked_without_a_handler_is_fatal() {
    let (mut p, mut t) = pair();
    t.set_blocked(SigSet::of(Signal::BUS));
    let fault = SigInfo::fault(Signal::BUS, 2, Va(4096));
    p.force_late(&mut t, fault);
    assert_eq!(p.next(&mut t), dump_for(fault));
}

#[test]
fn faults_are_delivered_before_lower_numbers() {
    let (mut p, mut t) = pair();
    raise(&mut p, &mut t, Signal::INT);
    p.set_action(Signal::FPE, handler(0, SigSet::EMPTY))
        .unwrap();
    p.force(&mut t, SigInfo::fault(Signal::FPE, 1, Va(0)));
    assert!(
        matches!(p.next(&mut t), Some(Delivery::Handler { info, .. }) if info.signal == Signal::FPE)
    );
    assert!(
        matches!(p.next(&mut t), Some(Delivery::Terminate { info, .. }) if info.signal == Signal::INT)
    );
}
