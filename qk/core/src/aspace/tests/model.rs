//! An address space against a model with one entry per page, with a partition that is too small, a log that is too short and a
//! proxy that is slow.

use super::lender;
use super::text::{self, at};
use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::vec;
use std::vec::Vec;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Cell {
    prot: Prot,
    shows: Shows,
}

/// What a page shows.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Shows {
    /// Memory of its own, with this value in it.
    Own(u64),
    /// A page of the file.
    File(u64),
    /// Nothing, as yet: what lies behind the end of the file.
    PastEnd(u64),
}

#[derive(Default)]
struct Model {
    cells: BTreeMap<Va, Cell>,
    /// What was stored in pages of the file.
    file: BTreeMap<u64, u64>,
}

impl Model {
    /// What the program reads at a page.
    fn value(&self, cell: &Cell) -> Option<u64> {
        match cell.shows {
            _ if cell.prot.is_empty() => None,
            Shows::Own(value) => Some(value),
            Shows::File(page) => Some(self.file.get(&page).copied().unwrap_or(page + 5000)),
            Shows::PastEnd(_) => None,
        }
    }
}

#[derive(Clone, Debug)]
enum Op {
    Map(u64, u64, u64, bool),
    Unmap(u64, u64),
    Protect(u64, u64, u64),
    Move(u64, u64, u64, Option<u64>),
    Discard(u64, u64),
    Text(u64, u64),
    /// Pages of the file, and how many of them it has as yet.
    Object(u64, u64, u64),
    Grow(u64),
    Write(u64, u64),
    Peer(u64),
    Apply(usize),
    Room(usize),
}

/// Pages of some 8 MiB, biased to borders of large pages.
fn page() -> impl Strategy<Value = u64> {
    prop_oneof![0..2048u64, (0..4u64).prop_map(|n| n * 512), 500..530u64]
}

fn count() -> impl Strategy<Value = u64> {
    prop_oneof![1..12u64, 1..700u64, (1..3u64).prop_map(|n| n * 512)]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (page(), count(), 0..4u64, any::<bool>()).prop_map(|(p, n, f, s)| Op::Map(p, n, f, s)),
        3 => (page(), count()).prop_map(|(p, n)| Op::Unmap(p, n)),
        3 => (page(), count(), 0..4u64).prop_map(|(p, n, f)| Op::Protect(p, n, f)),
        2 => (page(), count(), count(), proptest::option::of(page())).prop_map(|(p, o, n, t)| Op::Move(p, o, n, t)),
        1 => (page(), count()).prop_map(|(p, n)| Op::Discard(p, n)),
        2 => (page(), count()).prop_map(|(p, n)| Op::Text(p, n)),
        2 => (page(), count(), count()).prop_map(|(p, n, f)| Op::Object(p, n, f)),
        1 => page().prop_map(Op::Grow),
        6 => (page(), 1..100u64).prop_map(|(p, v)| Op::Write(p, v)),
        6 => page().prop_map(Op::Peer),
        2 => (0..20usize).prop_map(Op::Apply),
        1 => (1..40usize).prop_map(Op::Room),
    ]
}

fn shown(prot: u64) -> Prot {
    Prot::from_bits_truncate(prot as u8)
}

/// What mmap makes of a range.
fn put(model: &mut Model, start: Va, pages: u64, prot: Prot) {
    let shows = Shows::Own(0);
    let cell = |i| (start + i * P, Cell { prot, shows });
    model.cells.extend((0..pages).map(cell));
}

fn take(model: &mut Model, start: Va, pages: u64) -> Vec<(Va, Cell)> {
    let inside: Vec<_> = model
        .cells
        .range(start..start + pages * P)
        .map(|(k, v)| (*k, *v))
        .collect();
    inside.iter().for_each(|(va, _)| _ = model.cells.remove(va));
    inside
}

/// After a change that found no memory: what was lent may have gone, and nothing else.
fn forget_lent(a: &Aspace<Node>, model: &mut Model, lent: &[Region]) {
    let was_lent = |va: &Va| lent.iter().any(|region| region.contains(*va));
    model
        .cells
        .retain(|va, _| !was_lent(va) || a.regions().lookup(*va).is_some());
}

fn apply(a: &mut Aspace<Node>, model: &mut Model, op: &Op) -> Result<(), TestCaseError> {
    let is_lent = |region: &&Region| region.backing().is_lent();
    let lent: Vec<Region> = a.regions().iter().filter(is_lent).copied().collect();
    match *op {
        Op::Map(p, n, prot, small) => {
            let flags = FIXED | if small { 0x20000 } else { 0 };
            if a.mmap(at(p), n, prot, flags).is_ok() {
                take(model, at(p), n);
                put(model, at(p), n, shown(prot));
            } else if a.regions().is_vacant(at(p).until(at(p + n))) {
                // What was to be replaced has gone.
                take(model, at(p), n);
            } else {
                forget_lent(a, model, &lent);
            }
        }
        Op::Unmap(p, n) => {
            // Without memory for the table that splits a large page it may fail, but it takes some mprotect to get there.
            match a.munmap(at(p), n) {
                Ok(()) => _ = take(model, at(p), n),
                Err(error) => {
                    prop_assert_eq!(error, Errno::ENOMEM);
                    forget_lent(a, model, &lent);
                }
            }
        }
        Op::Text(p, n) => {
            if a.munmap(at(p), n).is_ok() {
                take(model, at(p), n);
                let shown = a.show_text(text::region(p, n), text::pieces(p, n));
                for page in (p..p + n).filter(|_| shown.is_ok()) {
                    let shows = Shows::Own(text::value(page));
                    let prot = Prot::READ;
                    model.cells.insert(at(page), Cell { prot, shows });
                }
            }
        }
        Op::Object(p, n, in_file) => {
            if a.munmap(at(p), n).is_ok() {
                take(model, at(p), n);
                let shown = a.show_file(at(p), [p, n], in_file);
                for page in (p..p + n).filter(|_| shown.is_ok()) {
                    let shows = match page < p + in_file {
                        true => Shows::File(page),
                        false => Shows::PastEnd(page),
                    };
                    let prot = Prot::READ | Prot::WRITE;
                    model.cells.insert(at(page), Cell { prot, shows });
                }
            }
        }
        Op::Grow(p) => {
            let region = a.regions().lookup(at(p)).copied();
            let past_end = |region: &Region| region.flags.contains(RegionFlags::PAST_END);
            if let Some(region) = region.filter(past_end)
                && a.extend_object(region, &lender::frames(&region)).is_ok()
            {
                for (_, cell) in model.cells.range_mut(region.start..region.end) {
                    let Shows::PastEnd(page) = cell.shows else {
                        panic!("{cell:?}")
                    };
                    cell.shows = Shows::File(page);
                }
            }
        }
        Op::Protect(p, n, prot) => {
            let hole = (p..p + n).find(|page| !model.cells.contains_key(&at(*page)));
            let result = a.mprotect(at(p), n, prot);
            let end = hole.unwrap_or(p + n);
            // All before the hole, or nothing for want of memory: ENOMEM either way.
            let changed = a
                .regions()
                .iter_range(at(p).until(at(end)))
                .all(|r| r.prot == shown(prot));
            prop_assert!(result.is_ok() || hole.is_some() || result == Err(Errno::ENOMEM));
            if result.is_ok() || hole.is_some() && changed {
                for page in p..end {
                    model.cells.get_mut(&at(page)).unwrap().prot = shown(prot);
                }
            }
        }
        Op::Move(p, old, new, to) => {
            let before = a.regions().lookup(at(p)).copied();
            let moves_text = a.text(at(p).until(at(p + old))).is_some();
            let moved = a.mremap(at(p), old, new, to.map(at));
            if moves_text {
                // Its copy came into use, and moved from where the proxy shows it, in one change.
                Node.sync();
            }
            match moved {
                Ok(start) if start == at(p) && new <= old => {
                    take(model, at(p + new), old - new);
                }
                Ok(start) => {
                    let prot = before.unwrap().prot;
                    let moved = take(model, at(p), old);
                    take(model, start, new);
                    put(model, start, new, prot);
                    for (va, cell) in moved.into_iter().filter(|(va, _)| *va < at(p + new)) {
                        model.cells.insert(start + (va - at(p)), cell);
                    }
                }
                // What the new place and the new length have no room for may have gone before.
                Err(Errno::ENOMEM) => model
                    .cells
                    .retain(|va, _| a.regions().lookup(*va).is_some()),
                Err(_) => {}
            }
        }
        Op::Discard(p, n) => {
            let _ = a.madvise(at(p), n, DONTNEED);
            const STAYS: RegionFlags = RegionFlags::UNWRITTEN.union(RegionFlags::SHARED);
            for (va, cell) in model.cells.range_mut(at(p)..at(p + n)) {
                let region = a.regions().lookup(*va).unwrap();
                if region.is_discardable() {
                    cell.shows = Shows::Own(0);
                } else if !region.flags.intersects(STAYS) {
                    break; // text that is the rank's own by now: what refuses ends the walk
                }
            }
        }
        Op::Write(p, value) => {
            let past_end = |cell: &Cell| matches!(cell.shows, Shows::PastEnd(_));
            let cell = model.cells.get_mut(&at(p));
            let cell = cell.filter(|cell| cell.prot.contains(Prot::WRITE) && !past_end(cell));
            prop_assert_eq!(a.write(at(p), value), cell.is_some());
            match cell.map(|cell| &mut cell.shows) {
                Some(Shows::Own(own)) => *own = value,
                Some(Shows::File(page)) => _ = model.file.insert(*page, value),
                Some(Shows::PastEnd(_)) | None => {}
            }
        }
        Op::Peer(p) => {
            // What the rank can access a peer finds at the same frame with the same access; what it cannot, perhaps still.
            let found = a.seen_by_peer(at(p));
            if let Some(value) = model.cells.get(&at(p)).and_then(|cell| model.value(cell)) {
                let (tables, root) = a.tables();
                let own = paging::translate(&tables, root, at(p)).map(|t| (t.pa, t.prot));
                prop_assert_eq!(found, own);
                prop_assert_eq!(found.map(|(pa, _)| Node::load(pa)), Some(value));
            }
        }
        Op::Apply(n) => Node::apply_some(n),
        Op::Room(n) => Node::set_log_room(n),
    }
    Ok(())
}

proptest! {
    #[test]
    fn agrees_with_the_model(ops in proptest::collection::vec(op(), 1..50), pages in prop_oneof![12..600u64, 600..3000u64],
        tables in prop_oneof![9..20u64, 1000..1001u64]) {
        let mut a = space_with(pages, tables, 10_000);
        let mut model = Model::default();
        for op in &ops {
            apply(&mut a, &mut model, op)?;
            a.check();
            let mut seen = 0;
            for region in a.regions().iter() {
                for at in (0..region.len_bytes()).step_by(P as usize) {
                    let va = region.start + at;
                    prop_assert_eq!(model.cells.get(&va).map(|c| c.prot), Some(region.prot));
                    seen += 1;
                }
            }
            prop_assert_eq!(seen, model.cells.len());
            for (va, cell) in &model.cells {
                prop_assert_eq!(a.read(*va), model.value(cell));
            }
        }
        // The proxy ends up with what the program has.
        Node.sync();
        let leaves = a.leaves();
        let visible: BTreeMap<_, _> = model
            .cells
            .iter()
            .filter(|(_, cell)| model.value(cell).is_some())
            .map(|(va, cell)| (*va, (leaves[va], cell.prot.contains(Prot::WRITE))))
            .collect();
        prop_assert_eq!(Node::shown(), visible);
        for region in a.regions().iter() {
            let reserved = region.is_reservation();
            let reserved = reserved.then(|| region.flags.contains(RegionFlags::SHARED));
            for at in (0..region.len_bytes()).step_by(P as usize) {
                prop_assert_eq!(Node::logged_reservation(region.start + at), reserved);
            }
        }
        // Nothing has leaked.
        prop_assert_eq!(a.munmap(Va(0), USER_TOP / P), Ok(()));
        Node.sync();
        a.reclaim();
        a.check();
        for va in model.cells.keys() {
            prop_assert_eq!(Node::logged_reservation(*va), None);
        }
        // The file has what was stored in it.
        for (page, value) in model.file {
            prop_assert_eq!(lender::in_file(page), value);
        }
        prop_assert_eq!(a.usage().used, 0);
        let mut known = Node::table_frames();
        known.extend(a.pool.frames(Node));
        prop_assert_eq!(a.pool.unused_bytes(), (tables - known.len() as u64) * P);
    }
}
