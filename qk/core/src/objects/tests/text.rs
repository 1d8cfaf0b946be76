//! Text against a model: which rank maps which pages of which file.

use super::*;

fn key(inode: u64, changed_ns: u64) -> TextKey {
    TextKey {
        file: [1, inode],
        changed_ns,
    }
}

/// As the kernel does it, with frames that hold the text at once.
fn map(objects: &mut Objects, key: TextKey, from: u64, to: u64) -> Result<Vec<Piece>, Errno> {
    let fresh = objects.extend_text(key, from, to)?;
    objects.enter_text(key, &fresh)?;
    let text = objects.attach_text(key, from, to)?;
    let pieces = text.pieces().to_vec();
    text.pass_on();
    Ok(pieces)
}

fn unmap(objects: &mut Objects, pieces: &[Piece]) {
    for piece in pieces {
        objects.detach_text(TextLease::of(piece.run()));
    }
}

/// Makes what is not mapped free, as if nobody reached it; returns it.
fn free_idle_text(objects: &mut Objects) -> Vec<Piece> {
    objects.retire_idle_text();
    let idle = objects.retired().expect("memory");
    objects.release(&idle);
    idle
}

#[test]
fn a_file_that_was_changed_is_another() {
    let mut objects = objects(16 * MIB);
    let first = map(&mut objects, key(2, 7), 0, MIB).expect("room");
    assert_eq!(map(&mut objects, key(2, 7), 0, MIB), Ok(first.clone()));
    let changed = map(&mut objects, key(2, 8), 0, MIB).expect("room");
    assert_ne!(changed, first);
    // Nor is it ever what ranks write to.
    let id = objects.lend([1, 2], MIB).expect("room");
    let written = objects.extend(id, 0, MIB).expect("room");
    assert!(written.iter().all(|piece| piece.pa != first[0].pa));
    assert_eq!(objects.used_bytes(), 3 * MIB);
}

#[test]
fn it_stays_for_the_next_until_the_pool_is_short() {
    let mut objects = objects(16 * MIB);
    let first = map(&mut objects, key(2, 7), 0, MIB).expect("room");
    unmap(&mut objects, &first);
    assert_eq!(map(&mut objects, key(2, 7), 0, MIB), Ok(first.clone()));
    objects.retire_idle_text();
    assert_eq!(objects.retired().expect("memory"), [], "it is mapped");
    unmap(&mut objects, &first);
    objects.retire_idle_text();
    assert_eq!(objects.retired().expect("memory"), first);
    assert_eq!(objects.used_bytes(), MIB, "until nobody reaches it");
    assert_ne!(map(&mut objects, key(2, 7), 0, MIB), Ok(first.clone()));
    objects.release(&first);
    assert_eq!(objects.used_bytes(), MIB);
}

#[test]
fn half_of_the_pool_is_for_what_ranks_write() {
    let mut objects = objects(16 * MIB);
    assert_eq!(
        objects.extend_text(key(2, 7), 0, 8 * MIB + PAGE_BYTES),
        Err(Errno::ENOMEM)
    );
    map(&mut objects, key(2, 7), 0, 8 * MIB).expect("room");
    assert_eq!(
        objects.extend_text(key(3, 7), 0, PAGE_BYTES),
        Err(Errno::ENOMEM)
    );
    let id = objects.lend([1, 2], 8 * MIB).expect("room");
    objects.extend(id, 0, 8 * MIB).expect("the other half");
}

/// Its pages are gone for those that have mapped it before; who maps the file next looks for them anew.
#[test]
fn what_was_cut_off_is_not_found() {
    let mut objects = objects(16 * MIB);
    let first = map(&mut objects, key(2, 7), MIB, 2 * MIB).expect("room");
    let other = map(&mut objects, key(3, 7), 0, MIB).expect("room");
    let at = first[0].pa + 3 * PAGE_BYTES;
    assert!(objects.lose_text(at));
    assert!(!objects.lose_text(BASE + 16 * MIB));
    assert_ne!(
        map(&mut objects, key(2, 7), MIB, 2 * MIB),
        Ok(first.clone())
    );
    assert_eq!(map(&mut objects, key(3, 7), 0, MIB), Ok(other));
    unmap(&mut objects, &first);
    assert_eq!(free_idle_text(&mut objects), first);
}

/// For each piece all pieces were looked at.
#[test]
fn pieces_are_found_without_a_search_through_the_others() {
    thread_local!(static WORK: Cell<u64> = const { Cell::new(0) });
    const PAGES: u64 = 256;
    let point = |work: u32| WORK.set(WORK.get() + u64::from(work));
    let mut objects =
        Objects::new(PhysRange::new(BASE, 2 * PAGES * PAGE_BYTES), true, point).expect("memory");
    // All frames go in turn to two files, of which one is let go.
    let files = [[1, 2], [1, 3]].map(|file| objects.lend(file, PAGE_BYTES).expect("room"));
    for from in (0..PAGES).map(|page| page * PAGE_BYTES) {
        for file in files {
            let end = from + PAGE_BYTES;
            objects.extend(file, from, end).expect("a frame");
        }
    }
    let pieces = objects.end(files[0], PAGE_BYTES).expect("the last one");
    give_back(&mut objects, &pieces);
    WORK.set(0);
    let pieces = map(&mut objects, key(2, 7), 0, PAGES * PAGE_BYTES).expect("room");
    assert_eq!(pieces.len() as u64, PAGES);
    unmap(&mut objects, &pieces);
    objects.retire_idle_text();
    assert_eq!(objects.retired().expect("memory").len() as u64, PAGES);
    assert!(WORK.get() < 750 * PAGES, "{} instructions", WORK.get());
}

proptest! {
    #[test]
    fn agrees_with_a_model(
        ops in proptest::collection::vec((0..3u64, 0..40u64, 1..20u64, any::<bool>()), 1..60),
    ) {
        let mut objects = objects(2 * MIB);
        // What is mapped: file, range and frames; and where each page lies as long as it is mapped.
        let mut mapped: Vec<(u64, u64, Vec<Piece>)> = Vec::new();
        for (inode, first, pages, maps) in ops {
            if maps {
                let (from, to) = (first * PAGE_BYTES, (first + pages) * PAGE_BYTES);
                if let Ok(pieces) = map(&mut objects, key(inode, 0), from, to) {
                    let len: u64 = pieces.iter().map(|piece| piece.len_bytes).sum();
                    prop_assert_eq!((pieces[0].offset, len), (from, to - from));
                    mapped.push((inode, from, pieces));
                }
            } else if let Some(index) = (first as usize).checked_rem(mapped.len()) {
                let (_, _, pieces) = mapped.swap_remove(index);
                unmap(&mut objects, &pieces);
            } else {
                free_idle_text(&mut objects);
                prop_assert_eq!(objects.used_bytes(), 0);
            }
            let mut frames = BTreeMap::new();
            for (inode, _, pieces) in &mapped {
                for piece in pieces {
                    for at in (0..piece.len_bytes).step_by(PAGE_BYTES as usize) {
                        let page = (*inode, piece.offset + at);
                        let other = frames.insert(piece.pa + at, page);
                        prop_assert!(other.is_none_or(|other| other == page));
                    }
                }
            }
            let pages: BTreeSet<_> = frames.values().collect();
            prop_assert_eq!(pages.len(), frames.len(), "a page lies in one frame");
            let idle = free_idle_text(&mut objects);
            let reached = |piece: &Piece| frames.range(piece.pa..piece.pa + piece.len_bytes).count();
            prop_assert!(idle.iter().all(|piece| reached(piece) == 0));
        }
    }
}
