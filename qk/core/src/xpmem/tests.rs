use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

const WHOLE: u64 = u64::MAX;

#[test]
fn ids_are_positive() {
    let id = Id {
        pid: 77,
        number: LAST,
    };
    assert_eq!(Id::decode(id.encode()), Ok(id));
    assert!(id.encode() as i64 > 0);
    for word in [0, u64::MAX, 1 << 63] {
        assert_eq!(Id::decode(word), Err(Errno::EINVAL));
    }
}

#[test]
fn numbers_are_used_up_and_entries_limited() {
    let mut table = Numbered::default();
    for number in 1..=MOST as u32 {
        assert_eq!(table.add(()), Ok(number));
    }
    assert_eq!(table.add(()), Err(Errno::ENOMEM));
    assert_eq!(table.remove(1), Ok(()));
    table.last = LAST - 1;
    assert_eq!(
        (table.add(()), table.add(())),
        (Ok(LAST), Err(Errno::EBUSY))
    );
    table.clear();
    assert_eq!(table.get(LAST), Err(Errno::ENOENT));
    assert_eq!(table.add(()), Err(Errno::EBUSY));
}

proptest! {
    /// Against a map: what was removed is never found again, by no number that comes later.
    #[test]
    fn numbers_name_one_thing_for_ever(steps in prop::collection::vec((0..3u8, 0..40u32), 0..200)) {
        let (mut table, mut model, mut made) = (Numbered::default(), BTreeMap::new(), 0);
        for (step, at) in steps {
            match step {
                0 => {
                    made += 1;
                    prop_assert_eq!(table.add(made * 10), Ok(made));
                    model.insert(made, made * 10);
                }
                1 => prop_assert_eq!(table.remove(at).ok(), model.remove(&at)),
                _ => prop_assert_eq!(table.get(at).ok(), model.get(&at)),
            }
        }
    }

    /// Whatever is requested: what is attached lies in the segment, and the segment in the program's memory.
    #[test]
    fn parts_lie_in_their_segment(start in wild(), len in wild(), offset in wild(), part in wild()) {
        if let Ok(segment) = Segment::new(Va(start), len, 1, 0o600) {
            prop_assert!(start % PAGE == 0 && segment.range.end <= Va(USER_TOP));
            if let Ok(at) = segment.part(offset, part) {
                prop_assert!(at >= Va(start) && part != 0 && at + part <= segment.range.end);
            }
        }
    }
}

/// Numbers near to where something ends.
fn wild() -> impl Strategy<Value = u64> {
    let edges = [0, PAGE, 1 << 20, USER_TOP, USER_TOP * 2, 1 << 63, WHOLE];
    let near = (
        prop::sample::select(edges.to_vec()),
        -2..=2i64,
        prop::bool::ANY,
    );
    near.prop_map(|(edge, by, pages)| {
        let step = if pages { PAGE as i64 } else { 1 };
        edge.wrapping_add_signed(by * step)
    })
}

#[test]
fn segments_are_whole_pages_of_the_program() {
    let all = Segment::new(Va(0), WHOLE, 1, 0o666).unwrap();
    assert_eq!(all.range.len_bytes(), USER_TOP);
    let rest = Segment::new(Va(PAGE), WHOLE, 1, 0o666).unwrap();
    assert_eq!(rest.range.end, Va(USER_TOP));
    for (start, len, kind, mode) in [
        (0, 0, 1, 0o600),
        (1, PAGE, 1, 0o600),
        (0, PAGE + 1, 1, 0o600),
        (USER_TOP, PAGE, 1, 0o600),
        (USER_TOP, WHOLE, 1, 0o600),
        (USER_TOP - PAGE, 2 * PAGE, 1, 0o600),
        (PAGE, WHOLE - PAGE + 1, 1, 0o600), // their sum wraps to the first page
        (0, PAGE, 0, 0o600),
        (0, PAGE, 2, 0o600),
        (0, PAGE, 1, 0o1000),
    ] {
        assert_eq!(Segment::new(Va(start), len, kind, mode), Err(Errno::EINVAL));
    }
}

#[test]
fn parts_are_pages_inside() {
    let segment = Segment::new(Va(8 * PAGE), 4 * PAGE, 1, 0o600).unwrap();
    assert_eq!(segment.part(0, 1), Ok(Va(8 * PAGE)));
    assert_eq!(segment.part(3 * PAGE, PAGE), Ok(Va(11 * PAGE)));
    for (offset, len) in [
        (0, 0),
        (1, 1),
        (0, 4 * PAGE + 1),
        (3 * PAGE, PAGE + 1),
        (4 * PAGE, 1),
        (PAGE, u64::MAX),
        (u64::MAX - PAGE + 1, PAGE),
    ] {
        assert_eq!(segment.part(offset, len), Err(Errno::EINVAL));
    }
}

#[test]
fn modes_say_who_gets_a_permit() {
    let (read, write) = (Access { writes: false }, Access { writes: true });
    let segment = Segment::new(Va(0), PAGE, 1, 0o640).unwrap();
    for (who, access, is_admitted) in [
        (Who::Root, write, true),
        (Who::User, write, true),
        (Who::Group, read, true),
        (Who::Group, write, false),
        (Who::Other, read, false),
    ] {
        assert_eq!(
            segment.admit(who, access).is_ok(),
            is_admitted,
            "{who:?} {access:?}"
        );
    }
    let write_only = Segment::new(Va(0), PAGE, 1, 0o200).unwrap();
    assert_eq!(write_only.admit(Who::User, write), Err(Errno::EACCES));
}

#[test]
fn permits_are_for_reading_or_both() {
    assert_eq!(Access::new(1, 1, 0), Ok(Access { writes: false }));
    assert_eq!(Access::new(2, 1, 0), Ok(Access { writes: true }));
    for (flags, kind, value) in [(3, 1, 0), (4, 1, 0), (2, 0, 0), (2, 1, 0o600)] {
        assert_eq!(Access::new(flags, kind, value), Err(Errno::EINVAL));
    }
}
