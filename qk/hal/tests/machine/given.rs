//! Boots the self-test kernel with start information, memory map and tables of the test's own, in place of those of QEMU's firmware: the
//! loader's entry point is a few instructions that name ours.

use crate::build::{Fake, fadt, hpet, madt, mcfg, srat};
use crate::kernel::{kernel, tmp};
use crate::node::{DIED, ENDED_WELL, Machine};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

const MIB: u64 = 1 << 20;
/// Where things lie in a machine of 6 GiB: in RAM that the firmware leaves alone, the map above 4 GiB.
const STUB: u64 = 40 * MIB;
const INFO: u64 = 41 * MIB;
const MAP: u64 = 0x1_7000_0000;
/// The root pointer: its tables go over the end of a page of 2 MiB.
const RSDP: u64 = 0x1_5fff_fe00;
/// RAM of such a machine, as QEMU has it.
const RAM: &[(u64, u64, bool)] = &[
    (0, 640 << 10, true),
    (MIB, 0x8000_0000 - MIB, true),
    (0x1_0000_0000, 4096 * MIB, true),
];

/// The kernel, entered at [`STUB`].
fn stubbed() -> (PathBuf, u64) {
    let mut elf = std::fs::read(kernel()).expect("the kernel was built");
    let note = elf
        .windows(8)
        .position(|bytes| bytes == b"\x12\0\0\0Xen\0")
        .expect("the PVH note")
        + 8;
    let entry = u64::from_le_bytes(elf[note..note + 8].try_into().expect("8 bytes"));
    elf[note..note + 8].copy_from_slice(&STUB.to_le_bytes());
    let path = tmp("stubbed");
    std::fs::write(&path, elf).expect("the target folder is writable");
    (path, entry)
}

/// What a node does that is given `cmdline`, the map and the tables. QEMU's options besides: `more`.
fn boot(
    cmdline: &str,
    map: &[(u64, u64, bool)],
    tables: &[Vec<u8>],
    cpus: &str,
    more: &[&str],
) -> (i32, String) {
    static RUN: AtomicU32 = AtomicU32::new(0);
    let run = RUN.fetch_add(1, Ordering::Relaxed);
    let (kernel, entry) = stubbed();
    let mut memory = Fake::at(INFO, MAP, cmdline, map, RSDP);
    let tables: Vec<_> = tables.iter().map(|table| (None, table.clone())).collect();
    memory.tables(RSDP, &tables, true);
    // mov eax, entry; mov ebx, INFO; jmp eax
    let mut stub = vec![0xb8];
    stub.extend((entry as u32).to_le_bytes());
    stub.push(0xbb);
    stub.extend((INFO as u32).to_le_bytes());
    stub.extend([0xff, 0xe0]);
    memory.0.insert(STUB, stub);
    let mut options: Vec<String> = Vec::new();
    for (at, bytes) in &memory.0 {
        let file = tmp(&format!("given-{run}-{at:x}"));
        std::fs::write(&file, bytes).expect("the target folder is writable");
        let file = file.display();
        options.extend([
            "-device".into(),
            format!("loader,file={file},addr={at:#x},force-raw=on"),
        ]);
    }
    let mut all: Vec<&str> = options.iter().map(String::as_str).collect();
    all.extend(more);
    let machine = Machine {
        kernel: &kernel,
        memory: "6G",
        cpus,
        more: &all,
        ..Machine::default()
    };
    machine.boot("")
}

fn four() -> Vec<u8> {
    madt(true, &[(0, true), (1, true), (2, true), (3, true)])
}

#[test]
fn boots_by_tables_above_4_gib() {
    let tables = [
        four(),
        srat(&[(0, 0), (1, 5), (2, 0), (3, 5)]),
        fadt(0, 0x608, 0),
    ];
    let (status, text) = boot("", RAM, &tables, "4", &[]);
    assert!(
        status == ENDED_WELL && text.contains("PASS 4 cpus"),
        "{text}"
    );
    assert!(!text.contains("WARN"), "{text}");
    let (_, text) = boot("show", RAM, &tables, "4", &[]);
    for cpu in ["cpu 0x0 node 0", "cpu 0x1 node 5", "cpu 0x3 node 5"] {
        assert!(text.contains(cpu), "{cpu}: {text}");
    }
}

/// Without x2APIC, which QEMU does not emulate.
#[test]
fn says_how_many_cpus_are_left_out() {
    let cpus: Vec<_> = (0..300)
        .map(|i| (if i < 255 { i } else { i << 11 }, true))
        .collect();
    let (status, text) = boot("show", RAM, &[madt(true, &cpus)], "1", &[]);
    assert_eq!(status, ENDED_WELL, "{text}");
    assert_eq!(text.matches("cpu 0x").count(), 255);
    assert_eq!(text.matches("45 CPUs are left out").count(), 1, "{text}");
}

#[test]
fn boots_with_a_thousand_entries_that_overlap_and_have_holes() {
    // The kernel's place, then pieces of 4 to 400 KiB in disorder, half of which another entry contradicts.
    let mut map = vec![(0, 640 << 10, true), (MIB, 39 * MIB, true)];
    map.extend((0..500u64).map(|i| {
        let i = i * 37 % 500;
        (64 * MIB + i * MIB, (1 + i % 100) * 4096, true)
    }));
    map.extend((0..498u64).map(|i| (64 * MIB + i * MIB + 0x1800, 1, i % 2 == 0)));
    let (status, text) = boot("", &map, &[four(), fadt(0, 0x608, 0)], "4", &[]);
    assert!(
        status == ENDED_WELL && text.contains("PASS 4 cpus"),
        "{text}"
    );
    assert_eq!(
        text.matches("bytes of RAM are not used: parts of pages")
            .count(),
        1,
        "{text}"
    );
    assert_eq!(
        text.matches("ranges beyond the 64 largest").count(),
        1,
        "{text}"
    );
}

#[test]
fn ends_with_one_line_where_nothing_is_usable() {
    for map in [
        &[(0, 1 << 40, false)][..],
        &[(0, 640 << 10, true), (u64::MAX - 4096, 4096, true)],
    ] {
        let (status, text) = boot("", map, &[four()], "1", &[]);
        assert_eq!(status, DIED, "{text}");
        assert_eq!(text.matches("PANIC").count(), 1, "{text}");
        assert!(
            text.contains("KiB of free RAM in one piece below 4 GiB to boot in, of 0 KiB"),
            "{text}"
        );
    }
}

fn hz(text: &str) -> f64 {
    let hz = text
        .split("tsc_hz ")
        .nth(1)
        .and_then(|rest| rest.split(' ').next());
    hz.and_then(|hz| hz.parse().ok()).expect("a rate")
}

/// The same by ACPI timer, HPET and PIT: 20 % are what an emulator's clocks on a loaded host may differ by.
#[test]
fn measures_by_the_clock_that_there_is() {
    let none = fadt(0, 0, 0);
    let with_hpet = &["-machine", "hpet=on"];
    let by_timer = hz(&boot("show", RAM, &[four(), fadt(0, 0x608, 0)], "1", &[]).1);
    let by_hpet = hz(&boot(
        "show",
        RAM,
        &[four(), none.clone(), hpet(0xfed0_0000)],
        "1",
        with_hpet,
    )
    .1);
    let by_pit = hz(&boot("show", RAM, &[four(), none], "1", &[]).1);
    for other in [by_hpet, by_pit] {
        assert!(
            (other / by_timer - 1.0).abs() < 0.2,
            "{by_timer} {by_hpet} {by_pit}"
        );
    }
}

#[test]
fn goes_on_without_any_clock() {
    // A timer and an HPET that do not run.
    let tables = [four(), fadt(0, 0x5678, 0), hpet(0xfed4_0000)];
    let (status, text) = boot("", RAM, &tables, "4", &["-machine", "pit=off"]);
    assert!(
        status == ENDED_WELL && text.contains("PASS 4 cpus"),
        "{text}"
    );
    assert_eq!(
        text.matches("no clock to measure the TSC by").count(),
        1,
        "{text}"
    );
}

#[test]
fn touches_no_com1_that_is_not_named() {
    const HW_REDUCED: u32 = 1 << 20;
    let reduced = [four(), fadt(HW_REDUCED, 0x608, 0)];
    let (status, text) = boot("", RAM, &reduced, "4", &[]);
    assert!(status == ENDED_WELL && text.is_empty(), "{text}");
    let (status, text) = boot("margay.log=com1", RAM, &reduced, "4", &[]);
    assert!(
        status == ENDED_WELL && text.contains("PASS 4 cpus"),
        "{text}"
    );
    let pc = [four(), fadt(0, 0x608, 0)];
    let (status, text) = boot("margay.log=none", RAM, &pc, "4", &[]);
    assert!(status == ENDED_WELL && text.is_empty(), "{text}");
}

/// q35's window of configuration space is at an address of qboot's choice; here it cannot be reached there, so ports are used.
#[test]
fn finds_devices_wherever_configuration_space_is() {
    let device = &["-device", "pci-testdev,addr=7"];
    for (ecam, found) in [
        (0xb000_0000, true),
        (0x1_4000_0000, true),
        (0x38_0000_0000, false),
    ] {
        let tables = [four(), fadt(0, 0x608, 0), mcfg(ecam, 255)];
        let (status, text) = boot("show", RAM, &tables, "1", device);
        assert_eq!(status, ENDED_WELL, "{ecam:#x}: {text}");
        assert_eq!(text.contains("testdev "), found, "{ecam:#x}: {text}");
    }
}
