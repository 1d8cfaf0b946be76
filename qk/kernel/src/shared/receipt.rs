//! The node pool's side of a change: what an address space has let go of is given back.

use abi::Errno;
use qk_core::aspace::{Lender, Unfinished};
use qk_core::objects::{File, Lease, TextLease};

use super::pool::{self, node};
use crate::aspace::Aspace;
use crate::thread::Thread;

/// The node pool, as a thread gives back to it.
struct Giver {
    thread: &'static Thread,
    /// A file that is about to be mapped: its proxy keeps it, though no region may show it for now.
    kept: Option<File>,
}

/// Carries out a change of the calling thread's address space, with all that it entails outside of it.
///
/// # Errors
/// Those of `change`.
#[inline]
pub fn complete<T>(
    thread: &'static Thread,
    aspace: &mut Aspace,
    change: impl FnMut(&mut Aspace) -> Result<T, Unfinished>,
) -> Result<T, Errno> {
    aspace.complete(&mut Giver { thread, kept: None }, change)
}

/// The same before the proxy's `held` file is mapped.
///
/// # Errors
/// Those of `change`.
pub fn complete_before<T>(
    thread: &'static Thread,
    aspace: &mut Aspace,
    held: File,
    change: impl FnMut(&mut Aspace) -> Result<T, Unfinished>,
) -> Result<T, Errno> {
    let kept = Some(held);
    aspace.complete(&mut Giver { thread, kept }, change)
}

impl Lender for Giver {
    fn text_left(&mut self, leases: impl Iterator<Item = TextLease>) {
        let node = node().expect("it has lent something");
        // BOUND: the runs of a receipt.
        leases.for_each(|lease| pool::give_back(node, lease));
    }

    fn object_left(&mut self, lease: Lease) {
        pool::detach(self.thread, lease, self.kept);
    }
}
