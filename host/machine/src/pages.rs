//! What memory of this host is behind a file of RAM, and in which pages.
//!
//! Large pages are those of shared memory (Documentation/admin-guide/mm/transhuge.rst). hugetlbfs has no use here: a proxy maps its
//! rank's memory page by page, and a mapping of such a file begins at a multiple of 2 MiB (fs/hugetlbfs/inode.c,
//! hugetlbfs_file_mmap).

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};

use abi::map::PAGE_2M;
use rustix::fs::{MemfdFlags, SeekFrom, fstat, ftruncate, memfd_create, seek};
use rustix::io::Errno;

use crate::shared::Shared;

/// Most that is mapped at a time.
const CHUNK: u64 = 16 << 20;
/// What st_blocks counts (stat(2)).
const BLOCK_BYTES: u64 = 512;

/// Bytes of memory behind a file.
///
/// # Errors
/// What fstat says.
pub fn resident_bytes(file: impl AsFd) -> io::Result<u64> {
    Ok(fstat(file)?.st_blocks as u64 * BLOCK_BYTES)
}

/// Bytes of it in large pages. The file's offset is changed.
///
/// # Errors
/// What is behind the file cannot be found out.
pub fn large_bytes(file: impl AsFd) -> io::Result<u64> {
    let file = file.as_fd();
    let mut large = 0;
    for chunk in chunks(0..fstat(file)?.st_size as u64) {
        let parts = resident(file, &chunk)?;
        if parts.is_empty() {
            continue;
        }
        let mapping = Shared::map_large(file, chunk.start, (chunk.end - chunk.start) as usize)?;
        for part in parts {
            mapping.populate_to_read(part.start - chunk.start..part.end - chunk.start)?;
        }
        let smaps = std::fs::read_to_string("/proc/self/smaps")?;
        large += mapped_large(&smaps, mapping.address());
    }
    Ok(large)
}

/// Whether Linux gives a large page to such a file: one is tried.
///
/// # Errors
/// It gives no memory at all, or it cannot be found out what.
pub fn gives_large() -> io::Result<bool> {
    let file = memfd_create("margay-try", MemfdFlags::CLOEXEC)?;
    ftruncate(&file, PAGE_2M)?;
    Shared::map_large(file.as_fd(), 0, PAGE_2M as usize)?.populate()?;
    Ok(large_bytes(&file)? > 0)
}

/// The parts of a chunk that have memory and could be large pages: such a page is resident as a whole.
fn resident(file: BorrowedFd<'_>, chunk: &Range<u64>) -> io::Result<Vec<Range<u64>>> {
    let (mut parts, mut at) = (Vec::new(), chunk.start);
    while at < chunk.end {
        let start = match seek(file, SeekFrom::Data(at)) {
            Err(Errno::NXIO) => break,
            start => start?,
        };
        at = seek(file, SeekFrom::Hole(start))?;
        parts.extend(whole_pages(&(start..at.min(chunk.end))));
    }
    Ok(parts)
}

/// What of a part could be large pages.
fn whole_pages(part: &Range<u64>) -> Option<Range<u64>> {
    let start = part.start.next_multiple_of(PAGE_2M);
    let end = part.end & !(PAGE_2M - 1);
    (start < end).then_some(start..end)
}

/// A range in chunks.
pub fn chunks(range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let end = range.end;
    range
        .step_by(CHUNK as usize)
        .map(move |start| start..end.min(start + CHUNK))
}

/// Bytes in large pages of the mapping at `address`, by /proc/PID/smaps (proc(5)).
fn mapped_large(smaps: &str, address: usize) -> u64 {
    let head = format!("{address:x}-");
    let mut lines = smaps.lines().skip_while(|line| !line.starts_with(&head));
    let kib = lines
        .find_map(|line| line.strip_prefix("ShmemPmdMapped:"))
        .and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_large_pages_count() {
        assert_eq!(whole_pages(&(0..PAGE_2M - 1)), None);
        assert_eq!(whole_pages(&(4096..8192)), None);
        let part = whole_pages(&(1..2 * PAGE_2M + 1));
        assert_eq!(part, Some(PAGE_2M..2 * PAGE_2M));
        let two: Vec<_> = chunks(0..CHUNK + 5).collect();
        assert_eq!(two, [0..CHUNK, CHUNK..CHUNK + 5]);
    }

    #[test]
    fn the_mapping_is_found_among_others() {
        let smaps = "7f0000-7f1000 rw-s 0 00:01 9 /memfd:a\nRss: 4 kB\nShmemPmdMapped: 2 kB\n\
                     800000-a00000 rw-s 0 00:01 9 /memfd:b\nRss: 4 kB\nShmemPmdMapped:  2048 kB\n";
        assert_eq!(mapped_large(smaps, 0x80_0000), PAGE_2M);
        assert_eq!(mapped_large(smaps, 0x7f_0000), 2 << 10);
        assert_eq!(mapped_large(smaps, 0x10), 0);
    }

    /// Holes stay holes: looking must not cost memory.
    #[test]
    fn what_is_counted_is_what_was_given() {
        let file = memfd_create("test", MemfdFlags::CLOEXEC).expect("memfd");
        ftruncate(&file, 4 * PAGE_2M).expect("grows");
        assert_eq!(resident_bytes(&file).expect("known"), 0);
        assert_eq!(large_bytes(&file).expect("known"), 0);
        let mapping = Shared::map_large(file.as_fd(), PAGE_2M, PAGE_2M as usize).expect("maps");
        mapping.populate().expect("populated");
        assert_eq!(resident_bytes(&file).expect("known"), PAGE_2M);
        let large = large_bytes(&file).expect("known");
        assert!(large == 0 || large == PAGE_2M, "{large}");
        assert_eq!(resident_bytes(&file).expect("known"), PAGE_2M);
    }
}
