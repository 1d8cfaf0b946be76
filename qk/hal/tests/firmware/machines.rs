//! Memory maps and tables of real machines (tests/machines/README.md) go through the boot code: no byte of RAM is lost without a line of the
//! log, and the CPUs, nodes, timers and devices are those that the recording has.

use crate::build::{Fake, X2APIC, fadt_of, hpet, madt, mcfg, srat, table};
use qk_hal::addr::{Phys, PhysRange};
use qk_hal::firmware::acpi::Cpu;
use qk_hal::firmware::{self, LOW_MEMORY_END, Machine, Remark, ThisCpu};
use std::fs;
use std::path::Path;
use wire::boot::MAX_CPUS;

/// Fewest recordings there must be.
const FEWEST: usize = 20;

/// One recording.
#[derive(Default)]
struct Recording {
    name: String,
    /// First byte, last byte, is RAM.
    map: Vec<(u64, u64, bool)>,
    rsdp: u64,
    xsdt: bool,
    this: Option<ThisCpu>,
    cpus: Vec<(u32, bool)>,
    nodes: Vec<(u32, u32)>,
    tables: Vec<(Option<u64>, Vec<u8>)>,
    pm_timer: Option<u16>,
    hpet: Option<u64>,
    ecam: Option<u64>,
    is_pc: bool,
    lines: Vec<String>,
}

#[test]
fn real_machines_boot_and_lose_nothing_without_a_line() {
    let folder = Path::new("tests/machines");
    let mut files: Vec<_> = fs::read_dir(folder)
        .expect("the recordings")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "txt"))
        .collect();
    files.sort();
    assert!(files.len() >= FEWEST, "{} recordings", files.len());
    for path in files {
        let text = fs::read_to_string(&path).expect("a recording");
        let recording = Recording::read(&path.display().to_string(), &text);
        recording.check();
    }
}

impl Recording {
    fn read(path: &str, text: &str) -> Self {
        let mut all = Self {
            is_pc: true,
            ..Self::default()
        };
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or("").trim();
            let (key, rest) = line.split_once(' ').unwrap_or((line, ""));
            if !key.is_empty() {
                all.take(key, rest.trim())
                    .unwrap_or_else(|| panic!("{path}:{}: {line}", number + 1));
            }
        }
        assert!(!all.name.is_empty() && !all.map.is_empty(), "{path}");
        all
    }

    fn take(&mut self, key: &str, rest: &str) -> Option<()> {
        let (first, more) = rest.split_once(' ').unwrap_or((rest, ""));
        match key {
            "machine" => self.name = rest.into(),
            "source" => {}
            "ram" | "not" => {
                let (start, last) = rest.split_once('-')?;
                self.map.push((hex(start)?, hex(last)?, key == "ram"));
            }
            "rsdp" => (self.rsdp, self.xsdt) = (hex(first)?, more == "xsdt"),
            "boot" => {
                let (apic_id, x2apic) = (hex(first)? as u32, more == "x2apic");
                self.this = Some(ThisCpu {
                    apic_id,
                    x2apic,
                    address_bits: 52,
                });
            }
            "apic" => {
                self.cpus = cpus(more)?;
                self.tables.push((address(first)?, madt(true, &self.cpus)));
            }
            "srat" => {
                for node in more.split_whitespace() {
                    let (node, ids) = node.split_once(':')?;
                    let node = hex(node)? as u32;
                    self.nodes
                        .extend(cpus(ids)?.into_iter().map(|(id, _)| (id, node)));
                }
                self.tables.push((address(first)?, srat(&self.nodes)));
            }
            "facp" => {
                let mut words = more.split(' ');
                let mut word = || words.next().and_then(hex);
                let (len_bytes, flags, port) = (word()?, word()? as u32, word()? as u16);
                self.is_pc = flags & 1 << 20 == 0;
                self.pm_timer = Some(port).filter(|&port| port != 0 && self.is_pc);
                let fadt = fadt_of(len_bytes as usize, flags, port.into(), 0);
                self.tables.push((address(first)?, fadt));
            }
            "hpet" => {
                self.hpet = Some(hex(more)?);
                self.tables.push((address(first)?, hpet(hex(more)?)));
            }
            "mcfg" => {
                self.ecam = Some(hex(more)?);
                self.tables.push((address(first)?, mcfg(hex(more)?, 255)));
            }
            "raw" => self.tables.push((address(first)?, bytes(more)?)),
            "and" => self.tables.last_mut()?.1.extend(bytes(rest)?),
            "cpus" => self.cpus = cpus(rest)?,
            "reduced" => self.is_pc = false,
            // Tables that the kernel passes over.
            "other" => {
                let signature = first.as_bytes().try_into().ok()?;
                self.tables
                    .push((address(more)?, table(signature, &[0; 16])));
            }
            "line" => self.lines.push(rest.into()),
            _ => return None,
        }
        Some(())
    }

    fn check(&self) {
        let name = &self.name;
        let map: Vec<_> = self
            .map
            .iter()
            .map(|&(start, last, is_ram)| (start, last - start + 1, is_ram))
            .collect();
        let this = self.this.unwrap_or(X2APIC);
        let mut fake = Fake::new("", &map, self.rsdp);
        if self.rsdp != 0 {
            fake.tables(self.rsdp, &self.tables, self.xsdt);
        }
        let mut machine = fake.boot(this);
        let image = PhysRange::new(Phys(2 << 20), 4 << 20);
        let free = firmware::hand_over(machine.free(image), &mut machine.remarks);
        let lines: Vec<_> = machine.remarks.iter().map(ToString::to_string).collect();
        assert_eq!(lines, self.lines, "{name}");
        let inside = |range: PhysRange| self.ram_bytes(range.start.0, range.end.0);
        let first_mib = PhysRange {
            start: Phys(0),
            end: LOW_MEMORY_END,
        };
        let accounted = free.bytes() + inside(first_mib) + inside(image) + said_bytes(&machine);
        assert_eq!(
            accounted,
            self.ram_bytes(0, u64::MAX),
            "{name}: bytes of RAM"
        );
        assert!(
            free.iter().all(|&range| inside(range) == range.len_bytes()),
            "{name}"
        );
        self.check_facts(this, &machine);
    }

    fn check_facts(&self, this: ThisCpu, machine: &Machine) {
        let name = &self.name;
        let mut ids = vec![this.apic_id];
        for &(id, enabled) in &self.cpus {
            if enabled && !ids.contains(&id) && (id < 255 || this.x2apic) {
                ids.push(id);
            }
        }
        ids.truncate(MAX_CPUS);
        let node = |id| {
            self.nodes
                .iter()
                .find(|&&(other, _)| other == id)
                .map_or(0, |&(_, node)| node)
        };
        let cpus: Vec<_> = ids
            .into_iter()
            .map(|apic_id| Cpu {
                apic_id,
                node: node(apic_id),
            })
            .collect();
        let acpi = &machine.acpi;
        assert_eq!(acpi.cpus[..], cpus, "{name}");
        assert_eq!(acpi.pm_timer_port, self.pm_timer, "{name}");
        assert_eq!(acpi.hpet, self.hpet.map(Phys), "{name}");
        assert_eq!(
            acpi.ecam.map(|(base, _)| base),
            self.ecam.map(Phys),
            "{name}"
        );
        assert_eq!(acpi.legacy.pc, self.is_pc, "{name}");
    }

    /// Bytes of RAM in `[from, to)`, where no other entry has a say: piece by piece between all borders of the map.
    fn ram_bytes(&self, from: u64, to: u64) -> u64 {
        let mut borders: Vec<u64> = self
            .map
            .iter()
            .flat_map(|&(start, last, _)| [start, last + 1])
            .chain([from, to])
            .collect();
        borders.sort_unstable();
        let is = |at: u64, ram: bool| {
            self.map
                .iter()
                .any(|&(start, last, is_ram)| is_ram == ram && (start..=last).contains(&at))
        };
        borders
            .windows(2)
            .filter(|piece| {
                from <= piece[0] && piece[1] <= to && is(piece[0], true) && !is(piece[0], false)
            })
            .map(|piece| piece[1] - piece[0])
            .sum()
    }
}

/// Bytes that the log says are lost.
fn said_bytes(machine: &Machine) -> u64 {
    let bytes = machine.remarks.iter().map(|remark| match remark {
        Remark::SmallRanges(lost) => lost.bytes,
        Remark::TooHigh(bytes, _) | Remark::PartialPages(bytes) => *bytes,
        _ => 0,
    });
    bytes.sum()
}

fn hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

/// Bytes, two digits each.
fn bytes(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    let byte = |pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
    pairs.map(byte).collect()
}

/// The address of a table, or `-` where the recording has none.
fn address(text: &str) -> Option<Option<u64>> {
    match text {
        "-" => Some(None),
        at => hex(at).map(Some),
    }
}

/// APIC ids in hexadecimal: `0 2 4-7 8-e/2 !9-b`, with steps; `!`: not enabled.
fn cpus(text: &str) -> Option<Vec<(u32, bool)>> {
    let mut cpus = Vec::new();
    for part in text.split([' ', ',']).filter(|part| !part.is_empty()) {
        let (ids, enabled) = match part.strip_prefix('!') {
            Some(ids) => (ids, false),
            None => (part, true),
        };
        let (ids, step) = ids.split_once('/').unwrap_or((ids, "1"));
        let (first, last) = ids.split_once('-').unwrap_or((ids, ids));
        let ids = (hex(first)?..=hex(last)?).step_by(hex(step)? as usize);
        cpus.extend(ids.map(|id| (id as u32, enabled)));
    }
    Some(cpus)
}
