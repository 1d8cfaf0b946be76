//! Mappings that are shared: files mapped with MAP_SHARED, by ranks and children, and memory without a file, by a rank and its
//! children. `qk_core::objects` says which frames hold what of them;
//! docs/shared-memory.md describes the whole.
//!
//! An object's frames are what its file holds, for every rank of the node. They are filled from the file when they are
//! first mapped, and each rank writes back what it has written: at msync, when it unmaps, when it becomes another program, and when it ends.
//!
//! # Lock order
//! The address space of the calling rank, then a gate ([`pool::Node::gate`]), then the lock for making frames free
//! ([`pool::Node::reclaim`]), then the table. A gate is held while its file is read,
//! so others that map its pages wait until they are there; the table only for as long as an entry takes. The shipped operations
//! under a gate depend on nothing but the caller's own proxy and the file.

mod anonymous;
pub mod children;
mod files;
mod pool;
mod segments;
pub mod text;

pub use anonymous::map as map_anonymous;
pub use pool::init;
pub use segments::{attach as attach_segment, detach as detach_segment};

use core::sync::atomic::Ordering;

use abi::Errno;
use abi::map::{PAGE, USER_TOP};
use hal::addr::Phys;
use qk_core::futex::Key;
use qk_core::mman::{FileInfo, MmapPlan};
use qk_core::objects::{File, Piece};
use qk_core::regions::{Prot, Region, RegionFlags};

use crate::aspace::Aspace;
use crate::preempt;
use crate::rank::Rank;
use crate::thread::Thread;
use files::Told;
use pool::{enter, node, recycle};

/// Set in the space of a futex's key that is an object's, not a rank's.
const OBJECT_SPACE: u64 = 1 << 32;

/// Carries out a shared mapping of a file, as far as it exists: the rest of the region is behind its end.
///
/// # Errors
/// ENODEV: not a regular file. EACCES: none to write to, although it was described as one. ENOMEM: the pool has no room, which yod is told. EIO: the file cannot be read.
pub fn map(
    thread: &'static Thread,
    aspace: &mut Aspace,
    plan: &MmapPlan,
    fd: u64,
    file: &FileInfo,
) -> Result<(), Errno> {
    if plan.replace {
        aspace.unmap(plan.region.start, plan.region.end)?;
    }
    let (held, is_writable) = files::hold(thread, fd, &plan.region)?;
    // Another thread may have replaced the descriptor since it was described.
    if !is_writable && !plan.region.flags.contains(RegionFlags::READ_ONLY) {
        files::release(thread, held, !maps(aspace, held));
        return Err(Errno::EACCES);
    }
    map_held(thread, aspace, held, plan.region, file.in_file_bytes)
}

/// Maps what the proxy holds; it is released if that fails.
fn map_held(
    thread: &'static Thread,
    aspace: &mut Aspace,
    held: File,
    mut region: Region,
    in_file_bytes: u64,
) -> Result<(), Errno> {
    let len_bytes = region.len_bytes();
    let attached = node().and_then(|node| node.with(|objects| objects.attach(held, len_bytes)));
    region.object = match attached {
        Ok(object) => object,
        Err(errno) => {
            note_shortage(thread.rank, &region);
            files::release(thread, held, !maps(aspace, held));
            return Err(errno);
        }
    };
    thread
        .rank
        .pool_pages
        .fetch_add(len_bytes / PAGE, Ordering::Relaxed);
    let in_file = region.start + in_file_bytes.min(len_bytes);
    let mapped = map_parts(thread, aspace, held, region, in_file);
    if mapped.is_err() {
        let _ = aspace.unmap(region.start, region.end);
        detach(thread, aspace, region.object, len_bytes);
    }
    mapped
}

/// Maps what lies in the file, and what does not, without frames.
fn map_parts(
    thread: &'static Thread,
    aspace: &mut Aspace,
    file: File,
    region: Region,
    in_file: u64,
) -> Result<(), Errno> {
    if in_file < region.end {
        let mut behind = region.clip(in_file, region.end);
        behind.flags |= RegionFlags::PAST_END;
        aspace.map(&MmapPlan {
            region: behind,
            replace: false,
        })?;
    }
    match in_file > region.start {
        true => fill(thread, aspace, file, region.clip(region.start, in_file)),
        false => Ok(()),
    }
}

/// Maps the part of an object that `region` names, with frames that hold what the file holds.
fn fill(
    thread: &'static Thread,
    aspace: &mut Aspace,
    file: File,
    region: Region,
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
    let fresh = fresh.inspect_err(|_| note_shortage(thread.rank, &region))?;
    // POINT: shared::load
    if let Err(errno) = fresh.iter().try_for_each(|piece| load(thread, file, piece)) {
        node.with(|objects| objects.retract(region.object, &fresh));
        recycle(thread, file, &fresh, false);
        return Err(errno);
    }
    let pieces = node.with(|objects| {
        enter(file, &fresh, true);
        objects.pieces(region.object, from, to)
    })?;
    aspace.map_shared(region, &pieces)
}

fn load(thread: &'static Thread, file: File, piece: &Piece) -> Result<(), Errno> {
    const LOAD_WORK: u32 = 100;
    preempt::point(LOAD_WORK);
    if !piece.zero {
        preempt::zero(Phys(piece.pa), piece.len_bytes);
    }
    match anonymous::is(file) {
        true => Ok(()),
        false => files::load(thread, file, piece),
    }
}

/// `len_bytes` of mappings of an object, by the calling thread's rank, are gone.
fn detach(thread: &'static Thread, aspace: &Aspace, object: u32, len_bytes: u64) {
    thread
        .rank
        .pool_pages
        .fetch_sub(len_bytes / PAGE, Ordering::Relaxed);
    let Ok(node) = node() else { return };
    let (file, dead) = node.with(|objects| {
        let file = objects.file(object);
        (file, objects.detach(object, len_bytes))
    });
    let Some(file) = file else { return };
    // POINT: shared::regions
    let last = !regions(aspace, 0, USER_TOP).any(|region| region.object == object);
    match dead {
        Some(pieces) => recycle(thread, file, &pieces, last),
        // Also so that its proxy has let go of the frames, whichever rank gives them back later.
        None => files::release(thread, file, last),
    }
}

/// Whether the rank maps any of a file.
fn maps(aspace: &Aspace, file: File) -> bool {
    let Ok(node) = node() else { return false };
    let mut objects = regions(aspace, 0, USER_TOP).filter(Region::is_object);
    // POINT: shared::regions
    node.with(|table| objects.any(|region| table.file(region.object) == Some(file)))
}

/// Unmaps what shows the node pool in `start .. end`, after writing back what was written; the rest of the range stays.
///
/// # Errors
/// ENOMEM, when there is no room for cutting a region in two.
#[inline]
pub fn take_out(
    thread: &'static Thread,
    aspace: &mut Aspace,
    start: u64,
    end: u64,
) -> Result<(), Errno> {
    match thread.rank.maps_pool() {
        true => take_pool_out(thread, aspace, start, end),
        false => Ok(()),
    }
}

/// Unmaps `start .. end`, whatever it shows.
///
/// # Errors
/// ENOMEM, as [`take_out`].
#[inline]
pub fn unmap(
    thread: &'static Thread,
    aspace: &mut Aspace,
    start: u64,
    end: u64,
) -> Result<(), Errno> {
    take_out(thread, aspace, start, end)?;
    aspace.unmap(start, end)
}

#[cold]
#[inline(never)]
fn take_pool_out(
    thread: &'static Thread,
    aspace: &mut Aspace,
    start: u64,
    end: u64,
) -> Result<(), Errno> {
    text::take_out(thread, aspace, start, end)?;
    take_out_objects(thread, aspace, start, end)
}

/// The same for objects.
fn take_out_objects(
    thread: &'static Thread,
    aspace: &mut Aspace,
    start: u64,
    end: u64,
) -> Result<(), Errno> {
    // POINT: regions
    while let Some(region) = next_object(thread.rank, aspace, start, end) {
        // Like Linux, munmap does not say that the disk is full.
        let _ = write_region(thread, aspace, &region, Told::User);
        aspace.unmap(region.start, region.end)?;
        detach(thread, aspace, region.object, region.len_bytes());
    }
    Ok(())
}

/// Writes back what was written to shared mappings in `start .. end`.
///
/// # Errors
/// The first that the host says.
pub fn write_back(
    thread: &'static Thread,
    aspace: &mut Aspace,
    start: u64,
    end: u64,
) -> Result<(), Errno> {
    let (mut at, mut result) = (start, Ok(()));
    // POINT: regions
    while let Some(region) = next_object(thread.rank, aspace, at, end) {
        let written = write_region(thread, aspace, &region, Told::Program);
        result = result.and(written);
        at = region.end;
    }
    result
}

/// The first part of `start .. end` that shows an object.
fn next_object(rank: &Rank, aspace: &Aspace, start: u64, end: u64) -> Option<Region> {
    if !rank.maps_objects() || start >= end {
        return None;
    }
    // POINT: shared::regions
    regions(aspace, start, end).find(Region::is_object)
}

/// The regions in `start .. end`, which may be many.
fn regions(aspace: &Aspace, start: u64, end: u64) -> impl Iterator<Item = Region> + '_ {
    const LOOK_WORK: u32 = 20;
    let all = aspace.regions().iter_range(start, end);
    all.inspect(|_| preempt::point(LOOK_WORK))
}

/// Adjacent dirty bytes of a region are one operation.
fn write_region(
    thread: &'static Thread,
    aspace: &mut Aspace,
    region: &Region,
    told: Told,
) -> Result<(), Errno> {
    if region.flags.contains(RegionFlags::READ_ONLY) {
        return Ok(());
    }
    let file = node()?.with(|objects| objects.file(region.object));
    let file = file.ok_or(Errno::EIO)?;
    if anonymous::is(file) {
        return Ok(());
    }
    let mut waiting: Option<(u64, u64, u64)> = None;
    let mut result = Ok(());
    let mut write = |part: Option<(u64, u64, u64)>| {
        if let Some(part) = part {
            let written = files::write(thread, file, part, told);
            result = result.and(written);
        }
    };
    aspace.visit_dirty(region.start, region.end, |va, pa, len_bytes| {
        let offset = region.offset_at(va);
        match &mut waiting {
            Some((from, first, len)) if *from + *len == offset && *first + *len == pa => {
                *len += len_bytes;
            }
            _ => write(waiting.replace((offset, pa, len_bytes))),
        }
    });
    write(waiting);
    result
}

/// The program of the calling thread, its rank's only one, has ended: writes back and unmaps all objects that it maps. Text stays,
/// for readers of what the program has left ([`text::end`]).
pub fn let_go_objects(thread: &'static Thread) {
    if thread.rank.maps_objects() {
        // Without its address space there is nothing to write back.
        let _ = thread
            .rank
            .with_aspace(|aspace| take_out_objects(thread, aspace, 0, USER_TOP));
    }
}

/// The program of the calling thread, its rank's only one, is replaced: writes back and unmaps all of the pool.
pub fn let_go(thread: &'static Thread) {
    // Without its address space there is nothing to unmap.
    let _ = thread
        .rank
        .with_aspace(|aspace| take_out(thread, aspace, 0, USER_TOP));
}

/// Makes memory behind the end of a file accessible if the file has grown and the region `allows` the access; `true`: `addr` has
/// a frame now.
pub fn grow(thread: &'static Thread, addr: u64, allows: impl FnOnce(Prot) -> bool) -> bool {
    if !thread.rank.maps_objects() {
        return false;
    }
    let grown = thread.rank.with_aspace(|aspace| {
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
        let mut there = region.clip(region.start, in_file);
        aspace.unmap(there.start, there.end)?;
        there.flags -= RegionFlags::PAST_END;
        let filled = fill(thread, aspace, file, there);
        if filled.is_err() {
            aspace.map(&MmapPlan {
                region: region.clip(there.start, there.end),
                replace: false,
            })?;
        }
        filled
    });
    grown.is_ok()
}

/// Whether a key is of a futex in shared memory.
#[inline]
pub fn is_shared(key: Key) -> bool {
    key.space & OBJECT_SPACE != 0
}

/// The key of a futex in shared memory; `None` where memory is the rank's own.
#[inline]
pub fn futex_key(rank: &Rank, at: u64) -> Option<Key> {
    match rank.maps_objects() {
        true => object_key(rank, at),
        false => None,
    }
}

#[cold]
#[inline(never)]
fn object_key(rank: &Rank, at: u64) -> Option<Key> {
    let region = rank.with_aspace(|aspace| Ok(aspace.regions().lookup(at).copied()));
    let region = region.ok().flatten().filter(Region::is_object)?;
    Some(Key {
        space: OBJECT_SPACE | u64::from(region.object),
        at: region.offset_at(at),
    })
}

/// For yod to say, should the rank end badly. Without write access a mapping is a probe that programs do without (glibc's cache of
/// converters).
fn note_shortage(rank: &Rank, region: &Region) {
    if !region.flags.contains(RegionFlags::READ_ONLY) {
        rank.host.note_shared_map();
    }
}
