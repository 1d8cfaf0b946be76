//! The numbered stream: what programs get on stdin and can verify word by word (programs/common/check.h has the other
//! side).

use std::io::{self, Write};

/// Bytes written at once.
const BLOCK_BYTES: usize = 1 << 20;

/// Word k of the stream, little-endian.
const fn word(k: u64) -> u64 {
    k.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Writes the first `len_bytes` bytes of the stream.
///
/// # Errors
/// When the other side closes early.
pub fn write(to: &mut impl Write, len_bytes: u64) -> io::Result<()> {
    let mut block = Vec::with_capacity(BLOCK_BYTES);
    let mut at = 0;
    while at < len_bytes {
        block.clear();
        let first = at / 8;
        for k in first..first + (BLOCK_BYTES / 8) as u64 {
            block.extend_from_slice(&word(k).to_le_bytes());
        }
        let now = BLOCK_BYTES.min((len_bytes - at) as usize);
        to.write_all(&block[..now])?;
        at += now as u64;
    }
    to.flush()
}

/// "4096", "64K", "4M" or "1G" in bytes.
#[must_use]
pub fn size(text: &str) -> Option<u64> {
    let number = text.trim_end_matches(['K', 'M', 'G']);
    let shift = match &text[number.len()..] {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return None,
    };
    Some(number.parse::<u64>().ok()? << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_suffixes() {
        assert_eq!(size("17"), Some(17));
        assert_eq!(size("64K"), Some(65536));
        assert_eq!(size("1G"), Some(1 << 30));
        assert_eq!(size("K"), None);
        assert_eq!(size("1GG"), None);
    }

    #[test]
    fn the_stream_goes_on_from_block_to_block() {
        let mut bytes = Vec::new();
        write(&mut bytes, (BLOCK_BYTES + 13) as u64).expect("memory");
        assert_eq!(bytes.len(), BLOCK_BYTES + 13);
        assert_eq!(bytes[..8], word(0).to_le_bytes());
        let last = &bytes[BLOCK_BYTES..BLOCK_BYTES + 8];
        assert_eq!(last, word(BLOCK_BYTES as u64 / 8).to_le_bytes());
    }
}
