//! What the proxy's log says of mapped memory.

use super::machine::Machine;
use crate::paging::Extent;
use wire::region_log::Change;

/// Work of a record in the region log, in instructions.
const LOG_WORK: u32 = 100;

/// Logs a change for the proxy.
pub(super) fn record<M: Machine>(machine: M, change: &Change) {
    M::point(LOG_WORK);
    // BOUND: `sync` waits until there is room.
    while !machine.log(change) {
        machine.sync();
    }
}

/// The log's record of frames that are mapped.
#[inline(always)] // On the way of each change, as the next.
pub(super) fn shown(extent: &Extent) -> Change {
    shown_as(extent, 0)
}

/// The same of frames of this kind: 0, or the bit of [`wire::region_log::prot`] that is no access.
#[inline(always)]
pub(super) fn shown_as(extent: &Extent, kind: u8) -> Change {
    match extent.prot.is_empty() {
        true => Change::Unmap {
            addr: extent.va.0,
            len_bytes: extent.len_bytes,
        },
        false => Change::Map {
            addr: extent.va.0,
            len_bytes: extent.len_bytes,
            gpa: extent.pa.0,
            prot: extent.prot.bits() | kind,
        },
    }
}
