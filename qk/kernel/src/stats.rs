//! Counting: which counters are always on, and what the rest costs, is said in `wire::stats`.

use core::sync::atomic::{AtomicU64, Ordering};

use hal::cpu::PerCpu;
use wire::boot::{MAX_CPUS, flag};
use wire::stats::CpuStats;

use crate::host;

/// The counters of each core that counts.
static COUNTERS: PerCpu<CpuStats> = PerCpu::new();

/// This core counts from now on: what comes before is boot.
pub fn begin() {
    let cpu = hal::cpu::id();
    let counters = host::counters(cpu);
    COUNTERS.set(Some(counters));
    let speed = hal::cpu::speed();
    counters.performance.put(speed.performance);
    counters.lifted.put(speed.lifted);
    hal::cpu::set_entry_counter(cpu, counters.entries.as_atomic());
    section_starts();
}

/// This core's counters.
///
/// # Panics
/// Before [`begin`].
#[inline]
pub fn here() -> &'static CpuStats {
    COUNTERS.get().expect("a core counts before it runs tasks")
}

/// Whether the dearer counters are on.
pub fn counting() -> bool {
    host::config().has(flag::COUNTERS)
}

/// When interrupts were last turned off on each core, in TSC ticks; 0: the core does not count yet.
static OFF_SINCE: [AtomicU64; MAX_CPUS] = [const { AtomicU64::new(0) }; MAX_CPUS];

/// Starts a section with interrupts off: the kernel was entered, or interrupts were let in and are off again.
pub fn section_starts() {
    OFF_SINCE[hal::cpu::id()].store(hal::time::tsc(), Ordering::Relaxed);
}

/// Ends the section that [`section_starts`] began. What comes before the core's first one is boot and does not count.
pub fn section_ends() {
    let since = OFF_SINCE[hal::cpu::id()].load(Ordering::Relaxed);
    if since == 0 {
        return;
    }
    let ticks = hal::time::tsc() - since;
    let stats = here();
    stats.kernel_ticks.add(ticks);
    if ticks > stats.irqs_off_max_ticks.peek() {
        stats.irqs_off_max_ticks.put(ticks);
    }
}

/// Does `work`, with interrupts on, as the end of one section with interrupts off and the start of the next. It is time in the
/// kernel, too; of the handlers that come in meanwhile each counts its own.
pub fn between_sections(work: impl FnOnce()) {
    section_ends();
    let kernel_ticks = &here().kernel_ticks;
    let (begun, counted) = (hal::time::tsc(), kernel_ticks.peek());
    work();
    let of_handlers = kernel_ticks.peek() - counted;
    kernel_ticks.add(hal::time::tsc() - begun - of_handlers);
    section_starts();
}

/// Counts time spent waiting, for the host or for a deadline.
pub fn waited(ticks: u64) {
    if counting() {
        here().ship_wait_ticks.add(ticks);
    }
}

/// Runs `halt` (which lets interrupts in) as the end of one section with interrupts off and the start of the next.
pub fn halting(halt: fn()) {
    if counting() {
        section_ends();
        halt();
        section_starts();
    } else {
        halt();
    }
}

/// Counts a call by its number.
pub fn count_call(nr: u64) {
    let stats = here();
    if let Some(counter) = stats.by_call.get(nr as usize) {
        counter.add(1);
    }
    stats.local_calls.add(1);
}

/// Moves a call from the local ones to the shipped ones.
pub fn count_shipped() {
    if counting() {
        let stats = here();
        stats
            .local_calls
            .put(stats.local_calls.peek().wrapping_sub(1));
        stats.shipped_calls.add(1);
    }
}
