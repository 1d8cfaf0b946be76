//! Dropping translations on the cores that run a rank's threads, before a change of its memory is done.
//!
//! A core is *in* a rank from when it is about to load the rank's page tables until it is about to load others: idle cores
//! keep the last. A change of memory sends a request to every core in the rank and waits until each has answered or left, with
//! interrupts let in, so that two that wait for each other both get their answers. It holds the address space, a sleeping lock,
//! and no spin lock. A core that loads page tables has no old translations: it answers without a request.
//!
//! What cores hold of other ranks' windows they drop with all the rest ([`flush_all_on`], [`drop_soon`]). Each request has a
//! number, higher than those before: a core that has done one has done all up to it, whichever cores made them.

use core::sync::atomic::{AtomicU64, Ordering};

use hal::addr::{Va, VaRange};
use hal::cpu::PerCpu;
use hal::vectors::VEC_TLB;
use qk_core::sched::{AtomicCoreSet, CoreSet};
use wire::boot::MAX_CPUS;

use crate::preempt;

/// A rank's requests to the cores that are in it.
pub struct Shootdown {
    /// Cores whose page tables are the rank's.
    inside: AtomicCoreSet,
    /// Cores that have not answered.
    asked: AtomicCoreSet,
    /// What is to be dropped: first address and end.
    range: [AtomicU64; 2],
}

/// The rank whose page tables each core has.
static LOADED: PerCpu<Shootdown> = PerCpu::new();

/// The last request to drop all translations.
static REQUESTS: AtomicU64 = AtomicU64::new(0);

/// Of each core the last request that is meant for it, and the last that it has done.
static ALL: [(AtomicU64, AtomicU64); MAX_CPUS] =
    [const { (AtomicU64::new(0), AtomicU64::new(0)) }; MAX_CPUS];

/// A new request, for these cores: its number.
fn request(cores: &CoreSet) -> u64 {
    let number = REQUESTS.fetch_add(1, Ordering::SeqCst) + 1;
    // BOUND: the cores.
    for cpu in cores.iter() {
        ALL[cpu].0.fetch_max(number, Ordering::SeqCst);
    }
    number
}

impl Shootdown {
    /// The cores whose page tables are the rank's.
    pub fn inside(&self) -> CoreSet {
        self.inside.load()
    }

    /// No core is inside.
    pub const fn new() -> Shootdown {
        Shootdown {
            inside: AtomicCoreSet::new(),
            asked: AtomicCoreSet::new(),
            range: [AtomicU64::new(0), AtomicU64::new(0)],
        }
    }
}

/// This core is about to load the page tables of `rank`, if it has not.
#[inline]
pub fn enter(rank: &'static Shootdown) {
    let before = LOADED.get();
    if before.is_some_and(|before| core::ptr::eq(before, rank)) {
        return;
    }
    let here = hal::cpu::id();
    if let Some(before) = before {
        before.inside.remove(here);
    }
    LOADED.set(Some(rank));
    rank.inside.insert(here);
    rank.asked.remove(here);
}

/// Drops translations of `range` on every core that is in `rank`. The caller holds the rank's address space, so there
/// is one at a time.
pub fn flush(rank: &Shootdown, range: VaRange) {
    hal::aspace::flush(range);
    ask(rank, range);
}

/// Has every other core that is in `rank` enter the kernel, and with it order its memory accesses.
pub fn barrier(rank: &Shootdown) {
    ask(rank, VaRange::default());
}

#[inline]
fn ask(rank: &Shootdown, range: VaRange) {
    if rank.inside.has_other_than(hal::cpu::id()) {
        ask_others(rank, range);
    }
}

fn ask_others(rank: &Shootdown, range: VaRange) {
    let mut others = rank.inside.load();
    others.remove(hal::cpu::id());
    rank.range[0].store(range.start.0, Ordering::Relaxed);
    rank.range[1].store(range.end.0, Ordering::Relaxed);
    rank.asked.store(others);
    // BOUND: the cores.
    for cpu in others.iter() {
        hal::cpu::send_ipi(cpu, VEC_TLB);
    }
    while !rank.asked.load().and(&rank.inside.load()).is_empty() {
        hal::cpu::pause();
        preempt::take_interrupts();
    }
}

/// Has each of `cores` drop all its translations; returns when they have. The caller holds no spin lock.
pub fn flush_all_on(cores: &CoreSet) {
    let number = request(cores);
    catch_up();
    let mut others = *cores;
    others.remove(hal::cpu::id());
    // BOUND: the cores.
    for cpu in others.iter() {
        hal::cpu::send_ipi(cpu, VEC_TLB);
    }
    for cpu in others.iter() {
        while ALL[cpu].1.load(Ordering::SeqCst) < number {
            hal::cpu::pause();
            preempt::take_interrupts();
        }
    }
}

/// The cores with a request to drop all their translations that have not yet.
pub fn not_dropped() -> CoreSet {
    let mut cores = CoreSet::EMPTY;
    // BOUND: the cores.
    for (cpu, (asked, done)) in ALL.iter().enumerate() {
        if done.load(Ordering::SeqCst) < asked.load(Ordering::SeqCst) {
            cores.insert(cpu);
        }
    }
    cores
}

/// Has the cores that are in `rank` drop all their translations when they next leave the kernel, without interrupting them: the
/// caller has its threads look.
pub fn drop_soon(rank: &Shootdown) {
    request(&rank.inside());
}

/// Drops all translations of this core, if that has been requested.
pub fn catch_up() {
    let (asked, done) = &ALL[hal::cpu::id()];
    let until = asked.load(Ordering::SeqCst);
    if done.load(Ordering::Relaxed) < until {
        hal::aspace::flush_all();
        done.store(until, Ordering::SeqCst);
    }
}

/// Another core's request has come.
pub fn asked() {
    catch_up();
    let here = hal::cpu::id();
    if let Some(rank) = LOADED.get()
        && rank.asked.contains(here)
    {
        let [start, end] = [0, 1].map(|i| Va(rank.range[i].load(Ordering::Relaxed)));
        hal::aspace::flush(start.until(end));
        rank.asked.remove(here);
    }
}
