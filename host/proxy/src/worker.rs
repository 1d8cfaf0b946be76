//! The worker: takes requests from the rank's ship slot and answers them.
//!
//! It spins briefly for the next request, for a program that has just been answered often ships again at once, and then
//! blocks until the node rings. It yields while it spins, and never spins for long: with fewer host CPUs than threads the
//! one that runs the program may be waiting for this very CPU, and a worker that has used little of its time is put on
//! ahead of it when it is woken.
//!
//! # Who is woken
//! The node rings the same doorbell for a new request, for a call to give up and when the rank has ended. Worker and
//! watcher wait for it with an epoll set each, both exclusive and the worker's first: Linux wakes the worker when it
//! waits there and the watcher otherwise. Should it wake both, nothing is lost but time. Both sets are edge-triggered: each
//! ring is reported once, and nobody has to read the doorbell (its counter overflows after 2^64 rings).

use std::hint;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::epoll;
use rustix::io;
use wire::ship::{Request, Server, Slot};

use crate::call::Caller;
use crate::end;
use crate::host_op;
use crate::rank::Rank;
use crate::terminal;

/// How long to spin. On two busy CPUs a shipped lseek takes half as long in the mean as with 20 us.
const SPIN: Duration = Duration::from_micros(2);

/// Serves the rank until it ends, which the process does with it.
pub fn run((rank, doorbell_set): (&'static Rank, OwnedFd)) -> ! {
    let slot = &rank.words.threads[0].slot;
    let mut server = Server::default();
    let mut caller = Caller::new(rank);
    loop {
        let request = next(rank, slot, &mut server, &doorbell_set);
        let ret = carry_out(rank, slot, &mut caller, &request);
        if server.answer(slot, ret) {
            rank.ring_thread(0);
        }
    }
}

fn carry_out(rank: &Rank, slot: &Slot, caller: &mut Caller, request: &Request) -> i64 {
    if let Err(why) = rank.catch_up(request.log_position) {
        end::broken(rank, &why);
    }
    if request.host_op {
        return host_op::carry_out(rank, request.nr, &request.args)
            .unwrap_or_else(|why| end::broken(rank, &why));
    }
    rank.kick.begin(request.seq);
    // A watcher that was rung before `begin` could not know that the call runs: so look once after.
    if slot.cancelled(request.seq) {
        rank.ring_watcher();
    }
    let ret = caller.carry_out(request.nr, &request.args);
    rank.kick.finish();
    terminal::hand_over(rank);
    ret
}

/// Waits for the next request.
fn next(rank: &'static Rank, slot: &Slot, server: &mut Server, doorbell_set: &OwnedFd) -> Request {
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
        wait(doorbell_set);
        terminal::hand_over(rank);
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
