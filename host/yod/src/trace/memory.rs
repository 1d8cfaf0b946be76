//! Copies of a program's memory that came with a record, read by address.

use std::fmt::Write;

use abi::syscall::operand::Reader;
use wire::trace::Pieces;

/// Bytes of a buffer that are shown, as strace does by default (`-s 32`). Paths are shown as far as they are given.
pub const SHOWN_BYTES: usize = 32;

/// What was copied when a call began, or when it returned.
#[derive(Clone, Copy)]
pub struct Memory<'a>(&'a Pieces);

impl<'a> Memory<'a> {
    pub fn new(pieces: &'a Pieces) -> Memory<'a> {
        Memory(pieces)
    }

    /// What there is from an address on, up to the end of the piece that holds it.
    pub fn from(&self, addr: u64) -> Option<&'a [u8]> {
        self.0.iter().find_map(|(start, bytes)| {
            let offset = usize::try_from(addr.checked_sub(start)?).ok()?;
            (offset < bytes.len() || addr == start).then(|| &bytes[offset..])
        })
    }
}

impl Reader for Memory<'_> {
    fn words<const N: usize>(&self, at: u64) -> Option<[u64; N]> {
        let bytes = self.from(at)?.get(..8 * N)?;
        Some(std::array::from_fn(|i| word(bytes, 8 * i)))
    }

    fn int(&self, at: u64) -> Option<u32> {
        self.from(at)?
            .first_chunk()
            .copied()
            .map(u32::from_le_bytes)
    }
}

/// The 64-bit word at an offset; what lies outside counts as zeros.
pub fn word(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    for (to, from) in word.iter_mut().zip(bytes.get(at..).unwrap_or_default()) {
        *to = *from;
    }
    u64::from_le_bytes(word)
}

/// The 32-bit word at an offset.
pub fn half(bytes: &[u8], at: usize) -> u32 {
    word(bytes, at) as u32
}

/// A string that was copied with its NUL; without one it is longer.
pub fn path(bytes: &[u8]) -> String {
    match bytes.iter().position(|&byte| byte == 0) {
        Some(end) => quoted(&bytes[..end], true),
        None => quoted(bytes, false),
    }
}

/// The beginning of a buffer that holds `valid` bytes.
pub fn buffer(bytes: &[u8], valid: u64) -> String {
    let valid = usize::try_from(valid).unwrap_or(usize::MAX);
    let shown = valid.min(bytes.len()).min(SHOWN_BYTES);
    quoted(&bytes[..shown], shown == valid)
}

/// In quotes, with everything escaped that a terminal could act on.
fn quoted(bytes: &[u8], whole: bool) -> String {
    let mut text = String::from("\"");
    for (i, &byte) in bytes.iter().enumerate() {
        match byte {
            b'\n' => text += "\\n",
            b'\r' => text += "\\r",
            b'\t' => text += "\\t",
            b'"' => text += "\\\"",
            b'\\' => text += "\\\\",
            b' '..=b'~' => text.push(char::from(byte)),
            // Three digits when a digit follows, so that it is not taken for a part of the number.
            _ => {
                let digit_follows = bytes.get(i + 1).is_some_and(u8::is_ascii_digit);
                // Writing to a String cannot fail.
                let _ = match digit_follows {
                    true => write!(text, "\\{byte:03o}"),
                    false => write!(text, "\\{byte:o}"),
                };
            }
        }
    }
    text + if whole { "\"" } else { "\"..." }
}
