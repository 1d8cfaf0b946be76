//! The four facts the kernel needs from ACPI's static tables (ACPI 6.4 §5.2): CPUs, the PM timer, the PCI configuration window.
//!
//! Read once during boot, because some firmware keeps the tables in memory it reports as free. Everything is optional: a table that is
//! missing or garbled means one CPU, no PM timer, port-based PCI access. Pure code over [`Memory`], so the host tests it.
//!
//! BOUND: at boot only, and no more than the tables have bytes.

use crate::addr::Phys;
use arrayvec::ArrayVec;

/// CPUs kept: 8-bit APIC ids without the broadcast id.
pub const MAX_CPUS: usize = 255;

/// Bytes of a description header; a table's own fields follow.
const HEADER_BYTES: u64 = 36;
/// No sane table is larger.
const MAX_TABLE_BYTES: u64 = 1 << 20;

/// Physical memory as tables are read from it.
pub trait Memory {
    /// Fills `to` from `at`; false when that is not possible.
    fn read(&self, at: Phys, to: &mut [u8]) -> bool;
}

/// What the tables say.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Facts {
    /// APIC ids of the usable CPUs, in the firmware's order.
    pub apic_ids: ArrayVec<u8, MAX_CPUS>,
    /// I/O port of the ACPI power management timer (3.579545 MHz, at least 24 bits).
    pub pm_timer_port: Option<u16>,
    /// PCI configuration space of segment 0: base for bus 0, number of buses.
    pub ecam: Option<(Phys, u16)>,
}

/// Reads what can be read from the root pointer at `rsdp` (0: there is none).
pub fn read(memory: &impl Memory, rsdp: Phys) -> Facts {
    let mut facts = Facts::default();
    let Some(root) = root_table(memory, rsdp) else {
        return facts;
    };
    for index in 0..root.entries() {
        let Some(table) = root.entry(index).and_then(|at| Table::open(memory, at)) else {
            continue;
        };
        match &table.signature {
            b"APIC" => madt(&table, &mut facts),
            b"FACP" => facts.pm_timer_port = pm_timer(&table),
            b"MCFG" => facts.ecam = ecam(&table),
            _ => {}
        }
    }
    facts
}

/// RSDT (32-bit entries) or XSDT (64-bit).
struct Root<'a, M> {
    table: Table<'a, M>,
    wide: bool,
}

fn root_table<M: Memory>(memory: &M, rsdp: Phys) -> Option<Root<'_, M>> {
    let mut pointer = [0u8; 36];
    if rsdp.0 == 0 || !memory.read(rsdp, &mut pointer) || &pointer[..8] != b"RSD PTR " {
        return None;
    }
    let (revision, rsdt, xsdt) = (pointer[15], le(&pointer[16..20]), le(&pointer[24..32]));
    let wide = revision >= 2 && xsdt != 0;
    let table = Table::open(memory, Phys(if wide { xsdt } else { rsdt }))?;
    Some(Root { table, wide })
}

impl<M: Memory> Root<'_, M> {
    const fn entry_bytes(&self) -> u64 {
        if self.wide { 8 } else { 4 }
    }

    fn entries(&self) -> u64 {
        (self.table.len_bytes - HEADER_BYTES) / self.entry_bytes()
    }

    fn entry(&self, index: u64) -> Option<Phys> {
        let offset = HEADER_BYTES + index * self.entry_bytes();
        if self.wide {
            self.table.number::<8>(offset)
        } else {
            self.table.number::<4>(offset)
        }
        .map(Phys)
    }
}

/// One table with a plausible header.
struct Table<'a, M> {
    memory: &'a M,
    at: Phys,
    len_bytes: u64,
    signature: [u8; 4],
}

impl<'a, M: Memory> Table<'a, M> {
    fn open(memory: &'a M, at: Phys) -> Option<Self> {
        let mut header = [0u8; 8];
        if !memory.read(at, &mut header) {
            return None;
        }
        let len_bytes = le(&header[4..]);
        let signature = [header[0], header[1], header[2], header[3]];
        (HEADER_BYTES..=MAX_TABLE_BYTES)
            .contains(&len_bytes)
            .then_some(Self {
                memory,
                at,
                len_bytes,
                signature,
            })
    }

    /// The little-endian number of `N` bytes at `offset`.
    fn number<const N: usize>(&self, offset: u64) -> Option<u64> {
        let mut bytes = [0u8; N];
        let inside = offset + N as u64 <= self.len_bytes;
        (inside && self.memory.read(self.at + offset, &mut bytes)).then(|| le(&bytes))
    }
}

fn le(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// Multiple APIC description table (§5.2.12): processor local APICs (type 0) and x2APICs (type 9).
fn madt<M: Memory>(table: &Table<'_, M>, facts: &mut Facts) {
    const ENABLED: u64 = 1;
    let mut offset = HEADER_BYTES + 8;
    while let (Some(kind), Some(len)) = (table.number::<1>(offset), table.number::<1>(offset + 1)) {
        if len < 2 {
            return;
        }
        let cpu = match kind {
            0 => table
                .number::<1>(offset + 3)
                .zip(table.number::<4>(offset + 4)),
            9 => table
                .number::<4>(offset + 4)
                .zip(table.number::<4>(offset + 8)),
            _ => None,
        };
        if let Some((id, flags)) = cpu
            && flags & ENABLED != 0
            && id < MAX_CPUS as u64
            && !facts.apic_ids.contains(&(id as u8))
        {
            let _ = facts.apic_ids.try_push(id as u8);
        }
        offset += len;
    }
}

/// Fixed ACPI description table (§5.2.9): `X_PM_TMR_BLK` when it names I/O space, else `PM_TMR_BLK`.
fn pm_timer<M: Memory>(table: &Table<'_, M>) -> Option<u16> {
    const SYSTEM_IO: u64 = 1;
    let extended = table
        .number::<8>(212)
        .filter(|_| table.number::<1>(208) == Some(SYSTEM_IO));
    let port = extended
        .filter(|&port| port != 0)
        .or_else(|| table.number::<4>(76))?;
    u16::try_from(port).ok().filter(|&port| port != 0)
}

/// PCI Express memory-mapped configuration (PCI Firmware Specification 3.0 §4.1.2): the entry of segment 0.
fn ecam<M: Memory>(table: &Table<'_, M>) -> Option<(Phys, u16)> {
    let mut offset = HEADER_BYTES + 8;
    while let (Some(base), Some(segment)) =
        (table.number::<8>(offset), table.number::<2>(offset + 8))
    {
        let (first, last) = (
            table.number::<1>(offset + 10)?,
            table.number::<1>(offset + 11)?,
        );
        if segment == 0 && first == 0 {
            return Some((Phys(base), last as u16 + 1));
        }
        offset += 16;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory that starts at address 0x1000.
    struct Fake(Vec<u8>);

    impl Memory for Fake {
        fn read(&self, at: Phys, to: &mut [u8]) -> bool {
            let Some(from) =
                at.0.checked_sub(0x1000)
                    .and_then(|start| self.0.get(start as usize..))
            else {
                return false;
            };
            let fits = from.len() >= to.len();
            if fits {
                to.copy_from_slice(&from[..to.len()]);
            }
            fits
        }
    }

    impl Fake {
        fn here(&self) -> u32 {
            0x1000 + self.0.len() as u32
        }

        fn table(&mut self, signature: &[u8; 4], body: &[u8]) -> u32 {
            let at = self.here();
            self.0.extend(signature);
            self.0
                .extend((HEADER_BYTES as u32 + body.len() as u32).to_le_bytes());
            self.0.extend([0; 28]);
            self.0.extend(body);
            at
        }
    }

    fn machine(madt: &[u8]) -> (Fake, Phys) {
        let mut fake = Fake(Vec::new());
        let mut fadt = vec![0u8; 80];
        fadt[76 - 36..80 - 36].copy_from_slice(&0x608u32.to_le_bytes());
        let mut mcfg = vec![0u8; 8];
        mcfg.extend(0xb000_0000u64.to_le_bytes());
        mcfg.extend([0, 0, 0, 255, 0, 0, 0, 0]);
        let tables = [
            fake.table(b"APIC", madt),
            fake.table(b"FACP", &fadt),
            fake.table(b"MCFG", &mcfg),
            0xffff_0000,
        ];
        let body: Vec<u8> = tables.iter().flat_map(|at| at.to_le_bytes()).collect();
        let rsdt = fake.table(b"RSDT", &body);
        let rsdp = fake.here();
        fake.0.extend(b"RSD PTR ");
        fake.0.extend([0; 8]);
        fake.0.extend(rsdt.to_le_bytes());
        fake.0.extend([0; 16]);
        (fake, Phys(rsdp.into()))
    }

    #[test]
    fn finds_cpus_timer_and_configuration_window() {
        let mut madt = vec![0u8; 8];
        madt.extend([0, 8, 0, 0, 1, 0, 0, 0]);
        madt.extend([1, 12, 0, 0, 0, 0, 0xc0, 0xfe, 0, 0, 0, 0]);
        madt.extend([0, 8, 1, 1, 0, 0, 0, 0]);
        madt.extend([0, 8, 2, 4, 1, 0, 0, 0]);
        madt.extend([9, 16, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0]);
        let (fake, rsdp) = machine(&madt);
        let facts = read(&fake, rsdp);
        assert_eq!(facts.apic_ids.as_slice(), [0, 4, 7]);
        assert_eq!(facts.pm_timer_port, Some(0x608));
        assert_eq!(facts.ecam, Some((Phys(0xb000_0000), 256)));
    }

    #[test]
    fn garbage_ends_the_search() {
        let mut madt = vec![0u8; 8];
        madt.extend([0, 8, 0, 0, 1, 0, 0, 0]);
        madt.extend([0, 0, 0, 0]);
        let (fake, rsdp) = machine(&madt);
        assert_eq!(read(&fake, rsdp).apic_ids.as_slice(), [0]);
        assert_eq!(read(&fake, Phys(0)), Facts::default());
        assert_eq!(read(&fake, Phys(0x1000)), Facts::default());
        assert_eq!(read(&fake, Phys(u64::MAX - 10)), Facts::default());
    }
}
