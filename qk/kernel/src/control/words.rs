//! Records that the PCT gets.

use abi::Errno;

use crate::user::user;

/// Writes a record, for which the PCT has `len_bytes`.
///
/// # Errors
/// EINVAL when that is another length; EFAULT.
pub fn put_words<const N: usize>(to: u64, len_bytes: u64, words: &[u64; N]) -> Result<u64, Errno> {
    if len_bytes != N as u64 * 8 {
        return Err(Errno::EINVAL);
    }
    // BOUND: the words of a record.
    for (i, word) in words.iter().enumerate() {
        let at = user(to.wrapping_add(i as u64 * 8), 8)?;
        hal::user::write_u64(at, *word).map_err(|_| Errno::EFAULT)?;
    }
    Ok(0)
}
