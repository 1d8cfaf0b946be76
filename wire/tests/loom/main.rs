//! What threads may see of each other's words, tried out by loom: every order that the memory model allows, with a bound
//! on how often a thread is preempted. See README.md for how to run it.
//!
//! A doorbell is something that stays rung until it is waited for. Should a protocol lose a wake-up, a thread waits for
//! ever and loom says that all threads are blocked.
#![cfg(loom)]
#![allow(
    clippy::arc_with_non_send_sync,
    reason = "loom runs its threads on one of the system: what they share need not be Sync"
)]

mod rings;
mod seqlock;
mod ship;

use std::sync::Arc;

use loom::model::Builder;
use loom::sync::Notify;
use margay_wire::model;
use zerocopy::FromZeros;

/// How often threads are preempted where they could go on, at most; with one more it takes minutes.
const PREEMPTIONS: usize = 2;

fn try_all(scene: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    builder.max_branches = 5_000;
    builder.check(scene);
}

/// Memory that threads share; zero, as when the node starts.
fn shared<T: FromZeros>() -> Arc<T> {
    let memory = Arc::new(T::new_zeroed());
    model::share(&*memory);
    memory
}

/// An eventfd, or a pending interrupt.
#[derive(Clone)]
struct Doorbell(Arc<Notify>);

impl Doorbell {
    fn new() -> Doorbell {
        Doorbell(Arc::new(Notify::new()))
    }

    fn ring(&self) {
        self.0.notify();
    }

    fn wait(&self) {
        self.0.wait();
    }
}
