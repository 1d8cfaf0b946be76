//! One line of text in a fixed place, for messages of a program without a heap.

use core::fmt;

/// Bytes of the longest line; what does not fit is cut.
const CAPACITY_BYTES: usize = 240;

/// A line of text without its end.
#[derive(Clone, PartialEq, Eq)]
pub struct Line {
    bytes: [u8; CAPACITY_BYTES],
    len: usize,
}

impl Line {
    /// The formatted text, up to the first character that does not fit.
    #[must_use]
    pub fn new(text: fmt::Arguments<'_>) -> Line {
        let mut line = Line {
            bytes: [0; CAPACITY_BYTES],
            len: 0,
        };
        // It fails only when it is full, and then has what fits.
        let _ = fmt::write(&mut line, text);
        line
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        str::from_utf8(&self.bytes[..self.len]).unwrap_or_default()
    }
}

impl fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = CAPACITY_BYTES - self.len;
        let fits = &text[..text.floor_char_boundary(room)];
        self.bytes[self.len..self.len + fits.len()].copy_from_slice(fits.as_bytes());
        self.len += fits.len();
        if fits.len() == text.len() {
            Ok(())
        } else {
            Err(fmt::Error)
        }
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// A [`Line`] from a format string.
#[macro_export]
macro_rules! line {
    ($($arg:tt)*) => { $crate::line::Line::new(format_args!($($arg)*)) };
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::string::String;

    #[test]
    fn long_lines_are_cut_between_characters() {
        let long: String = "é".repeat(500);
        assert_eq!(
            line!("x{long}").as_str(),
            std::format!("x{}", "é".repeat(119))
        );
        assert_eq!(line!("{} of {}", 1, 2).as_str(), "1 of 2");
    }
}
