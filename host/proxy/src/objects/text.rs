//! Text that ranks share: files in frames of the node pool that are not written to once they are filled.

use std::os::fd::BorrowedFd;

use abi::Errno;
use abi::map::PAGE;
use rustix::fs::fstat;
use rustix::io::{self, pread, pwrite};

use super::{File, Objects, regular};
use crate::errno::linux;
use crate::files::is_settled;

impl Objects {
    /// What a file's text is known by: the file, and when it was last changed, in nanoseconds.
    ///
    /// # Errors
    /// EAGAIN for what is no regular file, and where another change might not show in that time.
    pub fn describe_text(&self, fd: BorrowedFd<'_>) -> Result<(File, i64), Errno> {
        const SECOND_NS: i64 = 1_000_000_000;
        let stat = fstat(fd).map_err(linux)?;
        let file = regular(&stat).ok_or(Errno::EAGAIN)?;
        if !is_settled(&stat) {
            return Err(Errno::EAGAIN);
        }
        let whole = stat.st_ctime.checked_mul(SECOND_NS);
        let changed_ns = whole.and_then(|ns| ns.checked_add(stat.st_ctime_nsec as i64));
        // Not before 1970: a negative result is an error.
        let changed_ns = changed_ns.filter(|ns| *ns >= 0);
        Ok((file, changed_ns.ok_or(Errno::EAGAIN)?))
    }

    /// Fills frames (address, length) from an offset in a file; what lies behind its end in the last page is zero.
    ///
    /// # Errors
    /// EAGAIN: the file has less than all of the pages. EFAULT: the frames are not the pool's. What Linux says.
    pub fn load_text(&self, fd: BorrowedFd<'_>, from: [u64; 3]) -> Result<(), Errno> {
        const CHUNK_BYTES: usize = 256 << 10;
        let [gpa, len_bytes, offset] = from;
        let (_, place) = self.pages(gpa, len_bytes)?;
        let mut chunk = vec![0; CHUNK_BYTES];
        for done in (0..len_bytes).step_by(CHUNK_BYTES) {
            let chunk = &mut chunk[..CHUNK_BYTES.min((len_bytes - done) as usize)];
            let read = read_all(fd, chunk, offset.saturating_add(done))?;
            // No page may be missing as a whole.
            if chunk.len() - read >= PAGE as usize {
                return Err(Errno::EAGAIN);
            }
            chunk[read..].fill(0);
            let written = pwrite(&self.ram.pool, chunk, place.offset + done).map_err(linux)?;
            (written == chunk.len()).then_some(()).ok_or(Errno::EIO)?;
        }
        Ok(())
    }
}

/// Reads until `into` is full or the file ends; returns how many bytes.
fn read_all(fd: BorrowedFd<'_>, into: &mut [u8], offset: u64) -> Result<usize, Errno> {
    let mut done = 0;
    while done < into.len() {
        match pread(fd, &mut into[done..], offset.saturating_add(done as u64)) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(io::Errno::INTR) => {}
            Err(errno) => return Err(linux(errno)),
        }
    }
    Ok(done)
}
