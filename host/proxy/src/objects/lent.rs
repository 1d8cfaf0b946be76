//! Frames that children of the rank map.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use abi::Errno;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{self, fcntl_dupfd_cloexec};

use crate::fds;
use crate::gpa::Place;
use crate::memory::RamFiles;
use crate::rank::Rank;
use crate::stub;

/// Carries out [`abi::control::HostOp::IsWithChild`]: children map frames by a description of the pool's file that holds a lock on
/// them for as long as the mapping lasts ([`Lent`]).
///
/// # Errors
/// EFAULT: they are not the pool's; what fcntl(2) says.
pub fn is_with_child(rank: &Rank, gpa: u64, len_bytes: u64) -> Result<i64, Errno> {
    let place = rank.objects.ram.layout.place(gpa, len_bytes);
    let Some(Place::Pool(offset)) = place else {
        return Err(Errno::EFAULT);
    };
    let mut lock = lock_of(libc::F_WRLCK, offset, len_bytes);
    control(&rank.objects.ram.pool, libc::F_GETLK, &mut lock)?;
    Ok((lock.l_type != libc::F_UNLCK as i16).into())
}

/// A description of the pool's file by which a child is to map frames of it. Linux keeps its locks until the last mapping that
/// was made by it is gone, in whatever process.
#[derive(Debug)]
pub struct Lent(OwnedFd);

impl Lent {
    /// One without locks; `writable`: for mappings that can be written.
    ///
    /// # Errors
    /// ENFILE: the hard limit on descriptors has no room; what Linux says.
    pub fn new(rank: &Rank, ram: &RamFiles, writable: bool) -> Result<Lent, Errno> {
        let flags = match writable {
            true => OFlags::RDWR,
            false => OFlags::RDONLY,
        };
        let fd = fds::with_room(rank.raised_fds, || reopen(rank, &ram.pool, flags));
        fd.map(Lent).map_err(|_| Errno::ENFILE)
    }

    /// Locks frames and returns where they are in the file.
    ///
    /// # Errors
    /// What fcntl(2) says.
    pub fn lock(&self, offset: u64, len_bytes: u64) -> Result<(), Errno> {
        let mut lock = lock_of(libc::F_RDLCK, offset, len_bytes);
        control(&self.0, libc::F_OFD_SETLK, &mut lock)
    }

    /// Its descriptor, which the child has, too.
    pub fn raw(&self) -> u64 {
        fds::raw(&self.0)
    }
}

/// A description of its own for the file behind a descriptor.
fn reopen(rank: &Rank, fd: &OwnedFd, flags: OFlags) -> io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let file = open(path, flags | OFlags::CLOEXEC, Mode::empty())?;
    fcntl_dupfd_cloexec(&file, rank.first_own_fd as RawFd)
}

/// A record lock as fcntl(2) takes it.
pub fn lock_of(kind: i32, offset: u64, len_bytes: u64) -> libc::flock {
    libc::flock {
        l_type: kind as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: offset as i64,
        l_len: len_bytes as i64,
        l_pid: 0,
    }
}

fn control(file: &OwnedFd, command: i32, lock: &mut libc::flock) -> Result<(), Errno> {
    let at = (&raw mut *lock).addr() as u64;
    let args = [fds::raw(file), command as u64, at, 0, 0, 0];
    // SAFETY: 1. Linux reads and writes the structure, which lives until the call returns.
    let ret = unsafe { stub::syscall(libc::SYS_fcntl as u64, &args) };
    Errno::from_ret(ret).map_or(Ok(()), Err)
}
