//! mremap and brk.

use super::*;

fn remap(addr: u64, old: u64, new: u64, flags: u64, to: u64) -> Result<RemapPlan, Errno> {
    let args = MremapArgs {
        addr: Va(addr),
        old_len_bytes: old,
        new_len_bytes: new,
        flags,
        new_addr: Va(to),
    };
    mremap(&args, &regions(), &BOUNDS)
}

/// A file's pages were left as zeros.
#[test]
fn only_memory_of_zeros_is_left_behind() {
    for kind in [
        Kind::Anon,
        Kind::Heap,
        Kind::Stack,
        Kind::File,
        Kind::Image,
        Kind::Vvar,
    ] {
        let mut r = regions();
        r.update(pages(0, 1), |region| region.kind = kind).unwrap();
        let args = MremapArgs {
            addr: Va(B),
            old_len_bytes: P,
            new_len_bytes: P,
            flags: 5,
            new_addr: Va(0),
        };
        let moves = mremap(&args, &r, &BOUNDS).map(|_| ());
        let holds_zeros = matches!(kind, Kind::Anon | Kind::Heap | Kind::Stack);
        assert_eq!(moves.is_ok(), holds_zeros, "{kind:?}: {moves:?}");
    }
}

#[test]
fn mremap_refuses_as_linux_does() {
    let neg = |n: u64| 0u64.wrapping_sub(n);
    let cases = [
        (B + 1, P, P, 0, 0, Errno::EINVAL),
        (B, P, 0, 0, 0, Errno::EINVAL),
        (B, P, P, 8, 0, Errno::EINVAL),
        (B, P, P, 2, 0, Errno::EINVAL),
        (B, P, P, 4, 0, Errno::EINVAL),
        (B, P, 2 * P, 5, 0, Errno::EINVAL),
        (0, P, P, 0, 0, Errno::EFAULT),
        (0, P, 2 * P, 1, 0, Errno::EFAULT),
        (B, 0, P, 0, 0, Errno::EINVAL),
        (B, 0, P, 1, 0, Errno::EINVAL),
        (B, P, 2 * P, 0, 0, Errno::ENOMEM),
        (B, P, 1 << 47, 1, 0, Errno::EINVAL),
        (B, P, 1 << 46, 1, 0, Errno::ENOMEM),
        (B, P, u64::MAX, 1, 0, Errno::EINVAL),
        (B, u64::MAX, P, 1, 0, Errno::EINVAL),
        (B, neg(P), P, 1, 0, Errno::EINVAL),
        (B + 30 * P, 4 * P, 8 * P, 1, 0, Errno::EFAULT),
        (B, 2 * P, P, 3, B + P, Errno::EINVAL),
        (B, P, P, 3, B + 1, Errno::EINVAL),
        (B, P, P, 3, TOP, Errno::EINVAL),
        (B, P, P, 3, 0, Errno::EPERM),
        (B, P, P, 3, B, Errno::EINVAL),
        (B + 32 * P, P, P, 3, B + 50 * P, Errno::EFAULT),
    ];
    for (addr, old, new, flags, to, errno) in cases {
        let got = remap(addr, old, new, flags, to);
        assert_eq!(
            got,
            Err(errno),
            "{addr:#x} {old:#x} {new:#x} {flags} {to:#x}"
        );
    }
}

#[test]
fn mremap_stays_grows_or_moves() {
    let stay = |at: u64, trim| {
        Ok(RemapPlan::Stay {
            addr: Va(B + at * P),
            trim,
        })
    };
    assert_eq!(remap(B + 5 * P, P, P, 1, 1), stay(5, None));
    assert_eq!(
        remap(B + 30 * P, 4 * P, P, 0, 0),
        stay(30, Some(pages(31, 34)))
    );
    let grown = RemapPlan::Grow {
        addr: Va(B + 31 * P),
        more: pages(32, 33),
    };
    assert_eq!(remap(B + 31 * P, P, 2 * P, 0, 0), Ok(grown));
    let fixed = RemapPlan::Move {
        to: Va(B + 50 * P),
        from: pages(2, 3),
        more: None,
        replace: Some(pages(50, 51)),
        trim: Some(pages(3, 5)),
        keep_old: false,
    };
    assert_eq!(remap(B + 2 * P, 3 * P, P, 3, B + 50 * P), Ok(fixed));
    let Ok(RemapPlan::Move { to, from, more, .. }) = remap(B + P, P, M2 + P, 1, 0) else {
        panic!("it must move");
    };
    assert_eq!((to.0 % M2, from), (P, pages(1, 2)));
    assert_eq!(more, Some(VaRange::new(to + P, M2)));
    assert!(matches!(
        remap(B + P, P, P, 5, 0),
        Ok(RemapPlan::Move { keep_old: true, .. })
    ));
}

#[test]
fn brk_keeps_a_page_free_and_never_fails() {
    let r = regions();
    let heap = Heap {
        start: Va(B - 16 * P),
        current: Va(B - 16 * P),
        max_bytes: u64::MAX,
    };
    let start = heap.start.0;
    let to = |heap: &Heap, wanted| brk(heap, Va(wanted), &r, &BOUNDS);
    for wanted in [0, start - 1, u64::MAX, 1 << 46, B, B - P + 1] {
        assert_eq!(to(&heap, wanted), BrkPlan::Keep, "{wanted:#x}");
    }
    assert_eq!(to(&heap, start), BrkPlan::Set);
    assert_eq!(to(&heap, B - P), BrkPlan::Grow(heap.start.until(Va(B - P))));
    let grown = Heap {
        current: Va(B - 2 * P - 5),
        ..heap
    };
    assert_eq!(to(&grown, B - 2 * P), BrkPlan::Set);
    assert_eq!(
        to(&grown, start + 1),
        BrkPlan::Shrink(Va(start + P).until(Va(B - 2 * P)))
    );
    assert_eq!(
        to(
            &Heap {
                max_bytes: P,
                ..heap
            },
            start + P + 1
        ),
        BrkPlan::Keep
    );
}
