//! The begin and the end of a rank's program.

use abi::Errno;
use abi::control::Event;
use hal::addr::Phys;
use qk_core::sched::CoreSet;

use crate::rank::{Rank, Reload};
use crate::thread::Thread;
use crate::{crash, debug, events, preempt, sched, shared, timer, windows};

/// Of a status as wait(2) says it: there is a core file.
const CORE_WRITTEN: u64 = 0x80;

/// The program of a rank starts now, on `cores`: its main thread at `entry` with stack pointer `stack`.
///
/// # Errors
/// ENOMEM.
pub fn start(
    rank: &'static Rank,
    cores: CoreSet,
    entry_and_stack: [u64; 2],
    root: Phys,
) -> Result<(), Errno> {
    let first = cores.first().ok_or(Errno::EINVAL)?;
    sched::make_room(cores, 1)?;
    rank.main().task().make_context()?;
    rank.place(cores, first);
    timer::prepare_cpu_limit(rank);
    windows::open(rank, root);
    // The host's signals and its debugger's stop come before the program's first instruction.
    rank.host().runs();
    rank.threads().born();
    begin(rank.main(), entry_and_stack, root, first, cores);
    Ok(())
}

/// The new program starts, where the thread was that replaced the old one.
pub fn restart(rank: &'static Rank, reload: Reload, entry_and_stack: [u64; 2], root: Phys) {
    let main = rank.main();
    // That thread, or the first, may still be on its way off its core.
    while !main.task().is_vacant() {
        hal::cpu::pause();
        preempt::take_interrupts();
    }
    debug::program_replaced(main);
    begin(main, entry_and_stack, root, reload.core, reload.allowed);
}

/// Signals may wait for it, and a stop.
fn begin(
    main: &'static Thread,
    [entry, stack]: [u64; 2],
    root: Phys,
    core: usize,
    allowed: CoreSet,
) {
    main.pending().note_signal();
    let context = main.task().context();
    context.begin(entry, stack, root, sched::ARRIVED);
    sched::start(main.task(), Some(main), core, allowed);
}

/// The last thread of a rank, `last`, has ended: publishes how; its proxy does the same on the host.
pub fn exited(rank: &'static Rank, last: &'static Thread) {
    timer::clear(rank);
    rank.xpmem().program_ends();
    windows::close(rank);
    let mut status = rank.ending().status();
    if rank.ending().is_dumped() && crash::write(last) {
        status |= CORE_WRITTEN;
    }
    shared::text::end(rank);
    rank.leave_home();
    rank.host().exited(status, hal::task::mxcsr());
    events::post(Event::Exited(rank.id() as u32));
}
