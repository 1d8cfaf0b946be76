//! The host's side of objects: files that the rank's proxy holds open (`abi::control::HostOp`).

use abi::Errno;
use abi::control::{HostOp, NO_FILE};
use abi::map::PAGE;
use qk_core::objects::{File, Laid, Piece, TextKey};
use qk_core::regions::Region;

use crate::host::ship;
use crate::thread::Thread;

/// Whether an object has no file.
pub fn is_none(file: File) -> bool {
    file[0] == NO_FILE
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

/// Has the calling rank's proxy let go of what the log has taken away; `last`: closes the file.
pub fn release(thread: &'static Thread, [device, inode]: File, last: bool) {
    // It fails only for a file that was never held.
    let _ = ship::host_op(
        thread,
        HostOp::ReleaseFile,
        [device, inode, u64::from(last)],
    );
}

/// Has the file's own pages laid over the frames of a piece for the calling rank's proxy, and for the node itself in this way, in the
/// place of what is laid there; [`Laid::No`]: there they are.
///
/// # Errors
/// What the host says: ENODEV for files that cannot be mapped, ENOMEM where it has no more mappings.
pub fn lay(thread: &'static Thread, file: File, piece: &Piece, access: Laid) -> Result<(), Errno> {
    lay_by(HostOp::LayFile, thread, file, piece, access)
}

fn lay_by(
    op: HostOp,
    thread: &'static Thread,
    [device, inode]: File,
    piece: &Piece,
    access: Laid,
) -> Result<(), Errno> {
    let (len_bytes, offset) = (piece.len_bytes, piece.offset);
    let args = [device, inode, piece.pa.0, len_bytes, offset, access as u64];
    ship::host_op(thread, op, args).map(|_| ())
}

/// Has the proxy keep the file behind a descriptor, which is being mapped at `region` and is to be text.
///
/// # Errors
/// ENODEV for what is no regular file; EBADF, EMFILE.
pub fn hold_text(thread: &'static Thread, fd: u64, region: &Region) -> Result<TextKey, Errno> {
    let args = [fd, region.start.0, region.len_bytes(), region.offset];
    let changed_ns = ship::host_op(thread, HostOp::HoldText, args)?;
    let file = thread.host().more();
    Ok(match changed_ns {
        0 => TextKey::unlike_others(file),
        changed_ns => TextKey { file, changed_ns },
    })
}

/// As [`lay`], of text.
///
/// # Errors
/// What the host says.
pub fn lay_text(
    thread: &'static Thread,
    file: File,
    piece: &Piece,
    access: Laid,
) -> Result<(), Errno> {
    lay_by(HostOp::LayText, thread, file, piece, access)
}

/// Has frames be their file's pages again, of which some were zeros for the file had been cut.
///
/// # Errors
/// What the host says.
pub fn restore(thread: &'static Thread, piece: &Piece) -> Result<(), Errno> {
    let args = [piece.pa.0, piece.len_bytes];
    ship::host_op(thread, HostOp::RestoreFrames, args).map(|_| ())
}

/// Has frames be the pool's own memory again, as zeros.
///
/// # Errors
/// What the host says.
pub fn clear(thread: &'static Thread, piece: &Piece) -> Result<(), Errno> {
    let args = [piece.pa.0, piece.len_bytes];
    ship::host_op(thread, HostOp::ClearFrames, args).map(|_| ())
}

/// Bytes of the pages that begin before the end of the file.
///
/// # Errors
/// What the host says.
pub fn pages_bytes(thread: &'static Thread, [device, inode]: File) -> Result<u64, Errno> {
    let bytes = ship::host_op(thread, HostOp::FileBytes, [device, inode])?;
    Ok(bytes.next_multiple_of(PAGE))
}
