//! Memory shared with the node, seen through the types of crate `wire` only.

use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use wire::boot::Header;
use wire::clock::ClockPage;
use wire::rank::RankArea;
use wire::region_log::RegionLog;
use wire::stats::CpuStats;
use wire::trace::TraceRing;
use zerocopy::{FromBytes, KnownLayout};

/// Types that consist of [`wire::word::Word`]s alone.
///
/// # Safety
/// All bytes of an implementing type belong to atomic words, so that it does not matter who else writes them, and when.
pub unsafe trait Words: FromBytes + KnownLayout {}

// SAFETY: 1. Every field of these types is a Word, an array of Words or a structure of such: see crate `wire`, rule 1.
unsafe impl Words for Header {}
// SAFETY: as above.
unsafe impl Words for ClockPage {}
// SAFETY: as above.
unsafe impl Words for CpuStats {}
// SAFETY: as above.
unsafe impl Words for RankArea {}
// SAFETY: as above.
unsafe impl Words for RegionLog {}
// SAFETY: as above.
unsafe impl Words for TraceRing {}

/// MADV_COLLAPSE (include/uapi/asm-generic/mman-common.h).
const MADV_COLLAPSE: i32 = 25;

/// A shared, writable mapping of a part of guest RAM.
#[derive(Debug)]
pub struct Shared {
    base: NonNull<u8>,
    len_bytes: usize,
    /// Addresses that go with it: where, and how many bytes.
    reserved: (NonNull<u8>, usize),
}

impl Shared {
    /// Maps `len_bytes` of `file` from `offset`; both multiples of the page size.
    ///
    /// # Errors
    /// What mmap says.
    pub fn map(file: BorrowedFd<'_>, offset: u64, len_bytes: usize) -> io::Result<Shared> {
        // SAFETY: 1. A new mapping at an address of Linux's choice touches no memory of ours.
        let base = unsafe {
            mmap(
                std::ptr::null_mut(),
                len_bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                file,
                offset,
            )?
        };
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Shared {
            base,
            len_bytes,
            reserved: (base, len_bytes),
        })
    }

    /// The same at an address that large pages can be mapped at: `offset` is a multiple of their size.
    ///
    /// # Errors
    /// What mmap says.
    pub fn map_large(file: BorrowedFd<'_>, offset: u64, len_bytes: usize) -> io::Result<Shared> {
        const LARGE: usize = abi::map::PAGE_2M as usize;
        let reserved_bytes = len_bytes + LARGE;
        // SAFETY: 1. A new reservation at an address of Linux's choice touches no memory of ours. 2. What is mapped over a part
        //            of it lies inside, for the first address that is a multiple is less than LARGE away.
        unsafe {
            let none = ProtFlags::empty();
            let private = MapFlags::PRIVATE | MapFlags::NORESERVE;
            let from = mmap_anonymous(std::ptr::null_mut(), reserved_bytes, none, private)?;
            let reserved = NonNull::new(from.cast::<u8>());
            let reserved = reserved.ok_or(io::ErrorKind::AddrNotAvailable)?;
            let base = reserved.add(reserved.align_offset(LARGE));
            let shared = Shared {
                base,
                len_bytes,
                reserved: (reserved, reserved_bytes),
            };
            let access = ProtFlags::READ | ProtFlags::WRITE;
            let place = MapFlags::SHARED | MapFlags::FIXED;
            mmap(base.as_ptr().cast(), len_bytes, access, place, file, offset)?;
            Ok(shared)
        }
    }

    /// Its address.
    #[must_use]
    pub fn address(&self) -> usize {
        self.base.addr().get()
    }

    /// Has Linux give memory to all of it, in large pages where it has them, also if it gives none to who merely touches shared memory
    /// (shmem_enabled is `never`), as it is by default.
    ///
    /// # Errors
    /// There is not so much memory, or Linux is older than 5.14.
    pub fn populate(&self) -> io::Result<()> {
        let all = 0..self.len_bytes as u64;
        let _ = self.advise(&all, libc::MADV_HUGEPAGE);
        self.advise(&all, libc::MADV_POPULATE_WRITE)?;
        // Fails where Linux has no large page left, or is older than 6.1.
        let _ = self.advise(&all, MADV_COLLAPSE);
        Ok(())
    }

    /// Maps a part that Linux has given memory to.
    ///
    /// # Errors
    /// Linux is older than 5.14.
    pub fn populate_to_read(&self, part: Range<u64>) -> io::Result<()> {
        self.advise(&part, libc::MADV_POPULATE_READ)
    }

    fn advise(&self, part: &Range<u64>, advice: i32) -> io::Result<()> {
        let (from, len_bytes) = (part.start as usize, (part.end - part.start) as usize);
        assert!(from + len_bytes <= self.len_bytes, "beyond the mapping");
        // SAFETY: 1. The addresses are this mapping's. 2. None of the kinds of advice that are given here changes what is read.
        match unsafe { libc::madvise(self.base.as_ptr().add(from).cast(), len_bytes, advice) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// The `T` at `offset`.
    ///
    /// # Panics
    /// When it does not lie inside, or is not aligned.
    #[must_use]
    pub fn at<T: Words>(&self, offset: usize) -> &T {
        let end = offset.checked_add(size_of::<T>());
        assert!(
            end.is_some_and(|end| end <= self.len_bytes),
            "shared memory ends before {offset:#x}"
        );
        // SAFETY: 1. The offset is inside of the mapping.
        let place = unsafe { self.base.add(offset) }.cast::<T>();
        assert!(place.is_aligned(), "misaligned at {offset:#x}");
        // SAFETY: 1. The place is aligned and all its bytes are mapped, until `self` is dropped, to which the reference is
        //            bound. 2. Any bytes are a valid T (FromBytes). 3. T is atomic words only (Words), so other writers, in
        //            this process or another, make no data race.
        unsafe { place.as_ref() }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let (from, len_bytes) = self.reserved;
        // SAFETY: 1. These are the addresses that were mapped for it, and references into them ended with the borrow of `self`.
        let unmapped = unsafe { munmap(from.as_ptr().cast(), len_bytes) };
        debug_assert!(unmapped.is_ok());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    use std::os::fd::AsFd;

    #[test]
    fn two_mappings_show_the_same_words() {
        let file = memfd_create("test", MemfdFlags::CLOEXEC).expect("memfd");
        ftruncate(&file, 8192).expect("grows");
        let a = Shared::map(file.as_fd(), 4096, 4096).expect("maps");
        let b = Shared::map(file.as_fd(), 0, 8192).expect("maps");
        a.at::<ClockPage>(64).mult.store(7);
        assert_eq!(b.at::<ClockPage>(4096 + 64).mult.load(), 7);
    }

    #[test]
    #[should_panic(expected = "ends before")]
    fn nothing_is_seen_beyond_the_end() {
        let file = memfd_create("test", MemfdFlags::CLOEXEC).expect("memfd");
        ftruncate(&file, 4096).expect("grows");
        let shared = Shared::map(file.as_fd(), 0, 4096).expect("maps");
        let _ = shared.at::<ClockPage>(4096 - 8);
    }
}
