//! Physical memory with what loader and firmware put there: start information, memory map, tables.

use qk_hal::addr::Phys;
use qk_hal::firmware::{self, Machine, Memory, ThisCpu};
use std::collections::BTreeMap;

/// Where the start information lies, and the map after it.
pub const INFO: u64 = 0x6000;
const MAP: u64 = 0x0010_0000_0000;

/// Pieces of memory by address; what lies between them cannot be read.
#[derive(Clone, Default)]
pub struct Fake(pub BTreeMap<u64, Vec<u8>>);

impl Memory for Fake {
    fn read(&self, at: Phys, to: &mut [u8]) -> bool {
        let found = self
            .0
            .range(..=at.0)
            .next_back()
            .and_then(|(start, bytes)| {
                let from = usize::try_from(at.0 - start).ok()?;
                bytes.get(from..from.checked_add(to.len())?)
            });
        if let Some(bytes) = found {
            to.copy_from_slice(bytes);
        }
        found.is_some()
    }
}

impl Fake {
    /// Start information with a command line, a map of (start, length, is RAM) and a root pointer.
    pub fn new(cmdline: &str, map: &[(u64, u64, bool)], rsdp: u64) -> Self {
        Self::at(INFO, MAP, cmdline, map, rsdp)
    }

    /// The same, with places for start information and map.
    pub fn at(
        info_at: u64,
        map_at: u64,
        cmdline: &str,
        map: &[(u64, u64, bool)],
        rsdp: u64,
    ) -> Self {
        let mut fake = Self::default();
        let mut info = Vec::new();
        for half in [0x336e_c578u32, 1, 0, 0] {
            info.extend(half.to_le_bytes());
        }
        for word in [0, info_at + 0x100, rsdp, map_at] {
            info.extend(word.to_le_bytes());
        }
        info.extend((map.len() as u64).to_le_bytes());
        fake.0.insert(info_at, info);
        fake.0
            .insert(info_at + 0x100, [cmdline.as_bytes(), &[0]].concat());
        let entries = map.iter().flat_map(|&(start, len_bytes, is_ram)| {
            let kind = if is_ram { 1 } else { 2u64 };
            [start, len_bytes, kind]
                .into_iter()
                .flat_map(u64::to_le_bytes)
        });
        fake.0.insert(map_at, entries.collect());
        fake
    }

    /// Puts tables and the way to them: `rsdp` is where the root pointer goes; the tables follow, but for those with an address of their own.
    pub fn tables(&mut self, rsdp: u64, tables: &[(Option<u64>, Vec<u8>)], xsdt: bool) {
        let mut next = rsdp + 0x100;
        let mut entries = Vec::new();
        for (at, bytes) in tables {
            let at = at.unwrap_or(next);
            if at == next {
                next += (bytes.len() as u64).next_multiple_of(64);
            }
            entries.push(at);
            self.0.insert(at, bytes.clone());
        }
        let body: Vec<u8> = if xsdt {
            entries.iter().flat_map(|at| at.to_le_bytes()).collect()
        } else {
            entries
                .iter()
                .flat_map(|&at| (at as u32).to_le_bytes())
                .collect()
        };
        let root = table(if xsdt { b"XSDT" } else { b"RSDT" }, &body);
        self.0.insert(next, root);
        let mut pointer = b"RSD PTR \0MARGAY".to_vec();
        pointer.push(if xsdt { 2 } else { 0 });
        pointer.extend((if xsdt { 0 } else { next as u32 }).to_le_bytes());
        set_sum(&mut pointer, 8);
        if xsdt {
            pointer.extend(36u32.to_le_bytes());
            pointer.extend(next.to_le_bytes());
            pointer.extend([0; 4]);
            set_sum(&mut pointer, 32);
        }
        self.0.insert(rsdp, pointer);
    }

    /// What the boot code makes of it.
    pub fn boot(&self, this: ThisCpu) -> Machine {
        firmware::read(self, Phys(INFO), this).expect("start information")
    }
}

/// The boot CPU of most tests.
pub const X2APIC: ThisCpu = ThisCpu {
    apic_id: 0,
    x2apic: true,
    address_bits: 52,
};

/// A table with a right checksum.
pub fn table(signature: &[u8; 4], body: &[u8]) -> Vec<u8> {
    let mut table = signature.to_vec();
    table.extend((36 + body.len() as u32).to_le_bytes());
    table.extend([1, 0]);
    table.extend(b"MARGAYTESTHOST\x01\0\0\0TEST\x01\0\0\0");
    table.extend(body);
    assert_eq!(table.len(), 36 + body.len());
    set_sum(&mut table, 9);
    table
}

/// Makes all bytes add up to 0 by the one at `at`.
pub fn set_sum(bytes: &mut [u8], at: usize) {
    bytes[at] = 0;
    let sum = bytes.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
    bytes[at] = sum.wrapping_neg();
}

/// A MADT's flags, then entries of the kind that the id needs; `true`: enabled.
pub fn madt(pics: bool, cpus: &[(u32, bool)]) -> Vec<u8> {
    let mut body = 0xfee0_0000u32.to_le_bytes().to_vec();
    body.extend(u32::from(pics).to_le_bytes());
    // An I/O APIC: an entry of another kind.
    body.extend([1, 12, 0, 0, 0, 0, 0xc0, 0xfe, 0, 0, 0, 0]);
    for &(id, enabled) in cpus {
        match u8::try_from(id) {
            Ok(small) if small != 255 => body.extend([0, 8, small, small, enabled.into(), 0, 0, 0]),
            _ => {
                body.extend([9, 16, 0, 0]);
                for half in [id, enabled.into(), id] {
                    body.extend(half.to_le_bytes());
                }
            }
        }
    }
    table(b"APIC", &body)
}

/// An SRAT with the nodes of CPUs.
pub fn srat(cpus: &[(u32, u32)]) -> Vec<u8> {
    let mut body = vec![0; 12];
    for &(id, node) in cpus {
        let [low, high @ ..] = node.to_le_bytes();
        if id < 255 {
            body.extend([0, 16, low, id as u8, 1, 0, 0, 0, 0]);
            body.extend(high);
            body.extend([0; 4]);
        } else {
            body.extend([2, 24, 0, 0]);
            for half in [node, id, 1, 0, 0] {
                body.extend(half.to_le_bytes());
            }
        }
    }
    // Memory: an entry of another kind.
    body.extend([1, 40]);
    body.extend([0; 38]);
    table(b"SRAT", &body)
}

/// A FADT of ACPI 2 and later with flags, and the ports of its timer: the old field, and the extended one.
pub fn fadt(flags: u32, pm_timer: u32, extended: u64) -> Vec<u8> {
    fadt_of(244, flags, pm_timer, extended)
}

/// The same of another length; 116 is that of ACPI 1, without the extended field.
pub fn fadt_of(len_bytes: usize, flags: u32, pm_timer: u32, extended: u64) -> Vec<u8> {
    let mut body = vec![0; len_bytes - 36];
    let mut put =
        |at: usize, bytes: &[u8]| body[at - 36..at - 36 + bytes.len()].copy_from_slice(bytes);
    put(76, &pm_timer.to_le_bytes());
    put(91, &[4]);
    put(112, &flags.to_le_bytes());
    if extended != 0 {
        put(208, &[1, 32, 0, 3]);
        put(212, &extended.to_le_bytes());
    }
    table(b"FACP", &body)
}

/// An MCFG with one segment.
pub fn mcfg(base: u64, last_bus: u8) -> Vec<u8> {
    let mut body = vec![0; 8];
    body.extend(base.to_le_bytes());
    body.extend([0, 0, 0, last_bus, 0, 0, 0, 0]);
    table(b"MCFG", &body)
}

/// An HPET in memory.
pub fn hpet(base: u64) -> Vec<u8> {
    let mut body = vec![0; 4];
    body.extend([0, 64, 0, 0]);
    body.extend(base.to_le_bytes());
    body.extend([0; 4]);
    table(b"HPET", &body)
}
