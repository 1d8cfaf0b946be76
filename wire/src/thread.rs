//! A thread's area: its ship slot, and what host and node say of it.
//!
//! Thread `i` of a rank has the `i`th area, and worker `i` of the rank's proxy carries out its calls; thread 0 is the main
//! thread. Areas are reused: what a thread has left behind in its worker is told from its successor's by [`Life`].

use abi::map::MAX_THREADS;
use zerocopy::{FromBytes, KnownLayout};

use crate::ship::Slot;
use crate::word::Word;

/// What the proxy says of a thread's worker.
#[derive(FromBytes, KnownLayout, Default, Debug)]
#[repr(C, align(64))]
pub struct FromHost {
    /// Its thread id, which is the thread's; 0: there is no worker yet. Written once, before
    /// [`crate::rank::FromHost::workers`] counts it.
    pub tid: Word,
}

/// What the QK says of a thread. It is up to date before the thread's first request.
#[derive(FromBytes, KnownLayout, Default, Debug)]
#[repr(C, align(64))]
pub struct FromNode {
    /// The core that is rung for the answer to its call; up to date before the QK says that it waits.
    pub core: Word,
    /// See [`Life`].
    life: Word,
    /// Index of the thread that created it.
    creator: Word,
    /// Those of SIGTTIN and SIGTTOU (bit signo - 1) that the thread takes: it does not block them, and its process does not
    /// ignore them. Up to date before each of its calls that can use a terminal.
    takes: Word,
}

/// Which of the threads that have had the same index one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Life(u64);

impl Life {
    /// Whether the thread lives: it has started and has not ended.
    #[must_use]
    pub const fn is_on(self) -> bool {
        self.0 % 2 == 1
    }

    /// Its number: each thread of an area has another.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }
}

impl FromNode {
    /// The thread starts, created by thread `creator` (QK only).
    pub fn starts(&self, creator: usize) {
        self.creator.put(creator as u64);
        self.life.store((self.life.peek() + 1) | 1);
    }

    /// The thread has ended and makes no more calls (QK only).
    pub fn ends(&self) {
        let life = self.life.peek();
        self.life.store(life + life % 2);
    }

    /// The thread takes the signals `set`, of those that Linux sends for use of a terminal from the background (QK only).
    #[inline]
    pub fn put_takes(&self, set: u64) {
        if self.takes.peek() != set {
            self.takes.put(set);
        }
    }

    /// See [`Self::put_takes`]; to be read after a request of the thread.
    #[inline]
    #[must_use]
    pub fn takes(&self) -> u64 {
        self.takes.peek()
    }

    /// The life that the area belongs to now.
    #[must_use]
    pub fn life(&self) -> Life {
        Life(self.life.load())
    }

    /// Index of the thread that created it, of those there can be.
    #[must_use]
    pub fn creator(&self) -> usize {
        self.creator.peek() as usize % MAX_THREADS
    }
}

/// All shared words of a thread.
#[derive(FromBytes, KnownLayout, Default, Debug)]
#[repr(C, align(64))]
pub struct ThreadArea {
    /// Its calls.
    pub slot: Slot,
    /// Written by the proxy.
    pub host: FromHost,
    /// Written by the QK.
    pub node: FromNode,
}

/// The areas of a rank's threads, by their indices.
pub type ThreadAreas = [ThreadArea; MAX_THREADS];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_of_an_area_has_a_life_of_its_own() {
        let area = FromNode::default();
        let before = area.life();
        assert!(!before.is_on());
        area.starts(3);
        let first = area.life();
        assert!(first.is_on() && first != before && area.creator() == 3);
        area.ends();
        assert!(!area.life().is_on());
        area.ends();
        area.starts(0);
        assert!(area.life().is_on() && area.life() != first && area.creator() == 0);
    }

    #[test]
    fn what_a_thread_takes_is_its_own() {
        let areas = [FromNode::default(), FromNode::default()];
        assert_eq!(areas[0].takes(), 0, "nothing before it says so");
        areas[0].put_takes(6);
        areas[1].put_takes(4);
        areas[0].put_takes(2);
        assert_eq!([areas[0].takes(), areas[1].takes()], [2, 4]);
    }
}
