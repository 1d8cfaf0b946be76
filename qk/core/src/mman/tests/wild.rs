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
        Just(BOUNDS.low.0)
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
        let sane = |r: VaRange| r.start.is_aligned(P) && r.end.is_aligned(P) && !r.is_empty() && r.end <= Va(TOP);
        for flags in [u64::from(flags), u64::from(flags) & 0x70 | AP] {
            let args = MmapArgs { addr: Va(a), len_bytes: b, prot: c, flags, offset: d & !0xfff };
            if let Ok(plan) = mmap(&args, Some(&FILE), &r, &BOUNDS) {
                prop_assert!(sane(plan.region.range()) && plan.region.start >= BOUNDS.low);
                if plan.replace {
                    prop_assert_eq!(r.remove(plan.region.range()), Ok(()));
                }
                prop_assert_eq!(r.insert(plan.region), Ok(()));
            }
        }
        if let Ok(Some(range)) = munmap(Va(a), b, &BOUNDS) {
            prop_assert!(sane(range));
            prop_assert_eq!(r.remove(range), Ok(()));
        }
        if let Ok(Some(plan)) = mprotect(Va(a), b, few, &r) {
            prop_assert!(plan.range.is_empty() || r.protect(plan.range, plan.prot).is_ok());
        }
        let args = MremapArgs { addr: Va(a), old_len_bytes: b, new_len_bytes: c, flags: few, new_addr: Va(d) };
        if let Ok(RemapPlan::Move { to, from, more, replace, trim, .. }) = mremap(&args, &r, &BOUNDS) {
            for span in [replace, trim].into_iter().flatten() {
                prop_assert!(sane(span));
                prop_assert_eq!(r.remove(span), Ok(()));
            }
            prop_assert_eq!(r.move_range(from, VaRange::new(to, from.len_bytes())), Ok(()));
            prop_assert!(more.is_none_or(|m| sane(m) && r.is_vacant(m)));
        }
        let _ = (madvise(Va(a), b, few, &r), msync(Va(a), b, few, &r), mincore(Va(a), b, &r), mlock(Va(a), b, few & 1, &r));
        brk(&Heap { start: Va(B + 70 * P), current: Va(B + 71 * P), max_bytes: c }, Va(a), &r, &BOUNDS);
    }
}
