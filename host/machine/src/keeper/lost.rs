//! Pages of files that were gone when the node touched them: which are said, and when the agent looks for them again.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// For so long a page is zeros, at most, when its file has it again: who cuts a file often writes it anew. Ranks that were told
/// ([`wire::lost`]) see the file at once.
const AGAIN: Duration = Duration::from_millis(2);

/// Offsets in the pool's file; no more than it has pages.
#[derive(Default)]
pub struct LostPages {
    waiting: BTreeSet<u64>,
    due: Option<Instant>,
    said: BTreeSet<u64>,
}

impl LostPages {
    /// Takes note of one; whether it is the first time, for one that is touched again and again is said once.
    pub fn note(&mut self, offset: u64, now: Instant) -> bool {
        self.waiting.insert(offset);
        self.due.get_or_insert(now + AGAIN);
        self.said.insert(offset)
    }

    /// When [`Self::request_due`] is due.
    pub fn timeout(&self, now: Instant) -> Option<Duration> {
        self.due.map(|due| due.saturating_duration_since(now))
    }

    /// Has each looked for when that is due. Those that could not be requested are requested next time.
    pub fn request_due(&mut self, now: Instant, mut request: impl FnMut(u64) -> bool) {
        if self.due.is_some_and(|due| due <= now) {
            self.waiting.retain(|&offset| !request(offset));
            self.due = (!self.waiting.is_empty()).then(|| now + AGAIN);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requested(lost: &mut LostPages, now: Instant, refused: u64) -> Vec<u64> {
        let mut all = Vec::new();
        lost.request_due(now, |offset| {
            all.push(offset);
            offset != refused
        });
        all
    }

    #[test]
    fn pages_are_said_once_and_requested_after_each_time() {
        let mut lost = LostPages::default();
        let start = Instant::now();
        assert_eq!(lost.timeout(start), None);
        assert!(lost.note(8192, start));
        assert!(lost.note(4096, start + AGAIN / 2));
        assert!(!lost.note(4096, start + AGAIN / 2));
        assert_eq!(lost.timeout(start), Some(AGAIN));
        assert!(requested(&mut lost, start, 0).is_empty());
        // What the agent does not take now is not forgotten.
        assert_eq!(requested(&mut lost, start + AGAIN, 8192), [4096, 8192]);
        assert_eq!(lost.timeout(start + AGAIN), Some(AGAIN));
        assert_eq!(requested(&mut lost, start + AGAIN * 2, 0), [8192]);
        assert_eq!(lost.timeout(start + AGAIN * 2), None);
        assert!(requested(&mut lost, start + AGAIN * 3, 0).is_empty());
        assert!(!lost.note(8192, start + AGAIN * 3));
        assert_eq!(requested(&mut lost, start + AGAIN * 4, 0), [8192]);
    }
}
