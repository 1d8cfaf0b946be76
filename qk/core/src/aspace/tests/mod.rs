//! An address space on a machine in hash maps: by example here, against a model in `model`.

mod exhausted;
mod flags;
mod lender;
mod machine;
mod model;
mod peers;
mod pieces;
mod receipt;
mod replace;
mod rights;
mod text;
mod usage;
mod walk;

use super::*;
use crate::mman::{self, MmapArgs, MremapArgs};
use crate::regions::{Kind, RegionFlags};
use machine::Node;
use std::vec::Vec;

const P: u64 = PAGE_BYTES;
const M2: u64 = PageSize::Size2M.bytes();
/// A partition that begins with a large page.
const PARTITION: u64 = 0x4000_0000;
const A: Va = Va(0x10_0000_0000);
const RW: u64 = 3;
const READ_EXEC: u64 = 5;
const PRIVATE_ANON: u64 = 0x22;
const FIXED: u64 = 0x10;
/// Where page tables lie.
const TABLES: u64 = 0x2000_0000;
/// Where the clock page lies: outside of any partition.
const CLOCK: Phys = Phys(0x1000);

fn space(pages: u64) -> Aspace<Node> {
    space_with(pages, 10_000, 10_000)
}

/// With so many pages of memory, so many for page tables, and at most so many pieces.
fn space_with(pages: u64, tables: u64, pieces: usize) -> Aspace<Node> {
    Node::reset();
    let memory = Memory {
        partition: PhysRange::new(Phys(PARTITION), pages * P),
        tables: PhysRange::new(Phys(TABLES), tables * P),
        zeroed: true,
    };
    Aspace::new(Node, memory, 1000, pieces).expect("room for tables")
}

impl Aspace<Node> {
    /// Carries out a change, with what it entails at the node pool.
    fn done<T>(
        &mut self,
        change: impl FnMut(&mut Self) -> Result<T, Unfinished>,
    ) -> Result<T, Errno> {
        self.complete(&mut lender::Pool, change)
    }

    fn mmap(&mut self, addr: Va, pages: u64, prot: u64, flags: u64) -> Result<Va, Errno> {
        let args = MmapArgs {
            addr,
            len_bytes: pages * P,
            prot,
            flags: flags | PRIVATE_ANON,
            offset: 0,
        };
        let plan = mman::mmap(&args, None, self.regions(), &self.bounds())?;
        self.done(|a| a.map(&plan)).map(|()| plan.region.start)
    }

    fn mprotect(&mut self, addr: Va, pages: u64, prot: u64) -> Result<(), Errno> {
        match mman::mprotect(addr, pages * P, prot, self.regions())? {
            Some(plan) => self.done(|a| a.protect(&plan)),
            None => Ok(()),
        }
    }

    fn munmap(&mut self, addr: Va, pages: u64) -> Result<(), Errno> {
        let range = mman::munmap(addr, pages * P, &self.bounds())?;
        range.map_or(Ok(()), |range| self.done(|a| a.unmap(range)))
    }

    fn mremap(&mut self, addr: Va, old: u64, new: u64, to: Option<Va>) -> Result<Va, Errno> {
        let args = MremapArgs {
            addr,
            old_len_bytes: old * P,
            new_len_bytes: new * P,
            flags: if to.is_some() { 3 } else { 1 },
            new_addr: to.unwrap_or(Va(0)),
        };
        let plan = mman::mremap(&args, self.regions(), &self.bounds())?;
        self.done(|a| a.remap(&plan))
    }

    fn madvise(&mut self, addr: Va, pages: u64, advice: u64) -> Result<(), Errno> {
        match mman::madvise(addr, pages * P, advice, self.regions())? {
            Some(plan) => self.advise(&plan),
            None => Ok(()),
        }
    }

    /// A store by the program; `false`: a page fault.
    fn write(&mut self, va: Va, value: u64) -> bool {
        let (mut tables, root) = self.tables();
        let Some(t) = paging::translate(&tables, root, va) else {
            return false;
        };
        if t.prot.contains(Prot::WRITE) {
            paging::mark_dirty(&mut tables, root, VaRange::new(va.align_down(P), P));
            Node::store(t.pa.align_down(P).0, value);
        }
        t.prot.contains(Prot::WRITE)
    }

    /// A load by the program.
    fn read(&mut self, va: Va) -> Option<u64> {
        let (tables, root) = self.tables();
        let t = paging::translate(&tables, root, va)?;
        (!t.prot.is_empty()).then(|| Node::load(t.pa.align_down(P)))
    }
}

const DONTNEED: u64 = 4;

/// The clock page was unmapped like the rank's own memory, and its frame given to the partition: the kernel panicked at the next
/// mmap.
#[test]
fn a_foreign_page_that_is_unmapped_does_not_become_the_ranks() {
    let mut a = space(2048);
    let region = Region::new(VaRange::new(A, P), Prot::READ, Kind::Vvar);
    a.map_foreign(region, CLOCK).unwrap();
    let before = a.usage();
    a.munmap(A, 1).unwrap();
    Node.sync();
    a.mmap(Va(0), 1, RW, 0).unwrap();
    assert_eq!(a.usage().used, before.used + P);
    a.check();
}

/// A program could give itself write access to every rank's clock, or have it cleared.
#[test]
fn a_foreign_page_cannot_be_written_or_discarded() {
    let mut a = space(2048);
    let region = Region::new(VaRange::new(A, P), Prot::READ, Kind::Vvar);
    a.map_foreign(region, CLOCK).unwrap();
    Node::store(CLOCK.0, 7);
    assert_eq!(a.mprotect(A, 1, RW), Err(Errno::EACCES));
    assert_eq!(a.madvise(A, 1, DONTNEED), Err(Errno::EINVAL));
    assert_eq!(a.mremap(A, 1, 2, None), Err(Errno::EFAULT));
    assert!(!a.write(A, 8));
    assert_eq!(a.read(A), Some(7));
    let moved = a.mremap(A, 1, 1, Some(A + M2)).unwrap();
    assert_eq!((a.read(A), a.read(moved)), (None, Some(7)));
}

/// Linux reads the file again; here it is not at hand any more, so the contents stay. Only text that ranks share had a test.
#[test]
fn a_file_is_not_discarded() {
    for kind in [Kind::Image, Kind::File] {
        let mut a = space(2048);
        let region = Region::new(VaRange::new(A, P), Prot::READ | Prot::WRITE, kind);
        a.map_new(region).unwrap();
        assert!(a.write(A, 7));
        a.mprotect(A, 1, READ_EXEC).unwrap();
        assert_eq!(a.madvise(A, 1, DONTNEED), Err(Errno::EINVAL), "{kind:?}");
        assert_eq!(a.read(A), Some(7), "{kind:?}");
    }
}

/// With all memory in use, munmap inside of a large page found no frame for the table that the split takes: ENOMEM, after the
/// region had gone. A later mmap there showed the old contents.
#[test]
fn a_full_partition_can_be_unmapped_in_parts() {
    let mut a = space(1536);
    let big = a.mmap(Va(0), 512, RW, 0).unwrap();
    a.mmap(A, 1, RW, FIXED).unwrap();
    a.pool.leave(0);
    assert_eq!(a.mmap(A + M2, 1, RW, FIXED), Err(Errno::ENOMEM));
    while a.mmap(A + P, 1, RW, 0).is_ok() {}
    assert!(a.write(big + 5 * P, 1));
    for page in 3..500 {
        a.munmap(big + page * P, 1).unwrap();
        a.check();
    }
    a.mmap(big + 5 * P, 1, RW, FIXED).unwrap();
    assert_eq!(a.read(big + 5 * P), Some(0));
}

/// An mprotect that finds no memory answered ENOMEM after the access had changed.
#[test]
fn an_mprotect_that_fails_changes_nothing() {
    let mut a = space(1024);
    let own = a.mmap(A, 3, RW, FIXED).unwrap();
    a.mmap(own + 3 * P, 2000, 0, FIXED).unwrap();
    let used = a.usage().used;
    assert_eq!(a.mprotect(own, 2003, 1), Err(Errno::ENOMEM));
    assert!(a.write(own, 5));
    assert_eq!(a.read(own + 3 * P), None);
    Node.sync();
    a.reclaim();
    assert_eq!(a.usage().used, used);
    a.check();
}

/// One mremap that empties a thousand page tables made the list of frames that wait overflow: the kernel panicked.
#[test]
fn a_move_may_empty_any_number_of_tables() {
    let mut a = space(4096);
    let pages = 1100 * 512;
    let from = a.mmap(Va(0), pages, 0, 0).unwrap();
    for i in 0..1100 {
        let at = from + i * M2;
        a.mprotect(at, 1, RW).unwrap();
        assert!(a.write(at, i + 1));
        a.mprotect(at, 1, 0).unwrap();
    }
    let to = from.before(2 * pages * P);
    a.mremap(from, pages, pages, Some(to)).unwrap();
    for i in [0, 1, 550, 1099] {
        a.mprotect(to + i * M2, 1, RW).unwrap();
        assert_eq!(a.read(to + i * M2), Some(i + 1));
    }
    a.check();
}

/// A frame of data became a page table while a peer's core had a translation of it: the peer could write entries, and reach
/// all memory by them. And a proxy that had mapped all of the partition could write them at any time.
#[test]
fn page_tables_lie_outside_of_the_partition() {
    let mut a = space(600);
    let mut at = A;
    while a.mmap(at, 1, RW, FIXED | 0x20000).is_ok() {
        a.seen_by_peer(at);
        at += P;
    }
    a.munmap(A + 16 * P, (at - A) / P - 16).unwrap();
    Node.sync();
    // Where nothing was mapped: at an address that is used again the peer drops it in any case.
    for i in 8..64 {
        a.mmap(A + i * M2, 1, RW, FIXED | 0x20000).unwrap();
        a.check();
    }
    assert_eq!(Node::peer_flushes(), 0);
}

/// Shared anonymous memory lost its contents by MADV_DONTNEED; on Linux it keeps them.
#[test]
fn shared_memory_is_not_discarded() {
    const SHARED_NOT_PRIVATE: u64 = 1 ^ 2;
    let mut a = space(1024);
    let args = MmapArgs {
        addr: Va(0),
        len_bytes: P,
        prot: RW,
        flags: PRIVATE_ANON ^ SHARED_NOT_PRIVATE,
        offset: 0,
    };
    let plan = mman::mmap(&args, None, a.regions(), &a.bounds()).unwrap();
    a.map_new(plan.region).unwrap();
    assert!(a.write(plan.region.start, 3));
    a.madvise(plan.region.start, 1, DONTNEED).unwrap();
    assert_eq!(a.read(plan.region.start), Some(3));
}

/// The sections between two preemption points are a promise (`irqs_off_max_instructions`), so is that there are any: changes
/// whose length a program chose ran 3 million instructions without one.
#[test]
fn long_changes_have_preemption_points_everywhere() {
    let mut a = space(70_000);
    Node::watch_points();
    let at = a.mmap(Va(0), 65_536, RW, 0x20000).unwrap();
    a.mprotect(at, 65_536, 1).unwrap();
    a.mprotect(at, 65_536, RW).unwrap();
    for i in 0..200 {
        a.mprotect(at + 3 * i * P, 1, 1).unwrap();
    }
    a.madvise(at, 65_536, DONTNEED).unwrap();
    a.mprotect(at, 65_536, RW).unwrap();
    a.mremap(at, 65_536, 65_536, Some(at.before(1 << 30)))
        .unwrap();
    a.munmap(at.before(1 << 30), 65_536).unwrap();
    Node.sync();
    a.reclaim();
    let longest = Node::most_entries_between_points();
    assert!(longest <= 1200, "{longest} entries");
    assert!(Node::most_work_at_once() <= 7500);
}

/// The tables were walked again for the proxy's log, and each record was of 64 pages at most.
#[test]
fn adjacent_frames_are_told_at_once() {
    let mut a = space(4096);
    let before = Node.log_position();
    let small = a.mmap(Va(0), 300, RW, 0).unwrap();
    let large = a.mmap(Va(0), 1024, RW, 0).unwrap();
    assert_eq!(Node.log_position() - before, 2);
    Node.sync();
    let mut shown: Vec<Va> = Node::shown().into_keys().collect();
    let mut mapped = Vec::from_iter((0..300).map(|i| small + i * P));
    mapped.extend((0..1024).map(|i| large + i * P));
    mapped.sort_unstable();
    shown.sort_unstable();
    assert_eq!(shown, mapped);
}

/// What is logged as it is mapped has to be taken back when the rest finds no memory.
#[test]
fn an_mmap_that_fails_leaves_nothing_with_the_proxy() {
    let mut a = space(1024);
    a.mmap(A.before(8 * P), 1, RW, FIXED).unwrap();
    a.pool.leave(0);
    Node.sync();
    let (used, shown) = (a.usage().used, Node::shown());
    // There are frames for six pages, but none for the page tables of those from A on.
    assert_eq!(a.mmap(A.before(3 * P), 6, RW, FIXED), Err(Errno::ENOMEM));
    Node.sync();
    a.reclaim();
    assert_eq!((a.usage().used, Node::shown()), (used, shown));
    a.check();
}

/// What MADV_DONTDUMP names stays marked, and only that, whatever else is done to it.
#[test]
fn memory_is_left_out_of_a_core_file_and_put_back() {
    const DONTDUMP: u64 = 16;
    const DODUMP: u64 = 17;
    let mut a = space(64);
    let at = a.mmap(Va(0), 8, RW, 0).expect("room");
    let marked = |a: &Aspace<Node>| -> Vec<u64> {
        let all = a.regions().iter_range(Va(0).until(Va(u64::MAX)));
        let out = all.filter(|r| r.flags.contains(RegionFlags::DONT_DUMP));
        out.map(|r| (r.end - r.start) / P).collect()
    };
    a.madvise(at + P, 6, DONTDUMP).expect("advice");
    a.mprotect(at + 2 * P, 1, 1).expect("an access");
    assert_eq!(marked(&a), [1, 1, 4]);
    a.madvise(at + 4 * P, 1, DODUMP).expect("advice");
    assert_eq!(marked(&a), [1, 1, 1, 2]);
    a.madvise(at, 8, DODUMP).expect("advice");
    assert_eq!(marked(&a), []);
}

/// After exec all of the partition is there for the next program, and a peer sees what that has, not what was there.
#[test]
fn a_space_that_is_cleared_is_as_good_as_new() {
    let mut a = space(4096);
    let unused = a.pool.unused_bytes();
    for round in 0..20 {
        a.mmap(A, 4, RW, FIXED).unwrap();
        a.mmap(A + M2, 1200, RW, FIXED).unwrap();
        a.map_foreign(
            Region::new(VaRange::new(A + 8 * M2, P), Prot::READ, Kind::Vvar),
            CLOCK,
        )
        .unwrap();
        assert!(a.write(A, round));
        let seen = a.seen_by_peer(A).expect("it is mapped");
        assert_eq!(Node::load(seen.0), round);
        a.set_heap(A);
        a.set_mmap_area(VaRange::new(A + 64 * M2, 3 * P));
        a.lock_all(true, true);
        a.done(Aspace::clear).unwrap();
        // The next program's stack is mapped before its top is known.
        assert_eq!((a.bounds().mmap_top, a.bounds().phase), (Va(STACK_TOP), 0));
        // Once mlockall(MCL_FUTURE) went on in the next program.
        assert!(a.bounds().new_flags.is_empty());
        assert!(a.regions().is_vacant(Va(0).until(Va(USER_TOP))) && a.read(A).is_none());
        assert_eq!(a.heap(u64::MAX).start, Va(0));
        Node.sync();
        a.check();
    }
    a.mmap(A, 1, RW, FIXED).unwrap();
    assert_eq!(a.usage().used, P);
    // Tables are used again.
    let tables = unused - a.pool.unused_bytes();
    assert!(tables < 16 * P, "{tables:#x} bytes are lost");
}

/// What Linux writes for a call under way changes no page table: a page that it had written was handed out again as zeros, and
/// kept what it held over MADV_DONTNEED.
#[test]
fn what_a_call_under_way_has_written_is_cleared() {
    let mut a = space(2048);
    a.mmap(A, 2, RW, FIXED).unwrap();
    let (tables, root) = a.tables();
    let at = |va| paging::translate(&tables, root, va).unwrap().pa.0;
    let pages = [at(A), at(A + P)];
    Node::set_written(true);
    pages.iter().for_each(|pa| Node::store(*pa, 7));
    a.madvise(A, 1, DONTNEED).unwrap();
    assert_eq!(a.read(A), Some(0));
    a.munmap(A, 2).unwrap();
    Node::set_written(false);
    Node.sync();
    a.mmap(A, 2, RW, FIXED).unwrap();
    assert_eq!((a.read(A), a.read(A + P)), (Some(0), Some(0)));
    a.check();
}
