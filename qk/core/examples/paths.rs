//! The hot paths in loops, one per argument, to be counted by `valgrind --tool=callgrind`:
//! instructions of `paths NAME 2000` less those of `paths NAME 1000`, over 1000.

use qk_core::frames::Frames;
use qk_core::page::PageSize;
use qk_core::paging::entry::Entry;
use qk_core::paging::{MapOptions, Table, Tables, map, protect, translate, unmap};
use qk_core::regions::{Kind, Prot, Region, Regions};
use std::cell::Cell;
use std::hint::black_box;

const P: u64 = PageSize::Size4K.bytes();
const M2: u64 = PageSize::Size2M.bytes();

/// Table memory as one slice, never given back: a frame's address is its number in bytes.
struct Flat {
    tables: &'static [[Cell<u64>; 512]],
    next: u64,
    free: Vec<u64>,
}

impl Flat {
    fn new() -> Self {
        let tables: Box<[_]> = (0..4096).map(|_| [const { Cell::new(0) }; 512]).collect();
        Self {
            tables: Box::leak(tables),
            next: P,
            free: Vec::with_capacity(4096),
        }
    }
}

#[derive(Clone, Copy)]
struct Entries(&'static [Cell<u64>; 512]);

impl Table for Entries {
    fn get(&self, index: usize) -> Entry {
        Entry(self.0[index].get())
    }
    fn set(&self, index: usize, entry: Entry) {
        self.0[index].set(entry.0);
    }
    fn exchange(&self, index: usize, current: Entry, new: Entry) -> Result<(), Entry> {
        let now = self.get(index);
        if now != current {
            return Err(now);
        }
        self.set(index, new);
        Ok(())
    }
}

impl Tables for Flat {
    type Table = Entries;

    fn table(&self, frame: u64) -> Entries {
        Entries(&self.tables[(frame / P) as usize])
    }
    fn alloc_table(&mut self) -> Option<u64> {
        self.free.pop().or_else(|| {
            self.next += P;
            Some(self.next)
        })
    }
    fn free_table(&mut self, frame: u64) {
        self.free.push(frame);
    }
}

fn keep<T>(value: T) {
    let _ = black_box(value);
}

fn options(max: PageSize) -> MapOptions {
    MapOptions {
        prot: Prot::READ | Prot::WRITE,
        max,
        dirty: false,
    }
}

fn main() {
    let mut args = std::env::args().skip(1);
    let name = args.next().unwrap_or_default();
    let n: u64 = args.next().and_then(|n| n.parse().ok()).unwrap_or(1000);
    let mut frames = Frames::new(M2, 8 << 30, true);
    let mut tables = Flat::new();
    match name.as_str() {
        "alloc_2m" => (0..n).for_each(|_| keep(frames.alloc(PageSize::Size2M))),
        "alloc_4k" => (0..n).for_each(|_| keep(frames.alloc(PageSize::Size4K))),
        "alloc_run_64" => (0..n).for_each(|_| keep(frames.alloc_run(64, None))),
        "alloc_free_2m" => (0..n).for_each(|_| {
            let frame = frames.alloc(PageSize::Size2M).expect("room");
            frames
                .free(frame.addr, frame.size, false)
                .expect("just allocated");
        }),
        "alloc_free_4k" => (0..n).for_each(|_| {
            let frame = frames.alloc(PageSize::Size4K).expect("room");
            frames
                .free(frame.addr, frame.size, false)
                .expect("just allocated");
        }),
        "map_2m" => map(&mut tables, 0, 0, 0, n * M2, options(PageSize::Size2M)).expect("room"),
        "map_4k" => map(&mut tables, 0, 0, 0, n * P, options(PageSize::Size4K)).expect("room"),
        "map_one_4k" => {
            (0..n).for_each(|i| {
                map(&mut tables, 0, i * P, i * P, P, options(PageSize::Size4K)).expect("room")
            });
        }
        "map_unmap_2m" => {
            map(&mut tables, 0, 0, 0, n * M2, options(PageSize::Size2M)).expect("room");
            unmap(&mut tables, 0, 0, n * M2, |pa, _, _| keep(pa)).expect("room");
        }
        "map_protect_2m" => {
            map(&mut tables, 0, 0, 0, n * M2, options(PageSize::Size2M)).expect("room");
            black_box(protect(&mut tables, 0, 0, n * M2, Prot::READ)).expect("room");
        }
        "translate" => {
            map(&mut tables, 0, 0, 0, M2, options(PageSize::Size4K)).expect("room");
            (0..n).for_each(|i| keep(translate(&tables, 0, i % 512 * P)));
        }
        "lookup_of_500" => {
            let mut regions = Regions::new(1000);
            for i in 0..500 {
                regions
                    .insert(Region::new(
                        2 * i * P,
                        (2 * i + 1) * P,
                        Prot::READ,
                        Kind::Anon,
                    ))
                    .expect("room");
            }
            (0..n).for_each(|i| keep(regions.lookup(i % 1000 * P)));
        }
        _ => eprintln!("usage: paths NAME COUNT; see the source for names"),
    }
}
