//! A process with several threads against a model written from signal(7), sigaction(2) and getrlimit(2).

mod model;

use super::super::*;
use super::to_process;
use abi::addr::Va;
use alloc::vec;
use model::{Model, ModelThread, Queue, UNSTOPPABLE, bit, number};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::vec::Vec;

const THREADS: usize = 4;
/// More than a run sends: only the limit is tried here.
const PLACES: usize = 256;
const HANDLER: u64 = 0x1000;

#[derive(Clone, Debug)]
enum Op {
    ToProcess(SigInfo),
    ToThread(usize, SigInfo),
    Force(usize, SigInfo),
    SetMask(usize, u64),
    Borrow(usize, u64),
    RestoreMask(usize),
    SetAction(Signal, Action),
    Next(usize),
    Take(usize, u64),
    Limit(usize),
    /// A thread ends and another takes its place, with this mask.
    Replace(usize, u64),
}

fn signal() -> impl Strategy<Value = Signal> {
    proptest::sample::select(&[4, 9, 10, 11, 15, 17, 18, 19, 20, 34, 35, 36][..]).prop_map(number)
}

fn mask() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(u64::MAX), any::<u64>()]
}

fn info() -> impl Strategy<Value = SigInfo> {
    let code = proptest::sample::select(&[code::USER, code::KERNEL, code::QUEUE, code::TKILL][..]);
    (signal(), code, any::<u32>())
        .prop_map(|(signal, code, pid)| SigInfo::sent(signal, code, pid, 0, 0))
}

fn action() -> impl Strategy<Value = Action> {
    let handler = proptest::sample::select(&[SIG_DFL, SIG_IGN, HANDLER, HANDLER][..]);
    let flags = proptest::sample::select(&[0, sa::NODEFER, sa::RESETHAND][..]);
    (handler, flags, mask()).prop_map(|(handler, flags, mask)| Action {
        handler,
        flags,
        restorer: 0,
        mask: SigSet(mask & !UNSTOPPABLE),
    })
}

fn op() -> impl Strategy<Value = Op> {
    let fault = (proptest::sample::select(&[4, 11][..]), any::<u64>());
    let fault = fault.prop_map(|(signal, addr)| SigInfo::fault(number(signal), 1, Va(addr)));
    prop_oneof![
        6 => info().prop_map(Op::ToProcess),
        6 => (0..THREADS, info()).prop_map(|(i, info)| Op::ToThread(i, info)),
        1 => (0..THREADS, fault).prop_map(|(i, info)| Op::Force(i, info)),
        3 => (0..THREADS, mask()).prop_map(|(i, mask)| Op::SetMask(i, mask)),
        1 => (0..THREADS, mask()).prop_map(|(i, mask)| Op::Borrow(i, mask)),
        1 => (0..THREADS).prop_map(Op::RestoreMask),
        3 => (signal(), action()).prop_map(|(signal, action)| Op::SetAction(signal, action)),
        4 => (0..THREADS).prop_map(Op::Next),
        2 => (0..THREADS, mask()).prop_map(|(i, wanted)| Op::Take(i, wanted)),
        1 => prop_oneof![0..6usize, Just(PLACES)].prop_map(Op::Limit),
        1 => (0..THREADS, mask()).prop_map(|(i, mask)| Op::Replace(i, mask)),
    ]
}

/// The module under test, with what its caller does for the other threads.
struct Real {
    process: Process,
    threads: Vec<Thread>,
}

impl Real {
    fn send(&mut self, thread: Option<usize>, info: SigInfo) -> Result<bool, Errno> {
        if self.process.is_full() {
            self.threads
                .iter_mut()
                .for_each(|thread| self.process.forget_in(thread));
        }
        let sent = match thread {
            Some(i) => (self.process).send(Target::Thread(&mut self.threads[i]), info)?,
            None => to_process(&mut self.process, &self.threads[0], info)?,
        };
        assert_eq!(sent.resume, matches!(info.signal.number(), 9 | 18));
        Ok(sent.pending)
    }

    fn set_action(&mut self, signal: Signal, action: Action) -> bool {
        self.process.set_action(signal, action).is_ok()
    }
}

/// Does `op` to both and compares what they say.
fn both(real: &mut Real, model: &mut Model, op: Op) -> Result<(), TestCaseError> {
    match op {
        Op::ToProcess(info) => prop_assert_eq!(real.send(None, info), model.send(None, info)),
        Op::ToThread(i, info) => {
            prop_assert_eq!(real.send(Some(i), info), model.send(Some(i), info))
        }
        Op::Force(i, info) => {
            real.process.force(&mut real.threads[i], info);
            model.force(i, info);
        }
        Op::SetMask(i, mask) => {
            real.threads[i].set_blocked(SigSet(mask));
            model.threads[i].blocked = mask & !UNSTOPPABLE;
        }
        Op::Borrow(i, mask) => {
            real.threads[i].set_saved_mask(SigSet(mask));
            let thread = &mut model.threads[i];
            thread.saved.get_or_insert(thread.blocked);
            thread.blocked = mask & !UNSTOPPABLE;
        }
        Op::RestoreMask(i) => {
            real.threads[i].restore_mask();
            let thread = &mut model.threads[i];
            thread.blocked = thread.saved.take().unwrap_or(thread.blocked);
        }
        Op::SetAction(signal, action) => {
            let unstoppable = [9, 19].contains(&signal.number());
            prop_assert_eq!(real.set_action(signal, action), !unstoppable);
            if !unstoppable {
                model.set_action(signal.number(), action);
            }
        }
        Op::Next(i) => prop_assert_eq!(real.process.next(&mut real.threads[i]), model.next(i)),
        Op::Take(i, wanted) => {
            let taken = real.process.take(&mut real.threads[i], SigSet(wanted));
            prop_assert_eq!(taken, model.take(i, wanted));
        }
        Op::Limit(limit) => {
            real.process.limit_queue(limit as u64);
            model.limit = limit;
        }
        Op::Replace(i, mask) => {
            real.threads[i] = Thread::new(SigSet(mask), PLACES);
            model.threads[i] = ModelThread::new(mask);
        }
    }
    Ok(())
}

fn compare(real: &Real, model: &Model) -> Result<(), TestCaseError> {
    let waiting = |queue: &Queue| queue.keys().fold(0, |set, signal| set | bit(*signal));
    for (thread, expected) in real.threads.iter().zip(&model.threads) {
        let pending = waiting(&model.queue) | waiting(&expected.queue);
        prop_assert_eq!(thread.blocked(), SigSet(expected.blocked));
        prop_assert_eq!(
            real.process.blocked_pending(thread),
            SigSet(pending & expected.blocked)
        );
        prop_assert_eq!(
            real.process.has_deliverable(thread),
            pending & !expected.blocked != 0
        );
    }
    Ok(())
}

proptest! {
    #[test]
    fn several_threads_follow_signal_7(ops in proptest::collection::vec(op(), 1..120)) {
        let mut real = Real {
            process: Process::new(PLACES),
            threads: (0..THREADS).map(|_| Thread::new(SigSet::EMPTY, PLACES)).collect(),
        };
        let mut model = Model {
            actions: BTreeMap::new(),
            queue: Queue::new(),
            threads: (0..THREADS).map(|_| ModelThread::new(0)).collect(),
            limit: usize::MAX,
        };
        for op in ops {
            both(&mut real, &mut model, op)?;
            compare(&real, &model)?;
        }
    }
}

/// The limit once counted what waited for the process and for one thread: each further thread had as many places for itself.
/// Nor may a thread that ends keep its places.
#[test]
fn the_limit_counts_the_signals_of_all_threads() {
    let mut process = Process::new(PLACES);
    let mut threads = [(); 2].map(|()| Thread::new(SigSet(u64::MAX), PLACES));
    let main = Thread::new(SigSet(u64::MAX), PLACES);
    let queued = SigInfo::sent(number(40), code::QUEUE, 7, 0, 1);
    process.limit_queue(2);
    for thread in &mut threads {
        process.send(Target::Thread(thread), queued).unwrap();
    }
    assert_eq!(
        process.send(Target::Thread(&mut threads[0]), queued),
        Err(Errno::EAGAIN)
    );
    assert_eq!(to_process(&mut process, &main, queued), Err(Errno::EAGAIN));
    drop(threads);
    for _ in 0..2 {
        assert!(to_process(&mut process, &main, queued).is_ok());
    }
}

/// A thread that polled by sigtimedwait once took a signal that another was about to end by, and the process lived.
#[test]
fn what_ends_the_process_is_decided_when_it_is_sent() {
    let fatal = |signal, action| {
        let mut process = Process::new(PLACES);
        if let Some(action) = action {
            process.set_action(signal, action).unwrap();
        }
        let main = Thread::new(SigSet(u64::MAX), PLACES);
        let info = SigInfo::sent(signal, code::USER, 7, 0, 0);
        to_process(&mut process, &main, info).unwrap();
        process.is_fatal(signal).then_some((process, info))
    };
    let caught = Action {
        handler: HANDLER,
        ..Action::DEFAULT
    };
    let ignored = Action {
        handler: SIG_IGN,
        ..Action::DEFAULT
    };
    assert!(fatal(Signal::TERM, Some(caught)).is_none());
    assert!(fatal(Signal::TERM, Some(ignored)).is_none());
    assert!(fatal(Signal::QUIT, None).is_none(), "it dumps core");
    assert!(fatal(Signal::TSTP, None).is_none() && fatal(Signal::CHLD, None).is_none());
    assert!(fatal(Signal::KILL, None).is_some() && fatal(number(64), None).is_some());

    let (mut process, info) = fatal(Signal::TERM, None).unwrap();
    let mut blocks = Thread::new(SigSet(u64::MAX), PLACES);
    assert!(!process.has_deliverable(&blocks) && !process.has_fatal(&blocks));
    process.decide(None, info.signal);
    assert!(process.has_deliverable(&blocks) && process.has_fatal(&blocks));
    assert_eq!(process.take(&mut blocks, SigSet::of(Signal::TERM)), None);
    process.set_action(Signal::TERM, caught).unwrap();
    process.set_action(Signal::TERM, ignored).unwrap();
    process.reset_for_exec(&mut blocks);
    let kill = SigInfo::sent(Signal::KILL, code::USER, 7, 0, 0);
    process.send(Target::Thread(&mut blocks), kill).unwrap();
    process.decide(Some(&mut blocks), Signal::KILL);
    assert_eq!(process.coming(&mut blocks), Some(Signal::TERM));
    let ends = Some(Delivery::Terminate { info, core: false });
    for _ in 0..2 {
        assert_eq!(process.next(&mut blocks), ends, "each of its threads");
    }
}
