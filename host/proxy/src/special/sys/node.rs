//! What the trees of this node hold.

use std::sync::OnceLock;

use super::tree::{Entry, Facts};
use crate::rank::Rank;

/// What the node has. It does not change while a rank runs.
pub fn facts(rank: &Rank) -> &'static Facts {
    static FACTS: OnceLock<Facts> = OnceLock::new();
    FACTS.get_or_init(|| Facts::new(rank.link().cores()))
}

/// The text of a file of a tree.
pub fn text(rank: &Rank, path: &str) -> Option<Vec<u8>> {
    match facts(rank).find(path)? {
        Entry::File(text) => Some(text.read(rank)),
        _ => Some(Vec::new()),
    }
}
