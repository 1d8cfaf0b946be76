//! Text that ranks share: files in frames of the node pool that are not written to once they are filled.

use std::os::fd::BorrowedFd;

use abi::Errno;
use abi::map::PAGE;
use rustix::fs::fstat;

use super::frames::move_frames;
use super::{File, Objects, Part, regular};
use crate::errno::linux;
use crate::files::is_settled;

impl Objects {
    /// What a file's text is known by: the file, and when it was last changed, in nanoseconds.
    ///
    /// # Errors
    /// EAGAIN for what is no regular file, where another change might not show in that time, and for a file that ranks share mappings
    /// of: what they have written there the file may not have yet.
    pub fn describe_text(&self, fd: BorrowedFd<'_>) -> Result<(File, i64), Errno> {
        const SECOND_NS: i64 = 1_000_000_000;
        let stat = fstat(fd).map_err(linux)?;
        let file = regular(&stat).ok_or(Errno::EAGAIN)?;
        if !is_settled(&stat) || !self.entries(file).is_empty() {
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
    pub fn load_text(&self, fd: BorrowedFd<'_>, place: [u64; 3]) -> Result<(), Errno> {
        let [gpa, len_bytes, offset] = place;
        let to = self.frames(gpa, len_bytes);
        let to = to.ok_or(Errno::EFAULT)?;
        let last = len_bytes.checked_sub(PAGE).ok_or(Errno::EFAULT)?;
        let last_page = Part {
            offset: offset.saturating_add(last),
            address: to + last,
            len_bytes: PAGE,
        };
        last_page.clear();
        let read = move_frames(libc::SYS_pread64, fd, to, len_bytes, offset)?;
        (read > last as i64).then_some(()).ok_or(Errno::EAGAIN)
    }
}
