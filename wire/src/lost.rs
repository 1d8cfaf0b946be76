//! Pages of files that were gone when a core touched them: what the host says of them.

use crate::word::Word;

/// A page of the node pool over which a file is laid that did not have it: a page of zeros is there for now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LostPage {
    /// Guest-physical; a multiple of a page.
    pub address: u64,
    /// The core that it is said to has touched it; else it is not known which has.
    pub is_touched: bool,
}

/// Bits of a word below the address.
const TOUCHED: u64 = 1;
const ONE: u64 = 2;
const NUMBERS: u64 = 0xffe;

impl LostPage {
    /// The host's: says it to the core whose word this is, which finds it changed, even by the same page again.
    pub fn say(&self, word: &Word) {
        let number = word.load().wrapping_add(ONE) & NUMBERS;
        word.put(self.address | number | if self.is_touched { TOUCHED } else { 0 });
    }

    /// What a changed word says.
    #[must_use]
    pub const fn of(word: u64) -> LostPage {
        LostPage {
            address: word & !(NUMBERS | TOUCHED),
            is_touched: word & TOUCHED != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_changes_the_word() {
        let word = Word::new(0);
        let mut last = 0;
        for i in 0..5000u64 {
            let page = LostPage {
                address: (i / 4096) << 12,
                is_touched: i.is_multiple_of(2),
            };
            page.say(&word);
            assert_ne!(word.load(), last);
            last = word.load();
            assert_eq!(LostPage::of(last), page);
        }
    }
}
