//! Arbitrary arguments.

use super::*;
use proptest::prelude::*;

/// Numbers that break things, and harmless ones.
fn wild() -> impl Strategy<Value = u64> {
    let near = prop_oneof![
        Just(0),
        Just(B),
        Just(TOP),
        Just(1 << 47),
        Just(u64::MAX),
        Just(BOUNDS.low)
    ];
    let step = prop_oneof![Just(1u64), Just(P), Just(M2)];
    prop_oneof![
        any::<u64>(),
        (near, step, -70i64..70)
            .prop_map(|(base, step, n)| base.wrapping_add(step.wrapping_mul(n as u64))),
    ]
}

proptest! {
    /// Whatever a program passes, a plan can be carried out: it lies in user memory, is aligned,
    /// and the region map takes it.
    #[test]
    fn plans_can_be_carried_out(a in wild(), b in wild(), c in wild(), d in wild(), flags in any::<u32>(), few in 0u64..8) {
        let mut r = regions();
        let sane = |start: u64, end: u64| (start | end).is_multiple_of(P) && start < end && end <= TOP;
        for flags in [u64::from(flags), u64::from(flags) & 0x70 | AP] {
            let args = MmapArgs { addr: a, len_bytes: b, prot: c, flags, offset: d & !0xfff };
            if let Ok(plan) = mmap(&args, Some(&FILE), &r, &BOUNDS) {
                prop_assert!(sane(plan.region.start, plan.region.end) && plan.region.start >= BOUNDS.low);
                if plan.replace {
                    prop_assert_eq!(r.remove(plan.region.start, plan.region.end), Ok(()));
                }
                prop_assert_eq!(r.insert(plan.region), Ok(()));
            }
        }
        if let Ok(Some((start, end))) = munmap(a, b, &BOUNDS) {
            prop_assert!(sane(start, end));
            prop_assert_eq!(r.remove(start, end), Ok(()));
        }
        if let Ok(Some(plan)) = mprotect(a, b, few, &r) {
            prop_assert!(plan.start == plan.end || r.protect(plan.start, plan.end, plan.prot).is_ok());
        }
        let args = MremapArgs { addr: a, old_len_bytes: b, new_len_bytes: c, flags: few, new_addr: d };
        if let Ok(RemapPlan::Move { to, from, more, replace, trim, .. }) = mremap(&args, &r, &BOUNDS) {
            for span in [replace, trim].into_iter().flatten() {
                prop_assert!(sane(span.start, span.end));
                prop_assert_eq!(r.remove(span.start, span.end), Ok(()));
            }
            prop_assert_eq!(r.move_range(from.start, from.end - from.start, to, to + (from.end - from.start)), Ok(()));
            prop_assert!(more.is_none_or(|m| sane(m.start, m.end) && r.is_vacant(m.start, m.end)));
        }
        let _ = (madvise(a, b, few, &r), msync(a, b, few, &r), mincore(a, b, &r), mlock(a, b, few & 1, &r));
        brk(&Heap { start: B + 70 * P, current: B + 71 * P, max_bytes: c }, a, &r, &BOUNDS);
    }
}
