//! Frames of the node pool itself, which a child maps as the rank has them: what the two share without a file.
//!
//! It does so by a description of the pool's file that holds a lock on them: Linux keeps the lock until the last mapping by that description is
//! gone, in whatever process, which is how the node finds out whether frames are in use ([`crate::objects::is_with_child`]).
//! The child opens it itself, in a table of descriptors of its own: opened in the rank's, it would have a number there that
//! another thread might guess, and keep the pool by.

use std::ffi::CString;
use std::os::fd::AsRawFd;

use abi::Errno;
use rustix::process::Resource;
use wire::ram::Place;

use super::parent::Parent;
use super::stage::{Must, Step};
use super::steps::Steps;
use crate::call::own::hard_limit;
use crate::fds;
use crate::objects::record_lock::lock_of;
use crate::ram_files::RamFiles;
use crate::regions::Region;

/// What the steps point to.
#[derive(Debug)]
pub struct Lent {
    /// The pool's file, by its descriptor.
    path: CString,
    /// A limit on descriptors that has room.
    limit: [u64; 2],
    locks: Vec<libc::flock>,
}

impl Lent {
    /// Writes the steps by which a child maps the regions, all of them in the pool.
    ///
    /// # Errors
    /// EFAULT: they are not.
    pub fn write(
        steps: &mut Steps,
        parent: &Parent<'_>,
        ram: &RamFiles,
        regions: &[&Region],
    ) -> Result<Box<Lent>, Errno> {
        let places = regions.iter().map(|region| {
            let len_bytes = region.end - region.start;
            match ram.layout.place(region.gpa, len_bytes) {
                Some(Place::Pool(offset)) => Ok((offset, len_bytes)),
                _ => Err(Errno::EFAULT),
            }
        });
        let places: Vec<(u64, u64)> = places.collect::<Result<_, _>>()?;
        let locks = places
            .iter()
            .map(|&(offset, len_bytes)| lock_of(libc::F_RDLCK, offset, len_bytes));
        let path = format!("/proc/self/fd/{}", ram.pool.as_raw_fd());
        let lent = Box::new(Lent {
            path: CString::new(path).map_err(|_| Errno::EINVAL)?,
            limit: [parent.own_fds.end, hard_limit(Resource::Nofile)],
            locks: locks.collect(),
        });
        let limit_at = lent.limit.as_ptr().addr() as u64;
        let args = [0, libc::RLIMIT_NOFILE.into(), limit_at, 0];
        steps.call(libc::SYS_prlimit64, &args, Must::Succeed);
        // Above the rank's descriptors, in place of two that the child has no use for.
        let [reader, writer] = parent.spare_fds.map(fds::raw);
        for (fd, flags, write) in [
            (reader, libc::O_RDONLY, false),
            (writer, libc::O_RDWR, true),
        ] {
            if regions.iter().any(|region| region.write == write) {
                steps.all.push(Step::Reopen {
                    path: lent.path.as_ptr().addr() as u64,
                    flags: flags as u64,
                    fd,
                });
            }
        }
        for ((region, (offset, len_bytes)), lock) in regions.iter().zip(places).zip(&lent.locks) {
            let fd = if region.write { writer } else { reader };
            let lock_at = (&raw const *lock).addr() as u64;
            let args = [fd, libc::F_OFD_SETLK as u64, lock_at];
            steps.call(libc::SYS_fcntl, &args, Must::Succeed);
            let how = (libc::MAP_SHARED | libc::MAP_FIXED) as u64;
            let args = [
                region.start,
                len_bytes,
                region.protection(),
                how,
                fd,
                offset,
            ];
            steps.call(libc::SYS_mmap, &args, Must::Be(region.start as i64));
        }
        Ok(lent)
    }
}
