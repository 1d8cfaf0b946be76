//! The walks against a model with one entry per 4 KiB page.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Page {
    pa: Phys,
    prot: Prot,
    dirty: bool,
}

type Model = BTreeMap<u64, Page>;

#[derive(Clone, Debug)]
enum Op {
    Map(u64, u64, u64, usize, u8, bool),
    Unmap(u64, u64),
    Protect(u64, u64, u8),
    Move(u64, u64, u64),
    Dirty(u64, u64),
    Visit(u64, u64),
    Budget(usize),
}

/// Page numbers around a gigabyte border, biased to 2 MiB alignment.
fn page() -> impl Strategy<Value = u64> {
    let near = 512 * 510..512 * 516u64;
    prop_oneof![near.clone(), near.prop_map(|p| p & !511)]
}

fn pages() -> impl Strategy<Value = u64> {
    prop_oneof![1..20u64, 1..2000u64, (1..4u64).prop_map(|n| n * 512)]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (page(), page(), pages(), 0..3usize, 0..8u8, any::<bool>())
            .prop_map(|(v, p, n, s, f, d)| Op::Map(v, p, n, s, f, d)),
        3 => (page(), pages()).prop_map(|(v, n)| Op::Unmap(v, n)),
        3 => (page(), pages(), 0..8u8).prop_map(|(v, n, f)| Op::Protect(v, n, f)),
        3 => (page(), page(), pages()).prop_map(|(v, t, n)| Op::Move(v, t, n)),
        1 => (page(), pages()).prop_map(|(v, n)| Op::Dirty(v, n)),
        1 => (page(), pages()).prop_map(|(v, n)| Op::Visit(v, n)),
        1 => (0..6usize).prop_map(Op::Budget),
    ]
}

/// What x86 makes of an access: anything brings READ.
fn shown(bits: u8) -> Prot {
    let prot = Prot::from_bits_truncate(bits);
    if prot.is_empty() {
        prot
    } else {
        prot | Prot::READ
    }
}

fn apply(m: &mut Mem, model: &mut Model, op: Op) -> Result<(), TestCaseError> {
    let vacant = |model: &Model, v: u64, n: u64| model.range(v..v + n).next().is_none();
    match op {
        Op::Map(v, p, n, s, bits, dirty) if vacant(model, v, n) => {
            let max = PageSize::DESCENDING[s];
            let prot = Prot::from_bits_truncate(bits);
            if map(
                m,
                ROOT,
                Va(v * P),
                Phys(p * P),
                n * P,
                MapOptions { prot, max, dirty },
            )
            .is_ok()
            {
                let prot = shown(bits);
                model.extend((0..n).map(|i| {
                    (
                        v + i,
                        Page {
                            pa: Phys((p + i) * P),
                            prot,
                            dirty,
                        },
                    )
                }));
            }
        }
        Op::Unmap(v, n) => {
            let mut gone = Vec::new();
            let result = unmap(
                m,
                ROOT,
                range(v * P, (v + n) * P),
                |_, pa, len_bytes, dirty| {
                    gone.extend((0..len_bytes / P).map(|i| (pa + i * P, dirty)));
                },
            );
            if result.is_ok() {
                let expected: Vec<_> = model
                    .range(v..v + n)
                    .map(|(_, e)| (e.pa, e.dirty))
                    .collect();
                prop_assert_eq!(gone, expected);
                model.retain(|page, _| !(v..v + n).contains(page));
            } else {
                prop_assert!(gone.is_empty());
            }
        }
        Op::Protect(v, n, bits) => {
            let prot = Prot::from_bits_truncate(bits);
            if protect(m, ROOT, range(v * P, (v + n) * P), prot).is_ok() {
                model
                    .range_mut(v..v + n)
                    .for_each(|(_, e)| e.prot = shown(bits));
            }
        }
        Op::Move(v, to, n)
            if vacant(model, to, n)
                && (v + n <= to || to + n <= v)
                && move_range(m, ROOT, Va(v * P), Va(to * P), n * P).is_ok() =>
        {
            let moved: Vec<_> = model.range(v..v + n).map(|(k, e)| (*k, *e)).collect();
            for (k, e) in moved {
                model.remove(&k);
                model.insert(k - v + to, e);
            }
        }
        Op::Dirty(v, n) => {
            mark_dirty(m, ROOT, range(v * P, (v + n) * P));
            // A large page is dirty as a whole.
            for (page, e) in model.iter_mut() {
                e.dirty = at(m, page * P).unwrap().dirty;
                prop_assert!(e.dirty || !(v..v + n).contains(page));
            }
        }
        Op::Visit(v, n) => {
            let mut seen = Vec::new();
            visit_dirty(m, ROOT, range(v * P, (v + n) * P), |va, pa, len| {
                seen.extend((0..len / P).map(|i| (va.0 / P + i, pa + i * P)));
            });
            let expected: Vec<_> = model
                .range(v..v + n)
                .filter(|(_, e)| e.dirty)
                .map(|(k, e)| (*k, e.pa))
                .collect();
            prop_assert_eq!(seen, expected);
        }
        Op::Budget(n) => m.budget = n,
        _ => {}
    }
    Ok(())
}

proptest! {
    #[test]
    fn agrees_with_the_model(ops in proptest::collection::vec(op(), 1..60), budget in 0..40usize) {
        let mut m = Mem::new(budget);
        let mut model = Model::new();
        for op in ops {
            apply(&mut m, &mut model, op)?;
            m.check();
            let mut shown = Vec::new();
            extents(&m, ROOT, range(0, 2 * G1), |e| {
                assert_eq!(extent_at(&m, ROOT, e.va, Va(2 * G1)), Some(e));
                shown.extend((0..e.len_bytes / P).map(|i| (e.va.0 / P + i, e.pa + i * P, e.prot)));
            });
            prop_assert!(shown.iter().copied().eq(model.iter().map(|(k, e)| (*k, e.pa, e.prot))));
            for (page, e) in &model {
                prop_assert_eq!(at(&m, page * P).unwrap().dirty, e.dirty);
            }
            let mut start = 0;
            while start < 2 * G1 {
                let Stretch { end, mapped } = stretch(&m, ROOT, Va(start), Va(2 * G1));
                let pages = if mapped { (end - Va(start)) / P } else { 0 };
                prop_assert_eq!(model.range(start / P..end.0 / P).count() as u64, pages);
                start = end.0;
            }
        }
    }
}
