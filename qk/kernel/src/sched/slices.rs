//! How long tasks keep a core that others wait for.

use core::sync::atomic::{AtomicU64, Ordering};

use qk_core::sched::slice::{Due, Slice};
use wire::boot::MAX_CPUS;

use super::task::{CURRENT, hooks, is_owned, is_wanted};
use crate::{clock, one_shot};

/// How long a task runs when others wait for its core.
pub const SLICE_NS: u64 = 4_000_000;

/// Of the task on each core (TSC).
static SLICES: [Slice; MAX_CPUS] = [const { Slice::new() }; MAX_CPUS];

fn here() -> &'static Slice {
    &SLICES[hal::cpu::id()]
}

/// [`SLICE_NS`] in TSC ticks: not to be worked out at each switch.
static SLICE_TICKS: AtomicU64 = AtomicU64::new(0);

/// To be called once the clock is known.
pub(super) fn init() {
    SLICE_TICKS.store(clock::ticks(SLICE_NS), Ordering::Relaxed);
}

/// The end of a slice that begins now (TSC).
fn end_of_new() -> u64 {
    hal::time::tsc() + SLICE_TICKS.load(Ordering::Relaxed)
}

/// A task has got this core; `shared`: the one before it will wait for it. Returns the end of its slice (TSC); 0: never.
#[inline]
pub fn begin(shared: bool) -> u64 {
    here().begin(shared, is_wanted, end_of_new)
}

/// When this core's timer is due, which is due at `tsc` without the slice.
pub fn due(tsc: u64) -> u64 {
    match here().due(tsc, hal::time::tsc) {
        Due::At(end) => end,
        Due::Over => {
            note_work();
            tsc
        }
    }
}

fn note_work() {
    if let Some(owner) = CURRENT.get().and_then(|task| task.owner()) {
        owner.note_work();
    }
}

/// This core is not shared any more: it runs nothing, or a task that yields by itself.
#[inline]
pub(super) fn alone() {
    if here().is_shared() {
        end_sharing();
    }
}

#[cold]
#[inline(never)] // Out of the way of a task that yields by itself.
fn end_sharing() {
    here().begin(false, || is_owned() && is_wanted(), end_of_new);
    (hooks().arm)();
}

/// Others wait for this core: what runs there has a slice from now on.
pub fn share() {
    if is_owned()
        && let Some(end) = here().share(end_of_new)
        && end < one_shot::due()
    {
        one_shot::set(end);
    }
}

/// What runs here lets others go first before it returns to ring 3.
pub(super) fn end() {
    if is_owned() {
        here().end();
        note_work();
    }
}

/// Whether what runs on core `cpu` has a slice only.
pub(super) fn is_shared(cpu: usize) -> bool {
    SLICES[cpu].is_shared()
}

/// Whether the slice of what runs here is over.
#[inline]
pub fn is_over() -> bool {
    here().is_over(hal::time::tsc)
}
