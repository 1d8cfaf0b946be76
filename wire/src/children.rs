//! The children that a rank has had, for `yod --stats`. Written by its proxy, read by its yod.

use zerocopy::{FromBytes, KnownLayout};

use crate::word::{Text, Word};

/// Children that are listed; later ones are counted only.
pub const LISTED: usize = 64;

/// Values of [`Entry::state`].
pub mod state {
    /// It has not ended, as far as is known.
    pub const LIVES: u64 = 0;
    /// It has ended, and all is known.
    pub const ENDED: u64 = 1;
    /// It is gone and was not waited for: SIGCHLD was ignored.
    pub const UNSEEN: u64 = 2;
}

/// A child.
#[derive(FromBytes, KnownLayout, Default, Debug)]
#[repr(C)]
pub struct Entry {
    /// Its process id.
    pub pid: Word,
    /// See [`state`]; published last.
    pub state: Word,
    /// How it ended, as wait(2) says it.
    pub wait_status: Word,
    /// Processor time of it and of those that it waited for, in microseconds: the user's and the system's.
    pub used_us: [Word; 2],
    /// Its name when it ended, or when the rank did (/proc/PID/comm).
    pub name: Text<2>,
}

/// All of a rank's.
#[derive(FromBytes, KnownLayout, Debug)]
#[repr(C)]
pub struct Children {
    /// How many there were.
    pub count: Word,
    /// The first of them.
    pub entries: [Entry; LISTED],
}

impl Default for Children {
    fn default() -> Children {
        Children {
            count: Word::default(),
            entries: core::array::from_fn(|_| Entry::default()),
        }
    }
}

impl Children {
    /// Those that are listed.
    #[must_use]
    pub fn listed(&self) -> &[Entry] {
        let count = usize::try_from(self.count.load()).unwrap_or(LISTED);
        &self.entries[..count.min(LISTED)]
    }

    /// One more (proxy only, one at a time).
    pub fn add(&self, pid: u32) {
        let count = self.count.peek();
        let free = usize::try_from(count).ok();
        if let Some(entry) = free.and_then(|free| self.entries.get(free)) {
            entry.pid.put(pid.into());
        }
        self.count.store(count + 1);
    }

    /// The one with this process id that lives, if it is listed: ids are used again.
    #[must_use]
    pub fn living(&self, pid: u32) -> Option<&Entry> {
        let lives =
            |entry: &&Entry| entry.pid.peek() == pid.into() && entry.state.peek() == state::LIVES;
        self.listed().iter().find(lives)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_are_listed_and_all_counted() {
        let children = Children::default();
        for pid in 1..=LISTED as u32 + 2 {
            children.add(pid);
        }
        assert_eq!(children.count.load(), LISTED as u64 + 2);
        assert_eq!(children.listed().len(), LISTED);
        assert!(children.living(LISTED as u32).is_some());
        assert!(children.living(LISTED as u32 + 1).is_none());
    }

    /// A process id comes again when the first with it has been waited for.
    #[test]
    fn the_one_that_lives_is_found() {
        let children = Children::default();
        children.add(7);
        children.entries[0].state.store(state::ENDED);
        assert!(children.living(7).is_none());
        children.add(7);
        let found = children.living(7).expect("the second");
        assert!(core::ptr::eq(found, &children.entries[1]));
    }
}
