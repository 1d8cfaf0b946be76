//! The rank's end of the node: its words in the communication area, and the cores' doorbells.

use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard};

use wire::layout::Layout;
use wire::mappable::Mappable;
use wire::thread::ThreadArea;
use wire::word::Word;

use crate::posted::Posted;
use crate::shared::RankWords;
use crate::sync::lock;

/// The link. Nothing that it says is believed unchecked.
#[derive(Debug)]
pub struct Link {
    words: RankWords,
    /// The communication area: its guest-physical address, and what lies where in it.
    area: (u64, Layout),
    core_doorbells: Vec<OwnedFd>,
    posted: Mutex<Posted>,
}

impl Link {
    /// That of a rank with these words in the area at `gpa`, on a node with these cores.
    pub fn new(words: RankWords, gpa: u64, layout: Layout, core_doorbells: Vec<OwnedFd>) -> Link {
        Link {
            words,
            area: (gpa, layout),
            core_doorbells,
            posted: Mutex::default(),
        }
    }

    /// The rank's words.
    pub fn words(&self) -> &RankWords {
        &self.words
    }

    /// The node's cores.
    pub fn cores(&self) -> usize {
        self.core_doorbells.len()
    }

    /// What this process may map of guest memory now.
    pub fn mappable(&self) -> Mappable {
        let (gpa, layout) = &self.area;
        Mappable::of(*gpa, layout, &self.words.area.node)
    }

    /// To be held while something is posted to the node's mailbox, which takes from one at a time.
    pub fn posting(&self) -> MutexGuard<'_, Posted> {
        lock(&self.posted)
    }

    /// Interrupts the core that the node names for this rank; core 0 before the node is there.
    pub fn signal(&self) {
        self.signal_core(&self.words.area.node.cpus[0]);
    }

    /// Interrupts the core that the node names for a thread.
    pub fn signal_thread(&self, index: usize) {
        self.signal_core(&self.words.threads[index].node.core);
    }

    fn signal_core(&self, core: &Word) {
        let core = core.load() as usize;
        // A full counter signals as well; on a core that does not exist no thread waits.
        if let Some(doorbell) = self.core_doorbells.get(core) {
            let _ = rustix::io::write(doorbell, &1u64.to_ne_bytes());
        }
    }

    /// The areas of the threads that the node has ever had, the first thread's in any case.
    pub fn threads(&self) -> &[ThreadArea] {
        let count = self.words.area.node.threads.load().max(1);
        let areas = self.words.threads;
        &areas[..areas
            .len()
            .min(usize::try_from(count).unwrap_or(usize::MAX))]
    }
}
