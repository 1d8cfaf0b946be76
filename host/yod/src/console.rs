//! Printing. Unlike with print! and eprint!, a reader that has gone away is no reason to die, and one that does not read is
//! none to hang.

use std::fmt::Display;
use std::io::Write;
use std::os::fd::AsFd;
use std::time::Duration;

use crate::sink::Sink;

/// A destination that takes nothing for so long is not read.
const UNREAD: Duration = Duration::from_secs(1);

/// Text on stdout, as it is.
pub fn out(text: impl Display) {
    let _ = write!(std::io::stdout(), "{text}");
}

/// Text on stderr, as it is.
pub fn err(text: impl Display) {
    if let Ok(mut sink) = Sink::new("stderr", std::io::stderr().as_fd()) {
        // As one piece, so that lines of several processes do not mix.
        sink.pending().extend(text.to_string().into_bytes());
        sink.write_all(UNREAD);
    }
}

/// A line of yod's own on stderr.
pub fn say(line: impl Display) {
    err(format_args!("yod: {line}\n"));
}
