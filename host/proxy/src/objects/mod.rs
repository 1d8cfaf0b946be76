//! Files and segments that ranks of the node share mappings of: held open for the rank, and laid over frames of the node pool, so that
//! those frames are Linux's own pages of them.
//!
//! The node's memory lies in another process, whose agent lays them there ([`crate::agent`]). What this process shows the rank of such
//! frames it maps from the file itself.

mod held;
mod holder;
mod laid;
mod lent;
pub mod record_lock;
mod segment;
mod text;

use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex};

use abi::Errno;
use abi::control::{NO_FILE, SEGMENTS};
use abi::map::PAGE;
use rustix::fs::{OFlags, fcntl_getfl, fstat};
use rustix::mm::ProtFlags;
use wire::ram::Place;
use wire::rank::RankArea;
use wire::word::Word;

use crate::agent::{self, Access};
use crate::errno::linux;
use crate::ram_files::RamFiles;
use crate::sync::lock;
use held::{Held, Source};
use holder::Files;
use laid::Laid;
use segment::Segment;

pub use held::{Content, File, regular};
pub use holder::Holder;
pub use laid::Place as FilePlace;

/// All of it that this process holds.
#[derive(Debug)]
pub struct Objects {
    holder: Holder,
    laid: Mutex<Laid>,
    ram: Arc<RamFiles>,
    /// What the node says of itself.
    area: &'static RankArea,
}

impl Objects {
    /// Nothing is held yet.
    pub fn new(ram: Arc<RamFiles>, area: &'static RankArea, holder: Holder) -> Objects {
        Objects {
            holder,
            laid: Mutex::default(),
            ram,
            area,
        }
    }

    /// Keeps the file behind a descriptor of the rank; for mappings that can be written, one that can. Whether this descriptor could.
    ///
    /// # Errors
    /// ENODEV for anything but a regular file; ENFILE: the hard limit on descriptors has no room; what Linux says.
    pub fn hold(&self, fd: BorrowedFd<'_>) -> Result<(File, bool), Errno> {
        regular(&fstat(fd).map_err(linux)?).ok_or(Errno::ENODEV)?;
        self.holder.give(fd, |files, fd| {
            let file = regular(&fstat(&fd).map_err(linux)?).ok_or(Errno::ENODEV)?;
            let flags = fcntl_getfl(&fd).map_err(linux)?;
            let writable = flags & OFlags::RWMODE == OFlags::RDWR;
            let known = files.get(&Content::Shared(file));
            if known.is_none_or(|known| writable && !known.writable) {
                let source = Source::File(fd);
                files.insert(Content::Shared(file), Held { source, writable });
            }
            Ok((file, writable))
        })
    }

    /// Has frames (guest-physical address, bytes) be a held file's pages from an offset on: for this rank, and where it is to have
    /// access for the node itself. Without a file they are the pool's own.
    ///
    /// # Errors
    /// EBADF: it is not held; EFAULT: the frames are not the pool's, or no whole pages; EINVAL: nor is the offset; ENODEV: QEMU has no agent; what mmap(2)
    /// says there.
    pub fn lay(
        &self,
        content: Content,
        [gpa, len_bytes, offset]: [u64; 3],
        access: Option<Access>,
    ) -> Result<i64, Errno> {
        let (frames, place) = self.pages(gpa, len_bytes)?;
        if let Content::Shared([NO_FILE, _]) = content {
            lock(&self.laid).clear(frames);
            return Ok(0);
        }
        let end = offset.checked_add(len_bytes);
        if !offset.is_multiple_of(PAGE) || end.is_none_or(|end| end > i64::MAX as u64) {
            return Err(Errno::EINVAL);
        }
        self.holder.have(move |files| {
            let held = files.get(&content).ok_or(Errno::EBADF)?;
            let Some(access) = access else { return Ok(()) };
            let agent = files.agent()?;
            let laid = match &held.source {
                Source::File(fd) => agent.lay(fd.as_fd(), place, offset, access),
                Source::Segment(segment) => agent.lay_segment(segment.id(), place, offset, access),
            };
            laid.map_err(linux)
        })??;
        lock(&self.laid).lay(frames, (content, offset));
        Ok(0)
    }

    /// Has frames be the pool's own memory again, for the node and for this rank.
    ///
    /// # Errors
    /// As [`Self::lay`].
    pub fn clear(&self, gpa: u64, len_bytes: u64) -> Result<i64, Errno> {
        let (frames, place) = self.pages(gpa, len_bytes)?;
        let cleared = move |files: &mut Files| files.agent()?.clear(place).map_err(linux);
        self.holder.have(cleared)??;
        lock(&self.laid).clear(frames);
        Ok(0)
    }

    /// Has frames be their file's pages again, where others that cut it have made it longer since.
    ///
    /// # Errors
    /// As [`Self::lay`].
    pub fn restore(&self, gpa: u64, len_bytes: u64) -> Result<i64, Errno> {
        let (_, place) = self.pages(gpa, len_bytes)?;
        let restored = move |files: &mut Files| files.agent()?.restore(place).map_err(linux);
        self.holder.have(restored)??;
        Ok(0)
    }

    /// Frames of the pool in whole pages, and where in its file they lie.
    fn pages(&self, gpa: u64, len_bytes: u64) -> Result<(Range<u64>, agent::Place), Errno> {
        let place = self.ram.layout.place(gpa, len_bytes);
        let pool = self.area.node.pool.each_ref().map(Word::load);
        let from = gpa.checked_sub(pool[0]).ok_or(Errno::EFAULT)?;
        // The file may be longer than the pool.
        let is_inside = from <= pool[1] && len_bytes <= pool[1] - from;
        let whole = (gpa | len_bytes).is_multiple_of(PAGE) && len_bytes > 0;
        let Some(Place::Pool(offset)) = place.filter(|_| is_inside && whole) else {
            return Err(Errno::EFAULT);
        };
        let place = agent::Place { offset, len_bytes };
        Ok((gpa..gpa + len_bytes, place))
    }

    /// What frames of the pool are: ranges, and which pages of a file; `None`: the pool's own memory.
    pub fn parts(&self, frames: Range<u64>) -> Vec<(Range<u64>, Option<FilePlace>)> {
        lock(&self.laid).parts(frames)
    }

    /// Maps pages of a held file at an address of the rank.
    ///
    /// # Errors
    /// EBADF: it is not held; what mmap(2) says.
    ///
    /// # Safety
    /// No Rust object lies in the range, and what is mapped there is only used as the rank's memory.
    pub unsafe fn map(
        &self,
        (addr, len_bytes): (u64, u64),
        (content, offset): FilePlace,
        access: ProtFlags,
    ) -> Result<(), Errno> {
        self.holder.have(move |files| {
            let held = files.get(&content).ok_or(Errno::EBADF)?;
            let how = (access, content.is_text());
            // SAFETY: 1. As the caller promises.
            unsafe { held.map((addr, len_bytes), offset, how) }
        })?
    }

    /// Closes a file of which the rank maps and shares nothing any more.
    pub fn release(&self, file: File) {
        let content = Content::Shared(file);
        lock(&self.laid).retain(|other| *other != content);
        let _ = self.holder.have(move |files| drop(files.remove(&content)));
    }

    /// Length of a held file.
    ///
    /// # Errors
    /// EBADF: it is not held; what fstat(2) says.
    pub fn file_bytes(&self, file: File) -> Result<i64, Errno> {
        let bytes = move |files: &mut Files| match &files
            .get(&Content::Shared(file))
            .ok_or(Errno::EBADF)?
            .source
        {
            Source::File(fd) => fstat(fd).map(|stat| stat.st_size).map_err(linux),
            Source::Segment(segment) => Ok(segment.pages_bytes() as i64),
        };
        self.holder.have(bytes)?
    }

    /// Attaches a segment for as long as the rank maps any of it; returns its bytes.
    ///
    /// # Errors
    /// As shmat(2).
    pub fn hold_segment(&self, id: u64, flags: u64) -> Result<(File, i64), Errno> {
        let writable = flags & libc::SHM_RDONLY as u64 == 0;
        let file = [SEGMENTS, id as u32 as u64];
        let segment = Segment::attach(id as i32, !writable)?;
        let pages_bytes = segment.pages_bytes() as i64;
        self.holder.have(move |files| {
            let known = files.get(&Content::Shared(file));
            if known.is_none_or(|known| writable && !known.writable) {
                let source = Source::Segment(segment);
                files.insert(Content::Shared(file), Held { source, writable });
            }
        })?;
        Ok((file, pages_bytes))
    }
}
