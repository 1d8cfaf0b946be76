//! Memory shared with the node, seen through the types of crate `wire` only.

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
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

/// A shared, writable mapping of a part of guest RAM.
#[derive(Debug)]
pub struct Shared {
    base: NonNull<u8>,
    len_bytes: usize,
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
        Ok(Shared { base, len_bytes })
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
        // SAFETY: 1. This is the mapping that `map` made, and references into it ended with the borrow of `self`.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.len_bytes) };
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
