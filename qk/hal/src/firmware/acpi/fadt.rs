//! The fixed ACPI description table (§5.2.9): is this a PC, and where is its timer?

use super::Memory;
use super::tables::Table;

/// What it says.
pub(super) struct Facts {
    pub pc: bool,
    pub pm_timer_port: Option<u16>,
}

impl Facts {
    /// A machine without the table.
    pub(super) const PC: Self = Self {
        pc: true,
        pm_timer_port: None,
    };
}

/// Reads `table`. With hardware-reduced ACPI its timer is not there, whatever the fields say.
pub(super) fn read<M: Memory>(table: &Table<'_, M>) -> Facts {
    const FLAGS: u64 = 112;
    const HW_REDUCED_ACPI: u64 = 1 << 20;
    let pc = table.number::<4>(FLAGS).unwrap_or(0) & HW_REDUCED_ACPI == 0;
    Facts {
        pc,
        pm_timer_port: if pc { pm_timer(table) } else { None },
    }
}

/// `X_PM_TMR_BLK` when it names I/O space, else `PM_TMR_BLK`. A timer has `PM_TMR_LEN` 4, none 0.
fn pm_timer<M: Memory>(table: &Table<'_, M>) -> Option<u16> {
    const PM_TMR_BLK: u64 = 76;
    const PM_TMR_LEN: u64 = 91;
    const X_PM_TMR_BLK: u64 = 208;
    const SYSTEM_IO: u64 = 1;
    if table.number::<1>(PM_TMR_LEN) != Some(4) {
        return None;
    }
    let extended = table
        .number::<8>(X_PM_TMR_BLK + 4)
        .filter(|_| table.number::<1>(X_PM_TMR_BLK) == Some(SYSTEM_IO));
    let port = extended
        .filter(|&port| port != 0)
        .or_else(|| table.number::<4>(PM_TMR_BLK))?;
    u16::try_from(port).ok().filter(|&port| port != 0)
}
