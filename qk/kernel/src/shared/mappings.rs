//! Mappings of objects: made, written back, ended.

use abi::Errno;
use abi::map::{PAGE, USER_TOP};
use hal::addr::{Va, VaRange};
use qk_core::mman::{FileInfo, MmapPlan};
use qk_core::objects::{File, Lease, Piece, Run};
use qk_core::regions::{Prot, Region, RegionFlags};

use super::files::{self, Told};
use super::pool::{detach, enter, node, recycle};
use super::receipt::complete;
use crate::aspace::Aspace;
use crate::preempt;
use crate::rank::Rank;
use crate::thread::Thread;

/// Carries out a shared mapping of a file, as far as it exists: the rest of the region is behind its end.
///
/// # Errors
/// ENODEV: not a regular file. EACCES: none to write to, although it was described as one. ENOMEM: the pool has no room, which yod reports. EIO: the file cannot be read.
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
        files::release(thread, held, !maps(aspace, held));
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
    let attached = node().and_then(|node| node.with(|objects| objects.attach(held, len_bytes)));
    let mut lease = match attached {
        Ok(lease) => lease,
        Err(errno) => {
            note_shortage(thread.rank(), &region);
            files::release(thread, held, !maps(aspace, held));
            return Err(errno);
        }
    };
    region.object = lease.object();
    thread.rank().memory().add_object_pages(len_bytes / PAGE);
    let in_file = region.start + in_file_bytes.min(len_bytes);
    let mapped = map_parts(thread, aspace, held, region, in_file, &mut lease);
    // All of it is mapped, or what is not goes back, and then what is.
    if lease.len_bytes() > 0 {
        let last = aspace.is_without(region.object);
        detach(thread, lease, last);
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

/// Has `map` map the part of an object that `region` names, in frames that hold what the file holds.
fn fill(
    thread: &'static Thread,
    file: File,
    region: &Region,
    map: impl FnOnce(&[Piece]) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let node = node()?;
    let (from, to) = (region.offset, region.offset + region.len_bytes());
    let _gate = node.gate(region.object);
    let extend = || {
        node.with(|objects| {
            let fresh = objects.extend(region.object, from, to)?;
            enter(file, &fresh, false);
            Ok::<_, Errno>(fresh)
        })
    };
    let fresh = match extend() {
        Err(_) if node.reclaim(thread) => extend(),
        fresh => fresh,
    };
    let fresh = fresh.inspect_err(|_| note_shortage(thread.rank(), region))?;
    // POINT: mappings::load
    if let Err(errno) = fresh.iter().try_for_each(|piece| load(thread, file, piece)) {
        node.with(|objects| objects.retract(region.object, &fresh));
        recycle(thread, file, &fresh, false);
        return Err(errno);
    }
    let pieces = node.with(|objects| {
        enter(file, &fresh, true);
        objects.pieces(region.object, from, to)
    })?;
    map(&pieces)
}

fn load(thread: &'static Thread, file: File, piece: &Piece) -> Result<(), Errno> {
    const LOAD_WORK: u32 = 100;
    preempt::point(LOAD_WORK);
    if !piece.zero {
        preempt::zero(piece.pa, piece.len_bytes);
    }
    match files::is_none(file) {
        true => Ok(()),
        false => files::load(thread, file, piece),
    }
}

/// Whether the rank maps any of a file.
pub fn maps(aspace: &Aspace, file: File) -> bool {
    let Ok(node) = node() else { return false };
    let mut objects = regions(aspace, Va(0).until(Va(USER_TOP))).filter(Region::is_object);
    // POINT: mappings::regions
    node.with(|table| objects.any(|region| table.file(region.object) == Some(file)))
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

/// Writes back what was written to shared mappings in `range`.
///
/// # Errors
/// The first that the host says.
pub fn write_back(
    thread: &'static Thread,
    aspace: &mut Aspace,
    range: VaRange,
) -> Result<(), Errno> {
    let (mut at, mut result) = (range.start, Ok(()));
    // POINT: regions
    while let Some(region) = aspace.object(at.until(range.end)) {
        let written = write_region(thread, aspace, &region);
        result = result.and(written);
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

/// Adjacent dirty bytes of a region are one operation.
fn write_region(
    thread: &'static Thread,
    aspace: &mut Aspace,
    region: &Region,
) -> Result<(), Errno> {
    if region.flags.contains(RegionFlags::READ_ONLY) {
        return Ok(());
    }
    let file = node()?.with(|objects| objects.file(region.object));
    let file = file.ok_or(Errno::EIO)?;
    if files::is_none(file) {
        return Ok(());
    }
    let mut waiting: Option<Run> = None;
    let mut result = Ok(());
    let mut write = |run: Option<Run>| {
        if let Some(run) = run {
            let written = files::write(thread, file, run, Told::Program);
            result = result.and(written);
        }
    };
    aspace.visit_dirty(region.range(), |va, pa, len_bytes| {
        let run = Run {
            offset: region.offset_at(va),
            pa,
            len_bytes,
        };
        if !waiting.as_mut().is_some_and(|last| last.append(&run)) {
            write(waiting.replace(run));
        }
    });
    write(waiting);
    result
}

/// The program of the calling thread, its rank's only one, has ended: writes back and unmaps all objects that it maps. Text stays,
/// for readers of what the program has left ([`text::end`]).
pub fn let_go_objects(thread: &'static Thread) {
    if thread.rank().memory().maps_objects() {
        // Without its address space there is nothing to write back.
        let _ = thread.rank().with_aspace(|aspace| {
            let all = Va(0).until(Va(USER_TOP));
            complete(thread, aspace, |aspace| aspace.evict_objects(all))
        });
    }
}

/// Makes memory behind the end of a file accessible if the file has grown and the region `allows` the access; `true`: `addr` has
/// a frame now.
pub fn grow(thread: &'static Thread, addr: Va, allows: impl FnOnce(Prot) -> bool) -> bool {
    if !thread.rank().memory().maps_objects() {
        return false;
    }
    let grown = thread.rank().with_aspace(|aspace| {
        let region = *aspace.regions().lookup(addr).ok_or(Errno::EFAULT)?;
        if !region.is_object() || !allows(region.prot) {
            return Err(Errno::EFAULT);
        }
        if !region.flags.contains(RegionFlags::PAST_END) {
            // Another thread was first.
            return aspace.translate(addr).map(|_| ()).ok_or(Errno::EFAULT);
        }
        let file = node()?.with(|objects| objects.file(region.object));
        let file = file.ok_or(Errno::EIO)?;
        let pages = files::pages_bytes(thread, file)?.saturating_sub(region.offset);
        let in_file = region.start + pages.min(region.len_bytes());
        if addr >= in_file {
            return Err(Errno::EFAULT);
        }
        let there = region.clip(region.start.until(in_file));
        fill(thread, file, &there, |pieces| {
            aspace.extend_object(there, pieces)
        })
    });
    grown.is_ok()
}

/// For yod to say, should the rank end badly. Without write access a mapping is a probe that programs do without (glibc's cache of
/// converters).
fn note_shortage(rank: &Rank, region: &Region) {
    if !region.flags.contains(RegionFlags::READ_ONLY) {
        rank.host().note_shared_map();
    }
}
