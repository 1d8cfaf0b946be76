//! Copies between memory of the rank and this process's own, and files.

use std::arch::asm;
use std::os::fd::{AsRawFd, BorrowedFd};

use abi::Errno;

use crate::stub;

/// Copies from and to a rank's memory that fail instead of faulting.
pub trait RankMemory {
    /// Fills `into` from `addr`.
    ///
    /// # Errors
    /// EFAULT unless the rank may read all of it.
    fn read(&self, addr: u64, into: &mut [u8]) -> Result<(), Errno>;

    /// Writes `bytes` to `addr`.
    ///
    /// # Errors
    /// EFAULT unless the rank may write all of it.
    fn write(&self, addr: u64, bytes: &[u8]) -> Result<(), Errno>;

    /// Copies the string at `addr` with its NUL into `into`; returns its length without.
    ///
    /// # Errors
    /// EFAULT when it cannot be read up to its end, ENAMETOOLONG when it does not fit: then `into` is full.
    fn read_string(&self, addr: u64, into: &mut [u8]) -> Result<usize, Errno> {
        const CHUNK: usize = 256; // divides a page: a chunk is readable as a whole or not at all
        let mut filled = 0;
        while filled < into.len() {
            let at = addr.checked_add(filled as u64).ok_or(Errno::EFAULT)?;
            let room = CHUNK - at as usize % CHUNK;
            let chunk = &mut into[filled..];
            let len = room.min(chunk.len());
            let chunk = &mut chunk[..len];
            self.read(at, chunk)?;
            if let Some(end) = chunk.iter().position(|&byte| byte == 0) {
                return Ok(filled + end);
            }
            filled += len;
        }
        Err(Errno::ENAMETOOLONG)
    }
}

/// Copies bytes between memory of the rank and our own, in assembly: the node writes to the rank's memory at any time,
/// which is no race in terms of the language.
///
/// # Safety
/// The source must be readable, the destination writable, and they must not overlap.
pub unsafe fn copy_bytes(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: 1. As the caller promises. 2. The direction flag is clear by the calling convention.
    unsafe {
        asm!(
            "rep movsb",
            inout("rcx") len => _, inout("rdi") to => _, inout("rsi") from => _,
            options(nostack, preserves_flags),
        );
    }
}

/// Moves bytes between a file and memory at `address` by pread64 or pwrite64 (`nr`), until all are moved or the file ends.
///
/// # Errors
/// What Linux says.
///
/// # Safety
/// `address .. address + len_bytes` must not wrap; where pread64 may write there no Rust object lies.
pub unsafe fn move_all(
    nr: i64,
    file: BorrowedFd<'_>,
    address: u64,
    len_bytes: u64,
    offset: u64,
) -> Result<i64, Errno> {
    let mut done = 0;
    while done < len_bytes {
        let args = [
            file.as_raw_fd() as u64,
            address + done,
            len_bytes - done,
            offset.wrapping_add(done),
            0,
            0,
        ];
        // SAFETY: 1. As the caller promises.
        match unsafe { stub::syscall(nr as u64, &args) } {
            0 => break,
            moved if moved > 0 => done += moved as u64,
            moved if moved == Errno::EINTR.ret() => {}
            error => return Err(Errno::from_ret(error).unwrap_or(Errno::EIO)),
        }
    }
    Ok(done as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Text(u64, &'static [u8]);

    impl RankMemory for Text {
        fn read(&self, addr: u64, into: &mut [u8]) -> Result<(), Errno> {
            // Readable up to the end of the page that the text ends in.
            let end = (self.0 + self.1.len() as u64).next_multiple_of(4096);
            if addr < self.0 || addr.saturating_add(into.len() as u64) > end {
                return Err(Errno::EFAULT);
            }
            for (i, byte) in into.iter_mut().enumerate() {
                *byte = *self.1.get((addr - self.0) as usize + i).unwrap_or(&b'x');
            }
            Ok(())
        }
        fn write(&self, _: u64, _: &[u8]) -> Result<(), Errno> {
            Err(Errno::EFAULT)
        }
    }

    #[test]
    fn strings_end_at_their_nul_the_buffer_or_the_mapping() {
        let mut into = [0; 4096];
        assert_eq!(Text(0x1ffc, b"a/b\0").read_string(0x1ffc, &mut into), Ok(3));
        assert_eq!(&into[..4], b"a/b\0");
        assert_eq!(
            Text(0x1f00, b"abc").read_string(0x1f00, &mut into),
            Err(Errno::EFAULT)
        );
        assert_eq!(
            Text(0x1000, b"").read_string(u64::MAX, &mut into),
            Err(Errno::EFAULT)
        );
        assert_eq!(
            Text(0x1000, &[b'y'; 4096]).read_string(0x1000, &mut into),
            Err(Errno::ENAMETOOLONG)
        );
        assert_eq!(
            Text(0x1000, b"").read_string(0x1000, &mut []),
            Err(Errno::ENAMETOOLONG)
        );
    }
}
