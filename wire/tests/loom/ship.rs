//! The ship slot: no side sleeps through what it waits for, requests and results arrive once and whole, and a core is not
//! rung any more when its call is over.

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use loom::thread;
use margay_wire::model;
use margay_wire::ship::{Caller, Request, Server, Slot};

use crate::{Doorbell, shared, try_all};

const EINTR: i64 = -4;

/// The two ends of a slot, and memory that a call reads and writes; loom says so if both sides use it at once.
#[derive(Clone)]
struct Ends {
    slot: Arc<Slot>,
    buffer: Arc<UnsafeCell<()>>,
    proxy: Doorbell,
    core: Doorbell,
    /// How often the core was rung: it may wake without.
    rings: Arc<AtomicU64>,
    /// Between post and return.
    calling: Arc<AtomicBool>,
}

impl Ends {
    fn new() -> Ends {
        Ends {
            slot: shared(),
            buffer: Arc::new(UnsafeCell::new(())),
            proxy: Doorbell::new(),
            core: Doorbell::new(),
            rings: Arc::new(AtomicU64::new(0)),
            calling: Arc::new(AtomicBool::new(false)),
        }
    }

    /// As the kernel: posts, spins (once), says that it waits, waits. `cancel`: cancels before it waits.
    fn call(&self, caller: &mut Caller, n: u64, cancel: bool) -> i64 {
        self.buffer.with_mut(drop);
        self.calling.store(true, Ordering::Relaxed);
        if caller.post(&self.slot, n, &[n; 6], n.is_multiple_of(2), n) {
            self.proxy.ring();
        }
        let ret = caller
            .result(&self.slot)
            .unwrap_or_else(|| self.wait(caller, cancel));
        self.calling.store(false, Ordering::Relaxed);
        self.buffer.with_mut(drop);
        ret
    }

    fn wait(&self, caller: &Caller, cancel: bool) -> i64 {
        let rings = self.rings.load(Ordering::Acquire);
        caller.announce_wait(&self.slot);
        // The device register that the kernel reads here.
        fence(Ordering::SeqCst);
        if caller.must_ring(&self.slot) {
            self.proxy.ring();
        }
        if cancel {
            caller.cancel(&self.slot);
            self.proxy.ring();
        }
        let ret = loop {
            if let Some(ret) = caller.result(&self.slot) {
                break ret;
            }
            self.core.wait();
        };
        loop {
            match caller.is_rung(&self.slot) {
                Some(true) if self.rings.load(Ordering::Acquire) == rings => self.core.wait(),
                Some(_) => break,
                None => thread::yield_now(),
            }
        }
        ret
    }

    /// As the worker: looks (once), says that it waits, waits.
    fn next(&self, server: &mut Server) -> Request {
        if let Some(request) = server.poll(&self.slot) {
            return request;
        }
        server.announce_wait(&self.slot, true);
        let request = loop {
            if let Some(request) = server.poll(&self.slot) {
                break request;
            }
            self.proxy.wait();
        };
        server.announce_wait(&self.slot, false);
        request
    }

    fn answer(&self, server: &Server, ret: i64) {
        self.buffer.with_mut(drop);
        if server.answer(&self.slot, ret) {
            assert!(self.calling.load(Ordering::Relaxed), "rung too late");
            self.rings.fetch_add(1, Ordering::Release);
            self.core.ring();
        }
    }

    fn serve(&self, calls: u64) {
        let mut server = Server::default();
        for n in 1..=calls {
            let request = self.next(&mut server);
            let whole = Request {
                seq: n,
                host_op: n.is_multiple_of(2),
                nr: n,
                args: [n; 6],
                log_position: n,
            };
            assert_eq!(request, whole);
            self.answer(&server, n as i64 * 10);
        }
        assert_eq!(server.poll(&self.slot), None, "served twice");
    }
}

#[test]
fn every_request_is_answered_once() {
    try_all(|| {
        let ends = Ends::new();
        let server = thread::spawn({
            let ends = ends.clone();
            move || ends.serve(2)
        });
        let mut caller = Caller::default();
        for n in 1..=2 {
            assert_eq!(ends.call(&mut caller, n, false), n as i64 * 10);
        }
        server.join().expect("the server ends");
    });
}

#[test]
fn a_caller_whose_fences_are_dropped_is_answered() {
    try_all(|| {
        let ends = Ends::new();
        let server = thread::spawn({
            let ends = ends.clone();
            move || ends.serve(2)
        });
        model::drop_fences();
        let mut caller = Caller::default();
        for n in 1..=2 {
            assert_eq!(ends.call(&mut caller, n, false), n as i64 * 10);
        }
        server.join().expect("the server ends");
    });
}

/// The first call blocks until it is given up or gets somewhere by itself, whichever the server sees first.
#[test]
fn giving_up_reaches_the_request_that_it_means_and_no_other() {
    try_all(|| {
        let ends = Ends::new();
        let server = thread::spawn({
            let ends = ends.clone();
            move || {
                let mut server = Server::default();
                let first = ends.next(&mut server);
                let given_up = ends.slot.cancelled(first.seq);
                ends.answer(&server, if given_up { EINTR } else { 10 });
                let second = ends.next(&mut server);
                assert!(!ends.slot.cancelled(second.seq), "an old wish");
                ends.answer(&server, 20);
            }
        });
        let mut caller = Caller::default();
        assert!([EINTR, 10].contains(&ends.call(&mut caller, 1, true)));
        assert_eq!(ends.call(&mut caller, 2, false), 20);
        server.join().expect("the server ends");
    });
}

/// A call that would block for ever: the server sleeps in it until the doorbell says that it is given up.
#[test]
fn giving_up_ends_a_call_that_blocks() {
    try_all(|| {
        let ends = Ends::new();
        let server = thread::spawn({
            let ends = ends.clone();
            move || {
                let mut server = Server::default();
                let request = ends.next(&mut server);
                while !ends.slot.cancelled(request.seq) {
                    ends.proxy.wait();
                }
                ends.answer(&server, EINTR);
            }
        });
        model::drop_fences();
        assert_eq!(ends.call(&mut Caller::default(), 1, true), EINTR);
        server.join().expect("the server ends");
    });
}

/// A worker that does not wait for the doorbell itself: the one that does checks its slot and wakes it.
#[test]
fn a_worker_is_woken_by_who_hears_the_doorbell() {
    try_all(|| {
        let ends = Ends::new();
        let (heard, over) = (Doorbell::new(), Arc::new(AtomicBool::new(false)));
        let server = thread::spawn({
            let worker = Ends {
                proxy: heard.clone(),
                ..ends.clone()
            };
            move || worker.serve(1)
        });
        let listener = thread::spawn({
            let (ends, over) = (ends.clone(), over.clone());
            move || {
                while !over.load(Ordering::Acquire) {
                    ends.proxy.wait();
                    if ends.slot.is_overdue() {
                        heard.ring();
                    }
                }
            }
        });
        assert_eq!(ends.call(&mut Caller::default(), 1, false), 10);
        over.store(true, Ordering::Release);
        ends.proxy.ring();
        server.join().expect("the server ends");
        listener.join().expect("the listener ends");
    });
}
