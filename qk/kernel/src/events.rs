//! Events for the PCT: proxies that attached, ranks that ended.

use core::sync::atomic::{AtomicBool, Ordering};

use abi::control::Event;
use abi::map::MAX_RANKS;
use arrayvec::ArrayVec;
use hal::sync::{Mutex, class};

use crate::rank::Rank;
use crate::{host, preempt, rank, sched};

/// Each rank attaches once and ends once, and has its program replaced once at a time.
static QUEUE: Mutex<ArrayVec<Event, { 3 * MAX_RANKS }>, class::Events> =
    Mutex::new(ArrayVec::new_const());
/// A proxy has attached that the PCT has not taken note of.
static HAS_NEW: AtomicBool = AtomicBool::new(false);
/// Work of looking whether a proxy attached, and of taking over what one says, in instructions.
const LOOK_WORK: u32 = 20;
const ATTACH_WORK: u32 = 1000;
/// The PCT is gone: events are dropped.
static PCT_LOST: AtomicBool = AtomicBool::new(false);

/// Adds an event and lets the PCT run on this core.
pub fn post(event: Event) {
    if PCT_LOST.load(Ordering::Acquire) {
        return;
    }
    QUEUE.lock().push(event);
    sched::unpark_pct();
}

/// A proxy of a rank rang core `cpu`: if it attached, the PCT is to take note of it. Not the interrupt: all ranks of a core may
/// attach at once, and what is taken over of each is long.
pub fn look(cpu: usize) {
    // BOUND: the ranks of a core, a few instructions each.
    let is_new = rank::home::ranks(cpu).any(Rank::is_new);
    if is_new && !PCT_LOST.load(Ordering::Acquire) {
        HAS_NEW.store(true, Ordering::SeqCst);
        sched::unpark_pct();
    }
}

/// Looks for proxies that attached, if a core was rung by one since it last did: each of many ranks' events would else cost a look
/// at all of them.
fn look_for_new() {
    if !HAS_NEW.swap(false, Ordering::SeqCst) {
        return;
    }
    for rank in rank::all() {
        preempt::point(LOOK_WORK);
        if rank.attach() {
            preempt::point(ATTACH_WORK);
            QUEUE.lock().push(Event::Attached(rank.id() as u32));
        }
    }
}

/// The next event, for the PCT; waits for one.
pub fn wait() -> Event {
    loop {
        look_for_new();
        if let Some(event) = QUEUE.lock().pop_at(0) {
            return event;
        }
        sched::park();
    }
}

/// The PCT ended: the host is notified that no rank can be started any more.
pub fn pct_is_lost() {
    PCT_LOST.store(true, Ordering::Release);
    host::pct_is_lost();
}
