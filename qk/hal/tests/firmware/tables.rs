//! Each fact of the tables.

use crate::build::{Fake, X2APIC, fadt, hpet, madt, mcfg, srat};
use abi::map::DIRECT_MAP_BYTES;
use qk_hal::addr::Phys;
use qk_hal::firmware::acpi::{Cpu, Legacy};
use qk_hal::firmware::{MAX_MAP_ENTRIES, Machine, Remark, TableFault, ThisCpu};
use wire::boot::MAX_CPUS;

const MIB: u64 = 1 << 20;
const MAP: &[(u64, u64, bool)] = &[(0, 640 << 10, true), (MIB, 63 * MIB, true)];
const HW_REDUCED: u32 = 1 << 20;

/// A machine with the tables, the root pointer at `rsdp`.
fn machine(rsdp: u64, tables: Vec<Vec<u8>>, xsdt: bool) -> Machine {
    machine_for(X2APIC, rsdp, tables, xsdt)
}

fn machine_for(this: ThisCpu, rsdp: u64, tables: Vec<Vec<u8>>, xsdt: bool) -> Machine {
    let mut fake = Fake::new("", MAP, rsdp);
    let tables: Vec<_> = tables.into_iter().map(|table| (None, table)).collect();
    fake.tables(rsdp, &tables, xsdt);
    fake.boot(this)
}

fn ids(machine: &Machine) -> Vec<u32> {
    machine.acpi.cpus.iter().map(|cpu| cpu.apic_id).collect()
}

fn lines(machine: &Machine) -> Vec<String> {
    machine.remarks.iter().map(ToString::to_string).collect()
}

#[test]
fn finds_cpus_timers_and_configuration_window() {
    let cpus = [(0, true), (1, false), (4, true), (0x107, true)];
    let tables = vec![
        madt(true, &cpus),
        fadt(0, 0x608, 0),
        mcfg(0xb000_0000, 255),
        hpet(0xfed0_0000),
    ];
    for (rsdp, xsdt) in [
        (0xf_5ad0, false),
        (0x3fff_e000, true),
        (0x87f_fffe_0000, true),
    ] {
        let machine = machine(rsdp, tables.clone(), xsdt);
        assert_eq!(ids(&machine), [0, 4, 0x107], "{rsdp:#x}");
        let acpi = &machine.acpi;
        assert_eq!(acpi.pm_timer_port, Some(0x608));
        assert_eq!(acpi.ecam, Some((Phys(0xb000_0000), 256)));
        assert_eq!(acpi.hpet, Some(Phys(0xfed0_0000)));
        assert!(
            acpi.legacy
                == Legacy {
                    pics: true,
                    pc: true
                }
                && machine.logs_on_com1()
        );
        assert!(machine.remarks.is_empty(), "{:?}", lines(&machine));
    }
}

#[test]
fn the_boot_cpu_comes_first_and_once() {
    let this = ThisCpu {
        apic_id: 4,
        x2apic: true,
        address_bits: 52,
    };
    let cpus = madt(true, &[(0, true), (4, true), (0, true), (9, true)]);
    assert_eq!(
        ids(&machine_for(this, 0xf_0000, vec![cpus], true)),
        [4, 0, 9]
    );
    assert_eq!(
        ids(&machine_for(this, 0xf_0000, vec![], true)),
        [4],
        "no MADT"
    );
}

#[test]
fn cpus_are_on_the_nodes_that_srat_names() {
    let cpus = madt(true, &[(0, true), (1, true), (0x300, true), (0x301, true)]);
    let nodes = srat(&[(0, 2), (1, 0x1_0203), (0x301, 7), (88, 9)]);
    // SRAT comes first: the order of tables does not matter.
    let machine = machine(0xf_0000, vec![nodes, cpus], true);
    let found: Vec<_> = machine
        .acpi
        .cpus
        .iter()
        .map(|&Cpu { node, .. }| node)
        .collect();
    assert_eq!(found, [2, 0x1_0203, 0, 7]);
}

#[test]
fn cpus_beyond_the_most_are_counted_in_one_line() {
    let cpus: Vec<_> = (0..300u32).map(|i| (i * 3495, true)).collect();
    assert!(cpus[299].0 > (1 << 20) - 4000);
    let machine = machine(0xf_0000, vec![madt(true, &cpus)], true);
    assert_eq!(machine.acpi.cpus.len(), MAX_CPUS);
    assert_eq!(
        lines(&machine),
        ["44 CPUs are left out: a node has 256 at most"]
    );
}

#[test]
fn without_x2apic_ids_end_at_254() {
    let this = ThisCpu {
        apic_id: 0,
        x2apic: false,
        address_bits: 52,
    };
    let tables = vec![madt(
        true,
        &[(0, true), (254, true), (255, true), (1 << 20, true)],
    )];
    let machine = machine_for(this, 0xf_0000, tables, true);
    assert_eq!(ids(&machine), [0, 254]);
    assert_eq!(machine.remarks[..], [Remark::OutOfReach(2)]);
}

#[test]
fn what_is_no_pc_has_none_of_its_devices() {
    // QEMU's microvm: the fields of the timer are set nevertheless.
    let tables = vec![madt(false, &[(0, true)]), fadt(HW_REDUCED, 0x608, 0x608)];
    let machine = machine(0xf_0000, tables, true);
    let Legacy { pics, pc } = machine.acpi.legacy;
    assert!(!pics && !pc && machine.acpi.pm_timer_port.is_none() && !machine.logs_on_com1());
    // 8259s are MADT's to deny, on a PC, too.
    let pc = machine_for(
        X2APIC,
        0xf_0000,
        vec![madt(false, &[]), fadt(0, 0x608, 0)],
        false,
    );
    assert!(!pc.acpi.legacy.pics && pc.acpi.legacy.pc);
}

#[test]
fn the_command_line_says_where_the_log_goes() {
    let at = 0xf_0000;
    let logs = |cmdline: &str, flags| {
        let mut fake = Fake::new(cmdline, MAP, at);
        fake.tables(at, &[(None, fadt(flags, 0, 0))], true);
        fake.boot(X2APIC).logs_on_com1()
    };
    assert!(logs("", 0) && !logs("", HW_REDUCED));
    assert!(logs("a margay.log=com1 b", HW_REDUCED) && !logs("margay.log=none", 0));
}

#[test]
fn the_timer_has_two_fields_and_a_length() {
    let port = |fadt| machine(0xf_0000, vec![fadt], true).acpi.pm_timer_port;
    assert_eq!(port(fadt(0, 0x608, 0xb008)), Some(0xb008));
    assert_eq!(port(fadt(0, 0, 0)), None);
    let mut none = fadt(0, 0x608, 0xb008);
    none[91] = 0;
    assert_eq!(port(none), None);
}

#[test]
fn a_wrong_checksum_is_said_and_a_table_that_cannot_be_read_is_not_used() {
    let mut damaged = madt(true, &[(0, true), (1, true)]);
    damaged[9] ^= 1;
    let mut long = fadt(0, 0x608, 0);
    long[4..8].copy_from_slice(&(2u32 << 20).to_le_bytes());
    let machine = machine(0xf_0000, vec![damaged, long], true);
    assert_eq!(ids(&machine), [0, 1]);
    assert_eq!(machine.acpi.pm_timer_port, None);
    let faults = [
        Remark::Table(*b"APIC", TableFault::Checksum),
        Remark::Table(*b"FACP", TableFault::Unreadable),
    ];
    assert_eq!(machine.remarks[..], faults);
}

#[test]
fn an_impossible_entry_ends_the_list() {
    let mut cpus = madt(true, &[(0, true), (1, true), (2, true)]);
    // The length of CPU 1's entry.
    cpus[36 + 8 + 12 + 8 + 1] = 0;
    let machine = machine(0xf_0000, vec![cpus], true);
    assert_eq!(ids(&machine), [0]);
    assert_eq!(
        lines(&machine),
        [
            "ACPI table APIC has a wrong checksum and is used nevertheless",
            "ACPI table APIC has an impossible entry and is used up to there"
        ]
    );
}

#[test]
fn devices_are_not_in_ram_and_not_too_high() {
    let tables = |ecam| vec![mcfg(ecam, 0), hpet(0x10_0000)];
    let in_ram = machine(0xf_0000, tables(0x20_0000), true);
    assert!(in_ram.acpi.ecam.is_none() && in_ram.acpi.hpet.is_none());
    assert_eq!(in_ram.remarks.len(), 2);
    let high = |ecam| machine(0xf_0000, tables(ecam), true).acpi.ecam;
    assert_eq!(high(0x38_0000_0000), Some((Phys(0x38_0000_0000), 1)));
    assert_eq!(high(DIRECT_MAP_BYTES), None);
    let this = ThisCpu {
        address_bits: 36,
        ..X2APIC
    };
    let tables = vec![mcfg(0x38_0000_0000, 0)];
    assert_eq!(machine_for(this, 0xf_0000, tables, true).acpi.ecam, None);
    assert_eq!(high(0xb000_1000), None);
}

#[test]
fn entries_of_the_map_that_are_not_read_are_counted() {
    let many: Vec<_> = (0..MAX_MAP_ENTRIES + 5)
        .map(|i| (i * MIB, MIB, true))
        .collect();
    let machine = Fake::new("", &many, 0).boot(X2APIC);
    assert_eq!(machine.remarks[..], [Remark::MapEntries(5)]);
    assert_eq!(machine.ram.bytes(), MAX_MAP_ENTRIES * MIB);
    // A map that ends before it should: in no memory.
    let mut fake = Fake::new("", MAP, 0);
    let (_, map) = fake.0.iter_mut().next_back().expect("the map");
    map.truncate(24 + 10);
    assert_eq!(fake.boot(X2APIC).remarks[..], [Remark::MapEntries(1)]);
}

#[test]
fn a_machine_without_tables_is_a_pc_with_one_cpu() {
    for rsdp in [0, 0x1000, u64::MAX - 10] {
        let machine = Fake::new("", MAP, rsdp).boot(X2APIC);
        assert_eq!(ids(&machine), [0]);
        assert!(
            machine.acpi.legacy
                == Legacy {
                    pics: true,
                    pc: true
                }
        );
        let unreadable = Remark::Table(*b"RSDP", TableFault::Unreadable);
        assert_eq!(machine.remarks[..], [unreadable][..usize::from(rsdp != 0)]);
    }
}

/// An XSDT that is not there does not hide an RSDT that is.
#[test]
fn the_old_root_table_stands_in_for_the_new() {
    let at = 0xf_0000;
    let mut fake = Fake::new("", MAP, at);
    fake.tables(at, &[(None, madt(true, &[(0, true), (1, true)]))], false);
    let pointer = fake.0.get_mut(&at).expect("the root pointer");
    pointer[15] = 2;
    pointer.extend(36u32.to_le_bytes());
    pointer.extend(0xdead_0000u64.to_le_bytes());
    pointer.extend([0; 4]);
    let machine = fake.boot(X2APIC);
    assert_eq!(ids(&machine), [0, 1]);
    assert!(
        machine
            .remarks
            .contains(&Remark::Table(*b"XSDT", TableFault::Unreadable))
    );
}
