//! Properties that leave frames as they are.

use super::*;

fn flags(aspace: &Aspace<Node>, at: Va) -> RegionFlags {
    aspace.regions().lookup(at).expect("mapped").flags
}

#[test]
fn all_is_locked_now_or_later() {
    let mut aspace = space(64);
    let map = |aspace: &mut Aspace<Node>, at| aspace.mmap(at, 1, RW, FIXED).unwrap();
    let locked = |aspace: &Aspace<Node>| {
        let at = [A, A + 2 * P, A + 4 * P].into_iter();
        at.filter(|at| aspace.regions().lookup(*at).is_some())
            .map(|at| flags(aspace, at).contains(RegionFlags::LOCKED))
            .collect::<Vec<_>>()
    };
    map(&mut aspace, A);
    aspace.lock_all(false, true);
    map(&mut aspace, A + 2 * P);
    assert_eq!(locked(&aspace), [false, true]);
    assert_eq!(aspace.madvise(A + 2 * P, 1, DONTNEED), Err(Errno::EINVAL));
    aspace.lock_all(true, false);
    map(&mut aspace, A + 4 * P);
    assert_eq!(locked(&aspace), [true, true, false]);
    aspace.lock_all(false, false);
    assert_eq!(locked(&aspace), [false, false, false]);
    // Neighbours that have become alike are one region again.
    map(&mut aspace, A + P);
    assert_eq!(aspace.regions().lookup(A).unwrap().end, A + 3 * P);
}

#[test]
fn a_policy_is_kept_by_range() {
    let mut aspace = space(64);
    aspace.mmap(A, 4, RW, FIXED).unwrap();
    aspace.munmap(A + 2 * P, 1).unwrap();
    let policy = RegionFlags::from_bits_retain(1 << 13 | 1 << 11);
    aspace.bind((A + P).until(A + 4 * P), policy).unwrap();
    let found = [A, A + P, A + 3 * P].map(|at| flags(&aspace, at));
    assert_eq!(found, [RegionFlags::empty(), policy, policy]);
    let other = RegionFlags::from_bits_retain(1 << 12);
    aspace.bind(A.until(A + 4 * P), other).unwrap();
    assert_eq!(flags(&aspace, A + P), other);
    aspace
        .bind(A.until(A + 4 * P), RegionFlags::empty())
        .unwrap();
    assert_eq!(aspace.regions().lookup(A).unwrap().end, A + 2 * P);
}
