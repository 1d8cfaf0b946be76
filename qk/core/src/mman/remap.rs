//! mremap.

use super::map::find_hole;
use super::{Bounds, misaligned, page_align};
use crate::page::PageSize;
use crate::regions::{Kind, Region, RegionFlags, Regions};
use abi::Errno;
use abi::addr::{Va, VaRange};

const MAYMOVE: u64 = 1;
const FIXED: u64 = 2;
const DONTUNMAP: u64 = 4;

/// Linux's TASK_SIZE with 4-level paging: longer is a wrong argument, not a lack of memory.
const LINUX_TASK_SIZE: u64 = (1 << 47) - 4096;

/// The arguments of mremap.
#[derive(Clone, Copy, Debug)]
pub struct MremapArgs {
    /// Where the mapping is.
    pub addr: Va,
    /// Its length in bytes.
    pub old_len_bytes: u64,
    /// The length it shall have.
    pub new_len_bytes: u64,
    /// MREMAP_*
    pub flags: u64,
    /// Where it shall go, with MREMAP_FIXED.
    pub new_addr: Va,
}

/// What an mremap comes to. Each variant's address is what the call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemapPlan {
    /// It stays and may get shorter.
    Stay {
        /// Where it is.
        addr: Va,
        /// What to unmap.
        trim: Option<VaRange>,
    },
    /// It grows where it is: `more` is to be added to the region that ends there.
    Grow {
        /// Where it is.
        addr: Va,
        /// The new part, adjacent to the region's end.
        more: VaRange,
    },
    /// It moves, in this order: unmap `replace` and `trim`, move `from` to `to` with its frames,
    /// add `more` behind it, and with `keep_old` leave `from` mapped with fresh zeros.
    Move {
        /// Where it goes.
        to: Va,
        /// What is moved; one piece of one region.
        from: VaRange,
        /// The new part, adjacent to the moved one.
        more: Option<VaRange>,
        /// What lies at the destination (MREMAP_FIXED).
        replace: Option<VaRange>,
        /// The part of the old mapping that the new one has no room for.
        trim: Option<VaRange>,
        /// MREMAP_DONTUNMAP.
        keep_old: bool,
    },
}

impl RemapPlan {
    /// What it unmaps besides what moves.
    pub fn unmaps(&self) -> impl Iterator<Item = VaRange> {
        let spans = match *self {
            RemapPlan::Stay { trim, .. } => [trim, None],
            RemapPlan::Grow { .. } => [None, None],
            RemapPlan::Move { replace, trim, .. } => [replace, trim],
        };
        spans.into_iter().flatten()
    }
}

/// Decides an mremap.
///
/// # Errors
/// As mremap(2). An old length of 0 (a second view of a shared mapping) is refused: EINVAL.
pub fn mremap(args: &MremapArgs, regions: &Regions, bounds: &Bounds) -> Result<RemapPlan, Errno> {
    let (old, new) = check(args, bounds)?;
    let region = regions.lookup(args.addr).ok_or(Errno::EFAULT)?;
    if old == 0 {
        return Err(Errno::EINVAL);
    }
    let end = args
        .addr
        .checked_add(old)
        .filter(|end| *end <= bounds.top)
        .ok_or(Errno::EINVAL)?;
    let addr = args.addr;
    let trim = (new < old).then(|| (addr + new).until(end));
    if args.flags & (FIXED | DONTUNMAP) == 0 && new <= old {
        if let Some(span) = trim {
            let room = regions.check_remove(span);
            room.map_err(|_| Errno::ENOMEM)?;
        }
        return Ok(RemapPlan::Stay { addr, trim });
    }
    let from = addr.until(end.min(addr + new));
    if from.end > region.end || new > old && !region.may_grow() {
        return Err(Errno::EFAULT);
    }
    // What is left behind are zeros, which are not what an object or a file holds. (Linux before 5.13 refuses files, too.)
    let holds_zeros = matches!(region.kind, Kind::Anon | Kind::Heap | Kind::Stack);
    if args.flags & DONTUNMAP != 0 && (region.is_object() || !holds_zeros) {
        return Err(Errno::EINVAL);
    }
    // The file is not at hand, and zeros are not what it holds. That of a shared mapping is held.
    if new > old && region.kind == Kind::File && !region.is_object() {
        return Err(Errno::ENOMEM);
    }
    // A move may cut three regions and adds one.
    if !regions.has_room(4) {
        return Err(Errno::ENOMEM);
    }
    if args.flags & (FIXED | DONTUNMAP) == 0
        && grows_in_place(region, end.until(addr + new), regions, bounds)
    {
        return Ok(RemapPlan::Grow {
            addr,
            more: end.until(addr + new),
        });
    }
    if args.flags & MAYMOVE == 0 {
        return Err(Errno::ENOMEM);
    }
    let (to, replace) = destination(args, region, new, regions, bounds)?;
    let moved = from.len_bytes();
    let more = (moved < new).then_some((to + moved).until(to + new));
    Ok(RemapPlan::Move {
        to,
        from,
        more,
        replace,
        trim,
        keep_old: args.flags & DONTUNMAP != 0,
    })
}

/// The checks that need no region (Linux: check_mremap_params). Returns both lengths in whole pages.
fn check(args: &MremapArgs, bounds: &Bounds) -> Result<(u64, u64), Errno> {
    let flags = args.flags;
    let (old, new) = (
        page_align(args.old_len_bytes),
        page_align(args.new_len_bytes),
    );
    let bad_flags = flags & !(MAYMOVE | FIXED | DONTUNMAP) != 0
        || flags & (FIXED | DONTUNMAP) != 0 && flags & MAYMOVE == 0
        || flags & DONTUNMAP != 0 && old != new;
    if bad_flags || misaligned(args.addr) || new == 0 || new > LINUX_TASK_SIZE {
        return Err(Errno::EINVAL);
    }
    if flags & FIXED != 0 {
        let to = args.new_addr;
        let end = |at: Va, len_bytes| Va(at.0.saturating_add(len_bytes));
        let overlaps = to
            .until(end(to, new))
            .overlaps(args.addr.until(end(args.addr, old)));
        if misaligned(to) || !bounds.holds(to, new) || overlaps {
            return Err(Errno::EINVAL);
        }
        if to < bounds.low {
            return Err(Errno::EPERM);
        }
    }
    Ok((old, new))
}

fn grows_in_place(region: &Region, more: VaRange, regions: &Regions, bounds: &Bounds) -> bool {
    region.end == more.start && more.end <= bounds.top && regions.is_vacant(more)
}

/// Where the mapping moves, and what must be unmapped there first.
fn destination(
    args: &MremapArgs,
    region: &Region,
    len_bytes: u64,
    regions: &Regions,
    bounds: &Bounds,
) -> Result<(Va, Option<VaRange>), Errno> {
    if args.flags & FIXED != 0 {
        let span = VaRange::new(args.new_addr, len_bytes);
        return Ok((span.start, Some(span)));
    }
    let small = region.flags.contains(RegionFlags::SMALL_PAGES);
    let max = if small {
        PageSize::Size4K
    } else {
        bounds.max_page
    };
    let to = find_hole(regions, len_bytes, args.addr.0, max, bounds.area());
    to.map(|to| (to, None)).ok_or(Errno::ENOMEM)
}
