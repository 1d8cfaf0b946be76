//! Files and segments that ranks of the node share mappings of: held open for the node, read into frames of the node pool and written back.
//!
//! A call on such a file goes to the file and to the frames (module `call::coherent`). Code that touches both holds the file's
//! lock: a record lock (fcntl(2)) on one byte of guest RAM's file, which all proxies of the node have and Linux drops when
//! one dies. The frames that the directory lists stay what they are while the lock is held (`wire::objects`).

mod holder;
mod lent;
mod lost;
mod parts;
pub mod record_lock;
pub mod segment;
pub mod text;

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use abi::Errno;
use rustix::fs::{FileType, Mode, OFlags, Stat, fcntl_getfl, fstat, open};
use rustix::io;
use rustix::mm::{MapFlags, ProtFlags, mmap};

use crate::errno::linux;
use crate::fds;
use crate::memory::{RamFiles, move_all};
use crate::rank::Rank;
use crate::signals;
use crate::stub;
use holder::Files;
use lost::Lost;
use record_lock::lock_of;
use segment::Segment;

pub use holder::Holder;
pub use lent::is_with_child;
pub use parts::{Part, entries};

/// A file: device and inode.
pub type File = [u64; 2];

/// Where the pool is mapped in this process.
#[derive(Clone, Copy, Debug)]
struct Pool {
    address: u64,
    gpa: u64,
    len_bytes: u64,
}

/// A file that is held.
#[derive(Debug)]
struct Held {
    source: Source,
    writable: bool,
}

/// What is behind it.
#[derive(Debug)]
enum Source {
    File(OwnedFd),
    Segment(Segment),
}

/// All of it that this process holds.
#[derive(Debug)]
pub struct Objects {
    holder: Holder,
    /// A record lock is the process's: its threads take turns.
    turn: Mutex<()>,
    pool: OnceLock<Option<Pool>>,
    ram: Arc<RamFiles>,
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
    pub fn new(ram: Arc<RamFiles>, holder: Holder) -> Objects {
        Objects {
            holder,
            turn: Mutex::default(),
            pool: OnceLock::new(),
            ram,
            lost: Lost::default(),
        }
    }

    /// Takes a file's lock.
    pub fn lock(&self, [device, inode]: File) -> Locked<'_> {
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
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
    fn frames(&self, rank: &Rank, gpa: u64, len_bytes: u64) -> Option<u64> {
        let map = || self.map_pool(rank.words.objects.pool());
        let pool = (*self.pool.get_or_init(map))?;
        let offset = gpa.checked_sub(pool.gpa)?;
        let inside = offset.checked_add(len_bytes)? <= pool.len_bytes;
        inside.then(|| pool.address + offset)
    }

    fn map_pool(&self, (gpa, len_bytes): (u64, u64)) -> Option<Pool> {
        let (file, offset) = self.ram.place(gpa, len_bytes)?;
        let (prot, shared) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: 1. Linux chooses addresses that are free, so nothing that exists is replaced.
        let address = unsafe { mmap(null_mut(), len_bytes as usize, prot, shared, file, offset) };
        Some(Pool {
            address: address.ok()?.addr() as u64,
            gpa,
            len_bytes,
        })
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.objects.record_lock(libc::F_UNLCK, self.byte);
    }
}

fn address(address: u64) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(address as usize)
}

/// Which file it is, if it is a regular one.
pub fn regular(stat: &Stat) -> Option<File> {
    let is_regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    is_regular.then_some([stat.st_dev, stat.st_ino])
}

/// Keeps the file behind a descriptor of the rank; for mappings that can be written, one that can. Whether this descriptor could.
///
/// # Errors
/// ENODEV for anything but a regular file; ENFILE: the hard limit on descriptors has no room; what Linux says.
pub fn hold(rank: &Rank, fd: BorrowedFd<'_>) -> Result<(File, bool), Errno> {
    regular(&fstat(fd).map_err(linux)?).ok_or(Errno::ENODEV)?;
    rank.objects.holder.give(rank, fd, |files, fd| {
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

/// What writes at the end wherever it is told to, or only whole blocks, is opened anew.
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

/// The path by which the thread that holds a descriptor finds what is behind it.
fn path_of(fd: &OwnedFd) -> String {
    format!("/proc/thread-self/fd/{}", fd.as_raw_fd())
}

/// Reads a held file into frames, until all is there or it ends.
///
/// # Errors
/// EBADF: it is not held; EFAULT: the frames are not the pool's; what Linux says.
pub fn load(rank: &Rank, file: File, gpa: u64, len_bytes: u64, offset: u64) -> Result<i64, Errno> {
    let to = rank.objects.frames(rank, gpa, len_bytes);
    let _locked = rank.objects.lock(file);
    rank.objects.holder.have(rank, move |files| {
        let held = files.get(&file).ok_or(Errno::EBADF)?;
        let to = to.ok_or(Errno::EFAULT)?;
        match &held.source {
            Source::File(fd) => move_frames(libc::SYS_pread64, fd.as_fd(), to, len_bytes, offset),
            Source::Segment(segment) => Ok(segment.copy(to, len_bytes, offset, true)),
        }
    })?
}

/// Writes frames to a held file, up to its end; `told`: the program is told if that fails, not its user.
///
/// # Errors
/// As [`load`].
pub fn write_back(rank: &Rank, file: File, place: [u64; 3], told: bool) -> Result<i64, Errno> {
    let written = write(rank, file, place);
    written.inspect_err(|why| {
        if !told {
            lost::tell(rank, file, *why);
        }
    })
}

fn write(rank: &Rank, file: File, [gpa, len_bytes, offset]: [u64; 3]) -> Result<i64, Errno> {
    let from = rank.objects.frames(rank, gpa, len_bytes);
    let _locked = rank.objects.lock(file);
    rank.objects.holder.have(rank, move |files| {
        let held = files.get(&file).filter(|held| held.writable);
        let held = held.ok_or(Errno::EBADF)?;
        let from = from.ok_or(Errno::EFAULT)?;
        match &held.source {
            Source::File(fd) => write_file(fd, from, len_bytes, offset),
            Source::Segment(segment) => Ok(segment.copy(from, len_bytes, offset, false)),
        }
    })?
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

/// Moves bytes between a file and frames that are mapped at `address`, which have been checked.
fn move_frames(
    nr: i64,
    file: BorrowedFd<'_>,
    address: u64,
    len_bytes: u64,
    offset: u64,
) -> Result<i64, Errno> {
    // SAFETY: 1. All of the range is the pool's (the callers have checked by `frames`), where no Rust object lies.
    unsafe { move_all(nr, file, address, len_bytes, offset) }
}

/// Returns when no call of any proxy uses frames of the file that it found before; `last`: closes it.
pub fn release(rank: &Rank, file: File, last: bool) {
    drop(rank.objects.lock(file));
    if last {
        let _ = rank
            .objects
            .holder
            .have(rank, move |files| drop(files.remove(&file)));
    }
}

/// Length of a held file.
///
/// # Errors
/// EBADF: it is not held; what fstat(2) says.
pub fn file_bytes(rank: &Rank, file: File) -> Result<i64, Errno> {
    let bytes = move |files: &mut Files| match &files.get(&file).ok_or(Errno::EBADF)?.source {
        Source::File(fd) => fstat(fd).map(|stat| stat.st_size).map_err(linux),
        Source::Segment(_) => Err(Errno::EBADF),
    };
    rank.objects.holder.have(rank, bytes)?
}
