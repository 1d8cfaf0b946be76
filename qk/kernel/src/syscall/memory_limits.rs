//! What limits on memory allow: RLIMIT_AS, _DATA, _MEMLOCK and _STACK, as mm/mmap.c and mm/mlock.c of Linux have them.
//!
//! The main stack is mapped as a whole from the start: of what lies below a lower limit, and below what is in use, the access is
//! taken away. It does not become longer than at the start.

use abi::Errno;
use abi::areas::Areas;
use abi::map::{PAGE, USER_TOP};
use abi::rlimit;
use hal::addr::{Va, VaRange};
use qk_core::mman::ProtectPlan;
use qk_core::regions::{Kind, Prot, Region, RegionFlags};

use super::{Call, SysResult};
use crate::aspace::Aspace;
use crate::rank::Rank;
use crate::shared;

/// All addresses of a rank's own memory.
const ALL: VaRange = VaRange {
    start: Va(0),
    end: Va(USER_TOP),
};

/// Whether the rank may have a region that is to be mapped, in place of what is there.
///
/// # Errors
/// ENOMEM; EPERM, EAGAIN: not locked.
#[inline(always)] // Nearly always there is no limit.
pub fn may_map(rank: &Rank, aspace: &Aspace, region: &Region) -> Result<(), Errno> {
    if rank.limits_memory() || region.flags.contains(RegionFlags::LOCKED) {
        may_map_within(rank, aspace, region)
    } else {
        Ok(())
    }
}

#[cold]
#[inline(never)]
fn may_map_within(rank: &Rank, aspace: &Aspace, region: &Region) -> Result<(), Errno> {
    let range = region.range();
    let more_bytes = || Some(range.len_bytes() - bytes_of(aspace, range, |_| true));
    expand(rank, aspace, more_bytes)?;
    if is_data(region) {
        let more_bytes = || range.len_bytes() - bytes_of(aspace, range, is_data);
        expand_data(rank, aspace, more_bytes)?;
    }
    if region.flags.contains(RegionFlags::LOCKED) {
        let limit = lockable_bytes(rank)?;
        if !may_lock(aspace, range, range.len_bytes(), limit) {
            return Err(Errno::EAGAIN);
        }
    }
    Ok(())
}

/// Whether the rank may map so many bytes more (RLIMIT_AS), if any.
///
/// # Errors
/// ENOMEM.
#[inline(always)] // As above.
pub fn expand(
    rank: &Rank,
    aspace: &Aspace,
    more_bytes: impl FnOnce() -> Option<u64>,
) -> Result<(), Errno> {
    if !rank.limits_memory() {
        return Ok(());
    }
    let [limit_bytes, _] = rank.limit(rlimit::AS);
    let Some(more_bytes) = more_bytes().filter(|_| limit_bytes != u64::MAX) else {
        return Ok(());
    };
    match bytes_of(aspace, ALL, |_| true).checked_add(more_bytes) {
        Some(bytes) if bytes <= limit_bytes => Ok(()),
        _ => Err(Errno::ENOMEM),
    }
}

/// Whether it may have so many bytes more of private memory that can be written to (RLIMIT_DATA). Where the soft limit is 0, the hard
/// one counts (Linux: for Valgrind).
///
/// # Errors
/// ENOMEM.
#[inline(always)] // As above.
pub fn expand_data(
    rank: &Rank,
    aspace: &Aspace,
    more_bytes: impl FnOnce() -> u64,
) -> Result<(), Errno> {
    if !rank.limits_memory() {
        return Ok(());
    }
    check_data(aspace, rank.limit(rlimit::DATA), more_bytes())
}

#[cold]
#[inline(never)]
fn check_data(aspace: &Aspace, [soft, hard]: [u64; 2], more_bytes: u64) -> Result<(), Errno> {
    let limit_bytes = if soft == 0 { hard } else { soft };
    let bytes = || bytes_of(aspace, ALL, is_data).saturating_add(more_bytes);
    if more_bytes == 0 || bytes() <= limit_bytes {
        Ok(())
    } else {
        Err(Errno::ENOMEM)
    }
}

/// Whether a region counts for RLIMIT_DATA.
pub fn is_data(region: &Region) -> bool {
    let apart = RegionFlags::SHARED | RegionFlags::GROWSDOWN;
    region.prot.contains(Prot::WRITE)
        && !region.flags.intersects(apart)
        && region.kind != Kind::Stack
}

/// Whether it would if it could be written to.
pub fn is_data_to_be(region: &Region) -> bool {
    let writable = Region {
        prot: Prot::WRITE,
        ..*region
    };
    !is_data(region) && is_data(&writable)
}

/// By how many bytes of whole pages something gets longer. What does not is not held up by a limit below what there is.
pub fn longer(from: u64, to: u64) -> Option<u64> {
    let pages = |bytes: u64| bytes.checked_next_multiple_of(PAGE).unwrap_or(u64::MAX);
    let more_bytes = pages(to).saturating_sub(pages(from));
    (more_bytes > 0).then_some(more_bytes)
}

/// Bytes of what is mapped in a range and counts.
pub fn bytes_of(aspace: &Aspace, range: VaRange, counts: fn(&Region) -> bool) -> u64 {
    let clipped = aspace.regions().iter_range(range).filter(counts);
    // POINT: regions::list::next
    clipped.map(|region| region.len_bytes()).sum()
}

/// The bytes that the rank may lock; `None`: it has the right to any.
///
/// # Errors
/// EPERM: none (Linux: can_do_mlock).
pub fn lockable_bytes(rank: &Rank) -> Result<Option<u64>, Errno> {
    match rank.limit(rlimit::MEMLOCK)[0] {
        _ if rank.identity().info.euid == 0 => Ok(None),
        0 => Err(Errno::EPERM),
        u64::MAX => Ok(None),
        bytes => Ok(Some(bytes)),
    }
}

/// Whether `more_bytes` may be locked besides what is locked, of which some may lie in `range`.
pub fn may_lock(aspace: &Aspace, range: VaRange, more_bytes: u64, limit: Option<u64>) -> bool {
    limit.is_none_or(|limit| {
        let regions = aspace.regions();
        let before = regions.locked_bytes() - regions.locked_in(range);
        before.saturating_add(more_bytes) <= limit
    })
}

/// Whether all that is mapped may be locked. The stack, of which Linux would have a part, does not count.
pub fn may_lock_all(aspace: &Aspace, limit: Option<u64>) -> bool {
    limit.is_none_or(|limit| bytes_of(aspace, ALL, |region| region.kind != Kind::Stack) <= limit)
}

/// The soft limit on the stack is now `soft`.
///
/// # Errors
/// ENOMEM without room to cut regions.
pub fn follow_stack_limit(call: &Call<'_>, soft: u64) -> SysResult {
    let top = Va(Areas::of(call.rank.id()).stack_top());
    let pointer = Va(call.frame.rsp).align_down(PAGE);
    call.rank.with_aspace(|aspace| {
        // POINT: regions::list::next
        let first = (aspace.regions().iter_range(ALL)).find(|part| part.kind == Kind::Stack);
        let last = aspace.regions().lookup(top.before(PAGE)).copied();
        let (Some(first), Some(last)) = (first, last) else {
            return Ok(0);
        };
        let (lowest, prot) = (first.start, last.prot);
        let size = soft.checked_next_multiple_of(PAGE).unwrap_or(u64::MAX);
        let limit = Va(top.0.saturating_sub(size)).max(lowest);
        // Only the main thread knows how much of it is in use.
        let is_used = lowest.until(top).contains(pointer);
        let usable = if is_used { limit.min(pointer) } else { lowest };
        for (range, prot) in [
            (lowest.until(usable), Prot::empty()),
            (usable.until(top), prot),
        ] {
            let plan = ProtectPlan {
                range,
                prot,
                result: Ok(()),
            };
            if !range.is_empty() {
                shared::complete(call.thread, aspace, |aspace| aspace.protect(&plan))?;
            }
        }
        Ok(0)
    })
}
