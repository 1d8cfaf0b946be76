//! What the kernel needs of ACPI's static tables (ACPI 6.4 §5.2): CPUs and their nodes, timers, the PCI configuration window, and which
//! devices of the PC there are.
//!
//! Everything is optional: a table that is missing or garbled means one CPU, no timer, port-based PCI access. Without any table the machine
//! is taken for a PC, whose devices stand at fixed places; where there is a FADT it says whether it is one.
//!
//! BOUND: at boot only, and no more than the tables have bytes.

mod fadt;
mod madt;
mod places;
mod tables;

use super::remark::push;
use super::{Memory, Remark, Remarks, TableFault, ThisCpu};
use crate::addr::{Phys, PhysRange};
use crate::ranges::Ranges;
use arrayvec::ArrayVec;
use tables::Tables;
use wire::boot::MAX_CPUS;

/// A CPU of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// Its APIC id.
    pub apic_id: u32,
    /// Its proximity domain: CPUs with the same number share their nearest memory. 0 where SRAT does not name the CPU.
    pub node: u32,
}

/// Devices of the PC at fixed I/O ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Legacy {
    /// Two 8259s.
    pub pics: bool,
    /// An 8254, COM1 and PCI configuration by ports: not on machines with hardware-reduced ACPI.
    pub pc: bool,
}

/// What the tables say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The usable CPUs: the one that read first, then the others in the firmware's order.
    pub cpus: ArrayVec<Cpu, MAX_CPUS>,
    /// Which devices of the PC there are.
    pub legacy: Legacy,
    /// I/O port of the ACPI power management timer (3.579545 MHz, at least 24 bits).
    pub pm_timer_port: Option<u16>,
    /// The registers of the high precision event timer.
    pub hpet: Option<Phys>,
    /// PCI configuration space of segment 0: base for bus 0, number of buses.
    pub ecam: Option<(Phys, u16)>,
}

/// Bytes of one bus' configuration space.
pub const ECAM_BUS_BYTES: u64 = 1 << 20;
/// Bytes of the HPET's registers (IA-PC HPET specification 1.0a §2.3).
pub const HPET_BYTES: u64 = 1 << 10;

/// Reads what can be read from the root pointer at `rsdp` (0: there is none), for the CPU `this`, on a machine with `ram`.
pub(super) fn read(
    memory: &impl Memory,
    rsdp: Phys,
    this: ThisCpu,
    ram: &Ranges,
    remarks: &mut Remarks,
) -> Facts {
    let tables = Tables::find(memory, rsdp, remarks);
    let fadt = tables
        .fadt
        .map_or(fadt::Facts::PC, |table| fadt::read(&table));
    let mut in_ram = |at: Phys, len_bytes: u64, signature: [u8; 4]| {
        let end = Phys(at.0.saturating_add(len_bytes));
        let range = PhysRange { start: at, end };
        let is = ram.iter().any(|other| other.overlaps(range));
        if is {
            push(remarks, Remark::DeviceInRam(signature));
        }
        !is
    };
    let ecam = tables
        .mcfg
        .and_then(|table| places::ecam(&table, this.reach()));
    let ecam = ecam.filter(|&(base, _)| in_ram(base, ECAM_BUS_BYTES, *b"MCFG"));
    let hpet = tables
        .hpet
        .and_then(|table| places::hpet(&table, this.reach()));
    let hpet = hpet.filter(|&base| in_ram(base, HPET_BYTES, *b"HPET"));
    Facts {
        legacy: Legacy {
            pics: tables.madt.map_or(fadt.pc, |table| madt::has_pics(&table)),
            pc: fadt.pc,
        },
        pm_timer_port: fadt.pm_timer_port,
        hpet,
        ecam,
        cpus: madt::cpus(tables.madt, tables.srat, this, remarks),
    }
}
