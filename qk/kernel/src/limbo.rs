//! Frames between two lives: unmapped here, but perhaps still mapped by the rank's proxy.
//!
//! A frame that was unmapped goes into limbo and is handed out again only after the proxy has acknowledged the region log
//! up to the record that removed it. Frames are kept as adjacent runs. Whoever unmaps does so in steps of bounded size
//! and lets the proxy catch up between two steps when [`Limbo::is_full`] says so.

use alloc::vec::Vec;

use qk_core::frames::Frames;

/// Adjacent frames that wait.
#[derive(Clone, Copy)]
struct Run {
    addr: u64,
    len_bytes: u64,
    clean: bool,
}

/// Runs that fit.
const RUNS: usize = 1024;
/// Bytes given back between two pauses.
const PIECE_BYTES: usize = 64 << 20;
/// Runs that one step may add: 256 small pages in any order, and the tables that it empties.
const STEP_RUNS: usize = 256 + 80;

/// What waits, and for which position of the region log.
pub struct Limbo {
    /// Never more than [`RUNS`]: allocated once.
    runs: Vec<Run>,
    position: u64,
}

impl Limbo {
    /// Nothing waits.
    pub fn new() -> Limbo {
        Limbo {
            runs: Vec::with_capacity(RUNS),
            position: 0,
        }
    }

    /// Adds frames; `clean`: they hold zeros.
    pub fn put(&mut self, addr: u64, len_bytes: u64, clean: bool) {
        if let Some(last) = self.runs.last_mut()
            && last.addr + last.len_bytes == addr
            && last.clean == clean
        {
            last.len_bytes += len_bytes;
            return;
        }
        assert!(
            self.runs.len() < RUNS,
            "a step put more into limbo than it may"
        );
        self.runs.push(Run {
            addr,
            len_bytes,
            clean,
        });
    }

    /// Says that the removal of everything in here is recorded in the region log below `position`.
    pub fn recorded(&mut self, position: u64) {
        self.position = position;
    }

    /// Bytes that wait.
    pub fn bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.len_bytes).sum()
    }

    /// Whether there may be no room for another step.
    pub fn is_full(&self) -> bool {
        self.runs.len() + STEP_RUNS > RUNS
    }

    /// Whether anything waits.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Gives everything back to the share if the proxy has `applied` enough, with a `pause` now and then.
    pub fn release(&mut self, frames: &mut Frames, applied: u64, mut pause: impl FnMut()) {
        if applied < self.position {
            return;
        }
        for run in self.runs.drain(..) {
            for at in (run.addr..run.addr + run.len_bytes).step_by(PIECE_BYTES) {
                let len_bytes = (run.addr + run.len_bytes - at).min(PIECE_BYTES as u64);
                // A failure here is a frame freed twice: a bug of ours that must not spread.
                frames
                    .free_range(at, len_bytes, run.clean)
                    .expect("limbo frees what was allocated once");
                pause();
            }
        }
    }
}
