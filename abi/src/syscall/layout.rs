//! Structures of pointers that calls take, and how much of them Linux looks at.

/// Longest string with its NUL (PATH_MAX, include/uapi/linux/limits.h).
pub const STRING_BYTES: u64 = 4096;
/// Most vectors, or messages, of a call (UIO_MAXIOV, include/uapi/linux/uio.h).
pub const MAX_VECTORS: u64 = 1024;
/// What Linux reads or writes at most in one call, whatever a program requests (MAX_RW_COUNT, include/linux/fs.h).
pub const MAX_RW_BYTES: u64 = 0x7fff_f000;

/// sizeof(struct iovec): base, length.
pub const VECTOR_BYTES: u64 = 16;
/// sizeof(struct mmsghdr): a header, then msg_len (unsigned int).
pub const MESSAGE_BYTES: u64 = 64;

/// struct user_msghdr in words (include/linux/socket.h): name, namelen (int), iov, iovlen, control, controllen, flags (int).
pub type Header = [u64; 7];
/// sizeof(struct user_msghdr).
pub const HEADER_BYTES: u64 = 56;

/// Indices of a [`Header`]'s words.
pub const NAME: usize = 0;
/// See [`NAME`].
pub const NAME_LEN: usize = 1;
/// See [`NAME`].
pub const VECTORS: usize = 2;
/// See [`NAME`].
pub const COUNT: usize = 3;
/// See [`NAME`].
pub const CONTROL: usize = 4;
/// See [`NAME`].
pub const CONTROL_LEN: usize = 5;
/// See [`NAME`].
pub const FLAGS: usize = 6;
/// Index of the word behind the header in a struct mmsghdr.
pub const MESSAGE_LEN: usize = 7;

/// struct procmap_query in words (uapi/linux/fs.h): size; query_flags, query_addr; vma_start, vma_end, vma_flags, vma_page_size,
/// vma_offset, inode, dev_major and dev_minor (unsigned ints), vma_name_size and build_id_size (the same); vma_name_addr, build_id_addr.
pub type MapQuery = [u64; 13];
/// Most bytes of one that a later Linux knows (fs/proc/task_mmu.c: a page), and those up to query_addr, which there must be.
pub const MAP_QUERY_BYTES: core::ops::RangeInclusive<u64> = 24..=4096;
/// Indices of a [`MapQuery`]'s words: vma_name_size in the lower half.
pub const MAP_NAME_LEN: usize = 10;
/// See [`MAP_NAME_LEN`].
pub const MAP_NAME: usize = 11;

/// Bytes of a list of interfaces, of a struct ifconf's first word: an int, and no list when negative (uapi/linux/if.h).
#[must_use]
pub const fn interfaces_bytes(word: u64) -> u64 {
    let len = word as i32;
    if len < 0 { 0 } else { len as u64 }
}
