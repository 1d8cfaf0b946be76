//! How a node ends by itself: the last line of the console, and the status.

use core::fmt::Arguments;

/// Ends the node with `status`, and `why` on the last line.
pub fn end(status: u8, why: Arguments<'_>) -> ! {
    hal::serial::last_line(format_args!("margay: {why}"));
    hal::cpu::exit_node(status)
}
