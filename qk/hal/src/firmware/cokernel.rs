//! The record that a co-kernel shares with the Linux beside it ([`wire::cokernel`]): what there is. Pure.
//!
//! The module that writes it is trusted as firmware is: what makes no sense ends the boot with a line, and no more is asked.
//!
//! BOUND: at boot only, of the CPUs.

use super::acpi::{Cpu, Facts, Legacy};
use super::{Machine, Modules, Remarks};
use crate::addr::{Phys, PhysRange};
use crate::ranges::Ranges;
use abi::map::{DIRECT_MAP_BYTES, PAGE, PAGE_2M};
use arrayvec::{ArrayString, ArrayVec};
use wire::boot::MAX_CPUS;
use wire::cokernel::{MAGIC, RECORD_BYTES, Range, Record, VERSION};

/// The Linux beside a co-kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Linux {
    /// What is shared with its kernel: no RAM.
    pub record: PhysRange,
    /// What its processes map as the communication area.
    pub comm: PhysRange,
}

/// Reads the record at `at`.
///
/// # Errors
/// What makes no sense.
pub fn read(record: &Record, at: Phys) -> Result<Machine, &'static str> {
    if record.magic.load() != MAGIC || record.version.load() != VERSION {
        return Err(
            "the module's record is of another version: install margay.ko and margay.elf of one build",
        );
    }
    let memory = whole(&record.memory, PAGE_2M).ok_or("the module's record: no memory")?;
    let inside = |range: &PhysRange| memory.holds(range.start, range.len_bytes());
    let comm = whole(&record.comm, PAGE).filter(inside);
    let comm = comm.ok_or("the module's record: no communication area")?;
    let pct = range_of(&record.pct).filter(inside);
    let pct = pct.ok_or("the module's record: no PCT")?;
    if at != memory.start || memory.len_bytes() < RECORD_BYTES {
        return Err("the module's record does not lie at the start of the memory");
    }
    let mut ram = Ranges::new();
    ram.insert(memory);
    Ok(Machine {
        cmdline: ArrayString::new(),
        ram,
        modules: Modules::from_iter([pct]),
        rsdp: Phys(0),
        acpi: facts(cpus(record)?),
        linux: Some(Linux {
            record: PhysRange::new(at, RECORD_BYTES),
            comm,
        }),
        remarks: Remarks::new(),
    })
}

/// A machine of which Linux has all devices.
fn facts(cpus: ArrayVec<Cpu, MAX_CPUS>) -> Facts {
    Facts {
        cpus,
        legacy: Legacy {
            pics: false,
            pc: false,
        },
        pm_timer_port: None,
        hpet: None,
        ecam: None,
    }
}

fn cpus(record: &Record) -> Result<ArrayVec<Cpu, MAX_CPUS>, &'static str> {
    let count = record.cpu_count.load() as usize;
    let words = record.cpus.get(..count).filter(|words| !words.is_empty());
    let words = words.ok_or("the module's record: no CPUs")?;
    let cpu = |word: u64| Cpu {
        apic_id: word as u32,
        node: (word >> 32) as u32,
    };
    Ok(words.iter().map(|word| cpu(word.load())).collect())
}

fn range_of(range: &Range) -> Option<PhysRange> {
    let (start, len_bytes) = (range.start.load(), range.len_bytes.load());
    let end = start.checked_add(len_bytes)?;
    (len_bytes > 0 && end <= DIRECT_MAP_BYTES).then(|| PhysRange::new(Phys(start), len_bytes))
}

fn whole(range: &Range, page: u64) -> Option<PhysRange> {
    range_of(range).filter(|range| range.start.is_aligned(page) && range.end.is_aligned(page))
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;

    const START: u64 = 5 << 30;

    /// 128 MiB at 5 GiB, of CPUs 3 and 0x1_0004 of node 1.
    fn record() -> Box<Record> {
        let record = Box::new(Record::new_zeroed());
        record.magic.put(MAGIC);
        record.version.put(VERSION);
        for (range, start, len_bytes) in [
            (&record.memory, 0, 128 << 20),
            (&record.comm, 1 << 20, 1 << 20),
            (&record.pct, 126 << 20, 70_000),
        ] {
            range.start.put(START + start);
            range.len_bytes.put(len_bytes);
        }
        record.cpu_count.put(2);
        record.cpus[0].put(3);
        record.cpus[1].put(1 << 32 | 0x1_0004);
        record
    }

    fn machine(record: &Record) -> Result<Machine, &'static str> {
        read(record, Phys(START))
    }

    #[test]
    fn all_is_what_linux_gave_up() {
        let machine = machine(&record()).expect("a machine");
        let whole = PhysRange::new(Phys(START), 128 << 20);
        assert_eq!(*machine.ram, [whole]);
        let ids = machine.acpi.cpus.iter().map(|cpu| (cpu.apic_id, cpu.node));
        assert!(ids.eq([(3, 0), (0x1_0004, 1)]));
        assert!(!machine.logs_on_com1() && machine.acpi.ecam.is_none());
        let image = PhysRange::new(Phys(START + (2 << 20)), 1 << 20);
        let free = machine.free(image);
        assert_eq!(free[0].start, Phys(START + RECORD_BYTES), "not the record");
        assert_eq!(free[1].start, image.end, "not the image");
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let bad = |change: fn(&Record)| {
            let record = record();
            change(&record);
            machine(&record).expect_err("refused")
        };
        assert!(bad(|record| record.version.put(0)).contains("of one build"));
        assert!(bad(|record| record.memory.len_bytes.put(u64::MAX)).contains("memory"));
        assert!(bad(|record| record.memory.start.put(START + 4096)).contains("memory"));
        assert!(bad(|record| record.comm.len_bytes.put(1 << 40)).contains("area"));
        assert!(bad(|record| record.comm.start.put(START + 5)).contains("area"));
        assert!(bad(|record| record.pct.start.put(0)).contains("PCT"));
        assert!(bad(|record| record.cpu_count.put(0)).contains("CPUs"));
        assert!(bad(|record| record.cpu_count.put(257)).contains("CPUs"));
        assert!(read(&record(), Phys(START + 4096)).is_err());
    }
}
