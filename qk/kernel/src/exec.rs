//! Replacing a rank's program (execve(2)), from the point of no return on: docs/adr/0022.
//!
//! The thread that replaces it has the others end and waits for that. Then it clears what was the program's, and the address
//! space, hands what stays to the rank's first thread, and ends as a task. The PCT loads the new program as it loads any, and
//! starts that first thread.

use abi::Errno;
use abi::control::{Event, HostOp};
use qk_core::signals::{SigInfo, Signal, code};

use crate::aspace::Aspace;
use crate::host::{ship, trace};
use crate::rank::{Rank, Reload};
use crate::thread::Thread;
use crate::{children, events, futex, sched, shared, signal, timer, windows};

/// Waits until the calling thread is its rank's only one. `false`: the rank ends.
pub fn await_others(thread: &'static Thread) -> bool {
    let rank = thread.rank();
    thread.waiting(|| {
        while rank.threads().live() > 1 && !rank.ending().is_decided() {
            sched::park();
        }
    });
    !rank.ending().is_decided()
}

/// Replaces the program of a rank whose only thread calls, by call `nr` with `args`. Returns only when the proxy breaks the
/// protocol: then SIGKILL waits for the thread.
pub fn replace(thread: &'static Thread, nr: u64, args: &[u64; 6]) {
    futex::thread_ends(thread);
    let done = forget_program(thread);
    thread.rank().ending().end_exec();
    if done.is_ok() {
        trace::exit(thread, nr, args, 0);
        hand_over(thread);
    }
    let _ = signal::send_thread(thread, SigInfo::new(Signal::KILL, code::KERNEL));
}

/// Nothing of the old program stays but what a program inherits.
///
/// # Errors
/// The proxy's.
fn forget_program(thread: &'static Thread) -> Result<(), Errno> {
    let rank = thread.rank();
    timer::clear_posix(rank);
    let child_action = {
        let mut signals = rank.signals();
        let own = &mut thread.signals().thread;
        signals.process.reset_for_exec(own);
        signals.process.action(Signal::CHLD)
    };
    rank.attributes().set_dumpable(true);
    rank.attributes().forget_barriers();
    rank.xpmem().program_ends();
    let contexts = rank.aio().take_all();
    drop(contexts);
    rank.host().program_ends();
    rank.with_aspace(|aspace| shared::complete(thread, aspace, Aspace::clear))?;
    // With it the proxy lets go of all memory.
    ship::host_op(thread, HostOp::CommitExec, [])?;
    children::publish_action(thread, &child_action);
    Ok(())
}

/// Leaves the rank to its first thread, and that to the PCT.
fn hand_over(thread: &'static Thread) -> ! {
    let rank = thread.rank();
    let reload = Reload {
        core: thread.task().core(),
        allowed: thread.task().allowed(),
    };
    timer::set_sleep(thread, None);
    rank.main().resume_as(thread);
    rank.host().note_exec();
    rank.turns().begin_reload(reload);
    events::post(Event::Exec(rank.id() as u32));
    sched::exit()
}

/// The new program cannot be loaded: the rank is over, without a thread that could say so.
pub fn give_up(rank: &'static Rank) {
    timer::clear(rank);
    windows::close(rank);
    rank.main().end();
}
