//! mmap.

use super::{Bounds, misaligned, page_align};
use crate::page::{PAGE_BYTES, PageSize};
use crate::regions::{Kind, Prot, Region, RegionFlags, Regions};
use abi::Errno;
use abi::addr::{Va, VaRange};

/// MAP_* of include/uapi/linux/mman.h and asm-generic/mman-common.h.
pub(super) mod flag {
    pub const SHARED: u64 = 1;
    pub const PRIVATE: u64 = 2;
    pub const SHARED_VALIDATE: u64 = 3;
    pub const TYPE: u64 = 0xf;
    pub const FIXED: u64 = 0x10;
    pub const ANONYMOUS: u64 = 0x20;
    pub const LOW_32BIT: u64 = 0x40;
    pub const GROWSDOWN: u64 = 0x100;
    pub const LOCKED: u64 = 0x2000;
    pub const NORESERVE: u64 = 0x4000;
    pub const STACK: u64 = 0x20000;
    pub const HUGETLB: u64 = 0x40000;
    pub const FIXED_NOREPLACE: u64 = 0x10_0000;
    /// LEGACY_MAP_MASK of include/linux/mman.h: what MAP_SHARED_VALIDATE accepts.
    pub const LEGACY: u64 = 0x7c07_f9f3;
}

/// MAP_32BIT picks from the second gigabyte (arch/x86/kernel/sys_x86_64.c, find_start_end).
const LOW_32BIT: VaRange = Va(0x4000_0000).until(Va(0x8000_0000));

/// The arguments of mmap, except the descriptor.
#[derive(Clone, Copy, Debug)]
pub struct MmapArgs {
    /// Hint, or the address itself with MAP_FIXED.
    pub addr: Va,
    /// Length in bytes.
    pub len_bytes: u64,
    /// PROT_*; unknown bits are ignored, as Linux ignores them here.
    pub prot: u64,
    /// MAP_*
    pub flags: u64,
    /// File offset in bytes.
    pub offset: u64,
}

/// Where a mapping's contents come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Zeros.
    Anonymous,
    /// The file behind the descriptor.
    File,
}

/// What the proxy says of a descriptor to be mapped.
#[derive(Clone, Copy, Debug)]
pub struct FileInfo {
    /// The proxy's number for the file, not 0.
    pub object: u32,
    /// Bytes of the pages, of those to be mapped, that begin before the file's end.
    pub in_file_bytes: u64,
    /// Open for reading.
    pub readable: bool,
    /// Open for writing.
    pub writable: bool,
    /// Of a kind that can be mapped (a directory or a pipe cannot).
    pub mappable: bool,
    /// Not on a file system mounted noexec.
    pub executable: bool,
    /// Sealed against writing.
    pub sealed: bool,
    /// Holds nothing but zeros.
    pub zeros: bool,
}

/// A mapping to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MmapPlan {
    /// What to insert. With any access it must be backed now.
    pub region: Region,
    /// Unmap what is in its range first (MAP_FIXED).
    pub replace: bool,
}

/// The checks that come before the descriptor is looked at; says whether there is one to look at.
///
/// # Errors
/// EINVAL: misaligned offset.
pub fn source(args: &MmapArgs) -> Result<Source, Errno> {
    if !args.offset.is_multiple_of(PAGE_BYTES) {
        return Err(Errno::EINVAL);
    }
    Ok(if args.flags & flag::ANONYMOUS != 0 {
        Source::Anonymous
    } else {
        Source::File
    })
}

/// Decides an mmap. `file` is what was found behind the descriptor of a file mapping; None is EBADF.
///
/// # Errors
/// As mmap(2); huge pages on request are refused like on a machine without any (ENOMEM).
pub fn mmap(
    args: &MmapArgs,
    file: Option<&FileInfo>,
    regions: &Regions,
    bounds: &Bounds,
) -> Result<MmapPlan, Errno> {
    let file = match source(args)? {
        Source::Anonymous => None,
        Source::File => Some(file.ok_or(Errno::EBADF)?),
    };
    if args.flags & flag::HUGETLB != 0 {
        return Err(refuse_hugetlb(args, file.is_some()));
    }
    if args.len_bytes == 0 {
        return Err(Errno::EINVAL);
    }
    let len_bytes = page_align(args.len_bytes);
    if len_bytes == 0 || !regions.has_room(2) {
        return Err(Errno::ENOMEM);
    }
    let start = place(args, len_bytes, regions, bounds)?;
    let range = VaRange::new(start, len_bytes);
    if args.flags & flag::FIXED_NOREPLACE != 0 && !regions.is_vacant(range) {
        return Err(Errno::EEXIST);
    }
    let prot = Prot::from_bits_truncate(args.prot as u8);
    let mut region = Region {
        flags: region_flags(args.flags) | bounds.new_flags,
        ..Region::new(range, prot, Kind::Anon)
    };
    match file {
        Some(file) => check_file(args, len_bytes, prot, file, &mut region)?,
        None => check_anonymous(args.flags)?,
    }
    Ok(MmapPlan {
        region,
        replace: args.flags & flag::FIXED != 0,
    })
}

/// Without a pool of huge pages Linux answers ENOMEM to a size it supports, EINVAL to others.
fn refuse_hugetlb(args: &MmapArgs, file: bool) -> Errno {
    let log2_bytes = args.flags >> 26 & 63;
    if file || args.len_bytes == 0 || ![0, 21, 30].contains(&log2_bytes) {
        Errno::EINVAL
    } else {
        Errno::ENOMEM
    }
}

fn region_flags(flags: u64) -> RegionFlags {
    let mut out = RegionFlags::empty();
    out.set(RegionFlags::SHARED, flags & flag::TYPE != flag::PRIVATE);
    out.set(RegionFlags::NORESERVE, flags & flag::NORESERVE != 0);
    out.set(RegionFlags::GROWSDOWN, flags & flag::GROWSDOWN != 0);
    out.set(
        RegionFlags::SMALL_PAGES,
        flags & (flag::STACK | flag::GROWSDOWN) != 0,
    );
    out.set(RegionFlags::LOCKED, flags & flag::LOCKED != 0);
    out
}

fn check_anonymous(flags: u64) -> Result<(), Errno> {
    match flags & flag::TYPE {
        flag::PRIVATE => Ok(()),
        flag::SHARED if flags & flag::GROWSDOWN == 0 => Ok(()),
        _ => Err(Errno::EINVAL),
    }
}

fn check_file(
    args: &MmapArgs,
    len_bytes: u64,
    prot: Prot,
    file: &FileInfo,
    region: &mut Region,
) -> Result<(), Errno> {
    let in_file = args
        .offset
        .checked_add(len_bytes)
        .is_some_and(|end| end <= i64::MAX as u64);
    if !in_file {
        return Err(Errno::EOVERFLOW);
    }
    let kind = args.flags & flag::TYPE;
    if kind == flag::SHARED_VALIDATE && args.flags & !flag::LEGACY != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    let shared = kind == flag::SHARED || kind == flag::SHARED_VALIDATE;
    if !shared && kind != flag::PRIVATE {
        return Err(Errno::EINVAL);
    }
    if !file.readable || shared && prot.contains(Prot::WRITE) && !file.writable {
        return Err(Errno::EACCES);
    }
    if prot.contains(Prot::EXEC) && !file.executable {
        return Err(Errno::EPERM);
    }
    if !file.mappable {
        return Err(Errno::ENODEV);
    }
    if args.flags & flag::GROWSDOWN != 0 {
        return Err(Errno::EINVAL);
    }
    if shared && prot.contains(Prot::WRITE) && file.sealed {
        return Err(Errno::EPERM);
    }
    // Shared zeros are anonymous memory (mmap_zero in drivers/char/mem.c).
    if !(shared && file.zeros) {
        region.kind = Kind::File;
        region.object = file.object;
        region.offset = args.offset;
    }
    region.flags.set(
        RegionFlags::READ_ONLY,
        shared && (!file.writable || file.sealed),
    );
    region.flags.set(RegionFlags::NO_EXEC, !file.executable);
    Ok(())
}

/// Chooses the address (Linux: __get_unmapped_area).
fn place(args: &MmapArgs, len_bytes: u64, regions: &Regions, bounds: &Bounds) -> Result<Va, Errno> {
    if len_bytes > bounds.top.0 {
        return Err(Errno::ENOMEM);
    }
    if args.flags & (flag::FIXED | flag::FIXED_NOREPLACE) != 0 {
        return check_fixed(args.addr, len_bytes, bounds).map(|()| args.addr);
    }
    let hint = args.addr.align_down(PAGE_BYTES);
    if hint != Va(0) {
        let hint = hint.max(bounds.low);
        let vacant =
            bounds.holds(hint, len_bytes) && regions.is_vacant(VaRange::new(hint, len_bytes));
        if vacant && !reaches_stack_gap(VaRange::new(hint, len_bytes), bounds) {
            return Ok(hint);
        }
    }
    let small = args.flags & (flag::STACK | flag::GROWSDOWN) != 0;
    let max = if small {
        PageSize::Size4K
    } else {
        bounds.max_page
    };
    let area = match args.flags & flag::LOW_32BIT {
        0 => bounds.area(),
        _ => LOW_32BIT,
    };
    // What files hold lies in frames of others: at another phase it has no large page.
    let phase = match args.flags & flag::ANONYMOUS {
        0 => 0,
        _ => bounds.phase,
    };
    find_hole(regions, len_bytes, phase, max, area).ok_or(Errno::ENOMEM)
}

/// Whether `range` reaches into what is kept free below the stack; Linux keeps it from hints, too (stack_guard_gap in
/// mm/mmap.c), but not from MAP_FIXED.
fn reaches_stack_gap(range: VaRange, bounds: &Bounds) -> bool {
    range.overlaps(VaRange::new(bounds.mmap_top, abi::map::STACK_GAP))
}

fn check_fixed(addr: Va, len_bytes: u64, bounds: &Bounds) -> Result<(), Errno> {
    if !bounds.holds(addr, len_bytes) {
        Err(Errno::ENOMEM)
    } else if misaligned(addr) {
        Err(Errno::EINVAL)
    } else if addr < bounds.low {
        Err(Errno::EPERM)
    } else {
        Ok(())
    }
}

/// A hole from the top down, at `phase` bytes above a multiple of the largest page that fits in the
/// length: memory that can have large pages should, and a moved mapping must keep its alignment to
/// keep them. Falls back to smaller alignments when addresses are short.
pub(super) fn find_hole(
    regions: &Regions,
    len_bytes: u64,
    phase: u64,
    max: PageSize,
    area: VaRange,
) -> Option<Va> {
    let sizes = PageSize::DESCENDING.into_iter();
    // BOUND: the sizes of pages.
    sizes
        .filter(|size| *size <= max && size.bytes() <= len_bytes)
        .find_map(|size| regions.find_hole(len_bytes, size.bytes(), phase, area))
}
