//! Carrying out what `qk_core::mman` decided about a rank's memory.
//!
//! Each operation first does what can fail (finding frames), then what cannot; where Linux documents partial effects they
//! are the same here. The proxy is told of every change before the call returns.

use core::sync::atomic::Ordering;

use abi::Errno;
use abi::map::{USER_BASE, USER_TOP};
use qk_core::mman::{self, Bounds, MmapPlan, RemapPlan, Span};
use qk_core::page::PageSize;
use qk_core::regions::{Kind, Prot, Region, RegionFlags};

use crate::aspace::Aspace;
use crate::rank::Rank;
use crate::stats;

/// Where a rank's mappings may lie.
pub fn bounds(aspace: &Aspace) -> Bounds {
    Bounds {
        low: USER_BASE,
        mmap_top: aspace.mmap_top,
        top: USER_TOP,
        max_page: largest_page(),
    }
}

fn largest_page() -> PageSize {
    match hal::cpu::giant_pages() {
        true => PageSize::Size1G,
        false => PageSize::Size2M,
    }
}

/// Asks `question` of the address space, and lets interrupts in after it.
///
/// # Errors
/// Its own, or ESRCH when the rank has none.
pub fn ask<R>(
    rank: &Rank,
    question: impl FnOnce(&mut Aspace) -> Result<R, Errno>,
) -> Result<R, Errno> {
    let answer = question(rank.aspace.lock().as_mut().ok_or(Errno::ESRCH)?);
    stats::irq_window();
    answer
}

fn max_page(region: &Region) -> PageSize {
    match region.flags.contains(RegionFlags::SMALL_PAGES) {
        true => PageSize::Size4K,
        false => largest_page(),
    }
}

fn back(rank: &Rank, start: u64, end: u64, prot: Prot, max: PageSize) -> Result<(), Errno> {
    // What will not fit is not even begun: clearing memory only to give it back helps nobody.
    ask(rank, |aspace| {
        let wanted = aspace.vacant_bytes(start, end);
        if wanted <= aspace.free_bytes() {
            Ok(())
        } else {
            Err(rank.share_exhausted())
        }
    })?;
    rank.with_aspace(|aspace| aspace.back(start, end, prot, max))
}

fn publish(rank: &Rank, start: u64, end: u64) -> Result<(), Errno> {
    let mut at = start;
    rank.with_aspace(|aspace| aspace.publish(&mut at, end))
}

/// Removes regions and frames of `start .. end`; holes are allowed.
///
/// # Errors
/// ENOMEM when there is no room to cut a region or a large page in two.
pub fn unmap(rank: &Rank, start: u64, end: u64) -> Result<(), Errno> {
    let mut at = start;
    while at < end {
        at = ask(rank, |aspace| {
            let batch_end = batch_end(aspace, at, end);
            aspace
                .regions
                .remove(at, batch_end, |_| ())
                .map_err(|_| Errno::ENOMEM)?;
            Ok(batch_end)
        })?;
    }
    unmap_frames(rank, start, end)
}

/// Bytes at the front of a range that one step may change; all of them when the range is none that can be changed.
pub fn batch_bytes(aspace: &Aspace, addr: u64, len_bytes: u64) -> u64 {
    match addr.checked_add(len_bytes) {
        Some(end) if addr.is_multiple_of(abi::map::PAGE) && end <= USER_TOP => {
            batch_end(aspace, addr, end) - addr
        }
        _ => len_bytes,
    }
}

/// End of the first regions of `start .. end`, as many as can be changed between two looks for interrupts.
fn batch_end(aspace: &Aspace, start: u64, end: u64) -> u64 {
    const REGIONS: usize = 32;
    aspace
        .regions
        .iter_range(start, end)
        .take(REGIONS)
        .last()
        .map_or(end, |region| region.end)
}

fn unmap_frames(rank: &Rank, start: u64, end: u64) -> Result<(), Errno> {
    let mut at = start;
    rank.with_aspace(|aspace| aspace.unmap(&mut at, end))
}

/// Makes an anonymous mapping.
///
/// # Errors
/// ENOMEM; then nothing is mapped there.
pub fn map(rank: &Rank, plan: &MmapPlan) -> Result<(), Errno> {
    let Region {
        start, end, prot, ..
    } = plan.region;
    if plan.replace {
        unmap(rank, start, end)?;
    }
    ask(rank, |aspace| {
        aspace
            .regions
            .insert(plan.region)
            .map_err(|_| Errno::ENOMEM)
    })?;
    if prot.is_empty() {
        return Ok(());
    }
    if prot.contains(Prot::WRITE | Prot::EXEC) {
        rank.writable_code.store(true, Ordering::Relaxed);
    }
    let backed = back(rank, start, end, prot, max_page(&plan.region));
    if backed.is_err() {
        unmap(rank, start, end)?;
    }
    backed.and_then(|()| publish(rank, start, end))
}

/// Changes the access of `start .. end`, which is wholly mapped; backs what has no frame yet.
///
/// # Errors
/// ENOMEM, with the access unchanged.
pub fn protect(rank: &Rank, start: u64, end: u64, prot: Prot) -> Result<(), Errno> {
    if !prot.is_empty() {
        let mut at = start;
        while at < end {
            let piece = ask(rank, |aspace| {
                aspace
                    .regions
                    .iter_range(at, end)
                    .next()
                    .ok_or(Errno::ENOMEM)
            })?;
            // What has an access has its frames.
            if piece.prot.is_empty() {
                back(rank, piece.start, piece.end, prot, max_page(&piece))?;
            }
            at = piece.end;
        }
    }
    ask(rank, |aspace| {
        aspace
            .regions
            .protect(start, end, prot, |_| ())
            .map_err(|_| Errno::ENOMEM)
    })?;
    let mut at = start;
    rank.with_aspace(|aspace| aspace.protect(&mut at, end, prot))?;
    if prot.contains(Prot::EXEC) {
        if prot.contains(Prot::WRITE) {
            rank.writable_code.store(true, Ordering::Relaxed);
        }
        ask(rank, |aspace| {
            let _: () = aspace.renew_code(start, end);
            Ok(())
        })?;
    }
    publish(rank, start, end)
}

/// Carries out an mremap; returns the address of the mapping.
///
/// # Errors
/// ENOMEM, with the old mapping as it was.
pub fn remap(rank: &Rank, plan: &RemapPlan) -> Result<u64, Errno> {
    match *plan {
        RemapPlan::Stay { addr, trim } => {
            trim.map_or(Ok(()), |span| unmap(rank, span.start, span.end))?;
            Ok(addr)
        }
        RemapPlan::Grow { addr, more } => {
            let region = region_ending_at(rank, more.start)?;
            grow(rank, &region, more)?;
            Ok(addr)
        }
        RemapPlan::Move {
            to,
            from,
            more,
            replace,
            trim,
            keep_old,
        } => {
            for span in [replace, trim].into_iter().flatten() {
                unmap(rank, span.start, span.end)?;
            }
            relocate(rank, from, to, more, keep_old)?;
            Ok(to)
        }
    }
}

fn region_ending_at(rank: &Rank, end: u64) -> Result<Region, Errno> {
    ask(rank, |aspace| {
        aspace.regions.lookup(end - 1).copied().ok_or(Errno::EFAULT)
    })
}

/// Adds `more` behind `region`, alike.
fn grow(rank: &Rank, region: &Region, more: Span) -> Result<(), Errno> {
    let added = Region {
        start: more.start,
        end: more.end,
        offset: region.offset_at(more.start),
        ..*region
    };
    map(
        rank,
        &MmapPlan {
            region: added,
            replace: false,
        },
    )
}

fn relocate(
    rank: &Rank,
    from: Span,
    to: u64,
    more: Option<Span>,
    keep_old: bool,
) -> Result<(), Errno> {
    let len = from.end - from.start;
    let region = ask(rank, |aspace| {
        aspace
            .regions
            .lookup(from.start)
            .copied()
            .ok_or(Errno::EFAULT)
    })?;
    // The new part first: it is what may fail.
    if let Some(more) = more.filter(|_| !region.prot.is_empty()) {
        let backed = back(rank, more.start, more.end, region.prot, max_page(&region));
        if backed.is_err() {
            unmap_frames(rank, more.start, more.end)?;
            return backed;
        }
    }
    rank.with_aspace(|aspace| aspace.relocate(from.start, to, len))?;
    ask(rank, |aspace| {
        aspace
            .regions
            .move_range(from.start, len, to)
            .map_err(|_| Errno::ENOMEM)
    })?;
    if let Some(more) = more {
        let added = Region {
            start: more.start,
            end: more.end,
            offset: 0,
            ..region
        };
        ask(rank, |aspace| {
            aspace.regions.insert(added).map_err(|_| Errno::ENOMEM)
        })?;
    }
    rank.with_aspace(|aspace| aspace.forget(from.start, from.end))?;
    if keep_old {
        let old = Region {
            start: from.start,
            end: from.end,
            ..region
        };
        map(
            rank,
            &MmapPlan {
                region: old,
                replace: false,
            },
        )?;
    }
    publish(rank, to, more.map_or(to + len, |span| span.end))
}

/// Makes anonymous pages of `start .. end` read as zeros.
///
/// # Errors
/// EINVAL for file mappings: the file is not at hand any more.
pub fn discard(rank: &Rank, start: u64, end: u64) -> Result<(), Errno> {
    ask(rank, |aspace| {
        if aspace
            .regions
            .iter_range(start, end)
            .any(|region| region.kind == Kind::File)
        {
            return Err(Errno::EINVAL);
        }
        aspace.discard(start, end);
        Ok(())
    })
}

/// Moves the break; returns where it is then.
pub fn brk(rank: &Rank, wanted: u64, max_bytes: u64) -> Result<u64, Errno> {
    let (heap, plan) = ask(rank, |aspace| {
        let heap = mman::Heap {
            start: aspace.heap.0,
            current: aspace.heap.1,
            max_bytes,
        };
        Ok((
            heap,
            mman::brk(&heap, wanted, &aspace.regions, &bounds(aspace)),
        ))
    })?;
    let done = match plan {
        mman::BrkPlan::Keep => return Ok(heap.current),
        mman::BrkPlan::Set => Ok(()),
        mman::BrkPlan::Grow { start, end } => {
            let region = Region::new(start, end, Prot::READ | Prot::WRITE, Kind::Heap);
            map(
                rank,
                &MmapPlan {
                    region,
                    replace: false,
                },
            )
        }
        mman::BrkPlan::Shrink { start, end } => unmap(rank, start, end),
    };
    if done.is_err() {
        return Ok(heap.current);
    }
    ask(rank, |aspace| {
        aspace.heap.1 = wanted;
        Ok(wanted)
    })
}
