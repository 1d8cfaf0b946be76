//! Where PCI's configuration space and the HPET are.
//!
//! BOUND: at boot only, no more than the tables have bytes.

use super::tables::{HEADER_BYTES, Table};
use super::{ECAM_BUS_BYTES, HPET_BYTES, Memory};
use crate::addr::Phys;

/// PCI Express memory-mapped configuration (PCI Firmware Specification 3.0 §4.1.2): the entry of segment 0 that has bus 0.
pub(super) fn ecam<M: Memory>(table: &Table<'_, M>, reach: Phys) -> Option<(Phys, u16)> {
    const ENTRY_BYTES: u64 = 16;
    let mut offset = HEADER_BYTES + 8;
    while let Some(base) = table.number::<8>(offset) {
        let segment = table.number::<2>(offset + 8)?;
        let (first, last) = (
            table.number::<1>(offset + 10)?,
            table.number::<1>(offset + 11)?,
        );
        if segment == 0 && first == 0 {
            return placed(base, ECAM_BUS_BYTES, reach).map(|base| (base, last as u16 + 1));
        }
        offset += ENTRY_BYTES;
    }
    None
}

/// The HPET description table (IA-PC HPET specification 1.0a §3.2.4): the address of the registers, in memory.
pub(super) fn hpet<M: Memory>(table: &Table<'_, M>, reach: Phys) -> Option<Phys> {
    const SPACE: u64 = 40;
    const ADDRESS: u64 = 44;
    const SYSTEM_MEMORY: u64 = 0;
    let base = table.number::<8>(ADDRESS)?;
    (table.number::<1>(SPACE) == Some(SYSTEM_MEMORY))
        .then(|| placed(base, HPET_BYTES, reach))
        .flatten()
}

/// `base`, when it is a multiple of its size and where the kernel can reach it.
fn placed(base: u64, len_bytes: u64, reach: Phys) -> Option<Phys> {
    let fits = base != 0
        && base.is_multiple_of(len_bytes)
        && base
            .checked_add(len_bytes)
            .is_some_and(|end| end <= reach.0);
    fits.then_some(Phys(base))
}
