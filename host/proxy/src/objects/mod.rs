//! Files and segments that ranks of the node share mappings of: held open for the node, read into frames of the node pool and written back.
//!
//! A call on such a file goes to the file and to the frames (module `call::coherent`). Code that touches both holds the file's
//! lock: a record lock (fcntl(2)) on one byte of guest RAM's file, which all proxies of the node have and Linux drops when
//! one dies. The frames that the directory lists stay what they are while the lock is held (`wire::objects`).

mod frames;
mod held;
mod holder;
mod lent;
mod lost;
mod part;
mod parts;
pub mod record_lock;
mod segment;
mod text;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard};

use abi::Errno;
use abi::control::SEGMENTS;
use rustix::fs::{Mode, OFlags, fcntl_getfl, fstat, open};
use rustix::io;
use wire::objects::Directory;

use crate::errno::linux;
use crate::fds;
use crate::memory::RamFiles;
use crate::signals;
use crate::stub;
use crate::sync::lock;
use frames::{Frames, move_frames};
use held::{Held, Source, path_of};
use holder::Files;
use lost::Lost;
use record_lock::lock_of;
use segment::Segment;

pub use held::{File, regular};
pub use holder::Holder;
pub use part::Part;

/// All of it that this process holds.
#[derive(Debug)]
pub struct Objects {
    holder: Holder,
    /// A record lock is the process's: its threads take turns.
    turn: Mutex<()>,
    frames: Frames,
    ram: Arc<RamFiles>,
    /// What the node has of which file.
    directory: &'static Directory,
    lost: Lost,
}

/// The lock of a file, for as long as it lives.
#[derive(Debug)]
pub struct Locked<'a> {
    objects: &'a Objects,
    byte: i64,
    _turn: MutexGuard<'a, ()>,
}

impl Objects {
    /// Nothing is held yet.
    pub fn new(ram: Arc<RamFiles>, directory: &'static Directory, holder: Holder) -> Objects {
        Objects {
            holder,
            turn: Mutex::default(),
            frames: Frames::default(),
            ram,
            directory,
            lost: Lost::default(),
        }
    }

    /// Whether no file is mapped and shared on the node: then no call needs more than Linux.
    pub fn is_empty(&self) -> bool {
        self.directory.is_empty()
    }

    /// Takes a file's lock.
    pub fn lock(&self, [device, inode]: File) -> Locked<'_> {
        let turn = lock(&self.turn);
        // Two files that have the same byte wait for each other: nothing worse.
        let byte = (device.rotate_left(32) ^ inode) & i64::MAX as u64 >> 1;
        let byte = byte as i64;
        self.record_lock(libc::F_WRLCK, byte);
        Locked {
            objects: self,
            byte,
            _turn: turn,
        }
    }

    fn record_lock(&self, kind: i32, byte: i64) {
        let lock = lock_of(kind, byte as u64, 1);
        let args = [
            fds::raw(&self.ram.ram),
            libc::F_SETLKW as u64,
            &raw const lock as u64,
            0,
            0,
            0,
        ];
        // SAFETY: 1. Linux only reads the structure, which lives until the call returns.
        while unsafe { stub::syscall(libc::SYS_fcntl as u64, &args) } == Errno::EINTR.ret() {}
    }

    /// The address at which `len_bytes` of guest-physical memory are mapped here; `None` unless they are the pool's.
    fn frames(&self, gpa: u64, len_bytes: u64) -> Option<u64> {
        self.frames
            .address(&self.ram, self.directory, gpa, len_bytes)
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
            let known = files.get(&file);
            if known.is_none_or(|known| writable && !known.writable) {
                let source = Source::File(kept(fd, flags)?);
                files.insert(file, Held { source, writable });
            }
            Ok((file, writable))
        })
    }

    /// Reads a held file into frames, until all is there or it ends.
    ///
    /// # Errors
    /// EBADF: it is not held; EFAULT: the frames are not the pool's; what Linux says.
    pub fn load(&self, file: File, gpa: u64, len_bytes: u64, offset: u64) -> Result<i64, Errno> {
        let to = self.frames(gpa, len_bytes);
        let _locked = self.lock(file);
        self.holder.have(move |files| {
            let held = files.get(&file).ok_or(Errno::EBADF)?;
            let to = to.ok_or(Errno::EFAULT)?;
            match &held.source {
                Source::File(fd) => {
                    move_frames(libc::SYS_pread64, fd.as_fd(), to, len_bytes, offset)
                }
                Source::Segment(segment) => Ok(segment.copy(to, len_bytes, offset, true)),
            }
        })?
    }

    /// Writes frames to a held file, up to its end.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn write_back(&self, file: File, [gpa, len_bytes, offset]: [u64; 3]) -> Result<i64, Errno> {
        let from = self.frames(gpa, len_bytes);
        let _locked = self.lock(file);
        self.holder.have(move |files| {
            let held = files.get(&file).filter(|held| held.writable);
            let held = held.ok_or(Errno::EBADF)?;
            let from = from.ok_or(Errno::EFAULT)?;
            match &held.source {
                Source::File(fd) => write_file(fd, from, len_bytes, offset),
                Source::Segment(segment) => Ok(segment.copy(from, len_bytes, offset, false)),
            }
        })?
    }

    /// Returns when no call of any proxy uses frames of the file that it found before; `last`: closes it.
    pub fn release(&self, file: File, last: bool) {
        drop(self.lock(file));
        if last {
            let _ = self.holder.have(move |files| drop(files.remove(&file)));
        }
    }

    /// Length of a held file.
    ///
    /// # Errors
    /// EBADF: it is not held; what fstat(2) says.
    pub fn file_bytes(&self, file: File) -> Result<i64, Errno> {
        let bytes = move |files: &mut Files| match &files.get(&file).ok_or(Errno::EBADF)?.source {
            Source::File(fd) => fstat(fd).map(|stat| stat.st_size).map_err(linux),
            Source::Segment(segment) => Ok(segment.pages_bytes() as i64),
        };
        self.holder.have(bytes)?
    }

    /// Whether the rank has mapped a file so that it may write to it.
    pub fn is_written_by(&self, file: File) -> bool {
        let writable = move |files: &mut Files| files.get(&file).is_some_and(|held| held.writable);
        self.holder.have(writable).unwrap_or(false)
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
            let known = files.get(&file);
            if known.is_none_or(|known| writable && !known.writable) {
                let source = Source::Segment(segment);
                files.insert(file, Held { source, writable });
            }
        })?;
        Ok((file, pages_bytes))
    }

    /// The name of a file that what was stored in memory does not reach; `None`: the user was notified before.
    pub fn lost(&self, file: File) -> Option<String> {
        self.lost.is_new(file).then(|| self.name(file))
    }

    fn name(&self, file: File) -> String {
        let path = self.holder.have(
            move |files| match files.get(&file).map(|held| &held.source) {
                Some(Source::File(fd)) => std::fs::read_link(path_of(fd)).ok(),
                Some(Source::Segment(_)) | None => None,
            },
        );
        let path = path.ok().flatten();
        path.map_or_else(|| "a file".into(), |path| path.display().to_string())
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.objects.record_lock(libc::F_UNLCK, self.byte);
    }
}

/// What writes at the end wherever it is positioned, or only whole blocks, is opened anew.
fn kept(fd: OwnedFd, flags: OFlags) -> Result<OwnedFd, Errno> {
    if !flags.intersects(OFlags::APPEND | OFlags::DIRECT) {
        return Ok(fd);
    }
    let flags = flags & OFlags::RWMODE | OFlags::CLOEXEC;
    open(path_of(&fd), flags, Mode::empty()).map_err(|error| match error {
        // Not what mmap says of the rank's own descriptors.
        io::Errno::MFILE => Errno::ENFILE,
        error => linux(error),
    })
}

fn write_file(fd: &OwnedFd, from: u64, len_bytes: u64, offset: u64) -> Result<i64, Errno> {
    let file_bytes = fstat(fd).map_err(linux)?.st_size as u64;
    let len_bytes = len_bytes.min(file_bytes.saturating_sub(offset));
    let written = move_frames(libc::SYS_pwrite64, fd.as_fd(), from, len_bytes, offset);
    if written == Err(Errno::EFBIG) {
        signals::forget(libc::SIGXFSZ); // it is for programs that write
    }
    written
}
