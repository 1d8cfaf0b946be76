//! What stat(2) says of an entry: what Linux says of the directory that the trees hang in, with the entry's own numbers.

use abi::Errno;
use zerocopy::IntoBytes;

use super::tree::Entry;
use crate::memory::RankMemory;
use crate::rank::Rank;
use crate::stub;

/// In the sysfs, and always there when something of it was found.
pub const LIKE: &std::ffi::CStr = c"/sys/devices/system";
/// Bytes of struct stat (uapi/asm/stat.h) and struct statx (uapi/linux/stat.h) in words.
const STAT_WORDS: usize = 144 / 8;
const STATX_WORDS: usize = 256 / 8;
/// What a sysfs gives as the size of a file.
const FILE_BYTES: u64 = 4096;

/// The number of the inode at a path: the same for all ranks (FNV-1a, 32 bits, above those that a sysfs gives).
pub fn inode(path: &str) -> u64 {
    let hash = path.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    1 << 32 | u64::from(hash)
}

struct Numbers {
    inode: u64,
    mode: u32,
    links: u32,
    size: u64,
}

impl Numbers {
    fn of(path: &str, entry: &Entry) -> Numbers {
        let (mode, links, size) = match entry {
            Entry::Directory(_) => (libc::S_IFDIR | 0o755, 2, 0),
            Entry::File(_) => (libc::S_IFREG | 0o444, 1, FILE_BYTES),
            Entry::Link(_) => (libc::S_IFLNK | 0o777, 1, 0),
        };
        Numbers {
            inode: inode(path),
            mode,
            links,
            size,
        }
    }
}

/// Writes struct stat to `to`.
///
/// # Errors
/// EFAULT.
pub fn stat(rank: &Rank, to: u64, path: &str, entry: &Entry) -> Result<i64, Errno> {
    let mut words = [0u64; STAT_WORDS];
    like(libc::SYS_newfstatat, &[words.as_mut_ptr() as u64, 0])?;
    let numbers = Numbers::of(path, entry);
    words[1] = numbers.inode;
    words[2] = numbers.links.into();
    words[3] = u64::from(numbers.mode) | words[3] >> 32 << 32; // st_uid follows st_mode
    words[6] = numbers.size;
    words[8] = 0; // st_blocks
    rank.write(to, words.as_bytes())?;
    Ok(0)
}

/// Writes struct statx to `to`.
///
/// # Errors
/// EFAULT, EINVAL.
pub fn statx(
    rank: &Rank,
    flags: u64,
    mask: u64,
    to: u64,
    path: &str,
    entry: &Entry,
) -> Result<i64, Errno> {
    let mut words = [0u64; STATX_WORDS];
    let flags = flags & !(libc::AT_EMPTY_PATH as u64);
    like(libc::SYS_statx, &[flags, mask, words.as_mut_ptr() as u64])?;
    let numbers = Numbers::of(path, entry);
    words[2] = u64::from(numbers.links) | words[2] >> 32 << 32; // stx_uid follows stx_nlink
    words[3] = words[3] & 0xffff_ffff | u64::from(numbers.mode) << 32; // stx_gid, stx_mode
    words[4] = numbers.inode;
    words[5] = numbers.size;
    words[6] = 0; // stx_blocks
    rank.write(to, words.as_bytes())?;
    Ok(0)
}

/// Makes a call about [`LIKE`] with these arguments behind the path.
fn like(nr: i64, more: &[u64]) -> Result<(), Errno> {
    let mut args = [0; 6];
    args[..2].copy_from_slice(&[libc::AT_FDCWD as u64, LIKE.as_ptr() as u64]);
    args[2..2 + more.len()].copy_from_slice(more);
    // SAFETY: 1. newfstatat and statx write a structure of their own size, which the caller's buffer has.
    let ret = unsafe { stub::syscall(nr as u64, &args) };
    Errno::check(ret).map(drop)
}
