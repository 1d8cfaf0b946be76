//! News for the PCT: proxies that attached, ranks that ended.

use core::sync::atomic::{AtomicBool, Ordering};

use abi::control::Event;
use abi::map::MAX_RANKS;
use arrayvec::ArrayVec;
use hal::sync::Mutex;

use crate::{rank, sched};

/// Each rank attaches once and ends once, and has its program replaced once at a time.
static QUEUE: Mutex<ArrayVec<Event, { 3 * MAX_RANKS }>> = Mutex::new(ArrayVec::new_const());
/// The PCT is gone: nobody is told any more.
static PCT_LOST: AtomicBool = AtomicBool::new(false);

/// Adds an event and lets the PCT run on this core.
pub fn post(event: Event) {
    if PCT_LOST.load(Ordering::Acquire) {
        return;
    }
    QUEUE.lock().push(event);
    sched::unpark_pct();
}

/// Looks for proxies that attached: of the ranks whose proxies ring core `cpu`, when they rang.
pub fn look(cpu: usize) {
    // BOUND: the ranks of a core; each attaches once, before it runs.
    for rank in rank::home::ranks(cpu) {
        if rank.attach() {
            post(Event::Attached(rank.id as u32));
        }
    }
}

/// The next event, for the PCT; waits for one.
pub fn wait() -> Event {
    loop {
        if let Some(event) = QUEUE.lock().pop_at(0) {
            return event;
        }
        sched::park();
    }
}

/// The PCT ended: the host is told that no rank can be started any more.
pub fn pct_is_lost() {
    PCT_LOST.store(true, Ordering::Release);
    let header = crate::comm::get().header();
    header.reach(wire::boot::node::PCT_LOST);
    hal::doorbell::ring(rank::all().len() as u16);
}
