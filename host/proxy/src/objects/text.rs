//! Text that ranks share: what they map of files privately and do not write to.

use std::collections::HashSet;
use std::os::fd::{AsFd, BorrowedFd};

use abi::Errno;
use rustix::fs::fstat;

use super::held::{Content, Held, Source};
use super::{File, Objects, regular};
use crate::errno::linux;
use crate::files::is_settled;
use crate::sync::lock;

impl Objects {
    /// Keeps a file for as long as the rank maps any of it as text. Which one it is; when it was last changed, in nanoseconds, or 0 where
    /// another change might not show in that; and how many are held.
    ///
    /// # Errors
    /// ENODEV for what is no regular file; as [`Self::hold`].
    pub fn hold_text(&self, fd: BorrowedFd<'_>) -> Result<(File, i64, usize), Errno> {
        self.holder.give(fd, |files, fd| {
            let (file, changed_ns) = describe(fd.as_fd())?;
            let source = Source::File(fd);
            let writable = false;
            files.insert(Content::Text(file), Held { source, writable });
            let texts = files.keys().filter(|content| content.is_text());
            Ok((file, changed_ns, texts.count()))
        })
    }

    /// Closes all files of text but these.
    pub fn keep_texts(&self, kept: HashSet<Content>) {
        let is_kept = move |content: &Content| !content.is_text() || kept.contains(content);
        lock(&self.laid).retain(&is_kept);
        let _ = self
            .holder
            .have(move |files| files.retain(|content, _| is_kept(content)));
    }
}

fn describe(fd: BorrowedFd<'_>) -> Result<(File, i64), Errno> {
    const SECOND_NS: i64 = 1_000_000_000;
    let stat = fstat(fd).map_err(linux)?;
    let file = regular(&stat).ok_or(Errno::ENODEV)?;
    let whole = stat.st_ctime.checked_mul(SECOND_NS);
    let changed_ns = whole.and_then(|ns| ns.checked_add(stat.st_ctime_nsec as i64));
    // Not before 1970: a negative result is an error.
    let changed_ns = changed_ns.filter(|ns| is_settled(&stat) && *ns > 0);
    Ok((file, changed_ns.unwrap_or(0)))
}
