//! madvise, msync, mincore, mlock, mbind: calls that mostly need nothing done, once their arguments are
//! checked, because no page is ever paged out here.

use super::{misaligned, page_align};
use crate::page::PAGE_BYTES;
use crate::regions::{Kind, Prot, Region, RegionFlags, Regions};
use abi::Errno;
use abi::addr::{Va, VaRange};

/// MADV_* of include/uapi/asm-generic/mman-common.h.
mod madv {
    pub const DONTNEED: u64 = 4;
    pub const FREE: u64 = 8;
    pub const REMOVE: u64 = 9;
    pub const DONTDUMP: u64 = 16;
    pub const DODUMP: u64 = 17;
    pub const WIPEONFORK: u64 = 18;
    pub const POPULATE_READ: u64 = 22;
    pub const POPULATE_WRITE: u64 = 23;
    pub const DONTNEED_LOCKED: u64 = 24;
}

/// What to do with a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Nothing.
    Accept,
    /// Make anonymous private memory read as zeros, private file memory as the file again.
    Discard,
    /// Leave it out of a core file (`true`), or not any more.
    LeaveOut(bool),
}

/// An madvise to be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdvicePlan {
    /// What to do.
    pub advice: Advice,
    /// Where; there may be holes in it.
    pub range: VaRange,
    /// What the call returns after that: ENOMEM when there was a hole.
    pub result: Result<(), Errno>,
}

/// Decides an madvise. None: success with nothing to do.
///
/// # Errors
/// As madvise(2). Advice that Linux added after 6.1 (COLLAPSE, GUARD_INSTALL) is unknown here.
pub fn madvise(
    addr: Va,
    len_bytes: u64,
    advice: u64,
    regions: &Regions,
) -> Result<Option<AdvicePlan>, Errno> {
    let known = matches!(advice, 0..=4 | madv::FREE..=madv::DONTNEED_LOCKED);
    if !known || misaligned(addr) {
        return Err(Errno::EINVAL);
    }
    let Some(range) = range(addr, len_bytes, Errno::EINVAL, Wrap::Refused)? else {
        return Ok(None);
    };
    // Linux works region by region: one that refuses ends the walk, those before it are done.
    // POINT: regions::list::next
    let refusal = regions
        .iter_range(range)
        .find_map(|r| Some((r.start, refuse(advice, &r)?)));
    let hole = regions.first_hole(range);
    Ok(Some(AdvicePlan {
        advice: match advice {
            madv::DONTNEED | madv::DONTNEED_LOCKED => Advice::Discard,
            madv::DONTDUMP => Advice::LeaveOut(true),
            madv::DODUMP => Advice::LeaveOut(false),
            _ => Advice::Accept,
        },
        range: range.start.until(refusal.map_or(range.end, |(at, _)| at)),
        result: match (refusal, hole) {
            (Some((_, errno)), _) => Err(errno),
            (None, Some(_)) => Err(Errno::ENOMEM),
            (None, None) => Ok(()),
        },
    }))
}

/// Why `region` does not take `advice`.
fn refuse(advice: u64, region: &Region) -> Option<Errno> {
    let file = region.kind == Kind::File;
    let shared = region.flags.contains(RegionFlags::SHARED);
    let refused = match advice {
        madv::DONTNEED if region.flags.contains(RegionFlags::LOCKED) => true,
        // The file is not at hand any more, so what differs from it must stay; the kernel's pages are not the program's.
        madv::DONTNEED | madv::DONTNEED_LOCKED => {
            !shared && !region.is_discardable() && !region.flags.contains(RegionFlags::UNWRITTEN)
        }
        madv::FREE => file || shared,
        // Linux's VM_SPECIAL.
        madv::DODUMP => region.kind == Kind::Vvar,
        // Children get a copy of all: a program that gets an error takes other measures.
        madv::WIPEONFORK => true,
        // Punching holes into files is not served yet; Linux says EACCES where it may not either.
        madv::REMOVE if file => return Some(Errno::EACCES),
        madv::REMOVE => true,
        madv::POPULATE_READ => region.prot.is_empty(),
        madv::POPULATE_WRITE => !region.prot.contains(Prot::WRITE),
        _ => false,
    };
    refused.then_some(Errno::EINVAL)
}

/// An msync to be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncPlan {
    /// Whose shared file pages are to be written back; there may be holes in it.
    pub range: VaRange,
    /// What the call returns after that: ENOMEM when there was a hole.
    pub result: Result<(), Errno>,
}

/// Decides an msync. None: success with nothing to do.
///
/// # Errors
/// As msync(2).
pub fn msync(
    addr: Va,
    len_bytes: u64,
    flags: u64,
    regions: &Regions,
) -> Result<Option<SyncPlan>, Errno> {
    const ASYNC: u64 = 1;
    const SYNC: u64 = 4;
    const ALL: u64 = 7;
    if flags & !ALL != 0 || misaligned(addr) || flags & (ASYNC | SYNC) == ASYNC | SYNC {
        return Err(Errno::EINVAL);
    }
    let Some(range) = range(addr, len_bytes, Errno::ENOMEM, Wrap::Empty)? else {
        return Ok(None);
    };
    // Linux writes what is mapped on both sides of a hole.
    let result = match regions.first_hole(range) {
        Some(_) => Err(Errno::ENOMEM),
        None => Ok(()),
    };
    Ok(Some(SyncPlan { range, result }))
}

/// Checks a mincore: returns how many bytes of the vector to set, all to 1.
///
/// # Errors
/// EINVAL, or ENOMEM when part of the range is not mapped.
pub fn mincore(addr: Va, len_bytes: u64, regions: &Regions) -> Result<u64, Errno> {
    if misaligned(addr) {
        return Err(Errno::EINVAL);
    }
    let end = addr.checked_add(len_bytes);
    let end = end.and_then(|end| end.checked_add(PAGE_BYTES - 1));
    let range = addr.until(end.ok_or(Errno::ENOMEM)?.align_down(PAGE_BYTES));
    match regions.first_hole(range) {
        Some(_) => Err(Errno::ENOMEM),
        None => Ok(range.len_bytes() / PAGE_BYTES),
    }
}

/// A change of the LOCKED flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lock {
    /// Where; wholly mapped.
    pub range: VaRange,
    /// What the call returns after that: ENOMEM when there was a hole.
    pub result: Result<(), Errno>,
}

/// Decides an mlock, mlock2 (`flags`) or munlock. None: success with nothing to do.
///
/// # Errors
/// As mlock(2); limits on locked memory are the caller's affair.
pub fn mlock(
    addr: Va,
    len_bytes: u64,
    flags: u64,
    regions: &Regions,
) -> Result<Option<Lock>, Errno> {
    const ONFAULT: u64 = 1;
    if flags & !ONFAULT != 0 {
        return Err(Errno::EINVAL);
    }
    let start = addr.align_down(PAGE_BYTES);
    let len_bytes = len_bytes.wrapping_add(addr - start);
    let Some(range) = range(start, len_bytes, Errno::EINVAL, Wrap::Empty)? else {
        return Ok(None);
    };
    let hole = regions.first_hole(range);
    if hole == Some(start) || !regions.has_room(2) {
        return Err(Errno::ENOMEM);
    }
    let result = if hole.is_some() {
        Err(Errno::ENOMEM)
    } else {
        Ok(())
    };
    Ok(Some(Lock {
        range: start.until(hole.unwrap_or(range.end)),
        result,
    }))
}

/// The range of an mbind, whose policy is right; `default`: it takes policies back, and there may be holes. None: success with
/// nothing to do.
///
/// # Errors
/// As mbind(2): EFAULT where something is not mapped; ENOMEM without room to cut regions.
pub fn mbind(
    addr: Va,
    len_bytes: u64,
    default: bool,
    regions: &Regions,
) -> Result<Option<VaRange>, Errno> {
    if misaligned(addr) {
        return Err(Errno::EINVAL);
    }
    let Some(range) = range(addr, len_bytes, Errno::EINVAL, Wrap::Empty)? else {
        return Ok(None);
    };
    let missing = match default {
        true => regions.is_vacant(range),
        false => regions.first_hole(range).is_some(),
    };
    match (missing, regions.has_room(2)) {
        (true, _) => Err(Errno::EFAULT),
        (false, false) => Err(Errno::ENOMEM),
        (false, true) => Ok(Some(range)),
    }
}

/// What a length within a page of 2^64, which PAGE_ALIGN turns into 0, means to a call.
#[derive(PartialEq)]
enum Wrap {
    /// The same as 0.
    Empty,
    /// An error.
    Refused,
}

/// The whole pages of a range; None when it is empty.
fn range(start: Va, len_bytes: u64, wrapped: Errno, wrap: Wrap) -> Result<Option<VaRange>, Errno> {
    let len = page_align(len_bytes);
    if len == 0 {
        return if len_bytes == 0 || wrap == Wrap::Empty {
            Ok(None)
        } else {
            Err(wrapped)
        };
    }
    match start.checked_add(len) {
        Some(end) => Ok(Some(start.until(end))),
        None => Err(wrapped),
    }
}
