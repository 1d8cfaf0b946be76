//! Copies from and to pages of files: Linux makes them, for such a page may be gone at any time, when somebody cuts the file
//! (process_vm_readv(2)).

use abi::Errno;

use crate::stub;

/// Fills `into` from the rank's memory.
///
/// # Errors
/// EFAULT: not all of it is there any more.
pub fn read(addr: u64, into: &mut [u8]) -> Result<(), Errno> {
    let own = into.as_mut_ptr().addr() as u64;
    // SAFETY: 1. Linux writes to `into`, which is the caller's alone.
    unsafe { copy(libc::SYS_process_vm_readv, own, addr, into.len()) }
}

/// Writes to the rank's memory.
///
/// # Errors
/// As [`read`].
pub fn write(addr: u64, bytes: &[u8]) -> Result<(), Errno> {
    let own = bytes.as_ptr().addr() as u64;
    // SAFETY: 1. Linux writes to the rank's memory, where no Rust object lies.
    unsafe { copy(libc::SYS_process_vm_writev, own, addr, bytes.len()) }
}

/// Copies between `own` memory and the rank's at `addr`.
///
/// # Safety
/// What Linux writes to must be the rank's memory, or the caller's alone.
unsafe fn copy(nr: i64, own: u64, addr: u64, len: usize) -> Result<(), Errno> {
    let parts = [[own, len as u64], [addr, len as u64]];
    let [own, ranks] = parts.each_ref().map(|part| part.as_ptr().addr() as u64);
    let args = [u64::from(std::process::id()), own, 1, ranks, 1, 0];
    // SAFETY: 1. Linux reads the two structures, which live until the call returns. 2. The rest is as the caller promises.
    let moved = unsafe { stub::syscall(nr as u64, &args) };
    (moved == len as i64).then_some(()).ok_or(Errno::EFAULT)
}
