//! Bells: who serves is notified that there is something to do.

use super::{area, resident};

/// Rings who serves the node as a whole.
pub(super) fn node() {
    rank(area::config().ranks);
}

/// Rings who serves rank `number`; the node as a whole if there is no such rank.
pub(super) fn rank(number: usize) {
    if !hal::doorbell::ring(number as u16) {
        resident::rung(number);
    }
}
