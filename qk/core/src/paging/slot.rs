//! Where an entry sits, and the runs of entries that begin there.

use super::entry::{self, Entry, Level, index, span};
use super::table::{GROUP, Table};
use crate::page::PageSize;
use abi::addr::Va;

/// Where an entry sits.
#[derive(Clone)]
pub(super) struct Slot<T> {
    pub table: T,
    pub index: usize,
    pub level: Level,
    /// First address the entry translates.
    pub va: Va,
}

impl<T: Table> Slot<T> {
    /// The slot of `table` that translates `va`.
    pub(super) fn of(table: &T, level: Level, va: Va) -> Self {
        Self {
            table: table.clone(),
            index: index(va.0, level),
            level,
            va: va.align_down(span(level)),
        }
    }

    pub(super) fn read(&self) -> Entry {
        self.table.get(self.index)
    }

    pub(super) fn write(&self, entry: Entry) {
        self.table.set(self.index, entry);
    }

    /// Has its entry, which points to a table, say how many of that table's are in use.
    pub(super) fn write_count(&self, entry: Entry, count: u64) {
        self.table.set_count(self.index, entry, count);
    }

    /// Replaces leaf `old` by what `new` makes of it, without losing a D that hardware sets
    /// meanwhile. Returns the leaf that was replaced.
    pub(super) fn replace(&self, mut old: Entry, new: impl Fn(Entry) -> Entry) -> Entry {
        if !old.may_become_dirty() {
            self.write(new(old));
            return old;
        }
        // BOUND: until hardware has set D, which it does once.
        while let Err(now) = self.table.exchange(self.index, old, new(old)) {
            old = now;
        }
        old
    }

    /// Takes out its leaf `old` and those behind it, as far as they continue it: adjacent frames, the
    /// same access, equally dirty. Returns the leaf as it was last, and how many went; at most those
    /// that begin below `end`.
    pub(super) fn take_run(&self, old: Entry, end: Va) -> (Entry, u64) {
        let first = self.replace(old, |_| Entry::EMPTY);
        let racing = first.may_become_dirty();
        let most = self.entries_until(end);
        let mut count = 1;
        if most > GROUP {
            count += self.take_groups(first, racing, most - 1);
        }
        let mut next = Entry(first.0 + (count - 1) as u64 * span(self.level));
        // BOUND: the entries of a table; the caller counts them.
        while count < most {
            next = next.following(self.level);
            let index = self.index + count;
            if racing {
                if self.table.exchange(index, next, Entry::EMPTY).is_err() {
                    break;
                }
            } else if self.table.get(index) == next {
                self.table.set(index, Entry::EMPTY);
            } else {
                break;
            }
            count += 1;
        }
        (first, count as u64)
    }

    /// How many leaves from its `first` on continue it: adjacent frames, the same access. At most
    /// those that begin below `end`.
    pub(super) fn run(&self, first: Entry, end: Va) -> u64 {
        let most = self.entries_until(end);
        let (mut next, mut count) = (first.clean(), 1);
        if most > GROUP {
            count += self.run_of_groups(next, most - 1);
            next = Entry(next.0 + (count - 1) as u64 * span(self.level));
        }
        // BOUND: the entries of a table; the caller counts them.
        while count < most {
            next = next.following(self.level);
            if self.table.get(self.index + count).clean() != next {
                break;
            }
            count += 1;
        }
        count as u64
    }

    /// How many entries from this one on have none of `bits`, of those that begin below `end`.
    pub(super) fn without(&self, bits: u64, end: Va) -> usize {
        let most = self.entries_until(end);
        let mut count = 0;
        // BOUND: the entries of a table; the caller counts them.
        while count + GROUP <= most && self.table.bits_of_group(self.index + count) & bits == 0 {
            count += GROUP;
        }
        // BOUND: the entries of a table; the caller counts them.
        while count < most && self.table.get(self.index + count).0 & bits == 0 {
            count += 1;
        }
        count
    }

    /// Takes out entries behind this one, of `most`, that continue `first`, in groups as far as these are whole; `racing`:
    /// hardware may set D meanwhile. Returns how many.
    #[inline(never)]
    fn take_groups(&self, first: Entry, racing: bool, most: usize) -> usize {
        let step = span(self.level);
        if racing {
            let next = Entry(first.0 + step);
            let groups = most / GROUP;
            return self
                .table
                .take_groups(self.index + 1, groups, next, self.level);
        }
        let mut count = 0;
        // BOUND: the entries of a table; the caller counts them.
        while count + GROUP <= most {
            let expected = Entry(first.0 + (count as u64 + 1) * step);
            let index = self.index + 1 + count;
            if self.table.differences_of_group(index, expected, step) != 0 {
                break;
            }
            self.table.clear_group(index);
            count += GROUP;
        }
        count
    }

    /// How many entries behind this one, `most` of them, continue `first` in whole groups.
    #[inline(never)]
    fn run_of_groups(&self, first: Entry, most: usize) -> usize {
        let step = span(self.level);
        let mut count = 0;
        // BOUND: the entries of a table; the caller counts them.
        while count + GROUP <= most {
            let expected = Entry(first.0 + (count as u64 + 1) * step);
            let table = &self.table;
            let differences = table.differences_of_group(self.index + 1 + count, expected, step);
            if Entry(differences).clean() != Entry::EMPTY {
                break;
            }
            count += GROUP;
        }
        count
    }

    /// Entries of its table from this one on that translate something below `end`.
    pub(super) fn entries_until(&self, end: Va) -> usize {
        let entries = (end - self.va).div_ceil(span(self.level)) as usize;
        entries.min(512 - self.index)
    }

    /// The size of the leaf in it.
    pub(super) fn leaf_size(&self) -> PageSize {
        entry::size_at(self.level)
    }
}
