//! The memory calls: `qk_core::mman` decides, [`crate::memory`] carries out.

use abi::Errno;
use abi::syscall::by_name;
use qk_core::mman::{self, Advice, FileInfo, MmapArgs, MremapArgs, Source};
use qk_core::regions::{Prot, RegionFlags};

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
        Source::File => file_info(call.rank, fd)?,
    };
    let plan = ask(call.rank, |aspace| {
        mman::mmap(&args, file.as_ref(), &aspace.regions, &bounds(aspace))
    })?;
    let start = plan.region.start;
    if file.is_none() {
        return memory::map(call.rank, &plan).map(|()| start);
    }
    if plan.region.flags.contains(RegionFlags::SHARED) {
        call.rank.area.node.refusals.shared_maps.add(1);
        return Err(Errno::ENODEV);
    }
    let mut writable = plan;
    writable.region.prot = Prot::READ | Prot::WRITE;
    memory::map(call.rank, &writable)?;
    let end = plan.region.end;
    let loaded = load(call.rank, fd, start, end - start, offset);
    if let Err(errno) =
        loaded.and_then(|()| memory::protect(call.rank, start, end, plan.region.prot))
    {
        memory::unmap(call.rank, start, end)?;
        return Err(errno);
    }
    Ok(start)
}

fn linux(rank: &Rank, name: &str, args: [u64; 6]) -> SysResult {
    let nr = by_name(name).map_or(u64::MAX, |row| u64::from(row.nr));
    let ret = ship::linux_call(rank, nr, &args);
    Errno::from_ret(ret).map_or(Ok(ret as u64), Err)
}

/// What can be known of a descriptor that is to be mapped; `None`: there is no such descriptor.
fn file_info(rank: &Rank, fd: u64) -> Result<Option<FileInfo>, Errno> {
    const F_GETFL: u64 = 3;
    const O_ACCMODE: u64 = 3;
    const O_WRONLY: u64 = 1;
    match linux(rank, "fcntl", [fd, F_GETFL, 0, 0, 0, 0]) {
        Ok(flags) => Ok(Some(FileInfo {
            object: 1,
            readable: flags & O_ACCMODE != O_WRONLY,
            writable: flags & O_ACCMODE != 0,
            mappable: true,
            executable: true,
        })),
        Err(Errno::EBADF) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Reads the file into a private mapping, once and for all; what lies behind its end stays zero.
fn load(rank: &Rank, fd: u64, start: u64, len_bytes: u64, offset: u64) -> Result<(), Errno> {
    ask(rank, |aspace| {
        let _: () = aspace.mark_dirty(start, start + len_bytes);
        Ok(())
    })?;
    let mut done = 0;
    while done < len_bytes {
        match linux(
            rank,
            "pread64",
            [fd, start + done, len_bytes - done, offset + done, 0, 0],
        ) {
            Ok(0) => break,
            Ok(bytes) => done += bytes,
            Err(Errno::EINTR) => {}
            // Directories and pipes cannot be mapped (mmap(2): ENODEV).
            Err(Errno::EISDIR | Errno::ESPIPE | Errno::EINVAL) => return Err(Errno::ENODEV),
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
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
