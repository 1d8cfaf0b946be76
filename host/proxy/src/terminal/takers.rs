//! Which workers receive the signals of job control themselves.

use crate::signals;

/// The signals.
pub const BACKGROUND: [i32; 2] = [libc::SIGTTIN, libc::SIGTTOU];

/// How many workers do not block each of the signals.
#[derive(Debug, Default)]
pub struct Takers([usize; 2]);

impl Takers {
    /// A worker blocks other signals than before.
    pub fn change(&mut self, before: u64, after: u64) {
        for (count, signo) in self.0.iter_mut().zip(BACKGROUND) {
            let one = signals::set(signo);
            *count += usize::from(before & one != 0);
            *count -= usize::from(after & one != 0);
        }
    }

    /// What the watcher receives of the signals `blocked` at first by all: not those that a worker takes.
    pub fn received(&self, blocked: u64) -> u64 {
        let counts = self.0.iter().zip(BACKGROUND);
        let taken = counts.filter(|(count, _)| **count > 0);
        taken.fold(blocked, |set, (_, signo)| set & !signals::set(signo))
    }
}
