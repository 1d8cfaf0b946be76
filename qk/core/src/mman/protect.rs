//! mprotect and munmap.

use super::{Bounds, misaligned, page_align};
use crate::regions::{Prot, Region, RegionFlags, Regions};
use abi::Errno;
use abi::addr::{Va, VaRange};

/// PROT_SEM: accepted and without meaning on x86.
const PROT_SEM: u64 = 8;
const PROT_GROWSDOWN: u64 = 0x0100_0000;
const PROT_GROWSUP: u64 = 0x0200_0000;

/// A change of access to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProtectPlan {
    /// What is to be changed; wholly mapped. May be empty.
    pub range: VaRange,
    /// The new access.
    pub prot: Prot,
    /// What the call returns after that: on Linux the pieces before a hole, or before a mapping
    /// that refuses, have been changed all the same.
    pub result: Result<(), Errno>,
}

/// Decides an mprotect. None: success with nothing to do.
///
/// # Errors
/// As mprotect(2).
pub fn mprotect(
    addr: Va,
    len_bytes: u64,
    prot: u64,
    regions: &Regions,
) -> Result<Option<ProtectPlan>, Errno> {
    let grows = prot & (PROT_GROWSDOWN | PROT_GROWSUP);
    let prot = prot & !grows;
    if grows == PROT_GROWSDOWN | PROT_GROWSUP || misaligned(addr) {
        return Err(Errno::EINVAL);
    }
    if len_bytes == 0 {
        return Ok(None);
    }
    let end = Va(addr.0.wrapping_add(page_align(len_bytes)));
    if end <= addr {
        return Err(Errno::ENOMEM);
    }
    if prot & !(u64::from(Prot::all().bits()) | PROT_SEM) != 0 {
        return Err(Errno::EINVAL);
    }
    let start = match grows {
        0 => addr,
        _ => growing(addr.until(end), grows, regions)?,
    };
    if !regions.has_room(2) {
        return Err(Errno::ENOMEM);
    }
    let prot = Prot::from_bits_truncate(prot as u8);
    let refuses = |r: &Region| {
        r.flags.contains(RegionFlags::READ_ONLY) && prot.contains(Prot::WRITE)
            || r.flags.contains(RegionFlags::NO_EXEC) && prot.contains(Prot::EXEC)
            || !r.kind.may_have().contains(prot)
    };
    let (mut stop, mut result) = (start, Ok(()));
    // POINT: regions::list::next
    for region in regions.iter_range(start.until(end)) {
        if region.start > stop {
            break;
        }
        if refuses(&region) {
            result = Err(Errno::EACCES);
            break;
        }
        stop = region.end;
    }
    if result.is_ok() && stop < end {
        result = Err(Errno::ENOMEM);
    }
    if stop == start {
        // Nothing is changed: it has failed.
        return result.map(|()| None);
    }
    Ok(Some(ProtectPlan {
        range: start.until(stop),
        prot,
        result,
    }))
}

/// Where a change begins that is to reach down to the end of a stack. None reaches up on x86.
fn growing(range: VaRange, grows: u64, regions: &Regions) -> Result<Va, Errno> {
    let first = regions.iter_range(range).next().ok_or(Errno::ENOMEM)?;
    let whole = regions.lookup(first.start).ok_or(Errno::ENOMEM)?;
    match grows {
        PROT_GROWSDOWN if whole.flags.contains(RegionFlags::GROWSDOWN) => Ok(whole.start),
        _ => Err(Errno::EINVAL),
    }
}

/// Decides a munmap: the range to unmap, holes allowed. Linux lets it reach from 0 up to its own TASK_SIZE; below and above a
/// rank's memory nothing is ever mapped, so the range is cut to what there is. None: success with nothing to do.
///
/// # Errors
/// EINVAL.
pub fn munmap(addr: Va, len_bytes: u64, bounds: &Bounds) -> Result<Option<VaRange>, Errno> {
    let len_bytes = page_align(len_bytes);
    let in_linux = Bounds {
        top: Va(abi::map::WINDOW_TOP),
        ..*bounds
    };
    if misaligned(addr) || len_bytes == 0 || !in_linux.holds(addr, len_bytes) {
        return Err(Errno::EINVAL);
    }
    let start = addr.clamp(bounds.low, bounds.top);
    let end = (addr + len_bytes).clamp(bounds.low, bounds.top);
    if start == end {
        return Ok(None);
    }
    Ok(Some(start.until(end)))
}
