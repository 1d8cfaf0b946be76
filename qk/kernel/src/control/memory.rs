//! The control calls on memory: what of it is whose, and what a rank's address space has before it runs.

use abi::Errno;
use abi::control::{INTERPRETER, PROGRAM, RegionKind};
use abi::map::{MAX_RAM_RANGES, PAGE, USER_BASE, USER_TOP};
use arrayvec::ArrayVec;
use hal::addr::{PhysRange, Va, VaRange};
use hal::ranges::Ranges;
use hal::sync::{Mutex, Once, class};
use qk_core::aspace::Memory;
use qk_core::mman::ProtectPlan;
use qk_core::regions::{Kind, Prot, Region, RegionFlags};
use wire::boot::flag;

use super::words::put_words;
use crate::aspace::{Aspace, Owner, PIECES, REGIONS};
use crate::rank::Rank;
use crate::user::user;
use crate::{host, shared};

/// Free memory for ranks, and what of it has been given out.
static MEMORY: Mutex<Ranges, class::Memory> = Mutex::new(Ranges::new());
static PARTITIONS: Mutex<ArrayVec<(usize, PhysRange), { abi::map::MAX_RANKS }>, class::Partitions> =
    Mutex::new(ArrayVec::new_const());

/// Page tables of the ranks, in the same order, as many bytes for each. No partition has any of it, so no proxy maps it.
static TABLES: Once<(PhysRange, u64)> = Once::new();

/// Sets what memory there is for ranks, as many ranges as the PCT works with, and what is for page tables of `ranks` of them.
pub fn set_memory(mut ranges: Ranges, tables: PhysRange, ranks: u64) {
    ranges.keep_largest(MAX_RAM_RANGES);
    let lost = ranges.lost();
    if lost.ranges > 0 {
        log::warn!("{lost}");
    }
    *MEMORY.lock() = ranges;
    let each = (tables.len_bytes() / ranks) & !(PAGE - 1);
    assert!(TABLES.set((tables, each)).is_ok(), "memory is set once");
}

/// Where the page tables of a rank lie.
fn tables(rank: &Rank) -> Option<PhysRange> {
    let (all, each) = TABLES.get()?;
    let start = all.start + rank.id() as u64 * each;
    Some(PhysRange::new(start, *each))
}

pub fn memory_range(index: u64, to: u64) -> Result<u64, Errno> {
    let range = MEMORY.lock().get(index as usize).copied();
    match range {
        Some(range) => put_words(to, 16, &[range.start.0, range.len_bytes()]).map(|_| 1),
        None => Ok(0),
    }
}

pub fn aspace_create(rank: &'static Rank, base: u64, len_bytes: u64) -> Result<u64, Errno> {
    if !base.is_multiple_of(PAGE)
        || !len_bytes.is_multiple_of(PAGE)
        || len_bytes == 0
        || base.checked_add(len_bytes).is_none()
    {
        return Err(Errno::EINVAL);
    }
    let partition = PhysRange::new(hal::addr::Phys(base), len_bytes);
    // BOUND: the ranges of RAM.
    if !MEMORY
        .lock()
        .iter()
        .any(|range| range.holds(partition.start, len_bytes))
    {
        return Err(Errno::EINVAL);
    }
    let memory = Memory {
        partition,
        tables: tables(rank).ok_or(Errno::ENOMEM)?,
        zeroed: host::config().has(flag::RAM_ZEROED),
    };
    take_partition(rank, partition)?;
    // Long work, under no lock.
    let Some(aspace) = Aspace::new(Owner(Some(rank)), memory, REGIONS, PIECES) else {
        // BOUND: the ranks of the node.
        PARTITIONS.lock().retain(|(owner, _)| *owner != rank.id());
        return Err(Errno::ENOMEM);
    };
    rank.host().publish_memory(partition, shared::pool());
    rank.give_aspace(aspace);
    Ok(0)
}

/// Notes that a partition is a rank's, which has none yet; no other has any of it.
fn take_partition(rank: &Rank, partition: PhysRange) -> Result<(), Errno> {
    let mut partitions = PARTITIONS.lock();
    // BOUND: the ranks of the node.
    let is_taken = partitions
        .iter()
        .any(|&(owner, other)| owner == rank.id() || other.overlaps(partition));
    if is_taken {
        return Err(Errno::EBUSY);
    }
    partitions.push((rank.id(), partition));
    Ok(())
}

/// A page-aligned range of a rank's own memory.
fn range(start: u64, len_bytes: u64) -> Result<VaRange, Errno> {
    let end = start.checked_add(len_bytes).ok_or(Errno::EINVAL)?;
    let fits = start.is_multiple_of(PAGE)
        && len_bytes.is_multiple_of(PAGE)
        && len_bytes > 0
        && start >= USER_BASE
        && end <= USER_TOP;
    if fits {
        Ok(Va(start).until(Va(end)))
    } else {
        Err(Errno::EINVAL)
    }
}

pub fn region_create(
    rank: &Rank,
    start: u64,
    len_bytes: u64,
    prot: u64,
    kind: u64,
) -> Result<u64, Errno> {
    let range = range(start, len_bytes)?;
    let prot = Prot::from_bits(prot as u8).ok_or(Errno::EINVAL)?;
    let kind = RegionKind::from_nr(kind).ok_or(Errno::EINVAL)?;
    let region_kind = match kind {
        RegionKind::Image => Kind::Image,
        RegionKind::Stack => Kind::Stack,
        RegionKind::Vdso => Kind::Vdso,
        RegionKind::Vvar | RegionKind::Info => Kind::Vvar,
    };
    let mut region = Region::new(range, prot, region_kind);
    if kind != RegionKind::Image {
        region.flags |= RegionFlags::SMALL_PAGES;
    }
    rank.with_aspace(|aspace| {
        if !aspace.regions().is_vacant(range) {
            return Err(Errno::EEXIST);
        }
        match kind {
            RegionKind::Vvar => return aspace.map_foreign(region, host::clock_page()),
            RegionKind::Info => {
                return aspace.map_foreign(region, rank.host().info_page());
            }
            RegionKind::Image | RegionKind::Stack | RegionKind::Vdso => {}
        }
        aspace.map_new(region)?;
        if kind == RegionKind::Stack {
            aspace.set_mmap_area(range);
        }
        Ok(())
    })
    .map(|()| 0)
}

pub fn text_create(
    rank: &'static Rank,
    [start, len_bytes]: [u64; 2],
    prot: u64,
    [file, offset]: [u64; 2],
) -> Result<u64, Errno> {
    let range = range(start, len_bytes)?;
    let prot = Prot::from_bits(prot as u8).ok_or(Errno::EINVAL)?;
    let in_file = offset.is_multiple_of(PAGE) && offset.checked_add(len_bytes).is_some();
    if !in_file || (file != PROGRAM && file != INTERPRETER) {
        return Err(Errno::EINVAL);
    }
    let region = Region::new(range, prot, Kind::Image);
    rank.with_aspace(|aspace| {
        if !aspace.regions().is_vacant(range) {
            return Err(Errno::EEXIST);
        }
        let shared = shared::text::map(rank.main(), aspace, [file, offset], region);
        shared.then_some(0).ok_or(Errno::EAGAIN)
    })
}

pub fn region_protect(
    rank: &'static Rank,
    start: u64,
    len_bytes: u64,
    prot: u64,
) -> Result<u64, Errno> {
    let range = range(start, len_bytes)?;
    let prot = Prot::from_bits(prot as u8).ok_or(Errno::EINVAL)?;
    let plan = ProtectPlan {
        range,
        prot,
        result: Ok(()),
    };
    rank.with_aspace(|aspace| shared::complete(rank.main(), aspace, |aspace| aspace.protect(&plan)))
        .map(|()| 0)
}

/// Which way [`copy`] goes.
pub enum Way {
    ToRank,
    FromRank,
}

/// Copies between the PCT's memory at `ours` and a rank's at `theirs`, through the direct map.
pub fn copy(rank: &Rank, theirs: u64, ours: u64, len_bytes: u64, way: Way) -> Result<u64, Errno> {
    rank.with_aspace(|aspace| {
        let written = matches!(way, Way::ToRank);
        aspace.each_page(Va(theirs), len_bytes, written, |pa, done, step| {
            let mine = user(ours.wrapping_add(done), step)?;
            let copied = match way {
                Way::ToRank => hal::user::copy_to_pool(pa, mine, step),
                Way::FromRank => hal::user::copy_from_pool(mine, pa, step),
            };
            copied.map_err(|_| Errno::EFAULT)
        })
    })
    .map(|()| 0)
}

/// Memory is not handed to another rank within the job: the proxy, and peers' windows, may still show it.
pub fn rank_reap(rank: &Rank) -> Result<u64, Errno> {
    if rank.is_running() {
        return Err(Errno::EBUSY);
    }
    rank.take_aspace().map(|_: Aspace| 0).ok_or(Errno::ESRCH)
}
