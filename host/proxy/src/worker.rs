//! A worker: takes requests from the ship slot of one thread of the rank and answers them.
//!
//! It spins briefly for the next request, for a program that has just been answered often ships again at once, and then
//! blocks until the node rings. It yields while it spins, and never spins for long: with fewer host CPUs than threads the
//! one that runs the program may be waiting for this very CPU, and a worker that has used little of its time is put on
//! ahead of it when it is woken.
//!
//! # Who is woken
//! The node rings the same doorbell for a new request of any thread, for a call to give up and when the rank has ended.
//! The first worker and the watcher wait for it with an epoll set each, both exclusive and the worker's first: Linux wakes
//! the worker when it waits there and the watcher otherwise. Should it wake both, nothing is lost but time. Both sets are
//! edge-triggered: each ring is reported once, and the doorbell need not be read (its counter overflows after 2^64 rings).
//! The one that is woken wakes the other workers (module `workers`).

use std::hint;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::epoll;
use rustix::io;
use wire::ship::{Request, Server, Slot};

use crate::call::Caller;
use crate::end;
use crate::heritage;
use crate::host_op;
use crate::rank::Rank;
use crate::terminal;

/// How long to spin. On two busy CPUs a shipped lseek takes half as long in the mean as with 20 us.
const SPIN: Duration = Duration::from_micros(2);

/// Serves the rank's first thread until the process ends with the rank.
pub fn run((rank, doorbell_set): (&'static Rank, OwnedFd)) -> ! {
    serve(rank, 0, || {
        wait(&doorbell_set);
        // The ring may be for any worker.
        rank.workers.wake(rank);
        if rank.workers.any_to_kick(rank) {
            rank.ring_watcher();
        }
    })
}

/// Serves another thread of it: the thread that the doorbell wakes wakes this one.
pub fn sleep_and_serve(rank: &'static Rank, index: usize) -> ! {
    serve(rank, index, std::thread::park)
}

/// Serves a thread's slot; `wait` blocks until there may be a request.
fn serve(rank: &'static Rank, index: usize, wait: impl Fn()) -> ! {
    let slot = &rank.words.threads[index].slot;
    let mut server = Server::default();
    let mut caller = Caller::new(rank, index);
    loop {
        let request = next(rank, slot, &mut server, &wait);
        let ret = carry_out(rank, index, &mut caller, &request);
        if server.answer(slot, ret) {
            rank.ring_thread(index);
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
    let ret = interruptible(rank, index, request.seq, || {
        caller.carry_out(request.nr, &request.args)
    });
    terminal::hand_over();
    ret
}

/// Does something for request `seq` of a thread that the node may give up: then calls that block in Linux say EINTR.
pub fn interruptible<T>(rank: &Rank, index: usize, seq: u64, work: impl FnOnce() -> T) -> T {
    let kick = &rank.workers.at(index).kick;
    kick.begin(seq);
    // A watcher that was rung before `begin` did not see the call as running: so check once after.
    if rank.words.threads[index].slot.cancelled(seq) {
        rank.ring_watcher();
    }
    let result = work();
    kick.finish();
    result
}

/// Waits for the next request.
fn next(rank: &Rank, slot: &Slot, server: &mut Server, wait: impl Fn()) -> Request {
    let start = Instant::now();
    while start.elapsed() < SPIN {
        for _ in 0..16 {
            if let Some(request) = server.poll(slot) {
                return request;
            }
            hint::spin_loop();
        }
        std::thread::yield_now();
    }
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

/// Blocks until the node rings.
fn wait(doorbell_set: &OwnedFd) {
    let mut events = [const { std::mem::MaybeUninit::<epoll::Event>::uninit() }; 1];
    // Interrupted or not: the caller looks again.
    let _ = epoll::wait(doorbell_set, &mut events, None);
}

/// An epoll set that wakes one waiter for each ring of the doorbell: the worker's when it is made first.
///
/// # Errors
/// What epoll says.
pub fn doorbell_set(doorbell: &OwnedFd) -> io::Result<OwnedFd> {
    let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let events = epoll::EventFlags::IN | epoll::EventFlags::ET | epoll::EventFlags::EXCLUSIVE;
    epoll::add(&set, doorbell, epoll::EventData::new_u64(0), events)?;
    Ok(set)
}
