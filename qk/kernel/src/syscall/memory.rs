//! The memory calls: `qk_core::mman` decides, `qk_core::aspace` carries out, under one hold of the address space's lock.

use abi::Errno;
use abi::control::{HostOp, MappedFile};
use abi::map::PAGE;
use abi::rlimit;
use hal::addr::Va;
use qk_core::mman::{self, FileInfo, MmapArgs, MmapPlan, MremapArgs, ProtectPlan, Source};
use qk_core::regions::{Kind, Prot, Region, RegionFlags};

use super::memory_limits::{
    bytes_of, expand, expand_data, is_data, is_data_to_be, lockable_bytes, longer, may_lock,
    may_lock_all, may_map,
};
use super::{Call, SysResult};
use crate::aspace::Aspace;
use crate::host::ship;
use crate::thread::Thread;
use crate::user::put_bytes;
use crate::{preempt, shared};

pub fn mmap(call: &mut Call<'_>) -> SysResult {
    let [addr, len_bytes, prot, flags, fd, offset] = call.args();
    let args = MmapArgs {
        addr: Va(addr),
        len_bytes,
        prot,
        flags,
        offset,
    };
    let file = match mman::source(&args)? {
        Source::Anonymous => None,
        Source::File => file_info(call.thread, fd, offset, len_bytes)?,
    };
    call.rank.with_aspace(|aspace| {
        let plan = mman::mmap(&args, file.as_ref(), aspace.regions(), &aspace.bounds())?;
        let range = plan.region.range();
        may_map(call.rank, aspace, &plan.region)?;
        let file = file.filter(|_| plan.region.kind == Kind::File);
        // A loader maps a library as a whole and then most of its parts once more, with their access.
        let is_private = file.is_some() && !plan.region.flags.contains(RegionFlags::SHARED);
        if is_private && plan.replace && aspace.regions().shows(&plan.region) {
            protect(call.thread, aspace, &access(&plan.region))?;
            return Ok(range.start.0);
        }
        match &file {
            None if plan.region.flags.contains(RegionFlags::SHARED) => {
                shared::map_anonymous(call.thread, aspace, &plan)?;
            }
            None => shared::complete(call.thread, aspace, |aspace| aspace.map(&plan))?,
            Some(file) if plan.region.flags.contains(RegionFlags::SHARED) => {
                shared::map(call.thread, aspace, &plan, fd, file)?;
            }
            Some(file) => map_file(call.thread, aspace, &plan, fd, file)?,
        }
        Ok(range.start.0)
    })
}

/// Private mappings of files are loaded when they are made (docs/adr/0008).
fn map_file(
    thread: &'static Thread,
    aspace: &mut Aspace,
    plan: &MmapPlan,
    fd: u64,
    file: &FileInfo,
) -> Result<(), Errno> {
    let range = plan.region.range();
    if plan.replace {
        shared::complete(thread, aspace, |aspace| aspace.vacate(range))?;
    }
    let mapped = map_private(thread, aspace, fd, plan.region, file);
    aspace.end_replacing();
    if mapped.is_err() {
        shared::complete(thread, aspace, |aspace| aspace.unmap(range))?;
    }
    mapped
}

/// What can be known of a descriptor that is to be mapped; `None`: there is no such descriptor.
fn file_info(
    thread: &'static Thread,
    fd: u64,
    offset: u64,
    len_bytes: u64,
) -> Result<Option<FileInfo>, Errno> {
    let word = match ship::host_op(thread, HostOp::DescribeFile, [fd, offset, len_bytes]) {
        Err(Errno::EBADF) => return Ok(None),
        answer => answer?,
    };
    let file = MappedFile::decode(word).ok_or(Errno::EIO)?;
    Ok(Some(FileInfo {
        object: file.object,
        in_file_bytes: file.pages.saturating_mul(PAGE),
        readable: file.readable,
        writable: file.writable,
        mappable: file.mappable,
        executable: file.executable,
        sealed: file.sealed,
        zeros: file.zeros,
    }))
}

/// Makes a private mapping of a file where nothing is mapped: reads it, once and for all, or shows what another rank has read.
/// Behind the end of its last page there is nothing to be read, and nothing that could be: no frames.
fn map_private(
    thread: &'static Thread,
    aspace: &mut Aspace,
    fd: u64,
    mut region: Region,
    file: &FileInfo,
) -> Result<(), Errno> {
    let Region { start, end, .. } = region;
    region.flags |= RegionFlags::UNWRITTEN;
    let in_file = start + file.in_file_bytes.min(end - start);
    if in_file < end {
        let mut behind = region.clip(in_file.until(end));
        behind.flags |= RegionFlags::PAST_END;
        aspace.map_new(behind)?;
    }
    if in_file == start {
        return Ok(());
    }
    let there = region.clip(start.until(in_file));
    // Linux takes an int; what is above is not the program's to name.
    let source = [u64::from(fd as u32), region.offset];
    if shared::text::map(thread, aspace, source, there) {
        return Ok(());
    }
    let mut writable = there;
    writable.prot = Prot::READ | Prot::WRITE;
    // Half of a file is no thread's to see.
    aspace.map_to_fill(writable)?;
    aspace.mark_dirty(there.range());
    // What the file has not stays zero.
    let args = [fd, start.0, there.len_bytes(), region.offset];
    ship::host_op(thread, HostOp::LoadFile, args)?;
    protect(thread, aspace, &access(&there))
}

/// The change that gives a region's pages its access.
fn access(region: &Region) -> ProtectPlan {
    ProtectPlan {
        range: region.range(),
        prot: region.prot,
        result: Ok(()),
    }
}

/// Changes access.
#[inline(always)] // A frame less for every mprotect.
fn protect(thread: &'static Thread, aspace: &mut Aspace, plan: &ProtectPlan) -> Result<(), Errno> {
    shared::complete(thread, aspace, |aspace| aspace.protect(plan))
}

pub fn mprotect(call: &mut Call<'_>) -> SysResult {
    let [addr, len_bytes, prot, ..] = call.args();
    call.rank.with_aspace(|aspace| {
        match mman::mprotect(Va(addr), len_bytes, prot, aspace.regions())? {
            Some(plan) => {
                if plan.prot.contains(Prot::WRITE) {
                    let more_bytes = || bytes_of(aspace, plan.range, is_data_to_be);
                    expand_data(call.rank, aspace, more_bytes)?;
                }
                if plan.prot.contains(Prot::EXEC) && call.rank.memory().maps_objects() {
                    shared::note_code();
                }
                protect(call.thread, aspace, &plan).map(|()| 0)
            }
            None => Ok(0),
        }
    })
}

pub fn munmap(call: &mut Call<'_>) -> SysResult {
    let [addr, len_bytes, ..] = call.args();
    call.rank.with_aspace(
        |aspace| match mman::munmap(Va(addr), len_bytes, &aspace.bounds())? {
            Some(range) => {
                shared::complete(call.thread, aspace, |aspace| aspace.unmap(range)).map(|()| 0)
            }
            None => Ok(0),
        },
    )
}

pub fn brk(call: &mut Call<'_>) -> SysResult {
    let [max_bytes, _] = call.rank.limit(rlimit::DATA);
    let wanted = Va(call.frame.rdi);
    let brk = call.rank.with_aspace(|aspace| {
        let heap = aspace.heap(max_bytes);
        let shrinks = heap.start.until(heap.current).contains(wanted);
        let more_bytes = || longer(heap.current.0, wanted.0);
        let may_grow = |aspace: &Aspace| {
            expand(call.rank, aspace, more_bytes)?;
            expand_data(call.rank, aspace, || more_bytes().unwrap_or(0))
        };
        if !shrinks && may_grow(aspace).is_err() {
            return Ok(heap.current);
        }
        shared::complete(call.thread, aspace, |aspace| aspace.brk(wanted, max_bytes))
    });
    brk.map(|end| end.0)
}

pub fn mremap(call: &mut Call<'_>) -> SysResult {
    let [addr, old_len_bytes, new_len_bytes, flags, new_addr, _] = call.args();
    let args = MremapArgs {
        addr: Va(addr),
        old_len_bytes,
        new_len_bytes,
        flags,
        new_addr: Va(new_addr),
    };
    call.rank.with_aspace(|aspace| {
        let plan = mman::mremap(&args, aspace.regions(), &aspace.bounds())?;
        let more_bytes = || longer(old_len_bytes, new_len_bytes);
        expand(call.rank, aspace, more_bytes)?;
        let moved = || aspace.regions().lookup(Va(addr));
        if call.rank.limits_memory() && moved().is_some_and(is_data) {
            expand_data(call.rank, aspace, || more_bytes().unwrap_or(0))?;
        }
        if new_len_bytes > old_len_bytes
            && call.rank.memory().maps_objects()
            && let Some(&region) = moved()
            && region.is_object()
        {
            return shared::grow_mapping(call.thread, aspace, region, &plan).map(|at| at.0);
        }
        shared::complete(call.thread, aspace, |aspace| aspace.remap(&plan)).map(|at| at.0)
    })
}

pub fn remap_file_pages(call: &mut Call<'_>) -> SysResult {
    let (range, offset) = shared::pages_to_remap(call.args())?;
    call.rank
        .with_aspace(|aspace| shared::remap_pages(call.thread, aspace, range, offset))
        .map(|()| 0)
}

pub fn madvise(call: &mut Call<'_>) -> SysResult {
    let [addr, len_bytes, advice, ..] = call.args();
    call.rank.with_aspace(|aspace| {
        match mman::madvise(Va(addr), len_bytes, advice, aspace.regions())? {
            Some(plan) => aspace.advise(&plan).map(|()| 0),
            None => Ok(0),
        }
    })
}

/// Every page that is mapped is resident.
pub fn mincore(call: &mut Call<'_>) -> SysResult {
    const RESIDENT: [u8; 256] = [1; 256];
    let [addr, len_bytes, to, ..] = call.args();
    let pages = call
        .rank
        .with_aspace(|aspace| mman::mincore(Va(addr), len_bytes, aspace.regions()))?;
    for page in (0..pages).step_by(RESIDENT.len()) {
        let some = RESIDENT.len().min((pages - page) as usize);
        preempt::point(some as u32);
        put_bytes(to.wrapping_add(page), &RESIDENT[..some])?;
    }
    Ok(0)
}

pub fn msync(call: &mut Call<'_>) -> SysResult {
    const INVALIDATE: u64 = 2;
    let [addr, len_bytes, flags, ..] = call.args();
    call.rank.with_aspace(|aspace| {
        match mman::msync(Va(addr), len_bytes, flags, aspace.regions())? {
            // What is locked keeps its pages (mm/msync.c).
            Some(plan)
                if flags & INVALIDATE != 0 && aspace.regions().locked_in(plan.range) != 0 =>
            {
                Err(Errno::EBUSY)
            }
            Some(plan) => {
                let written = shared::write_back(call.thread, aspace, plan.range, flags);
                written.and(plan.result).map(|()| 0)
            }
            None => Ok(0),
        }
    })
}

/// A shared mapping of a segment (System V).
pub fn shmat(call: &mut Call<'_>) -> SysResult {
    let [id, addr, flags, ..] = call.args();
    let (thread, rank) = (call.thread, call.rank);
    rank.with_aspace(|aspace| {
        shared::attach_segment(thread, aspace, [id, addr, flags], |aspace, bytes| {
            expand(rank, aspace, || Some(bytes))
        })
    })
}

pub fn shmdt(call: &mut Call<'_>) -> SysResult {
    let [addr, ..] = call.args();
    call.rank
        .with_aspace(|aspace| shared::detach_segment(call.thread, aspace, addr))
        .map(|()| 0)
}

pub fn mlock(call: &mut Call<'_>) -> SysResult {
    lock(call, 0, true)
}

pub fn mlock2(call: &mut Call<'_>) -> SysResult {
    lock(call, call.frame.rdx, true)
}

pub fn munlock(call: &mut Call<'_>) -> SysResult {
    lock(call, 0, false)
}

fn lock(call: &Call<'_>, flags: u64, locked: bool) -> SysResult {
    let [addr, len_bytes, ..] = call.args();
    call.rank.with_aspace(|aspace| {
        let limit = if locked {
            lockable_bytes(call.rank)?
        } else {
            None
        };
        match mman::mlock(Va(addr), len_bytes, flags, aspace.regions())? {
            Some(plan)
                if locked && !may_lock(aspace, plan.range, plan.range.len_bytes(), limit) =>
            {
                Err(Errno::ENOMEM)
            }
            Some(plan) => aspace.lock(&plan, locked).map(|()| 0),
            None => Ok(0),
        }
    })
}

pub fn mlockall(call: &mut Call<'_>) -> SysResult {
    const CURRENT: u64 = 1;
    const FUTURE: u64 = 2;
    const ONFAULT: u64 = 4;
    let flags = call.frame.rdi;
    if flags == 0 || flags & !(CURRENT | FUTURE | ONFAULT) != 0 || flags == ONFAULT {
        return Err(Errno::EINVAL);
    }
    let limit = lockable_bytes(call.rank)?;
    if flags & CURRENT != 0 {
        call.rank
            .with_aspace(|aspace| match may_lock_all(aspace, limit) {
                true => Ok(()),
                false => Err(Errno::ENOMEM),
            })?;
    }
    lock_all(call, flags & CURRENT != 0, flags & FUTURE != 0)
}

pub fn munlockall(call: &mut Call<'_>) -> SysResult {
    lock_all(call, false, false)
}

fn lock_all(call: &Call<'_>, current: bool, future: bool) -> SysResult {
    call.rank.with_aspace(|aspace| {
        aspace.lock_all(current, future);
        Ok(0)
    })
}
