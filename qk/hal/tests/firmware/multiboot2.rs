//! What GRUB passes (Multiboot2 Specification 2.0, section 3.6): the same machine as by PVH, and damaged boot information.

use crate::build::{Fake, INFO, X2APIC, madt};
use proptest::prelude::*;
use qk_hal::addr::Phys;
use qk_hal::firmware;

const MIB: u64 = 1 << 20;
/// Where firmware put the ACPI root pointer.
const RSDP: u64 = 0xf_0000;
const MAP: [(u64, u64, bool); 3] = [
    (0, 640 << 10, true),
    (MIB, 63 * MIB, true),
    (60 * MIB, MIB, false),
];

/// A tag with this content, padded to the next one's place.
fn tag(kind: u32, content: &[u8]) -> Vec<u8> {
    let mut tag = kind.to_le_bytes().to_vec();
    tag.extend((8 + content.len() as u32).to_le_bytes());
    tag.extend(content);
    tag.resize(tag.len().next_multiple_of(8), 0);
    tag
}

fn module(start: u32, end: u32) -> Vec<u8> {
    let mut content = [start.to_le_bytes(), end.to_le_bytes()].concat();
    content.extend(b"name\0");
    tag(3, &content)
}

/// A memory map with entries of so many bytes.
fn map(entry_bytes: usize) -> Vec<u8> {
    let mut content = (entry_bytes as u32).to_le_bytes().to_vec();
    content.extend([0; 4]);
    for (start, len_bytes, is_ram) in MAP {
        let kind = if is_ram { 1u64 } else { 2 };
        let mut entry: Vec<u8> = [start, len_bytes, kind]
            .into_iter()
            .flat_map(u64::to_le_bytes)
            .collect();
        entry.resize(entry_bytes, 0xee);
        content.extend(entry);
    }
    tag(6, &content)
}

/// Boot information of these tags, and the firmware's tables.
fn with(tags: &[Vec<u8>]) -> Fake {
    let mut fake = Fake::default();
    fake.tables(RSDP, &[(None, madt(true, &[(0, true), (3, true)]))], true);
    let mut info = [0; 8].to_vec();
    info.extend(tags.concat());
    info.extend(tag(0, &[]));
    let total = info.len() as u32;
    info[..4].copy_from_slice(&total.to_le_bytes());
    fake.0.insert(INFO, info);
    fake
}

/// What GRUB passes: tags in an order of its own, others among them, the root pointer copied.
fn sane() -> Vec<Vec<u8>> {
    let root = with(&[]).0[&RSDP].clone();
    vec![
        tag(1, b"margay.comm=0x100000 -- a b\0"),
        tag(2, b"GRUB 2.06\0"),
        module(0x40_0000, 0x40_1234),
        module(0x50_0000, 0x50_1000),
        tag(15, &root),
        map(24),
        tag(14, b"RSD PTR of ACPI 1.0"),
        tag(21, &[0; 4]),
    ]
}

fn refused(tags: &[Vec<u8>]) -> String {
    let read = firmware::read(&with(tags), Phys(INFO), X2APIC);
    read.map(|_| ()).expect_err("it is damaged").to_owned()
}

#[test]
fn it_is_the_machine_that_pvh_describes() {
    let machine = with(&sane()).boot(X2APIC);
    let mut pvh = Fake::new("margay.comm=0x100000 -- a b", &MAP, RSDP);
    pvh.tables(RSDP, &[(None, madt(true, &[(0, true), (3, true)]))], true);
    let pvh = pvh.boot(X2APIC);
    assert_eq!(machine.cmdline, pvh.cmdline);
    assert_eq!(machine.ram.to_vec(), pvh.ram.to_vec());
    let ids = |machine: &firmware::Machine| {
        let cpus = machine.acpi.cpus.iter();
        cpus.map(|cpu| cpu.apic_id).collect::<Vec<_>>()
    };
    assert_eq!((ids(&machine), ids(&pvh)), (vec![0, 3], vec![0, 3]));
    let modules = machine.modules.iter();
    let modules: Vec<_> = modules
        .map(|module| (module.start.0, module.end.0))
        .collect();
    assert_eq!(modules, [(0x40_0000, 0x40_1234), (0x50_0000, 0x50_1000)]);
}

#[test]
fn entries_of_a_map_may_be_longer() {
    let machine = with(&[map(40)]).boot(X2APIC);
    assert_eq!(
        machine.ram.to_vec(),
        with(&[map(24)]).boot(X2APIC).ram.to_vec()
    );
}

#[test]
fn what_cannot_be_is_refused() {
    assert!(refused(&[]).contains("no memory map"));
    assert!(refused(&[map(24)[..16].to_vec()]).contains("length"));
    assert!(refused(&[tag(6, &[0; 8])]).contains("impossible entries"));
    assert!(refused(&[tag(3, &[0; 4]), map(24)]).contains("too short"));
    assert!(refused(&[module(0x2000, 0x1000), map(24)]).contains("wraps"));
    let mut short = tag(2, &[]);
    short[4] = 7;
    assert!(refused(&[short, map(24)]).contains("length"));
    let mut long = map(24);
    long[4] += 24;
    assert!(refused(&[tag(2, &[0; 8]), long]).contains("length"));
    for (at, byte) in [(3, 1), (4, 1), (0, 1)] {
        let mut fake = with(&sane());
        let info = fake.0.get_mut(&INFO).expect("boot information");
        info[1] = if at == 0 { 0 } else { info[1] };
        info[at] = byte;
        let read = firmware::read(&fake, Phys(INFO), X2APIC).map(|_| ());
        assert!(read.is_err_and(|why| why.contains("neither")), "{at}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn damaged_information_is_read_to_an_end(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut fake = with(&sane());
        let info = fake.0.get_mut(&INFO).expect("boot information");
        for (at, byte) in damage {
            let at = at.index(info.len());
            info[at] = byte;
        }
        info.truncate(cut.index(info.len()) + 1);
        if let Ok(machine) = firmware::read(&fake, Phys(INFO), X2APIC) {
            crate::hostile::check(&machine);
        }
    }
}
