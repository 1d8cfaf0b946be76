//! Where a rank that is not the first has its areas.

use super::*;

/// Copies between ranks whose areas began alike took ten times as long (docs/adr/0048).
#[test]
fn each_rank_has_its_areas_elsewhere_and_its_image_where_all_have_it() {
    let mut fake = dynamic();
    load_into(&mut fake, 1).expect("a sound program");
    let mut rank = fake.ranks.remove(&1).expect("the rank");
    let moved = abi::areas::stagger(1);
    let start = rank.started.expect("started");
    assert_eq!(start.entry, INTERPRETER - moved + 0x200);
    assert_eq!(start.heap_start, map::PIE_BASE + 0x6000 + moved);
    assert_eq!(vectors(&mut rank)(at::PHDR), map::PIE_BASE + 0x40);
    let stack = region(&rank, map::STACK_TOP - moved - (8 << 20));
    assert_eq!(stack.kind, RegionKind::Stack);
}
