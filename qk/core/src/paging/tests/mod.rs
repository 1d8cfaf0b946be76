//! The walks by example, over table memory in a hash map.

mod model;

use super::*;
use crate::page::PageSize;
use crate::regions::Prot;
use std::collections::HashMap;
use std::vec::Vec;

const P: u64 = 4096;
const M2: u64 = PageSize::Size2M.bytes();
const G1: u64 = PageSize::Size1G.bytes();
const ROOT: u64 = 0x1000;

/// Table memory in a hash map, with a budget of tables.
struct Mem {
    tables: HashMap<u64, std::boxed::Box<[u64; 512]>>,
    next: u64,
    budget: usize,
    /// Before the next exchange, hardware sets D in the entry it is about.
    race: bool,
}

impl Mem {
    fn new(budget: usize) -> Self {
        let tables = HashMap::from([(ROOT, std::boxed::Box::new([0; 512]))]);
        Self {
            tables,
            next: 0x100_0000,
            budget,
            race: false,
        }
    }

    /// Checks that every count is right and no empty table but the top one is left.
    fn check(&self) {
        let top = own_table(self, ROOT);
        let seen = top.map_or(0, |table| self.check_table(table, 3));
        assert_eq!(self.tables.len(), 1 + seen, "a table leaked");
    }

    fn check_table(&self, table: u64, level: entry::Level) -> usize {
        let mut seen = 1;
        for e in self.tables[&table].map(Entry) {
            if e.is_table(level) {
                let below = &self.tables[&e.address()];
                let used = below.iter().filter(|e| **e != 0).count() as u64;
                assert_eq!(e.count(), used);
                assert!(used > 0, "an empty table was kept");
                seen += self.check_table(e.address(), level - 1);
            }
        }
        seen
    }
}

impl Tables for Mem {
    fn read(&self, table: u64, index: usize) -> u64 {
        self.tables[&table][index]
    }
    fn write(&mut self, table: u64, index: usize, entry: u64) {
        self.tables.get_mut(&table).unwrap()[index] = entry;
    }
    fn exchange(&mut self, table: u64, index: usize, current: u64, new: u64) -> Result<(), u64> {
        let cell = &mut self.tables.get_mut(&table).unwrap()[index];
        if core::mem::take(&mut self.race) {
            *cell |= entry::D;
        }
        if *cell != current {
            return Err(*cell);
        }
        *cell = new;
        Ok(())
    }
    fn alloc_table(&mut self) -> Option<u64> {
        self.budget = self.budget.checked_sub(1)?;
        self.next += P;
        self.tables
            .insert(self.next, std::boxed::Box::new([0; 512]));
        Some(self.next)
    }
    fn free_table(&mut self, frame: u64) {
        let table = self.tables.remove(&frame).expect("freed twice");
        assert!(table.iter().all(|e| *e == 0), "freed a table in use");
        self.budget += 1;
    }
}

fn opts(prot: Prot) -> MapOptions {
    MapOptions {
        prot,
        max: PageSize::Size1G,
        dirty: false,
    }
}

fn rw() -> Prot {
    Prot::READ | Prot::WRITE
}

fn size(m: &Mem, va: u64) -> Option<PageSize> {
    translate(m, ROOT, va).map(|t| t.size)
}

#[test]
fn the_largest_pages_are_used_that_both_addresses_allow() {
    let mut m = Mem::new(20);
    map(
        &mut m,
        ROOT,
        G1 - M2 - P,
        3 * G1 - M2 - P,
        2 * G1 + M2 + 2 * P,
        opts(rw()),
    )
    .unwrap();
    let sizes = [
        (G1 - M2 - P, 0),
        (G1 - M2, 1),
        (G1, 2),
        (3 * G1 - 1, 2),
        (3 * G1, 0),
    ];
    for (va, i) in sizes {
        assert_eq!(
            size(&m, va),
            Some([PageSize::Size4K, PageSize::Size2M, PageSize::Size1G][i])
        );
        assert_eq!(translate(&m, ROOT, va).unwrap().pa, va + 2 * G1);
    }
    let mut all = Vec::new();
    extents(&m, ROOT, 0, 4 * G1, |e| all.push(e));
    let whole = Extent {
        va: G1 - M2 - P,
        pa: 3 * G1 - M2 - P,
        len_bytes: 2 * G1 + M2 + 2 * P,
        prot: rw(),
    };
    assert_eq!(all, [whole]);
    m.check();
}

#[test]
fn stacks_get_small_pages_and_odd_offsets_force_them() {
    let mut m = Mem::new(20);
    map(
        &mut m,
        ROOT,
        0,
        0,
        M2,
        MapOptions {
            max: PageSize::Size4K,
            ..opts(rw())
        },
    )
    .unwrap();
    map(&mut m, ROOT, 2 * M2, P, M2, opts(rw())).unwrap();
    assert_eq!(
        (size(&m, 0), size(&m, 2 * M2)),
        (Some(PageSize::Size4K), Some(PageSize::Size4K))
    );
    m.check();
}

#[test]
fn a_hole_in_a_gigabyte_splits_it_twice() {
    let mut m = Mem::new(20);
    map(&mut m, ROOT, G1, G1, G1, opts(rw())).unwrap();
    let mut gone = Vec::new();
    unmap(&mut m, ROOT, G1 + P, G1 + 3 * P, |pa, size, dirty| {
        gone.push((pa, size, dirty))
    })
    .unwrap();
    assert_eq!(
        gone,
        [
            (G1 + P, PageSize::Size4K, false),
            (G1 + 2 * P, PageSize::Size4K, false)
        ]
    );
    let at = |va| size(&m, va);
    assert_eq!(at(G1), Some(PageSize::Size4K));
    assert_eq!((at(G1 + P), at(G1 + M2)), (None, Some(PageSize::Size2M)));
    let mut holes = Vec::new();
    vacant(&m, ROOT, G1, 3 * G1, |va, len| holes.push((va, len)));
    assert_eq!(holes, [(G1 + P, 2 * P), (2 * G1, G1)]);
    m.check();
}

#[test]
fn prot_none_keeps_frame_and_dirt() {
    let mut m = Mem::new(20);
    map(
        &mut m,
        ROOT,
        0,
        M2,
        M2,
        MapOptions {
            dirty: true,
            ..opts(rw())
        },
    )
    .unwrap();
    assert_eq!(protect(&mut m, ROOT, 0, P, Prot::empty()), Ok(true));
    let kept = translate(&m, ROOT, 5).unwrap();
    assert_eq!(
        kept,
        Translation {
            pa: M2 + 5,
            prot: Prot::empty(),
            size: PageSize::Size4K,
            dirty: true
        }
    );
    let pt = m
        .tables
        .values()
        .find(|t| t[0] & entry::P == 0 && t[0] != 0 && t[511] & entry::P != 0);
    assert!(pt.is_some(), "the MMU must not see it");
    assert_eq!(
        protect(&mut m, ROOT, 0, M2, Prot::READ | Prot::EXEC),
        Ok(true)
    );
    assert_eq!(
        protect(&mut m, ROOT, 0, M2, Prot::READ | Prot::EXEC),
        Ok(false)
    );
    assert_eq!(
        translate(&m, ROOT, 5).unwrap().prot,
        Prot::READ | Prot::EXEC
    );
    // Committing has nothing to flush: entries that are not present are not cached.
    protect(&mut m, ROOT, 0, M2, Prot::empty()).unwrap();
    assert_eq!(protect(&mut m, ROOT, 0, M2, rw()), Ok(false));
}

/// A dirty bit that hardware sets between our read and our write used to be the classic way to
/// lose one: each replacement of an entry must see it.
#[test]
fn a_dirty_bit_set_meanwhile_is_never_lost() {
    for change in 0..4 {
        let mut m = Mem::new(20);
        map(&mut m, ROOT, 0, M2, M2, opts(rw())).unwrap();
        m.race = true;
        let mut dirty = false;
        match change {
            0 => assert_eq!(protect(&mut m, ROOT, 0, M2, Prot::READ), Ok(true)),
            1 => assert_eq!(protect(&mut m, ROOT, 0, P, Prot::READ), Ok(true)),
            2 => move_range(&mut m, ROOT, 0, G1, M2).unwrap(),
            _ => unmap(&mut m, ROOT, 0, M2, |_, _, d| dirty = d).unwrap(),
        }
        let va = if change == 2 { G1 } else { 0 };
        assert!(
            !m.race && (dirty || translate(&m, ROOT, va).unwrap().dirty),
            "change {change}"
        );
        m.check();
    }
}

#[test]
fn windows_show_the_same_tables_without_execution() {
    let mut m = Mem::new(20);
    map(&mut m, ROOT, 0, 0, P, opts(Prot::EXEC)).unwrap();
    let own = own_table(&m, ROOT);
    set_window(&mut m, ROOT, 1, own);
    let window = m.read(ROOT, 1);
    assert_eq!(
        (Entry(window).address(), window & entry::NX),
        (own.unwrap(), entry::NX)
    );
    set_window(&mut m, ROOT, 1, None);
    assert_eq!(m.read(ROOT, 1), 0);
    let mut gone = 0;
    destroy(&mut m, ROOT, |_, _, _| gone += 1);
    assert_eq!((gone, m.tables.len(), own_table(&m, ROOT)), (1, 1, None));
}
