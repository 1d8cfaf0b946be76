//! One table, as the machine lays it out.

use super::entry::{Entry, Level, span};
use abi::addr::Phys;

/// Entries that [`Table::bits_of_group`] looks at together.
pub const GROUP: usize = 16;

/// The 512 entries of a table. Indices are below 512.
pub trait Table: Clone {
    /// An entry.
    fn get(&self, index: usize) -> Entry;

    /// The bits that any of [`GROUP`] entries from `first` on has. To pass over many entries with few instructions.
    fn bits_of_group(&self, first: usize) -> u64 {
        // BOUND: GROUP.
        (first..first + GROUP).fold(0, |bits, index| bits | self.get(index).0)
    }

    /// Sets an entry with a single 8-byte store.
    fn set(&self, index: usize, entry: Entry);

    /// Sets `count` entries from `first` on to `leaf` and those that follow it. As one change, so that a table which checks what is
    /// set has one check to do.
    fn set_leaves(&self, first: usize, count: usize, mut leaf: Entry, level: Level) {
        // BOUND: the entries of a table; the caller counts them.
        for i in first..first + count {
            self.set(i, leaf);
            leaf = leaf.following(level);
        }
    }

    /// Empties [`GROUP`] entries from `first` on.
    fn clear_group(&self, first: usize) {
        // BOUND: GROUP.
        for i in 0..GROUP {
            self.set(first + i, Entry::EMPTY);
        }
    }

    /// Sets how many entries are in use of the table that an entry points to.
    fn set_count(&self, index: usize, entry: Entry, count: u64) {
        self.set(index, entry.with_count(count));
    }

    /// Keeps the address of a frame in an entry of a table that is not in use.
    fn note(&self, index: usize, frame: Phys) {
        self.set(index, Entry(frame.0));
    }

    /// Empties `groups` times [`GROUP`] entries from `first` on as [`Table::exchange`] does, up to the first that is not `leaf` or the
    /// one that follows it. Returns how many. As one change, as [`Table::set_leaves`].
    fn take_groups(&self, first: usize, groups: usize, leaf: Entry, level: Level) -> usize {
        let is_taken = |i: &usize| {
            let next = Entry(leaf.0 + *i as u64 * span(level));
            self.exchange(first + i, next, Entry::EMPTY).is_ok()
        };
        // BOUND: the entries of a table; the caller counts them.
        (0..groups * GROUP).take_while(is_taken).count()
    }

    /// The bits in which [`GROUP`] entries from `first` on differ from `leaf` and those that follow it.
    fn differences_of_group(&self, first: usize, leaf: Entry, step: u64) -> u64 {
        // BOUND: GROUP.
        (0..GROUP).fold(0, |bits, i| {
            bits | self.get(first + i).0 ^ (leaf.0 + i as u64 * step)
        })
    }

    /// Sets an entry to `new` if it is `current`, as one atomic step with respect to every CPU
    /// that walks the table.
    ///
    /// # Errors
    /// What the entry is instead.
    fn exchange(&self, index: usize, current: Entry, new: Entry) -> Result<(), Entry>;
}
