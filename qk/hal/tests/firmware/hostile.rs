//! Tables that nothing is right of: reading them ends, without a panic, and what comes out keeps its promises.

use crate::build::{Fake, INFO, X2APIC, fadt, hpet, madt, mcfg, srat};
use proptest::prelude::*;
use qk_hal::addr::{Phys, PhysRange};
use qk_hal::firmware::{self, LOW_MEMORY_END, Machine};
use wire::boot::MAX_CPUS;

const MIB: u64 = 1 << 20;

/// A machine with every table, which the first MiB holds but for its memory map.
fn sane() -> Fake {
    let map = [
        (0, 640 << 10, true),
        (MIB, 63 * MIB, true),
        (60 * MIB, MIB, false),
    ];
    let mut fake = Fake::new("margay.comm=0x100000", &map, 0xf_0000);
    let cpus: Vec<_> = (0..40).map(|i| (i * 11, i % 5 != 4)).collect();
    let nodes: Vec<_> = (0..40).map(|i| (i * 11, i / 8)).collect();
    let tables = [
        madt(true, &cpus),
        srat(&nodes),
        fadt(0, 0x608, 0x608),
        mcfg(0xb000_0000, 255),
        hpet(0xfed0_0000),
    ];
    fake.tables(0xf_0000, &tables.map(|table| (None, table)), true);
    fake
}

/// What holds of every machine that was read.
pub fn check(machine: &Machine) {
    let cpus = &machine.acpi.cpus;
    assert!((1..=MAX_CPUS).contains(&cpus.len()) && cpus[0].apic_id == X2APIC.apic_id);
    assert!((1..cpus.len()).all(|i| cpus[..i].iter().all(|cpu| cpu.apic_id != cpus[i].apic_id)));
    assert!(
        machine
            .ram
            .windows(2)
            .all(|pair| pair[0].end < pair[1].start)
    );
    let image = PhysRange::new(Phys(2 * MIB), 2 * MIB);
    let mut remarks = machine.remarks.clone();
    let free = firmware::hand_over(machine.free(image), &mut remarks);
    assert!(
        free.iter()
            .all(|range| range.start >= LOW_MEMORY_END && !range.overlaps(image))
    );
    assert!(
        free.iter()
            .all(|range| *range == range.whole_pages() && !range.is_empty())
    );
    // Each line is one, and there is room for all.
    assert!(
        remarks
            .iter()
            .all(|remark| !remark.to_string().contains('\n'))
    );
    assert!(!remarks.is_full());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn damaged_tables_are_read_to_an_end(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>()), 1..12),
    ) {
        let mut fake = sane();
        let pieces: Vec<u64> = fake.0.keys().copied().collect();
        for (piece, at, byte) in damage {
            let bytes = fake.0.get_mut(piece.get(&pieces)).expect("a piece");
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(machine) = firmware::read(&fake, Phys(INFO), X2APIC) {
            check(&machine);
        }
    }

    /// Lengths and addresses above all.
    #[test]
    fn damaged_words_are_read_to_an_end(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u32>()), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut fake = sane();
        let pieces: Vec<u64> = fake.0.keys().copied().collect();
        for (piece, at, word) in damage {
            let bytes = fake.0.get_mut(piece.get(&pieces)).expect("a piece");
            let at = at.index(bytes.len() / 4) * 4;
            bytes[at..(at + 4)].copy_from_slice(&word.to_le_bytes());
        }
        let cut_off = fake.0.get_mut(cut.get(&pieces)).expect("a piece");
        cut_off.truncate(cut.index(cut_off.len()) + 1);
        if let Ok(machine) = firmware::read(&fake, Phys(INFO), X2APIC) {
            check(&machine);
        }
    }

    #[test]
    fn random_bytes_are_read_to_an_end(
        seed in prop::collection::vec(any::<u8>(), 36..600), kind in 0usize..6,
    ) {
        // A plausible head, so that the rest is looked at.
        let mut bytes = seed;
        let signature = [b"APIC", b"SRAT", b"FACP", b"MCFG", b"HPET", b"XSDT"][kind];
        bytes[..4].copy_from_slice(signature);
        let len_bytes = bytes.len() as u32;
        bytes[4..8].copy_from_slice(&len_bytes.to_le_bytes());
        let mut fake = sane();
        fake.tables(0xe_0000, &[(None, bytes), (None, madt(true, &[(3, true)]))], true);
        fake.0.get_mut(&INFO).expect("start information")[32..40].copy_from_slice(&0xe_0000u64.to_le_bytes());
        check(&fake.boot(X2APIC));
    }
}
