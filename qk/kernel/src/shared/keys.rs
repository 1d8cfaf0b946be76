//! Keys of futexes in shared memory: an object and the offset in it.

use hal::addr::Va;
use qk_core::futex::Key;
use qk_core::regions::{Kind, Region};

use crate::rank::Rank;

/// Set in the space of a futex's key that is an object's, not a rank's.
const OBJECT_SPACE: u64 = 1 << 32;

/// Set besides where the object is a file.
const FILE_SPACE: u64 = 1 << 33;

/// Whether a key is of a futex in a file.
#[inline]
pub fn is_in_file(key: Key) -> bool {
    key.space & FILE_SPACE != 0
}

/// Whether a key is of a futex in shared memory.
#[inline]
pub fn is_shared(key: Key) -> bool {
    key.space & OBJECT_SPACE != 0
}

/// The key of a futex in shared memory; `None` where memory is the rank's own.
#[inline]
pub fn futex_key(rank: &Rank, at: u64) -> Option<Key> {
    match rank.memory().maps_objects() {
        true => object_key(rank, at),
        false => None,
    }
}

#[cold]
#[inline(never)]
fn object_key(rank: &Rank, at: u64) -> Option<Key> {
    let region = rank.with_aspace(|aspace| Ok(aspace.regions().lookup(Va(at)).copied()));
    let region = region.ok().flatten().filter(Region::is_object)?;
    let in_file = match region.kind {
        Kind::File => FILE_SPACE,
        _ => 0,
    };
    Some(Key {
        space: OBJECT_SPACE | in_file | u64::from(region.object),
        at: region.offset_at(Va(at)),
    })
}
