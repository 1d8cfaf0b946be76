//! Frames that children of the rank map.

use abi::Errno;
use wire::ram::Place;

use super::Objects;
use super::record_lock::lock_of;
use crate::fds;
use crate::stub;

impl Objects {
    /// Carries out [`abi::control::HostOp::IsWithChild`]: children map frames by a description of the pool's file that holds a lock on
    /// them for as long as the mapping lasts (`child::lent`).
    ///
    /// # Errors
    /// EFAULT: they are not the pool's; what fcntl(2) says.
    pub fn is_with_child(&self, gpa: u64, len_bytes: u64) -> Result<i64, Errno> {
        let place = self.ram.layout.place(gpa, len_bytes);
        let Some(Place::Pool(offset)) = place else {
            return Err(Errno::EFAULT);
        };
        let mut lock = lock_of(libc::F_WRLCK, offset, len_bytes);
        let at = (&raw mut lock).addr() as u64;
        let fd = fds::raw(&self.ram.pool);
        let args = [fd, libc::F_GETLK as u64, at, 0, 0, 0];
        // SAFETY: 1. Linux reads and writes the structure, which lives until the call returns.
        let ret = unsafe { stub::syscall(libc::SYS_fcntl as u64, &args) };
        Errno::check(ret)?;
        Ok((lock.l_type != libc::F_UNLCK as i16).into())
    }
}
