//! The memory calls: `qk_core::mman` decides, [`crate::memory`] carries out.

use abi::Errno;
use abi::control::{HostOp, MappedFile};
use abi::map::PAGE;
use qk_core::mman::{self, Advice, FileInfo, MmapArgs, MmapPlan, MremapArgs, Source};
use qk_core::regions::{Prot, Region, RegionFlags};

use super::args::put_bytes;
use super::limits::RLIMIT_DATA;
use super::{Call, SysResult};
use crate::memory::{self, ask, bounds};
use crate::rank::Rank;
use crate::{ship, stats};

pub fn mmap(call: &mut Call<'_>) -> SysResult {
    let [addr, len_bytes, prot, flags, fd, offset] = call.args();
    let args = MmapArgs {
        addr,
        len_bytes,
        prot,
        flags,
        offset,
    };
    let file = match mman::source(&args)? {
        Source::Anonymous => None,
        Source::File => file_info(call.rank, fd, offset, len_bytes)?,
    };
    let plan = ask(call.rank, |aspace| {
        mman::mmap(&args, file.as_ref(), &aspace.regions, &bounds(aspace))
    })?;
    let start = plan.region.start;
    let Some(file) = file else {
        return memory::map(call.rank, &plan).map(|()| start);
    };
    if plan.region.flags.contains(RegionFlags::SHARED) {
        return Err(Errno::ENODEV);
    }
    if plan.replace {
        // A loader maps a library as a whole and then most of its parts once more, with their access.
        if ask(call.rank, |aspace| Ok(aspace.regions.shows(&plan.region)))? {
            memory::protect(call.rank, start, plan.region.end, plan.region.prot)?;
            return Ok(start);
        }
        memory::unmap(call.rank, start, plan.region.end)?;
    }
    let mapped = map_private(call.rank, fd, plan.region, &file);
    if mapped.is_err() {
        memory::unmap(call.rank, start, plan.region.end)?;
    }
    mapped.map(|()| start)
}

/// What can be known of a descriptor that is to be mapped; `None`: there is no such descriptor.
fn file_info(rank: &Rank, fd: u64, offset: u64, len_bytes: u64) -> Result<Option<FileInfo>, Errno> {
    let word = match ship::host_op(rank, HostOp::DescribeFile, [fd, offset, len_bytes]) {
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
    }))
}

/// Makes a private mapping of a file where nothing is mapped: reads it, once and for all. Behind the end of its last page
/// there is nothing to be read, and nothing that could be: no frames.
fn map_private(rank: &Rank, fd: u64, mut region: Region, file: &FileInfo) -> Result<(), Errno> {
    let Region { start, end, .. } = region;
    region.flags |= RegionFlags::UNWRITTEN;
    let in_file = start + file.in_file_bytes.min(end - start);
    let plan = |region| MmapPlan {
        region,
        replace: false,
    };
    if in_file < end {
        let mut behind = region.clip(in_file, end);
        behind.flags |= RegionFlags::PAST_END;
        memory::map(rank, &plan(behind))?;
    }
    if in_file == start {
        return Ok(());
    }
    let mut writable = region.clip(start, in_file);
    writable.prot = Prot::READ | Prot::WRITE;
    memory::map(rank, &plan(writable))?;
    load(rank, fd, &writable)?;
    memory::protect(rank, start, in_file, region.prot)
}

/// Reads the file into its mapping; what the file has not stays zero.
fn load(rank: &Rank, fd: u64, region: &Region) -> Result<(), Errno> {
    let Region { start, end, .. } = *region;
    ask(rank, |aspace| {
        let _: () = aspace.mark_dirty(start, end);
        Ok(())
    })?;
    let args = [fd, start, end - start, region.offset];
    ship::host_op(rank, HostOp::LoadFile, args).map(|_: u64| ())
}

/// In pieces of some regions each, one after the other as Linux does it: the first that refuses ends it.
pub fn mprotect(call: &mut Call<'_>) -> SysResult {
    let [mut addr, mut left_bytes, prot, ..] = call.args();
    loop {
        let len_bytes = ask(call.rank, |aspace| {
            Ok(memory::batch_bytes(aspace, addr, left_bytes))
        })?;
        let plan = ask(call.rank, |aspace| {
            mman::mprotect(addr, len_bytes, prot, &aspace.regions)
        })?;
        let Some(plan) = plan else { return Ok(0) };
        if plan.start < plan.end {
            memory::protect(call.rank, plan.start, plan.end, plan.prot)?;
        }
        plan.result?;
        addr += len_bytes;
        left_bytes -= len_bytes;
        if left_bytes == 0 {
            return Ok(0);
        }
    }
}

pub fn munmap(call: &mut Call<'_>) -> SysResult {
    let [addr, len_bytes, ..] = call.args();
    let range = ask(call.rank, |aspace| {
        mman::munmap(addr, len_bytes, &aspace.regions, &bounds(aspace))
    })?;
    range
        .map_or(Ok(()), |(start, end)| memory::unmap(call.rank, start, end))
        .map(|()| 0)
}

pub fn brk(call: &mut Call<'_>) -> SysResult {
    let [max_bytes, _] = call.rank.limits.lock()[RLIMIT_DATA];
    memory::brk(call.rank, call.frame.rdi, max_bytes)
}

pub fn mremap(call: &mut Call<'_>) -> SysResult {
    let [addr, old_len_bytes, new_len_bytes, flags, new_addr, _] = call.args();
    let args = MremapArgs {
        addr,
        old_len_bytes,
        new_len_bytes,
        flags,
        new_addr,
    };
    let plan = ask(call.rank, |aspace| {
        mman::mremap(&args, &aspace.regions, &bounds(aspace))
    })?;
    memory::remap(call.rank, &plan)
}

pub fn madvise(call: &mut Call<'_>) -> SysResult {
    let [addr, len_bytes, advice, ..] = call.args();
    let Some(plan) = ask(call.rank, |aspace| {
        mman::madvise(addr, len_bytes, advice, &aspace.regions)
    })?
    else {
        return Ok(0);
    };
    if plan.advice == Advice::Discard {
        memory::discard(call.rank, plan.start, plan.end)?;
    }
    plan.result.map(|()| 0)
}

/// Answers of mincore given between two looks for interrupts.
const PAGES_PER_LOOK: u64 = 256;

/// Every page that is mapped is resident.
pub fn mincore(call: &mut Call<'_>) -> SysResult {
    let [addr, len_bytes, to, ..] = call.args();
    let pages = ask(call.rank, |aspace| {
        mman::mincore(addr, len_bytes, &aspace.regions)
    })?;
    for page in 0..pages {
        if page % PAGES_PER_LOOK == 0 {
            stats::irq_window();
        }
        put_bytes(to.wrapping_add(page), &[1])?;
    }
    Ok(0)
}

/// There are no shared file mappings to write back.
pub fn msync(call: &mut Call<'_>) -> SysResult {
    let [addr, len_bytes, flags, ..] = call.args();
    ask(call.rank, |aspace| {
        mman::msync(addr, len_bytes, flags, &aspace.regions)
    })
    .map(|_| 0)
}

pub fn mlock(call: &mut Call<'_>) -> SysResult {
    lock(call, 0, RegionFlags::LOCKED)
}

pub fn mlock2(call: &mut Call<'_>) -> SysResult {
    lock(call, call.frame.rdx, RegionFlags::LOCKED)
}

pub fn munlock(call: &mut Call<'_>) -> SysResult {
    lock(call, 0, RegionFlags::empty())
}

fn lock(call: &Call<'_>, flags: u64, locked: RegionFlags) -> SysResult {
    let [addr, len_bytes, ..] = call.args();
    ask(call.rank, |aspace| {
        let Some(plan) = mman::mlock(addr, len_bytes, flags, &aspace.regions)? else {
            return Ok(0);
        };
        let change = |region: &mut qk_core::regions::Region| {
            region.flags = (region.flags - RegionFlags::LOCKED) | locked;
        };
        aspace
            .regions
            .update(plan.start, plan.end, change)
            .map_err(|_| Errno::ENOMEM)?;
        plan.result.map(|()| 0)
    })
}

/// MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT, not ONFAULT alone (mm/mlock.c).
pub fn mlockall(call: &mut Call<'_>) -> SysResult {
    const ONFAULT: u64 = 4;
    let flags = call.frame.rdi;
    if flags == 0 || flags > 7 || flags == ONFAULT {
        Err(Errno::EINVAL)
    } else {
        Ok(0)
    }
}

pub fn munlockall(_: &mut Call<'_>) -> SysResult {
    Ok(0)
}
