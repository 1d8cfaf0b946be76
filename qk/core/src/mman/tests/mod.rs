//! Linux 6.18's own answers (run as an unprivileged user), and plans checked against the map.

mod advice;
mod remap;
mod wild;

use super::*;
use crate::regions::{Kind, Prot, Region, RegionFlags, Regions};
use abi::Errno;
use abi::map::{STACK_GAP, WINDOW_TOP};

const P: u64 = 4096;
const M2: u64 = 2 << 20;
const TOP: u64 = 1 << 39;
const BOUNDS: Bounds = Bounds {
    low: Va(0x1_0000),
    mmap_top: Va(0x7f_0000_0000),
    phase: 0,
    top: Va(TOP),
    max_page: PageSize::Size1G,
    new_flags: RegionFlags::empty(),
};
/// The test mapping: 64 pages with a hole at pages 32..36.
const B: u64 = 0x20_0000_0000;

const SHARED: u64 = 1;
const PRIVATE: u64 = 2;
const VALIDATE: u64 = 3;
const FIXED: u64 = 0x10;
const ANON: u64 = 0x20;
const AP: u64 = ANON | PRIVATE;
const GROWSDOWN: u64 = 0x100;
const HUGETLB: u64 = 0x40000;
const NOREPLACE: u64 = 0x10_0000;
const RW: u64 = 3;

const FILE: FileInfo = FileInfo {
    in_file_bytes: u64::MAX,
    object: 9,
    readable: true,
    writable: false,
    mappable: true,
    executable: true,
    sealed: false,
    zeros: false,
};

/// Pages `first .. end` of the test mapping.
fn pages(first: u64, end: u64) -> VaRange {
    Va(B + first * P).until(Va(B + end * P))
}

fn regions() -> Regions {
    let mut r = Regions::new(64, |_| ()).unwrap();
    let rw = Prot::READ | Prot::WRITE;
    r.insert(Region::new(pages(0, 32), rw, Kind::Anon)).unwrap();
    r.insert(Region::new(pages(36, 64), rw, Kind::Anon))
        .unwrap();
    r
}

fn anon(addr: u64, len_bytes: u64, flags: u64) -> Result<MmapPlan, Errno> {
    mmap(
        &MmapArgs {
            addr: Va(addr),
            len_bytes,
            prot: RW,
            flags,
            offset: 0,
        },
        None,
        &regions(),
        &BOUNDS,
    )
}

fn file(info: &FileInfo, prot: u64, flags: u64, offset: u64, addr: u64) -> Result<MmapPlan, Errno> {
    mmap(
        &MmapArgs {
            addr: Va(addr),
            len_bytes: P,
            prot,
            flags,
            offset,
        },
        Some(info),
        &regions(),
        &BOUNDS,
    )
}

#[test]
fn mmap_refuses_as_linux_does() {
    let neg = |n: u64| 0u64.wrapping_sub(n);
    let cases = [
        (0, 0, AP, Errno::EINVAL),
        (0, neg(1), AP, Errno::ENOMEM),
        (0, neg(P), AP, Errno::ENOMEM),
        (0, TOP, AP, Errno::ENOMEM),
        (0, TOP + P, AP, Errno::ENOMEM),
        (0, P, ANON, Errno::EINVAL),
        (0, P, ANON | VALIDATE, Errno::EINVAL),
        (0, P, ANON | 4, Errno::EINVAL),
        (0, P, ANON | SHARED | GROWSDOWN, Errno::EINVAL),
        (B + 1, P, AP | FIXED, Errno::EINVAL),
        (1, P, AP | FIXED, Errno::EINVAL),
        (0, P, AP | FIXED, Errno::EPERM),
        (0xf000, P, AP | FIXED, Errno::EPERM),
        (0xf001, P, AP | FIXED, Errno::EINVAL),
        (TOP, P, AP | FIXED, Errno::ENOMEM),
        (TOP + 1, P, AP | FIXED, Errno::ENOMEM),
        (TOP - P + 1, P, AP | FIXED, Errno::ENOMEM),
        (neg(P), P, AP | FIXED, Errno::ENOMEM),
        (neg(P), 2 * P, AP | FIXED, Errno::ENOMEM),
        (B, P, AP | NOREPLACE, Errno::EEXIST),
        (B, P, ANON | NOREPLACE, Errno::EEXIST),
        (B + 1, P, AP | NOREPLACE, Errno::EINVAL),
        (B + 32 * P, 5 * P, AP | NOREPLACE, Errno::EEXIST),
        (0, P, AP | HUGETLB, Errno::ENOMEM),
        (0, 0, AP | HUGETLB, Errno::EINVAL),
        (0, P, AP | HUGETLB | 5 << 26, Errno::EINVAL),
        (0, P, PRIVATE, Errno::EBADF),
        (0, 0, PRIVATE, Errno::EBADF),
    ];
    for (addr, len, flags, errno) in cases {
        assert_eq!(
            anon(addr, len, flags),
            Err(errno),
            "{addr:#x} {len:#x} {flags:#x}"
        );
    }
    let offset = MmapArgs {
        addr: Va(0),
        len_bytes: 0,
        prot: 0,
        flags: PRIVATE,
        offset: 1,
    };
    assert_eq!(source(&offset), Err(Errno::EINVAL));
}

#[test]
fn mmap_of_files_refuses_as_linux_does() {
    let wo = FileInfo {
        readable: false,
        writable: true,
        ..FILE
    };
    let dir = FileInfo {
        mappable: false,
        ..FILE
    };
    let noexec = FileInfo {
        executable: false,
        ..FILE
    };
    let sealed = FileInfo {
        writable: true,
        sealed: true,
        ..FILE
    };
    let cases = [
        (&FILE, 3, SHARED, 0, 0, Errno::EACCES),
        (&sealed, 3, SHARED, 0, 0, Errno::EPERM),
        (&wo, 1, PRIVATE, 0, 0, Errno::EACCES),
        (&wo, 2, SHARED, 0, 0, Errno::EACCES),
        (&dir, 1, PRIVATE, 0, 0, Errno::ENODEV),
        (&noexec, 5, PRIVATE, 0, 0, Errno::EPERM),
        (&FILE, 1, 0, 0, 0, Errno::EINVAL),
        (&FILE, 1, PRIVATE | GROWSDOWN, 0, 0, Errno::EINVAL),
        (&FILE, 3, SHARED | GROWSDOWN, 0, 0, Errno::EACCES),
        (&FILE, 1, VALIDATE | 0x80000, 0, 0, Errno::EOPNOTSUPP),
        (&FILE, 1, VALIDATE | 0x8000_0000, 0, 0, Errno::EOPNOTSUPP),
        (&FILE, 1, PRIVATE, 0u64.wrapping_sub(P), 0, Errno::EOVERFLOW),
        (&FILE, 3, SHARED | FIXED, 0, 1, Errno::EINVAL),
        (&FILE, 1, PRIVATE | HUGETLB, 0, 0, Errno::EINVAL),
    ];
    for (info, prot, flags, offset, addr, errno) in cases {
        assert_eq!(
            file(info, prot, flags, offset, addr),
            Err(errno),
            "{prot} {flags:#x} {offset:#x}"
        );
    }
    for info in [&FILE, &noexec] {
        let plan = file(info, 1, PRIVATE, 0, 0).unwrap();
        let may_run = !plan.region.flags.contains(RegionFlags::NO_EXEC);
        assert_eq!(may_run, info.executable);
    }
    for flags in [VALIDATE, SHARED | 0x8000_0000, PRIVATE] {
        let plan = file(&FILE, 1, flags, 1 << 40, 0).unwrap();
        assert_eq!(
            (plan.region.object, plan.region.offset, plan.region.kind),
            (9, 1 << 40, Kind::File)
        );
        assert_eq!(
            plan.region.flags.contains(RegionFlags::READ_ONLY),
            flags != PRIVATE
        );
    }
}

#[test]
fn mmap_places_as_asked_or_where_large_pages_fit() {
    const TOP_OF_AREA: u64 = BOUNDS.mmap_top.0;
    let placed = |addr, len_bytes, flags| anon(addr, len_bytes, flags).unwrap().region.start.0;
    assert_eq!(placed(B + 32 * P + 1, P, AP), B + 32 * P);
    assert_eq!(placed(5, P, AP), TOP_OF_AREA - P);
    assert_eq!(placed(0x5000, P, AP), BOUNDS.low.0);
    assert_eq!(placed(B, P, AP), TOP_OF_AREA - P);
    assert_eq!(placed(1 << 60, P, AP), TOP_OF_AREA - P);
    // Once a page requested right below the stack got that place.
    for hint in [TOP_OF_AREA, TOP_OF_AREA + STACK_GAP - P] {
        assert_eq!(placed(hint, P, AP), TOP_OF_AREA - P);
    }
    let above = TOP_OF_AREA + STACK_GAP;
    assert_eq!(placed(above, P, AP), above);
    assert_eq!(placed(0, P, AP | 0x40), 0x8000_0000 - P);
    assert_eq!(placed(0, M2 + P, AP), TOP_OF_AREA - 2 * M2);
    assert_eq!(placed(0, M2 + P, AP | 0x20000), TOP_OF_AREA - M2 - P);
    assert!(anon(B, P, AP | FIXED).unwrap().replace);
    assert!(!anon(B + 32 * P, P, AP | NOREPLACE).unwrap().replace);
    // Unknown protection and flag bits do not matter; PROT_NONE is an empty access.
    let odd = MmapArgs {
        addr: Va(0),
        len_bytes: 1,
        prot: 0xfff8,
        flags: AP | 0x8000_0000,
        offset: 0,
    };
    let plan = mmap(&odd, None, &regions(), &BOUNDS).unwrap();
    assert_eq!(
        (plan.region.prot, plan.region.len_bytes()),
        (Prot::empty(), P)
    );
}

/// Memory that ranks allocate alike once had the same lower bits in all of them where it began with a large page.
#[test]
fn mmap_moves_large_mappings_with_the_area() {
    const STAGGER: u64 = 153 * P;
    const G1: u64 = 1 << 30;
    let moved = Bounds {
        mmap_top: Va(BOUNDS.mmap_top.0 - STAGGER),
        phase: STAGGER.wrapping_neg(),
        ..BOUNDS
    };
    let placed = |len_bytes, flags, file: Option<&FileInfo>, bounds: &Bounds| {
        let args = MmapArgs {
            addr: Va(0),
            len_bytes,
            prot: RW,
            flags,
            offset: 0,
        };
        mmap(&args, file, &regions(), bounds)
            .unwrap()
            .region
            .start
            .0
    };
    for len_bytes in [P, M2 - P, M2, M2 + P, 3 * M2, G1, G1 + 5 * P] {
        let at = placed(len_bytes, AP, None, &BOUNDS);
        assert_eq!(placed(len_bytes, AP, None, &moved), at - STAGGER);
    }
    // Files are shared with others, who have their large pages at multiples of these.
    let at = placed(3 * M2, PRIVATE, Some(&FILE), &moved);
    assert!(at.is_multiple_of(M2));
    // A hole is used again by what is just as long.
    let mut r = regions();
    let at = moved.mmap_top.0 - 5 * M2;
    let [below, above] = [(at - P, P), (at + 2 * M2, 3 * M2)].map(|(at, len_bytes)| {
        Region::new(VaRange::new(Va(at), len_bytes), Prot::READ, Kind::Anon)
    });
    r.insert(below).unwrap();
    r.insert(above).unwrap();
    let args = MmapArgs {
        addr: Va(0),
        len_bytes: 2 * M2,
        prot: RW,
        flags: AP,
        offset: 0,
    };
    assert_eq!(mmap(&args, None, &r, &moved).unwrap().region.start, Va(at));
}

#[test]
fn munmap_answers_as_linux_does() {
    let bad = [
        (B + 1, P),
        (B, 0),
        (WINDOW_TOP, P),
        (WINDOW_TOP - P, 2 * P),
        (B, u64::MAX),
        (0u64.wrapping_sub(P), P),
        (P, WINDOW_TOP),
    ];
    for (addr, len) in bad {
        assert_eq!(
            munmap(Va(addr), len, &BOUNDS),
            Err(Errno::EINVAL),
            "{addr:#x} {len:#x}"
        );
    }
    // Below the lowest address nothing is ever mapped: the proxy once ended the job over such a record.
    assert_eq!(munmap(Va(0), P, &BOUNDS), Ok(None));
    assert_eq!(munmap(Va(B + 60 * P), 1, &BOUNDS), Ok(Some(pages(60, 61))));
    // A program that unmaps "everything": the kernel once refused what reached above its own end.
    assert_eq!(
        munmap(Va(P), WINDOW_TOP - P, &BOUNDS),
        Ok(Some(BOUNDS.low.until(Va(TOP))))
    );
    assert_eq!(munmap(Va(TOP), P, &BOUNDS), Ok(None));
}

#[test]
fn mprotect_answers_as_linux_does() {
    const DOWN: u64 = 0x0100_0000;
    const UP: u64 = 0x0200_0000;
    let neg = |n: u64| 0u64.wrapping_sub(n);
    let r = regions();
    let cases = [
        (B + 1, P, 1, Errno::EINVAL),
        (B + 1, 0, 1, Errno::EINVAL),
        (B, P, 16, Errno::EINVAL),
        (B, u64::MAX, 1, Errno::ENOMEM),
        (B, u64::MAX, 16, Errno::ENOMEM),
        (B, neg(P), 1, Errno::ENOMEM),
        (B + 32 * P, P, 1, Errno::ENOMEM),
        (B + 35 * P, 2 * P, 1, Errno::ENOMEM),
        (0, P, 1, Errno::ENOMEM),
        (B, P, DOWN | 1, Errno::EINVAL),
        (B, P, DOWN | UP, Errno::EINVAL),
        (B + 1, 0, DOWN | UP, Errno::EINVAL),
        (TOP, P, 1, Errno::ENOMEM),
        (neg(P), P, 16, Errno::ENOMEM),
    ];
    for (addr, len, prot, errno) in cases {
        assert_eq!(
            mprotect(Va(addr), len, prot, &r),
            Err(errno),
            "{addr:#x} {len:#x} {prot:#x}"
        );
    }
    for (addr, prot) in [(B, 1), (B, 0xff), (TOP, 1)] {
        assert_eq!(mprotect(Va(addr), 0, prot, &r), Ok(None));
    }
    let plan = mprotect(Va(B + 31 * P), 2 * P, 9, &r).unwrap().unwrap();
    assert_eq!((plan.range, plan.prot), (pages(31, 32), Prot::READ));
    assert_eq!(plan.result, Err(Errno::ENOMEM));
}

#[test]
fn a_shared_file_opened_for_reading_stays_unwritable() {
    let mut r = regions();
    let plan = file(&FILE, 1, SHARED | FIXED, 0, B + 32 * P).unwrap();
    r.insert(plan.region).unwrap();
    let change = mprotect(Va(B + 31 * P), 2 * P, RW, &r).unwrap().unwrap();
    assert_eq!(
        (change.range.end, change.result),
        (Va(B + 32 * P), Err(Errno::EACCES))
    );
    assert_eq!(
        mprotect(Va(B + 31 * P), 2 * P, 5, &r)
            .unwrap()
            .unwrap()
            .result,
        Ok(())
    );
}

/// It could be made executable after it was mapped.
#[test]
fn a_file_of_a_mount_with_noexec_is_never_executable() {
    let mut r = regions();
    let noexec = FileInfo {
        executable: false,
        ..FILE
    };
    let plan = file(&noexec, 1, PRIVATE | FIXED, 0, B + 32 * P).unwrap();
    r.insert(plan.region).unwrap();
    let change = |prot| mprotect(Va(B + 32 * P), P, prot, &r).map(|plan| plan.is_some());
    assert_eq!(change(5), Err(Errno::EACCES));
    assert_eq!(change(RW), Ok(true));
}
