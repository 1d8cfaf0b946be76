//! What the process keeps of its children.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard};

use super::fork_lock::ForkLock;
use super::forker::Forker;
use super::job::Job;
use crate::sync::lock;

/// What the process needs for its children.
#[derive(Debug, Default)]
pub struct Children {
    /// Who forks.
    pub forker: Forker,
    /// Held while a thread forks.
    pub fork_lock: ForkLock,
    rules: Option<OwnedFd>,
    listing: Mutex<()>,
    /// Those that have not called exec yet and use the rank's memory, or whose parent thread waits for it.
    waited_for: Mutex<HashMap<u32, Arc<Job>>>,
}

impl Children {
    /// None yet; `rules` are Landlock's for each.
    pub fn new(rules: Option<OwnedFd>) -> Children {
        Children {
            rules,
            ..Children::default()
        }
    }

    /// Landlock's rules for a child, if there are any.
    pub fn rules(&self) -> Option<&OwnedFd> {
        self.rules.as_ref()
    }

    /// To be held while the list of children changes that yod reads.
    pub fn listing(&self) -> MutexGuard<'_, ()> {
        lock(&self.listing)
    }

    /// A child may not have called exec yet.
    pub fn wait_for(&self, pid: u32, job: Arc<Job>) {
        lock(&self.waited_for).insert(pid, job);
    }

    /// The child that has not called exec yet, as far as is known.
    pub fn waited_for(&self, pid: u32) -> Option<Arc<Job>> {
        lock(&self.waited_for).get(&pid).cloned()
    }

    /// A child has called exec, or ended.
    pub fn forget(&self, pid: u32) {
        lock(&self.waited_for).remove(&pid);
    }

    /// All of them, which are not waited for any more.
    pub fn take_waited_for(&self) -> HashMap<u32, Arc<Job>> {
        std::mem::take(&mut lock(&self.waited_for))
    }
}
