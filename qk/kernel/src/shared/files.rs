//! The host's side of objects: files that the rank's proxy holds open (`abi::control::HostOp`).

use abi::Errno;
use abi::control::{HostOp, SEGMENTS};
use abi::map::PAGE;
use qk_core::objects::{File, Piece, Run};
use qk_core::regions::Region;

use crate::host::ship;
use crate::thread::Thread;

/// In place of a device: the object has no file.
pub const NO_DEVICE: u64 = SEGMENTS - 1;

/// Whether an object has no file.
pub fn is_none(file: File) -> bool {
    file[0] == NO_DEVICE
}

/// Has the proxy keep the file behind a descriptor, which is being mapped at `region`. Whether the descriptor is one to write to.
///
/// # Errors
/// ENODEV for what is no regular file; EBADF, EMFILE.
pub fn hold(thread: &'static Thread, fd: u64, region: &Region) -> Result<(File, bool), Errno> {
    let args = [fd, region.start.0, region.len_bytes(), region.offset];
    let is_writable = ship::host_op(thread, HostOp::HoldFile, args)? != 0;
    Ok((thread.host().more(), is_writable))
}

/// Waits until no proxy uses what the log or the directory has taken away; `last`: closes the file.
pub fn release(thread: &'static Thread, [device, inode]: File, last: bool) {
    // It fails only for a file that was never held.
    let _ = ship::host_op(
        thread,
        HostOp::ReleaseFile,
        [device, inode, u64::from(last)],
    );
}

/// Reads a piece of a file into its frames; what the file has not stays zero.
///
/// # Errors
/// EIO and what else the host says.
pub fn load(thread: &'static Thread, [device, inode]: File, piece: &Piece) -> Result<(), Errno> {
    let args = [device, inode, piece.pa.0, piece.len_bytes, piece.offset];
    ship::host_op(thread, HostOp::LoadObject, args).map(|_| ())
}

/// Where it is reported that a file cannot be written to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// The program, by what its call returns.
    Program,
    /// Its user, by a line.
    User,
}

/// Writes frames to the file, up to its end.
///
/// # Errors
/// ENOSPC, EIO and what else the host says.
pub fn write(
    thread: &'static Thread,
    [device, inode]: File,
    run: Run,
    told: Told,
) -> Result<(), Errno> {
    let Run {
        offset,
        pa,
        len_bytes,
    } = run;
    let told = u64::from(told == Told::Program);
    let args = [device, inode, pa.0, len_bytes, offset, told];
    ship::host_op(thread, HostOp::WriteObject, args).map(|_| ())
}

/// Bytes of the pages that begin before the end of the file.
///
/// # Errors
/// What the host says.
pub fn pages_bytes(thread: &'static Thread, [device, inode]: File) -> Result<u64, Errno> {
    let bytes = ship::host_op(thread, HostOp::FileBytes, [device, inode])?;
    Ok(bytes.next_multiple_of(PAGE))
}
