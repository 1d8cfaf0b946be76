//! The walks by example, over table memory in a hash map.

mod model;

use super::*;
use crate::page::PageSize;
use crate::regions::Prot;
use abi::addr::{Phys, Va, VaRange};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::vec::Vec;

const P: u64 = 4096;
const M2: u64 = PageSize::Size2M.bytes();
const G1: u64 = PageSize::Size1G.bytes();
const ROOT: Phys = Phys(0x1000);

/// Exchanges in any table from now on, until hardware sets D just before one, in the entry it is about.
type Race = Rc<Cell<Option<usize>>>;

/// The entries of a table.
#[derive(Clone)]
struct Page {
    entries: Rc<RefCell<[Entry; 512]>>,
    race: Race,
}

impl Table for Page {
    fn get(&self, index: usize) -> Entry {
        self.entries.borrow()[index]
    }
    fn set(&self, index: usize, entry: Entry) {
        self.entries.borrow_mut()[index] = entry;
    }
    fn exchange(&self, index: usize, current: Entry, new: Entry) -> Result<(), Entry> {
        let cell = &mut self.entries.borrow_mut()[index];
        let left = self.race.get();
        if left == Some(0) {
            cell.0 |= entry::D;
        }
        self.race.set(left.and_then(|n| n.checked_sub(1)));
        if *cell != current {
            return Err(*cell);
        }
        *cell = new;
        Ok(())
    }
}

/// Table memory in a hash map, with a budget of tables.
struct Mem {
    tables: HashMap<Phys, Page>,
    next: Phys,
    budget: usize,
    race: Race,
}

impl Mem {
    fn new(budget: usize) -> Self {
        let mut mem = Self {
            tables: HashMap::new(),
            next: Phys(0x100_0000),
            budget,
            race: Rc::default(),
        };
        mem.add(ROOT);
        mem
    }

    fn add(&mut self, frame: Phys) {
        let entries = Rc::new(RefCell::new([Entry::EMPTY; 512]));
        let race = self.race.clone();
        self.tables.insert(frame, Page { entries, race });
    }

    /// Checks that every count is right and no empty table but the top one is left.
    fn check(&self) {
        let top = own_table(self, ROOT);
        let seen = top.map_or(0, |table| self.check_table(table));
        assert_eq!(self.tables.len(), 1 + seen, "a table leaked");
    }

    fn check_table(&self, table: Phys) -> usize {
        let mut seen = 1;
        for e in *self.tables[&table].entries.borrow() {
            if e.is_table() {
                let below = self.tables[&e.address()].entries.borrow();
                let used = below.iter().filter(|e| !e.is_empty()).count() as u64;
                assert_eq!(e.count(), used);
                assert!(used > 0, "an empty table was kept");
                seen += self.check_table(e.address());
            }
        }
        seen
    }
}

impl Tables for Mem {
    type Table = Page;

    fn table(&self, frame: Phys) -> Page {
        self.tables[&frame].clone()
    }
    fn alloc_table(&mut self, _: entry::Level) -> Option<Phys> {
        self.budget = self.budget.checked_sub(1)?;
        self.next = self.next + P;
        self.add(self.next);
        Some(self.next)
    }
    fn point(&self, _: u32) {}
    fn free_table(&mut self, frame: Phys, _: entry::Level) {
        let table = self.tables.remove(&frame).expect("freed twice");
        assert!(
            table.entries.borrow().iter().all(|e| e.is_empty()),
            "freed a table in use"
        );
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

/// `[start, end)`.
fn range(start: u64, end: u64) -> VaRange {
    Va(start).until(Va(end))
}

fn at(m: &Mem, va: u64) -> Option<Translation> {
    translate(m, ROOT, Va(va))
}

fn size(m: &Mem, va: u64) -> Option<PageSize> {
    at(m, va).map(|t| t.size)
}

#[test]
fn the_largest_pages_are_used_that_both_addresses_allow() {
    let mut m = Mem::new(20);
    map(
        &mut m,
        ROOT,
        Va(G1 - M2 - P),
        Phys(3 * G1 - M2 - P),
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
        assert_eq!(at(&m, va).unwrap().pa, Phys(va + 2 * G1));
    }
    let mut all = Vec::new();
    extents(&m, ROOT, range(0, 4 * G1), |e| all.push(e));
    let whole = Extent {
        va: Va(G1 - M2 - P),
        pa: Phys(3 * G1 - M2 - P),
        len_bytes: 2 * G1 + M2 + 2 * P,
        prot: rw(),
    };
    assert_eq!(all, [whole]);
    assert_eq!(extent_at(&m, ROOT, whole.va, Va(4 * G1)), Some(whole));
    m.check();
}

#[test]
fn stacks_get_small_pages_and_odd_offsets_force_them() {
    let mut m = Mem::new(20);
    map(
        &mut m,
        ROOT,
        Va(0),
        Phys(0),
        M2,
        MapOptions {
            max: PageSize::Size4K,
            ..opts(rw())
        },
    )
    .unwrap();
    map(&mut m, ROOT, Va(2 * M2), Phys(P), M2, opts(rw())).unwrap();
    assert_eq!(
        (size(&m, 0), size(&m, 2 * M2)),
        (Some(PageSize::Size4K), Some(PageSize::Size4K))
    );
    m.check();
}

#[test]
fn a_hole_in_a_gigabyte_splits_it_twice() {
    let mut m = Mem::new(20);
    map(&mut m, ROOT, Va(G1), Phys(G1), G1, opts(rw())).unwrap();
    let mut gone = Vec::new();
    unmap(
        &mut m,
        ROOT,
        range(G1 + P, G1 + 3 * P),
        |_, pa, len_bytes, dirty| gone.push((pa, len_bytes, dirty)),
    )
    .unwrap();
    assert_eq!(gone, [(Phys(G1 + P), 2 * P, false)]);
    let size = |va| size(&m, va);
    assert_eq!(size(G1), Some(PageSize::Size4K));
    assert_eq!(
        (size(G1 + P), size(G1 + M2)),
        (None, Some(PageSize::Size2M))
    );
    let stretches = [
        (G1, G1 + P, true),
        (G1 + P, G1 + 3 * P, false),
        (G1 + 3 * P, G1 + M2, true),
        (G1 + M2, 2 * G1, true),
        (2 * G1, 3 * G1, false),
    ];
    for (start, end, mapped) in stretches {
        let end = Va(end);
        assert_eq!(
            stretch(&m, ROOT, Va(start), Va(3 * G1)),
            Stretch { end, mapped },
            "{start:#x}"
        );
    }
    m.check();
}

#[test]
fn prot_none_keeps_frame_and_dirt() {
    let mut m = Mem::new(20);
    map(
        &mut m,
        ROOT,
        Va(0),
        Phys(M2),
        M2,
        MapOptions {
            dirty: true,
            ..opts(rw())
        },
    )
    .unwrap();
    assert_eq!(protect(&mut m, ROOT, range(0, P), Prot::empty()), Ok(true));
    let kept = at(&m, 5).unwrap();
    assert_eq!(
        kept,
        Translation {
            pa: Phys(M2 + 5),
            prot: Prot::empty(),
            size: PageSize::Size4K,
            dirty: true
        }
    );
    let pt = m.tables.values().find(|t| {
        let (first, last) = (t.get(0), t.get(511));
        !first.is_present() && !first.is_empty() && last.is_present()
    });
    assert!(pt.is_some(), "the MMU must not see it");
    assert_eq!(
        protect(&mut m, ROOT, range(0, M2), Prot::READ | Prot::EXEC),
        Ok(true)
    );
    assert_eq!(
        protect(&mut m, ROOT, range(0, M2), Prot::READ | Prot::EXEC),
        Ok(false)
    );
    assert_eq!(at(&m, 5).unwrap().prot, Prot::READ | Prot::EXEC);
    // Committing has nothing to flush: entries that are not present are not cached.
    protect(&mut m, ROOT, range(0, M2), Prot::empty()).unwrap();
    assert_eq!(protect(&mut m, ROOT, range(0, M2), rw()), Ok(false));
}

/// A dirty bit that hardware sets between our read and our write used to be the classic way to
/// lose one: each replacement of an entry must see it.
#[test]
fn a_dirty_bit_set_meanwhile_is_never_lost() {
    for change in 0..4 {
        let mut m = Mem::new(20);
        map(&mut m, ROOT, Va(0), Phys(M2), M2, opts(rw())).unwrap();
        m.race.set(Some(0));
        let mut dirty = false;
        match change {
            0 => assert_eq!(protect(&mut m, ROOT, range(0, M2), Prot::READ), Ok(true)),
            1 => assert_eq!(protect(&mut m, ROOT, range(0, P), Prot::READ), Ok(true)),
            2 => move_range(&mut m, ROOT, Va(0), Va(G1), M2).unwrap(),
            _ => unmap(&mut m, ROOT, range(0, M2), |_, _, _, d| dirty = d).unwrap(),
        }
        let va = if change == 2 { G1 } else { 0 };
        assert!(
            m.race.get().is_none() && (dirty || at(&m, va).unwrap().dirty),
            "change {change}"
        );
        m.check();
    }
}

#[test]
fn a_dirty_page_inside_a_run_is_told_apart() {
    let mut m = Mem::new(20);
    map(&mut m, ROOT, Va(0), Phys(M2), 5 * P, opts(rw())).unwrap();
    m.race.set(Some(2));
    let mut gone = Vec::new();
    unmap(&mut m, ROOT, range(0, 5 * P), |_, pa, len_bytes, dirty| {
        gone.push((pa - Phys(M2), len_bytes, dirty));
    })
    .unwrap();
    let expected = [(0, 2 * P, false), (2 * P, P, true), (3 * P, 2 * P, false)];
    assert_eq!(gone, expected);
    m.check();
}

#[test]
fn destroying_leaves_nothing() {
    let mut m = Mem::new(20);
    map(&mut m, ROOT, Va(0), Phys(0), P, opts(Prot::EXEC)).unwrap();
    let mut gone = 0;
    destroy(&mut m, ROOT, |_, _, _| gone += 1);
    assert_eq!((gone, m.tables.len(), own_table(&m, ROOT)), (1, 1, None));
}
