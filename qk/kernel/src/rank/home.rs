//! The core that a rank's proxy rings, and of each core the ranks that it may be rung for.

use core::sync::atomic::Ordering;

use abi::cores::Cores;
use alloc::boxed::Box;
use hal::sync::Once;
use qk_core::set::AtomicSet;
use wire::boot::Config;

use super::{Rank, all};

/// Of each core the ranks whose proxies ring it, but for those that have ended: a core is not to look at all of a node.
static RANKS: Once<Box<[AtomicSet]>> = Once::new();

/// The core that the proxy of rank `id` rings until the PCT has placed the rank: one that the rank will run on, unless the PCT
/// decides differently from [`Cores::of`].
pub(super) fn first(id: usize, config: &Config) -> usize {
    Cores::of(id as u64, config.ranks as u64, config.cpus as u64)
        .map_or(0, |cores| cores.first as usize)
}

/// Takes note of the ranks' first homes.
pub(super) fn init(cpus: usize) {
    // BOUND: before the first program.
    let sets: Box<[AtomicSet]> = (0..cpus).map(|_| AtomicSet::new()).collect();
    // BOUND: before the first program.
    for rank in all() {
        sets[rank.home()].insert(rank.id);
    }
    assert!(RANKS.set(sets).is_ok(), "homes found twice");
}

/// The ranks whose proxies ring core `cpu`, but for those that have ended.
pub fn ranks(cpu: usize) -> impl Iterator<Item = &'static Rank> {
    let set = RANKS.get().map(|sets| sets[cpu].load());
    set.into_iter()
        .flat_map(|set| set.iter())
        .map(|id| &all()[id])
}

impl Rank {
    /// The core that its proxy rings.
    #[inline]
    pub fn home(&self) -> usize {
        self.home.load(Ordering::Relaxed)
    }

    /// Its proxy rings core `cpu` from now on.
    pub(super) fn settle(&self, cpu: usize) {
        let before = self.home.swap(cpu, Ordering::Relaxed);
        let sets = RANKS.get().expect("found when the ranks were made");
        // At no moment does no core look at it.
        sets[cpu].insert(self.id);
        if before != cpu {
            sets[before].remove(self.id);
        }
    }

    /// It has ended: no core is to look at it when its proxy's core is rung.
    pub fn leave_home(&self) {
        let sets = RANKS.get().expect("found when the ranks were made");
        sets[self.home()].remove(self.id);
    }
}
