//! What a test has the machine do, and what it sees of it.

use super::*;

impl Node {
    /// A node on which nothing has happened.
    pub fn reset() {
        with(|s| {
            *s = State {
                room: 64,
                ..State::default()
            }
        });
    }

    /// A call begins, or ends, by which Linux may write to the rank's memory.
    pub fn set_written(is_written: bool) {
        with(|s| s.is_written = is_written);
    }

    /// The proxy applies some of what is in the log.
    pub fn apply_some(count: usize) {
        with(|s| s.apply((s.applied + count).min(s.log.len())));
    }

    /// The proxy applies the next record; `false`: there is none.
    pub fn apply_one() -> bool {
        with(|s| {
            let next = s.applied + 1;
            let is_there = next <= s.log.len();
            if is_there {
                s.apply(next);
            }
            is_there
        })
    }

    pub fn set_log_room(records: usize) {
        with(|s| s.room = records.max(1));
    }

    pub fn store(page: u64, value: u64) {
        with(|s| {
            assert!(
                !s.levels.contains_key(&Phys(page)),
                "a store into a page table"
            );
            assert!(!s.text.contains(&page), "a store into shared text");
            match value {
                0 => _ = s.data.remove(&page),
                _ => _ = s.data.insert(page, value),
            }
        });
    }

    /// A frame that holds text from now on.
    pub fn make_text(page: u64, value: u64) {
        with(|s| {
            s.data.insert(page, value);
            s.text.insert(page);
        });
    }

    pub fn load(page: Phys) -> u64 {
        with(|s| s.data.get(&page.0).copied().unwrap_or(0))
    }

    pub fn watch_points() {
        with(|s| s.watching = true);
    }

    pub fn most_entries_between_points() -> u64 {
        with(|s| s.most_entries)
    }

    pub fn all_entries() -> u64 {
        with(|s| s.all_entries)
    }

    /// How often the rank's cores were to drop translations of just this range.
    pub fn flushes_of(range: VaRange) -> usize {
        with(|s| s.flushed.iter().filter(|f| **f == range).count())
    }

    pub fn peer_flushes() -> u32 {
        with(|s| s.peer_flushes)
    }

    pub fn most_work_at_once() -> u32 {
        with(|s| s.most_work)
    }

    pub fn shown() -> Shown {
        with(|s| s.shown.clone())
    }

    /// Bits of [`prot`] that the log has last for a page that is mapped.
    pub fn last_told(page: Va) -> Option<u8> {
        let told = |change: &Change| match *change {
            Change::Map {
                addr,
                len_bytes,
                prot,
                ..
            } => (addr..addr + len_bytes).contains(&page.0).then_some(prot),
            Change::Unmap { .. } | Change::Forget { .. } | Change::Reserve { .. } => None,
        };
        with(|s| s.log.iter().rev().find_map(told))
    }

    /// Whether the log has last for a page that it is mapped without access, and then whether that is MAP_SHARED.
    pub fn logged_reservation(page: Va) -> Option<bool> {
        let at = |addr: u64, len_bytes: u64| (addr..addr + len_bytes).contains(&page.0);
        let told = |change: &Change| match *change {
            Change::Reserve {
                addr,
                len_bytes,
                shared,
            } => at(addr, len_bytes).then_some(Some(shared)),
            Change::Map {
                addr, len_bytes, ..
            }
            | Change::Unmap { addr, len_bytes } => at(addr, len_bytes).then_some(None),
            Change::Forget { .. } => None,
        };
        with(|s| s.log.iter().rev().find_map(told)).flatten()
    }

    /// Frames that are or were page tables.
    pub fn table_frames() -> HashSet<Phys> {
        with(|s| s.levels.keys().copied().collect())
    }
}
