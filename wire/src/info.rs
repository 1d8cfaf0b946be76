//! The information page: what a rank can read of its job without a call. Each rank has one, mapped read-only at
//! [`abi::map::INFO_PAGE`]; the QK writes it. lib/smartmap reads this layout in C (src/margay.h).

use abi::map::MAX_RANKS;
use zerocopy::{FromBytes, KnownLayout};

use crate::word::Word;

/// Version of the layout: what [`InfoPage::version`] says.
pub const VERSION: u64 = 1;

/// Words of a set of ranks: bit `r % 64` of word `r / 64` is rank `r`.
pub const SET_WORDS: usize = MAX_RANKS.div_ceil(64);

/// The page; offsets in bytes: version 0, rank 8, ranks 16, started 24, lives 56, pids 88.
#[derive(FromBytes, KnownLayout, Debug)]
#[repr(C)]
pub struct InfoPage {
    /// [`VERSION`].
    pub version: Word,
    /// The rank that the page belongs to.
    pub rank: Word,
    /// Ranks of the job on this node.
    pub ranks: Word,
    /// Ranks that have been started.
    pub started: [Word; SET_WORDS],
    /// Of these the ones that have not ended: their windows are there.
    pub lives: [Word; SET_WORDS],
    /// Process ids, of those that have been started.
    pub pids: [Word; MAX_RANKS],
}

const _: () = assert!(size_of::<InfoPage>() <= abi::map::PAGE as usize);

impl InfoPage {
    /// Rank `rank` with process id `pid` has been started, and its window is there.
    pub fn begins(&self, rank: usize, pid: u64) {
        self.pids[rank].put(pid);
        let (word, bit) = place(rank);
        self.lives[word].store(self.lives[word].peek() | bit);
        self.started[word].store(self.started[word].peek() | bit);
    }

    /// Rank `rank` ends, and its window with it.
    pub fn ends(&self, rank: usize) {
        let (word, bit) = place(rank);
        self.lives[word].store(self.lives[word].peek() & !bit);
    }
}

const fn place(rank: usize) -> (usize, u64) {
    (rank / 64, 1 << (rank % 64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::mem::offset_of;

    #[test]
    fn lies_as_the_c_header_says() {
        let offsets = [
            offset_of!(InfoPage, rank),
            offset_of!(InfoPage, ranks),
            offset_of!(InfoPage, started),
            offset_of!(InfoPage, lives),
            offset_of!(InfoPage, pids),
        ];
        assert_eq!(offsets, [8, 16, 24, 56, 88]);
    }

    #[test]
    fn ranks_begin_and_end_alone() {
        let page: InfoPage = zerocopy::FromZeros::new_zeroed();
        for rank in [0, 63, 64, 254] {
            page.begins(rank, 1000 + rank as u64);
        }
        page.ends(63);
        let set = |words: &[Word; SET_WORDS]| words.each_ref().map(Word::load);
        assert_eq!(set(&page.started), [1 | 1 << 63, 1, 0, 1 << 62]);
        assert_eq!(set(&page.lives), [1, 1, 0, 1 << 62]);
        assert_eq!(page.pids[64].load(), 1064);
    }
}
