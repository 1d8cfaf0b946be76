//! More of what a rank has mapped and shared already: mremap that makes it longer, remap_file_pages. The file is held by the mapping
//! that there is, so no descriptor is needed.

use abi::Errno;
use abi::control::SEGMENTS;
use abi::map::PAGE;
use hal::addr::{Va, VaRange};
use qk_core::mman::{self, MmapArgs, RemapPlan};
use qk_core::regions::{Region, RegionFlags};

use super::files;
use super::mappings::{map_held, regions};
use super::pool::node;
use super::receipt::complete;
use crate::aspace::Aspace;
use crate::thread::Thread;

/// MAP_PRIVATE | MAP_ANONYMOUS (include/uapi/asm-generic/mman-common.h): for addresses that are free.
const ANYWHERE: u64 = 0x22;

/// Maps a region like one that is mapped: its object, from its offset on, as far as there is any. Memory without a file is as long as
/// it is mapped.
fn map(thread: &'static Thread, aspace: &mut Aspace, mut region: Region) -> Result<(), Errno> {
    let file = node()?.with(|objects| objects.file(region.object));
    let file = file.ok_or(Errno::EIO)?;
    let in_file_bytes = match files::is_none(file) {
        true => region.len_bytes(),
        false => files::pages_bytes(thread, file)?.saturating_sub(region.offset),
    };
    region.flags -= RegionFlags::PAST_END;
    map_held(thread, aspace, file, region, in_file_bytes)
}

/// Carries out an mremap that makes the shared mapping `region` longer; returns its address. A move maps all of it at the new place
/// before the old one goes.
///
/// # Errors
/// ENOMEM, EIO: what was mapped is as it was; what lay at a fixed destination is gone, as on Linux.
pub fn grow_mapping(
    thread: &'static Thread,
    aspace: &mut Aspace,
    region: Region,
    plan: &RemapPlan,
) -> Result<Va, Errno> {
    match *plan {
        RemapPlan::Stay { addr, .. } => Ok(addr),
        RemapPlan::Grow { addr, more } => {
            map(thread, aspace, region.elsewhere(more, more.start))?;
            Ok(addr)
        }
        RemapPlan::Move {
            to,
            from,
            more,
            replace,
            ..
        } => {
            if let Some(replace) = replace {
                complete(thread, aspace, |aspace| aspace.unmap(replace))?;
            }
            let end = more.map_or(to + from.len_bytes(), |more| more.end);
            map(thread, aspace, region.elsewhere(to.until(end), from.start))?;
            complete(thread, aspace, |aspace| aspace.unmap(from))?;
            Ok(to)
        }
    }
}

/// Carries out remap_file_pages(2): `range`, which shows one object, shows it from `offset` on. The new mapping is made elsewhere and
/// moves there, so that the object is mapped all the time.
///
/// # Errors
/// EINVAL: not one shared mapping, or a segment of System V: Linux refuses those that are removed, and a program may wait for that.
/// ENOMEM, EIO.
pub fn remap_pages(
    thread: &'static Thread,
    aspace: &mut Aspace,
    range: VaRange,
    offset: u64,
) -> Result<(), Errno> {
    let region = *aspace.regions().lookup(range.start).ok_or(Errno::EINVAL)?;
    let alike = |part: &Region| {
        let flags = (part.flags ^ region.flags) - RegionFlags::PAST_END;
        part.object == region.object && part.prot == region.prot && flags.is_empty()
    };
    // POINT: mappings::regions
    let alike_bytes: u64 = regions(aspace, range)
        .filter(alike)
        .map(|part| part.clip(range).len_bytes())
        .sum();
    let is_segment = node()?.with(|objects| {
        let file = objects.file(region.object);
        file.is_some_and(|[device, _]| device == SEGMENTS)
    });
    if !region.is_object() || alike_bytes != range.len_bytes() || is_segment {
        return Err(Errno::EINVAL);
    }
    let hole = MmapArgs {
        addr: Va(0),
        len_bytes: range.len_bytes(),
        prot: 0,
        flags: ANYWHERE,
        offset: 0,
    };
    let hole = mman::mmap(&hole, None, aspace.regions(), &aspace.bounds())?;
    let hole = hole.region.range();
    let there = Region {
        offset,
        ..region.elsewhere(hole, range.start)
    };
    map(thread, aspace, there)?;
    let plan = RemapPlan::Move {
        to: range.start,
        from: hole,
        more: None,
        replace: Some(range),
        trim: None,
        keep_old: false,
    };
    let moved = complete(thread, aspace, |aspace| aspace.remap(&plan));
    if moved.is_err() {
        complete(thread, aspace, |aspace| aspace.unmap(hole))?;
    }
    moved.map(|_| ())
}

/// The pages that remap_file_pages(2) is told of, and the offset of the first in bytes.
///
/// # Errors
/// EINVAL: access is not to change; an end behind all addresses.
pub fn pages_to_remap(
    [addr, len_bytes, prot, page, ..]: [u64; 6],
) -> Result<(VaRange, u64), Errno> {
    let (start, len_bytes) = (Va(addr).align_down(PAGE), len_bytes & !(PAGE - 1));
    let end = start.checked_add(len_bytes).filter(|end| *end > start);
    let offset = page.checked_mul(PAGE);
    let offset = offset.filter(|offset| offset.checked_add(len_bytes).is_some());
    match (prot, end, offset) {
        (0, Some(end), Some(offset)) => Ok((start.until(end), offset)),
        _ => Err(Errno::EINVAL),
    }
}
