//! What cores and threads see of each other, tried out by loom. See README.md for how to run it.
#![cfg(loom)]
#![allow(
    clippy::arc_with_non_send_sync,
    reason = "loom runs its threads on one of the system: what they share need not be Sync"
)]

mod futex;
mod park;
mod queues;
mod slice;
