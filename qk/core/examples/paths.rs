//! The hot paths in loops, one per argument, to be counted by `valgrind --tool=callgrind`:
//! instructions of `paths NAME 2000` less those of `paths NAME 1000`, over 1000.

use abi::addr::{Phys, PhysRange, Va, VaRange};
use qk_core::aspace::{Aspace, Machine, Memory};
use qk_core::frames::Frames;
use qk_core::mman::{MmapPlan, ProtectPlan};
use qk_core::page::PageSize;
use qk_core::paging::entry::{Entry, Level};
use qk_core::paging::{MapOptions, Table, Tables, map, protect, translate, unmap};
use qk_core::regions::{Kind, Prot, Region, Regions};
use std::cell::Cell;
use std::hint::black_box;
use wire::region_log::Change;

const P: u64 = PageSize::Size4K.bytes();
/// The root table of `Flat`.
const ROOT: Phys = Phys(0);
const M2: u64 = PageSize::Size2M.bytes();

/// Table memory as one slice, never given back: a frame's address is its number in bytes.
struct Flat {
    tables: &'static [[Cell<u64>; 512]],
    next: Phys,
    free: Vec<Phys>,
}

impl Flat {
    fn new() -> Self {
        let tables: Box<[_]> = (0..4096).map(|_| [const { Cell::new(0) }; 512]).collect();
        Self {
            tables: Box::leak(tables),
            next: Phys(P),
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

    fn table(&self, frame: Phys) -> Entries {
        Entries(&self.tables[(frame.0 / P) as usize])
    }
    fn alloc_table(&mut self, _: Level) -> Option<Phys> {
        self.free.pop().or_else(|| {
            self.next = self.next + P;
            Some(self.next)
        })
    }
    fn point(&self, _: u32) {}
    fn free_table(&mut self, frame: Phys, _: Level) {
        self.free.push(frame);
    }
}

/// The same as the machine of an address space whose proxy is always up to date.
#[derive(Clone, Copy)]
struct Node(&'static [[Cell<u64>; 512]]);

impl Machine for Node {
    type Table = Entries;

    fn table(self, frame: Phys) -> Entries {
        Entries(&self.0[(frame.0 / P) as usize])
    }
    fn new_table(self, _: Phys, _: Level) {}
    fn zero(self, _: Phys, _: u64) {}
    fn copy(self, _: Phys, _: Phys, _: u64) {}
    fn rewrite(self, _: Phys) {}
    fn flush(self, _: VaRange) {}
    fn flush_windows(self) {}
    fn largest_page(self) -> PageSize {
        PageSize::Size1G
    }
    fn log(self, change: &Change) -> bool {
        keep(change);
        true
    }
    fn log_position(self) -> u64 {
        0
    }
    fn log_applied(self) -> u64 {
        1
    }
    fn is_written(self) -> bool {
        false
    }
    fn sync(self) {}
    fn point(work: u32) {
        keep(work);
    }
}

/// An address space with `count` regions of one page.
fn aspace(count: u64) -> Aspace<Node> {
    let node = Node(Flat::new().tables);
    let memory = Memory {
        partition: PhysRange::new(Phys(P), 3071 * P),
        tables: PhysRange::new(Phys(3072 * P), 1024 * P),
        zeroed: true,
    };
    let mut aspace = Aspace::new(node, memory, 4000, 48_000).expect("room");
    (0..count).for_each(|i| aspace.map(&anon(AREA + 2 * i * P)).expect("room"));
    aspace
}

const AREA: Va = Va(0x10_0000_0000);

fn anon(at: Va) -> MmapPlan {
    MmapPlan {
        region: Region::new(VaRange::new(at, P), Prot::READ | Prot::WRITE, Kind::Anon),
        replace: false,
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
    let mut frames = Frames::new(Phys(M2), 8 << 30, true, |_| ()).unwrap();
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
        "map_2m" => map(
            &mut tables,
            ROOT,
            Va(0),
            Phys(0),
            n * M2,
            options(PageSize::Size2M),
        )
        .expect("room"),
        "map_4k" => map(
            &mut tables,
            ROOT,
            Va(0),
            Phys(0),
            n * P,
            options(PageSize::Size4K),
        )
        .expect("room"),
        "map_one_4k" => {
            (0..n).for_each(|i| {
                map(
                    &mut tables,
                    ROOT,
                    Va(i * P),
                    Phys(i * P),
                    P,
                    options(PageSize::Size4K),
                )
                .expect("room")
            });
        }
        "map_unmap_2m" => {
            map(
                &mut tables,
                ROOT,
                Va(0),
                Phys(0),
                n * M2,
                options(PageSize::Size2M),
            )
            .expect("room");
            unmap(
                &mut tables,
                ROOT,
                VaRange::new(Va(0), n * M2),
                |_, pa, _, _| keep(pa),
            )
            .expect("room");
        }
        "map_protect_2m" => {
            map(
                &mut tables,
                ROOT,
                Va(0),
                Phys(0),
                n * M2,
                options(PageSize::Size2M),
            )
            .expect("room");
            black_box(protect(
                &mut tables,
                ROOT,
                VaRange::new(Va(0), n * M2),
                Prot::READ,
            ))
            .expect("room");
        }
        "translate" => {
            map(
                &mut tables,
                ROOT,
                Va(0),
                Phys(0),
                M2,
                options(PageSize::Size4K),
            )
            .expect("room");
            (0..n).for_each(|i| keep(translate(&tables, ROOT, Va(i % 512 * P))));
        }
        "lookup_of_500" => {
            let mut regions = Regions::new(1000, |_| ()).unwrap();
            for i in 0..500 {
                regions
                    .insert(Region::new(
                        VaRange::new(Va(2 * i * P), P),
                        Prot::READ,
                        Kind::Anon,
                    ))
                    .expect("room");
            }
            (0..n).for_each(|i| keep(regions.lookup(Va(i % 1000 * P))));
        }
        "aspace_map_unmap_4k" | "aspace_map_unmap_4k_of_1000" => {
            let mut aspace = aspace(if name.ends_with("1000") { 1000 } else { 10 });
            for _ in 0..n {
                aspace.map(&anon(AREA.before(P))).expect("room");
                aspace.unmap(AREA.before(P).until(AREA)).expect("mapped");
            }
        }
        "aspace_protect_4k" => {
            let mut aspace = aspace(10);
            for i in 0..n {
                let plan = ProtectPlan {
                    range: VaRange::new(AREA, P),
                    prot: if i % 2 == 0 { Prot::READ } else { Prot::WRITE },
                    result: Ok(()),
                };
                aspace.protect(&plan).expect("mapped");
            }
        }
        _ => eprintln!("usage: paths NAME COUNT; see the source for names"),
    }
}
