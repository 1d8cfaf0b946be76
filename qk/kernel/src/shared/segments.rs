//! Segments of System V shared memory: shmat and shmdt. Linux has the segments; shmget and shmctl are shipped.

use abi::Errno;
use abi::control::{HostOp, SEGMENTS};
use abi::map::{PAGE, USER_TOP};
use hal::addr::Va;
use qk_core::mman::{self, FileInfo, MmapArgs};
use qk_core::regions::Region;

use super::mappings::{let_go, map_held, regions};
use super::pool::node;
use super::receipt::{complete, complete_before};
use crate::aspace::Aspace;
use crate::host::ship;
use crate::thread::Thread;

/// SHM_* of include/uapi/linux/shm.h.
mod shm {
    pub const RDONLY: u64 = 0o10000;
    pub const RND: u64 = 0o20000;
    pub const REMAP: u64 = 0o40000;
    pub const EXEC: u64 = 0o100000;
}

/// MAP_* of include/uapi/linux/mman.h.
mod flag {
    pub const SHARED: u64 = 1;
    pub const FIXED: u64 = 0x10;
    pub const FIXED_NOREPLACE: u64 = 0x10_0000;
}

/// PROT_* of include/uapi/asm-generic/mman-common.h.
mod prot {
    pub const READ: u64 = 1;
    pub const WRITE: u64 = 2;
    pub const EXEC: u64 = 4;
}

/// Attaches segment `id` (shmat); returns its address. `expand` says whether the rank may map so many bytes more.
///
/// # Errors
/// As shmat(2); ENOMEM: the pool has no room.
pub fn attach(
    thread: &'static Thread,
    aspace: &mut Aspace,
    [id, addr, flags]: [u64; 3],
    expand: impl FnOnce(&Aspace, u64) -> Result<(), Errno>,
) -> Result<u64, Errno> {
    let (addr, how) = place(addr, flags)?;
    let bytes = ship::host_op(thread, HostOp::HoldSegment, [id, flags])?;
    let held = thread.host().more();
    let writable = flags & shm::RDONLY == 0;
    let mut prot = prot::READ;
    prot |= if writable { prot::WRITE } else { 0 };
    prot |= if flags & shm::EXEC != 0 {
        prot::EXEC
    } else {
        0
    };
    let args = MmapArgs {
        addr: Va(addr),
        len_bytes: bytes,
        prot,
        flags: how,
        offset: 0,
    };
    let info = FileInfo {
        object: 1, // replaced by the object's
        in_file_bytes: bytes,
        readable: true,
        writable,
        mappable: true,
        executable: true,
        sealed: false,
        zeros: false,
    };
    let planned = expand(aspace, bytes).and_then(|()| {
        let plan = mman::mmap(&args, Some(&info), aspace.regions(), &aspace.bounds());
        let plan = plan.map_err(|errno| match errno {
            Errno::EEXIST => Errno::EINVAL,
            errno => errno,
        })?;
        let region = plan.region;
        if plan.replace {
            // It may be attached just there.
            complete_before(thread, aspace, held, |aspace| aspace.vacate(region.range()))?;
        }
        Ok(region)
    });
    match planned {
        Ok(region) => {
            let mapped = map_held(thread, aspace, held, region, bytes);
            aspace.end_replacing();
            mapped.map(|()| region.start.0)
        }
        Err(errno) => {
            let_go(thread, held);
            Err(errno)
        }
    }
}

/// Where, and the flags of mmap for it (Linux: do_shmat).
fn place(addr: u64, flags: u64) -> Result<(u64, u64), Errno> {
    let remap = flags & shm::REMAP != 0;
    let rounded = match flags & shm::RND {
        0 => addr,
        _ => addr & !(PAGE - 1),
    };
    if !rounded.is_multiple_of(PAGE) || rounded == 0 && remap {
        return Err(Errno::EINVAL);
    }
    let how = match (rounded, remap) {
        (0, _) => 0,
        (_, true) => flag::FIXED,
        (_, false) => flag::FIXED_NOREPLACE,
    };
    Ok((rounded, flag::SHARED | how))
}

/// Detaches what is attached at `addr` (shmdt): all that is left of it.
///
/// # Errors
/// EINVAL: no segment is attached there.
pub fn detach(thread: &'static Thread, aspace: &mut Aspace, addr: u64) -> Result<(), Errno> {
    let first = part_at(aspace, addr, |_| true).ok_or(Errno::EINVAL)?;
    let file = node()?.with(|objects| objects.file(first.object));
    if file.is_none_or(|[device, _]| device != SEGMENTS) {
        return Err(Errno::EINVAL);
    }
    // POINT: mappings::regions
    while let Some(part) = part_at(aspace, addr, |object| object == first.object) {
        complete(thread, aspace, |aspace| aspace.unmap(part.range()))?;
    }
    Ok(())
}

/// The first part that is left of a mapping of an object as a whole at `addr`.
fn part_at(aspace: &Aspace, addr: u64, of: impl Fn(u32) -> bool) -> Option<Region> {
    let is_part = |region: &Region| {
        region.is_object()
            && region.start.checked_sub(region.offset) == Some(Va(addr))
            && of(region.object)
    };
    // POINT: mappings::regions
    regions(aspace, Va(addr).until(Va(USER_TOP))).find(is_part)
}

/// How often the host's processes have a segment attached for the node itself.
pub fn attachments(id: u64) -> u64 {
    let file = [SEGMENTS, id];
    node().map_or(0, |node| node.with(|objects| objects.attachments(file)))
}
