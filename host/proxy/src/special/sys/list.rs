//! Listings of a tree's directories. The place in a listing is the offset of the descriptor, so that copies of a descriptor
//! share it, and rewinddir works.

use std::os::fd::BorrowedFd;

use abi::Errno;
use rustix::fs::{SeekFrom, seek};

use super::node::facts;
use super::stat::inode;
use super::tree::{Dir, Entry};
use crate::errno::linux;
use crate::memory::RankMemory;
use crate::rank::Rank;

/// Most bytes given at once.
const MOST_BYTES: u64 = 32 * 1024;

/// Carries out getdents64(2), or getdents(2) if `old`.
///
/// # Errors
/// EINVAL when the first entry does not fit, EFAULT; EBADF for a descriptor of O_PATH.
pub fn list(
    rank: &Rank,
    fd: u64,
    to: u64,
    len_bytes: u64,
    dir: Dir,
    old: bool,
) -> Result<i64, Errno> {
    // SAFETY: 1. The number is one of the rank's and only used for this call.
    let fd = unsafe { BorrowedFd::borrow_raw(fd as i32) };
    let first = seek(fd, SeekFrom::Current(0)).map_err(linux)?;
    let room = u64::from(len_bytes as u32).min(MOST_BYTES) as usize;
    let entries = entries(rank, dir);
    let mut bytes = Vec::new();
    let mut next = first;
    for (name, inode, kind) in entries
        .iter()
        .skip(usize::try_from(first).unwrap_or(usize::MAX))
    {
        let entry = encode(name, *inode, *kind, next + 1, old);
        if bytes.len() + entry.len() > room {
            if bytes.is_empty() {
                return Err(Errno::EINVAL);
            }
            break;
        }
        bytes.extend(entry);
        next += 1;
    }
    rank.write(to, &bytes)?;
    seek(fd, SeekFrom::Start(next)).map_err(linux)?;
    Ok(bytes.len() as i64)
}

/// Names, inodes and types (DT_*), the directory itself and its parent first.
fn entries(rank: &Rank, dir: Dir) -> Vec<(String, u64, u8)> {
    let path = dir.path();
    let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
    let mut entries = vec![
        (".".to_owned(), inode(&path), libc::DT_DIR),
        ("..".to_owned(), inode(parent), libc::DT_DIR),
    ];
    let node = facts(rank);
    entries.extend(node.names(dir).into_iter().map(|name| {
        let kind = match node.child(dir, &name) {
            Some(Entry::Directory(_)) => libc::DT_DIR,
            Some(Entry::Link(_)) => libc::DT_LNK,
            _ => libc::DT_REG,
        };
        let inode = inode(&format!("{path}/{name}"));
        (name, inode, kind)
    }));
    entries
}

/// struct linux_dirent64: inode, offset of the next, length, type, name; the old one (getdents(2)) has the type last.
fn encode(name: &str, inode: u64, kind: u8, next: u64, old: bool) -> Vec<u8> {
    let name_at = if old { 18 } else { 19 };
    let len = (name_at + name.len() + 1 + usize::from(old)).next_multiple_of(8);
    let mut entry = vec![0; len];
    entry[..8].copy_from_slice(&inode.to_ne_bytes());
    entry[8..16].copy_from_slice(&next.to_ne_bytes());
    entry[16..18].copy_from_slice(&(len as u16).to_ne_bytes());
    entry[name_at..name_at + name.len()].copy_from_slice(name.as_bytes());
    entry[if old { len - 1 } else { 18 }] = kind;
    entry
}
