//! Mappings of objects: made, written back, ended.

use abi::Errno;
use abi::control::HostOp;
use abi::map::{PAGE, USER_TOP};
use hal::addr::{Va, VaRange};
use qk_core::mman::{FileInfo, MmapPlan};
use qk_core::objects::{File, Laid, Lease, Piece};
use qk_core::regions::{Prot, Region, RegionFlags};

use super::files;
use super::pool::{detach, node, recycle};
use super::receipt::complete;
use super::sharing::note_code;
use crate::aspace::Aspace;
use crate::host::ship;
use crate::preempt;
use crate::rank::Rank;
use crate::thread::Thread;

/// Work of laying a piece, in instructions.
pub(super) const LAY_WORK: u32 = 100;

/// Carries out a shared mapping of a file, as far as it exists: the rest of the region is behind its end.
///
/// # Errors
/// ENODEV: not a regular file, or none that can be mapped. EACCES: none to write to, although it was described as one. ENOMEM: the
/// pool has no room, which yod reports.
pub fn map(
    thread: &'static Thread,
    aspace: &mut Aspace,
    plan: &MmapPlan,
    fd: u64,
    file: &FileInfo,
) -> Result<(), Errno> {
    make_vacant(thread, aspace, plan)?;
    let mapped = map_vacant(thread, aspace, plan, fd, file);
    aspace.end_replacing();
    mapped
}

/// The same where nothing is mapped.
fn map_vacant(
    thread: &'static Thread,
    aspace: &mut Aspace,
    plan: &MmapPlan,
    fd: u64,
    file: &FileInfo,
) -> Result<(), Errno> {
    let (held, is_writable) = files::hold(thread, fd, &plan.region)?;
    // Another thread may have replaced the descriptor since it was described.
    if !is_writable && !plan.region.flags.contains(RegionFlags::READ_ONLY) {
        let_go(thread, held);
        return Err(Errno::EACCES);
    }
    map_held(thread, aspace, held, plan.region, file.in_file_bytes)
}

/// Maps what the proxy holds; it is released if that fails.
pub fn map_held(
    thread: &'static Thread,
    aspace: &mut Aspace,
    held: File,
    mut region: Region,
    in_file_bytes: u64,
) -> Result<(), Errno> {
    let len_bytes = region.len_bytes();
    let rank = thread.rank().id();
    let attached =
        node().and_then(|node| node.with(|objects| objects.attach(held, rank, len_bytes)));
    let mut lease = match attached {
        Ok(lease) => lease,
        Err(errno) => {
            note_shortage(thread.rank(), &region);
            let_go(thread, held);
            return Err(errno);
        }
    };
    region.object = lease.object();
    if region.prot.contains(Prot::EXEC) {
        note_code();
    }
    thread.rank().memory().add_object_pages(len_bytes / PAGE);
    let in_file = region.start + in_file_bytes.min(len_bytes);
    let mapped = map_parts(thread, aspace, held, region, in_file, &mut lease);
    // All of it is mapped, or what is not goes back, and then what is.
    if lease.len_bytes() > 0 {
        detach(thread, lease, None);
    }
    if mapped.is_err() {
        let _ = complete(thread, aspace, |aspace| aspace.unmap(region.range()));
    }
    mapped
}

/// Maps what lies in the file, and what does not, without frames.
fn map_parts(
    thread: &'static Thread,
    aspace: &mut Aspace,
    file: File,
    region: Region,
    in_file: Va,
    lease: &mut Lease,
) -> Result<(), Errno> {
    if in_file < region.end {
        let mut behind = region.clip(in_file.until(region.end));
        behind.flags |= RegionFlags::PAST_END;
        aspace.map_object(behind, &[], lease)?;
    }
    if in_file == region.start {
        return Ok(());
    }
    let there = region.clip(region.start.until(in_file));
    fill(thread, file, &there, |pieces| {
        aspace.map_object(there, pieces, lease)
    })
}

/// Has `map` map the part of an object that `region` names, in frames that the file is laid over.
pub fn fill(
    thread: &'static Thread,
    file: File,
    region: &Region,
    map: impl FnOnce(&[Piece]) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let node = node()?;
    let (from, to) = (region.offset, region.offset + region.len_bytes());
    let _gate = node.gate(region.object);
    let extend = || node.with(|objects| objects.extend(region.object, from, to));
    let fresh = match extend() {
        Err(_) if node.reclaim(thread) => extend(),
        fresh => fresh,
    };
    let fresh = fresh.inspect_err(|_| note_shortage(thread.rank(), region))?;
    let wanted = match region.flags.contains(RegionFlags::READ_ONLY) {
        true => Laid::ToRead,
        false => Laid::ToWrite,
    };
    let laid = node.with(|objects| {
        let pieces = objects.pieces(region.object, from, to);
        objects.note_found(region.object, from, to);
        pieces
    });
    let laid = laid.and_then(|pieces| {
        for piece in &pieces {
            preempt::point(LAY_WORK);
            lay(thread, file, piece, wanted)?;
        }
        Ok(pieces)
    });
    match laid {
        Ok(pieces) => {
            node.with(|objects| objects.note_laid(region.object, from, to, wanted));
            map(&pieces)
        }
        Err(errno) => {
            node.with(|objects| objects.retract(region.object, &fresh));
            recycle(thread, file, &fresh, false);
            Err(errno)
        }
    }
}

/// Sees to it that the rank's proxy and the node have the file in the frames of a piece; without a file they hold zeros at first.
fn lay(thread: &'static Thread, file: File, piece: &Piece, wanted: Laid) -> Result<(), Errno> {
    let access = match piece.laid < wanted {
        true => wanted,
        false => Laid::No,
    };
    if files::is_none(file) {
        if piece.laid == Laid::No && !piece.zero {
            preempt::zero(piece.pa, piece.len_bytes);
        }
    } else if piece.is_lost {
        files::restore(thread, piece)?;
    }
    // Without a file it hears that the frames, which may have been text, are the pool's own.
    files::lay(thread, file, piece, access)
}

/// A file that is held is not mapped after all.
pub fn let_go(thread: &'static Thread, held: File) {
    let rank = thread.rank().id();
    let is_held = node().is_ok_and(|node| node.with(|objects| objects.is_held(held, rank)));
    files::release(thread, held, !is_held);
}

/// Takes away what a shared mapping replaces that is made next, until `Aspace::end_replacing`.
pub fn make_vacant(
    thread: &'static Thread,
    aspace: &mut Aspace,
    plan: &MmapPlan,
) -> Result<(), Errno> {
    match plan.replace {
        true => complete(thread, aspace, |aspace| aspace.vacate(plan.region.range())),
        false => Ok(()),
    }
}

/// Has what was stored in shared mappings in `range` written to their files, as msync with these flags.
///
/// # Errors
/// The first that the host says.
pub fn write_back(
    thread: &'static Thread,
    aspace: &mut Aspace,
    range: VaRange,
    flags: u64,
) -> Result<(), Errno> {
    let (mut at, mut result) = (range.start, Ok(()));
    // POINT: regions
    while let Some(region) = aspace.object(at.until(range.end)) {
        let args = [region.start.0, region.len_bytes(), flags];
        let written = ship::host_op(thread, HostOp::WriteBack, args);
        result = result.and(written.map(|_| ()));
        at = region.end;
    }
    result
}

/// The regions in `range`, which may be many.
pub fn regions(aspace: &Aspace, range: VaRange) -> impl Iterator<Item = Region> + '_ {
    const LOOK_WORK: u32 = 20;
    let all = aspace.regions().iter_range(range);
    all.inspect(|_| preempt::point(LOOK_WORK))
}

/// The program of the calling thread, its rank's only one, has ended: unmaps all objects that it maps. Text stays, for readers of what the program has left ([`text::end`]).
pub fn let_go_objects(thread: &'static Thread) {
    if thread.rank().memory().maps_objects() {
        // Without its address space there is nothing to unmap.
        let _ = thread.rank().with_aspace(|aspace| {
            let all = Va(0).until(Va(USER_TOP));
            complete(thread, aspace, |aspace| aspace.evict_objects(all))
        });
    }
}

/// For yod to say, should the rank end badly. Without write access a mapping is a probe that programs do without (glibc's cache of
/// converters).
fn note_shortage(rank: &Rank, region: &Region) {
    if !region.flags.contains(RegionFlags::READ_ONLY) {
        rank.host().note_shared_map();
    }
}
