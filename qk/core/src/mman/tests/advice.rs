//! madvise, msync, mincore, mlock, mbind.

use super::*;

#[test]
fn madvise_answers_as_linux_does() {
    let mut r = regions();
    let neg = |n: u64| 0u64.wrapping_sub(n);
    let bad = [
        (B + 1, P, 4),
        (B + 1, 0, 4),
        (B, 0, 99),
        (B + 1, P, 99),
        (B, u64::MAX, 4),
        (B, neg(P), 4),
        (neg(P), P, 4),
    ];
    for (addr, len, advice) in bad {
        assert_eq!(
            madvise(Va(addr), len, advice, &r),
            Err(Errno::EINVAL),
            "{addr:#x} {len:#x} {advice}"
        );
    }
    assert_eq!(madvise(Va(B + 32 * P), 0, 4, &r), Ok(None));
    let call = |r: &Regions, advice| match madvise(Va(B + 31 * P), P, advice, r) {
        Ok(plan) => plan.unwrap().result,
        Err(errno) => Err(errno),
    };
    let all = (0..30).chain(100..106);
    let taken = |r: &Regions| {
        all.clone()
            .filter(|a| call(r, *a).is_ok())
            .collect::<std::vec::Vec<u64>>()
    };
    // WIPEONFORK was accepted, and a child had its parent's random numbers.
    let anon: std::vec::Vec<u64> = (0..5)
        .chain([8])
        .chain(10..25)
        .filter(|a| *a != 18)
        .collect();
    assert_eq!(taken(&r), anon);
    let hole = madvise(Va(B + 31 * P), 6 * P, 4, &r).unwrap().unwrap();
    assert_eq!(
        (hole.advice, hole.range, hole.result),
        (Advice::Discard, pages(31, 37), Err(Errno::ENOMEM))
    );
    let left_out = |advice| {
        madvise(Va(B + 31 * P), P, advice, &r)
            .unwrap()
            .unwrap()
            .advice
    };
    assert_eq!(
        (left_out(16), left_out(17), left_out(3)),
        (
            Advice::LeaveOut(true),
            Advice::LeaveOut(false),
            Advice::Accept
        )
    );
    r.protect(pages(31, 32), Prot::empty()).unwrap();
    assert_eq!(
        (call(&r, 22), call(&r, 23)),
        (Err(Errno::EINVAL), Err(Errno::EINVAL))
    );
    r.update(pages(31, 32), |x| x.flags |= RegionFlags::LOCKED)
        .unwrap();
    assert_eq!((call(&r, 4), call(&r, 24)), (Err(Errno::EINVAL), Ok(())));
    r.update(pages(31, 32), |x| {
        (x.kind, x.prot) = (Kind::File, Prot::READ)
    })
    .unwrap();
    let refused = [8, 9, 18, 23].map(|a| call(&r, a).unwrap_err());
    assert_eq!(
        refused,
        [Errno::EINVAL, Errno::EACCES, Errno::EINVAL, Errno::EINVAL]
    );
}

#[test]
fn msync_mincore_and_mlock_answer_as_linux_does() {
    let r = regions();
    let neg = |n: u64| 0u64.wrapping_sub(n);
    for (addr, len, flags) in [(B + 1, P, 4), (B, P, 8), (B, P, 5)] {
        assert_eq!(msync(Va(addr), len, flags, &r), Err(Errno::EINVAL));
    }
    for (addr, len) in [(B, 0), (B, u64::MAX)] {
        assert_eq!(msync(Va(addr), len, 4, &r), Ok(None));
        assert_eq!(mlock(Va(addr), len, 0, &r), Ok(None));
    }
    assert_eq!(msync(Va(B), neg(P), 4, &r), Err(Errno::ENOMEM));
    let plan = |range, result| Ok(Some(SyncPlan { range, result }));
    assert_eq!(msync(Va(B), P, 0, &r), plan(pages(0, 1), Ok(())));
    // Once nothing was written back beside a hole.
    assert_eq!(
        msync(Va(B + 31 * P), 2 * P, 4, &r),
        plan(pages(31, 33), Err(Errno::ENOMEM))
    );
    assert_eq!(mincore(Va(B + 1), P, &r), Err(Errno::EINVAL));
    assert_eq!(
        (mincore(Va(B), 0, &r), mincore(Va(B), P + 1, &r)),
        (Ok(0), Ok(2))
    );
    assert_eq!(
        (mincore(Va(B), u64::MAX, &r), mincore(Va(TOP), P, &r)),
        (Err(Errno::ENOMEM), Err(Errno::ENOMEM))
    );
    // Only rounding up wraps.
    assert_eq!(mincore(Va(B), u64::MAX - B, &r), Err(Errno::ENOMEM));
    let lock = Lock {
        range: pages(0, 2),
        result: Ok(()),
    };
    assert_eq!(mlock(Va(B + 1), P, 0, &r), Ok(Some(lock)));
    assert_eq!(mlock(Va(B), P, 4, &r), Err(Errno::EINVAL));
    assert_eq!(mlock(Va(B + 32 * P), P, 0, &r), Err(Errno::ENOMEM));
}

#[test]
fn mbind_answers_as_linux_does() {
    let r = regions();
    for default in [false, true] {
        assert_eq!(mbind(Va(B), 0, default, &r), Ok(None));
        assert_eq!(mbind(Va(B + 1), P, default, &r), Err(Errno::EINVAL));
        assert_eq!(mbind(Va(B), u64::MAX, default, &r), Ok(None));
        assert_eq!(mbind(Va(B + 32 * P), P, default, &r), Err(Errno::EFAULT));
        assert_eq!(mbind(Va(B), P, default, &r), Ok(Some(pages(0, 1))));
    }
    let over_a_hole = |default| mbind(Va(B), 40 * P, default, &r);
    assert_eq!(over_a_hole(false), Err(Errno::EFAULT));
    assert_eq!(over_a_hole(true), Ok(Some(pages(0, 40))));
}
