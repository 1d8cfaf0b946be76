//! A worker: takes requests from the ship slot of one thread of the rank and answers them.
//!
//! It spins briefly for the next request, for a program that has just been answered often ships again soon (module `spin`), and then
//! blocks until the node signals the doorbell.
//!
//! # Who is woken
//! The node signals the same doorbell for a new request of any thread, for a call to give up and when the rank has ended.
//! The first worker and the watcher wait for it with an epoll set each, both exclusive and the worker's first: Linux wakes
//! the worker when it waits there and the watcher otherwise. Should it wake both, nothing is lost but time. Both sets are
//! edge-triggered: each signal is reported once, and the doorbell need not be read (its counter overflows after 2^64 of them).
//! The one that is woken wakes the other workers (module `workers`).

use std::hint;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use abi::Errno;
use wire::ship::{Request, Server, Slot};

use crate::call::Caller;
use crate::cancel;
use crate::doorbell;
use crate::end;
use crate::heritage;
use crate::host_op;
use crate::left;
use crate::rank::Rank;
use crate::signals;
use crate::spin::Spin;
use crate::terminal;

/// Bytes of a worker's stack. What it works with is on the heap.
const STACK_BYTES: usize = 256 << 10;

/// Serves the rank's first thread until the process ends with the rank.
pub fn run((rank, doorbell_set): (&'static Rank, OwnedFd)) -> ! {
    serve(rank, 0, || {
        doorbell::wait(&doorbell_set);
        // It may be for any worker.
        rank.wake_workers();
        left::take(rank);
        if rank.has_calls_to_kick() {
            rank.wake_watcher();
        }
    })
}

/// Serves another thread of it: the thread that the doorbell wakes wakes this one.
pub fn sleep_and_serve(rank: &'static Rank, index: usize) -> ! {
    serve(rank, index, std::thread::park)
}

/// Serves a thread's slot; `wait` blocks until there may be a request.
fn serve(rank: &'static Rank, index: usize, wait: impl Fn()) -> ! {
    let slot = &rank.words().threads[index].slot;
    let mut server = Server::default();
    let mut caller = Caller::new(rank, index);
    let spin = Spin::default();
    loop {
        let request = match poll(slot, &mut server, &spin) {
            Some(request) => request,
            None => next(rank, slot, &mut server, &wait),
        };
        let ret = carry_out(rank, index, &mut caller, &request);
        if server.answer(slot, ret) {
            rank.link().signal_thread(index);
        }
    }
}

fn carry_out(rank: &'static Rank, index: usize, caller: &mut Caller, request: &Request) -> i64 {
    if let Err(why) = rank.catch_up(request.log_position) {
        end::broken(rank, &why);
    }
    if request.host_op {
        return host_op::carry_out(rank, index, request)
            .unwrap_or_else(|why| end::broken(rank, &why));
    }
    heritage::settle(rank, index);
    let ret = cancel::interruptible(rank, index, request.seq, || {
        caller.carry_out(request.nr, &request.args)
    });
    terminal::hand_over();
    ret
}

/// Spins for the next request.
fn poll(slot: &Slot, server: &mut Server, spin: &Spin) -> Option<Request> {
    let (start, limit) = (Instant::now(), spin.limit());
    let mut request = server.poll(slot);
    while request.is_none() && start.elapsed() < limit {
        hint::spin_loop();
        request = server.poll(slot);
    }
    // One that was found later Linux kept from the CPU: others need that.
    spin.ended(request.is_some() && start.elapsed() < limit);
    request
}

/// Waits for the next request.
fn next(rank: &Rank, slot: &Slot, server: &mut Server, wait: impl Fn()) -> Request {
    server.announce_wait(slot, true);
    let request = loop {
        if let Some(request) = server.poll(slot) {
            break request;
        }
        end::if_over(rank);
        wait();
        terminal::hand_over();
    };
    server.announce_wait(slot, false);
    request
}

/// Carries out [`abi::control::HostOp::GrowWorkers`]: sees to it that there are `wanted` workers, and returns how many there are.
///
/// # Errors
/// EAGAIN when there cannot be so many.
pub fn grow(rank: &'static Rank, wanted: u64) -> Result<usize, Errno> {
    let announce = |count| rank.words().area.host.workers.store(count as u64);
    rank.workers()
        .grow(wanted, |indices| start(rank, indices), announce)
}

/// Starts the workers with these indices, as many of them as Linux makes threads; returns how many those are.
fn start(rank: &'static Rank, indices: Range<usize>) -> usize {
    let (known, all_known) = mpsc::channel();
    let mut started = 0;
    for index in indices {
        let known = known.clone();
        let run = move || {
            // The C library starts threads with its cancellation signal unblocked.
            signals::mask(signals::How::Set, rank.reception().blocked());
            let tid = rustix::thread::gettid().as_raw_pid() as u32;
            rank.workers().at(index).begin(tid);
            rank.words().threads[index].host.tid.put(tid.into());
            let _ = known.send(());
            drop(known);
            sleep_and_serve(rank, index)
        };
        if thread::Builder::new()
            .stack_size(STACK_BYTES)
            .spawn(run)
            .is_err()
        {
            break;
        }
        started += 1;
    }
    // Each sends one when its thread id is known.
    all_known.iter().take(started).count()
}
