//! Printing. Unlike with print! and eprint!, a reader that has gone away is no reason to die.

use std::fmt::Display;
use std::io::Write;

/// Text on stdout, as it is.
pub fn out(text: impl Display) {
    let _ = write!(std::io::stdout(), "{text}");
}

/// Text on stderr, as it is.
pub fn err(text: impl Display) {
    // One write, so that lines of several processes do not mix.
    let _ = std::io::stderr().write_all(text.to_string().as_bytes());
}

/// A line of yod's own on stderr.
pub fn say(line: impl Display) {
    err(format_args!("yod: {line}\n"));
}
