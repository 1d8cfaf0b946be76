//! The node pool: an object, whose file is a map from pages to values, and text.

use super::machine::with;
use super::*;
use crate::objects::{AttachedText, Lease, Objects, Piece, TextLease};
use abi::addr::{Phys, PhysRange};
use std::collections::BTreeMap;

/// Where the pool lies, outside of any partition: text first, then the object.
pub const POOL: u64 = 0x8000_0000;
const OBJECTS: u64 = 0xc000_0000;
const FILE: crate::objects::File = [1, 2];

/// Gets what is left.
pub struct Pool;

impl Lender for Pool {
    fn text_left(&mut self, text: impl Iterator<Item = TextLease>) {
        text.for_each(take_back);
    }

    fn object_left(&mut self, lease: Lease) {
        Node.sync();
        let left = with(|s| {
            s.lent_bytes -= lease.len_bytes();
            s.objects.as_mut().expect("there is one").detach(lease, 0)
        });
        let Some(pieces) = left.and_then(|left| left.dead) else {
            return;
        };
        // The file is not laid over them any more.
        for (page, pa) in pieces.iter().flat_map(pages) {
            let value = Node::load(pa);
            with(|s| s.file.insert(page, value));
        }
        with(|s| {
            let objects = s.objects.as_mut().expect("there is one");
            objects.retire(&pieces);
            objects.release(&pieces);
        });
    }
}

/// Text is not mapped any more, also by the proxy.
pub fn take_back(lease: TextLease) {
    let (pa, len_bytes) = lease.end();
    for frame in (pa.0..pa.0 + len_bytes).step_by(P as usize) {
        assert!(
            with(|s| s.lent_text.remove(&frame)),
            "{frame:#x} is not lent"
        );
        assert!(
            Node::shown().values().all(|(shown, _)| *shown != frame),
            "the proxy has it"
        );
    }
}

/// Lends text.
pub fn text(pieces: Vec<Piece>) -> AttachedText {
    for piece in &pieces {
        let frames = (piece.pa.0..piece.pa.0 + piece.len_bytes).step_by(P as usize);
        with(|s| s.lent_text.extend(frames));
    }
    AttachedText::of(pieces)
}

impl Aspace<Node> {
    /// As [`Aspace::map_text`], with what was lent taken back should it fail.
    pub fn show_text(&mut self, region: Region, pieces: Vec<Piece>) -> Result<(), Errno> {
        self.map_text(region, text(pieces))
            .map_err(|(errno, text)| {
                text.into_leases().for_each(take_back);
                errno
            })
    }

    /// Maps pages `first .. first + pages` of the file, as far as it has them, at `start`, where nothing is mapped.
    pub fn show_file(
        &mut self,
        start: Va,
        [first, pages]: [u64; 2],
        in_file: u64,
    ) -> Result<(), Errno> {
        let len_bytes = pages * P;
        let mut lease = with(|s| {
            let make = || {
                Objects::new(PhysRange::new(Phys(OBJECTS), 4096 * P), true, |_| ()).expect("memory")
            };
            s.lent_bytes += len_bytes;
            s.objects
                .get_or_insert_with(make)
                .attach(FILE, 0, len_bytes)
        })?;
        let object = lease.object();
        let region = Region {
            offset: first * P,
            object,
            flags: RegionFlags::SHARED,
            ..Region::new(
                VaRange::new(start, len_bytes),
                Prot::READ | Prot::WRITE,
                Kind::File,
            )
        };
        let border = start + in_file.min(pages) * P;
        let mapped = self.show_parts(region, border, &mut lease);
        if lease.len_bytes() > 0 {
            Pool.object_left(lease);
        }
        if mapped.is_err() {
            self.done(|a| a.unmap(region.range())).expect("room");
        }
        mapped
    }

    fn show_parts(&mut self, region: Region, border: Va, lease: &mut Lease) -> Result<(), Errno> {
        if border < region.end {
            let mut behind = region.clip(border.until(region.end));
            behind.flags |= RegionFlags::PAST_END;
            self.map_object(behind, &[], lease)?;
        }
        if region.start < border {
            let there = region.clip(region.start.until(border));
            self.map_object(there, &frames(&there), lease)?;
        }
        Ok(())
    }

    /// Bytes of regions that show objects are those that are lent, and so is text; each page is of the kind that its region says.
    pub fn check_lent(&mut self, regions: &[Region], leaves: &BTreeMap<Va, u64>) {
        let [mut objects, mut text] = [0; 2];
        for region in regions {
            let range = match region.backing() {
                Backing::Own => PARTITION..POOL,
                Backing::Foreign => 0..PARTITION,
                Backing::Text => POOL..OBJECTS,
                Backing::Object(_) => OBJECTS..u64::MAX,
            };
            match region.backing() {
                Backing::Own | Backing::Foreign => {}
                Backing::Text => text += region.len_bytes(),
                Backing::Object(_) => objects += region.len_bytes(),
            }
            for (va, pa) in leaves.range(region.start..region.end) {
                assert!(range.contains(pa), "{pa:#x} at {va:?}: {region:x?}");
            }
        }
        assert_eq!(objects, self.object_bytes);
        assert_eq!(objects, with(|s| s.lent_bytes));
        assert_eq!(text, with(|s| s.lent_text.len()) as u64 * P);
    }
}

/// The frames of a part of the file, which hold what it holds.
pub fn frames(region: &Region) -> Vec<Piece> {
    let (from, to) = (region.offset, region.offset + region.len_bytes());
    let (fresh, pieces) = with(|s| {
        let objects = s.objects.as_mut().expect("it was attached");
        let fresh = objects.extend(region.object, from, to).expect("frames");
        (
            fresh,
            objects.pieces(region.object, from, to).expect("memory"),
        )
    });
    for (page, pa) in fresh.iter().flat_map(pages) {
        Node::store(pa.0, with(|s| s.stored(page)));
    }
    pieces
}

/// The pages of a piece: which of the file, and where.
fn pages(piece: &Piece) -> impl Iterator<Item = (u64, Phys)> + use<> {
    let Piece {
        offset,
        len_bytes,
        pa,
        ..
    } = *piece;
    (0..len_bytes / P).map(move |page| (offset / P + page, pa + page * P))
}

/// What a page of the file holds.
pub fn in_file(page: u64) -> u64 {
    let laid = with(|s| {
        let objects = s.objects.as_mut()?;
        let object = objects.id_of(FILE)?;
        let pieces = objects.pieces(object, page * P, (page + 1) * P).ok()?;
        Some(pieces.first()?.clip(page * P, (page + 1) * P).pa)
    });
    match laid {
        Some(pa) => Node::load(pa),
        None => with(|s| s.stored(page)),
    }
}
