//! The memory calls: `qk_core::mman` decides, `qk_core::aspace` carries out, under one hold of the address space's lock.

use abi::Errno;
use abi::syscall::by_name;
use qk_core::mman::{self, FileInfo, MmapArgs, MmapPlan, MremapArgs, ProtectPlan, Source};
use qk_core::regions::{Prot, RegionFlags};

use super::args::put_bytes;
use super::limits::RLIMIT_DATA;
use super::{Call, SysResult};
use crate::aspace::Aspace;
use crate::rank::Rank;
use crate::{preempt, ship};

pub fn mmap(call: &mut Call<'_>) -> SysResult {
    let [addr, len_bytes, prot, flags, fd, offset] = call.args();
    let rank = call.rank;
    let args = MmapArgs {
        addr,
        len_bytes,
        prot,
        flags,
        offset,
    };
    let file = match mman::source(&args)? {
        Source::Anonymous => None,
        Source::File => file_info(rank, fd)?,
    };
    rank.with_aspace(|aspace| {
        let plan = mman::mmap(&args, file.as_ref(), aspace.regions(), &aspace.bounds())?;
        match file {
            None => aspace.map(&plan)?,
            Some(_) => map_file(rank, aspace, &plan, fd)?,
        }
        Ok(plan.region.start)
    })
}

/// Private mappings of files are loaded when they are made (docs/adr/0008).
fn map_file(
    rank: &'static Rank,
    aspace: &mut Aspace,
    plan: &MmapPlan,
    fd: u64,
) -> Result<(), Errno> {
    let region = plan.region;
    if region.flags.contains(RegionFlags::SHARED) {
        return Err(Errno::ENODEV);
    }
    let mut writable = *plan;
    writable.region.prot = Prot::READ | Prot::WRITE;
    aspace.map(&writable)?;
    aspace.mark_dirty(region.start, region.end);
    let loaded = load(rank, fd, region.start, region.len_bytes(), region.offset).and_then(|()| {
        aspace.protect(&ProtectPlan {
            start: region.start,
            end: region.end,
            prot: region.prot,
            result: Ok(()),
        })
    });
    if loaded.is_err() {
        aspace.unmap(region.start, region.end)?;
    }
    loaded
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

pub fn mprotect(call: &mut Call<'_>) -> SysResult {
    let [addr, len_bytes, prot, ..] = call.args();
    call.rank.with_aspace(
        |aspace| match mman::mprotect(addr, len_bytes, prot, aspace.regions())? {
            Some(plan) => aspace.protect(&plan).map(|()| 0),
            None => Ok(0),
        },
    )
}

pub fn munmap(call: &mut Call<'_>) -> SysResult {
    let [addr, len_bytes, ..] = call.args();
    call.rank.with_aspace(|aspace| {
        match mman::munmap(addr, len_bytes, aspace.regions(), &aspace.bounds())? {
            Some((start, end)) => aspace.unmap(start, end).map(|()| 0),
            None => Ok(0),
        }
    })
}

pub fn brk(call: &mut Call<'_>) -> SysResult {
    let [max_bytes, _] = call.rank.limits.lock()[RLIMIT_DATA];
    let wanted = call.frame.rdi;
    call.rank
        .with_aspace(|aspace| Ok(aspace.brk(wanted, max_bytes)))
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
    call.rank.with_aspace(|aspace| {
        let plan = mman::mremap(&args, aspace.regions(), &aspace.bounds())?;
        aspace.remap(&plan)
    })
}

pub fn madvise(call: &mut Call<'_>) -> SysResult {
    let [addr, len_bytes, advice, ..] = call.args();
    call.rank.with_aspace(|aspace| {
        match mman::madvise(addr, len_bytes, advice, aspace.regions())? {
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
        .with_aspace(|aspace| mman::mincore(addr, len_bytes, aspace.regions()))?;
    for page in (0..pages).step_by(RESIDENT.len()) {
        let some = RESIDENT.len().min((pages - page) as usize);
        preempt::point(some as u32);
        put_bytes(to.wrapping_add(page), &RESIDENT[..some])?;
    }
    Ok(0)
}

/// There are no shared file mappings to write back.
pub fn msync(call: &mut Call<'_>) -> SysResult {
    let [addr, len_bytes, flags, ..] = call.args();
    call.rank
        .with_aspace(|aspace| mman::msync(addr, len_bytes, flags, aspace.regions()))
        .map(|_| 0)
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
    call.rank.with_aspace(
        |aspace| match mman::mlock(addr, len_bytes, flags, aspace.regions())? {
            Some(plan) => aspace.lock(&plan, locked).map(|()| 0),
            None => Ok(0),
        },
    )
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
