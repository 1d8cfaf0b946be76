//! The end of a thread, and of a rank.
//!
//! A rank's end is decided once ([`Rank::end`](crate::rank::Rank::end)); each of its threads then ends on its way back to
//! ring 3, and the last one publishes it. So do all threads but one when that replaces the program ([`crate::exec`]).

use abi::halt::Halt;
use hal::traps::UserFrame;
use qk_core::signals::SigSet;

use crate::halt::halt;
use crate::thread::Thread;
use crate::{futex, life, sched, shared, signal, timer};

/// Ends the rank of the calling thread, and the thread; `wait_status` as wait(2) says it.
pub fn end(thread: &'static Thread, wait_status: u64) -> ! {
    thread.rank().end(wait_status, false);
    leave(thread)
}

/// Ends the calling thread of a rank that goes on if it has others. What waits for its end is woken.
pub fn exit_thread(thread: &'static Thread, code: u64) -> ! {
    let rank = thread.rank();
    rank.ending().note_exit((code & 0xff) << 8);
    if rank.threads().live() > 1 {
        futex::thread_ends(thread);
    }
    leave(thread)
}

/// The calling thread runs no more, for its rank's end is decided, or another thread replaces the program. `frame` is what it would have returned to ring 3 with, from
/// call `nr` if it is one.
#[cold]
#[inline(never)]
pub fn leave_ending(thread: &'static Thread, frame: &UserFrame, nr: Option<u64>) -> ! {
    if thread.rank().ending().is_dumped() {
        let mut frame = *frame;
        halt(thread, &mut frame, nr, Halt::Ends, 0);
    }
    if !thread.rank().ending().is_decided() {
        futex::thread_ends(thread);
    }
    leave(thread)
}

/// The calling thread runs no more.
fn leave(thread: &'static Thread) -> ! {
    let rank = thread.rank();
    timer::set_sleep(thread, None);
    if !rank.ending().is_decided() {
        signal::left::thread_ends(thread);
    }
    // Other ranks may wait for its locks.
    if rank.memory().maps_objects() && !thread.program().has_begun_end() {
        futex::thread_ends(thread);
    }
    thread.end();
    // From here on no signal of the process is announced to it: those that were are for others to take.
    if !rank.ending().is_decided() {
        signal::claim(thread);
        signal::hand_over(thread, SigSet(u64::MAX));
    }
    timer::posix::thread_ends(thread);
    thread.signals().thread.end();
    if rank.threads().died() {
        shared::let_go_objects(thread);
        life::exited(rank, thread);
    } else {
        rank.notify_executor();
    }
    sched::exit()
}
