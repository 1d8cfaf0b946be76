//! Shared anonymous memory: objects that no file is behind, for a rank and its children. No other rank maps them.
//!
//! What there is no room for is the rank's own, as is what is reserved without access: then children get copies. At most half of
//! the pool is used up this way, for a file that cannot be shared is an error to programs.

use core::sync::atomic::{AtomicU64, Ordering};

use abi::Errno;
use abi::control::NO_FILE;
use qk_core::mman::MmapPlan;

use super::mappings::{make_vacant, map_held};
use super::pool::node;
use super::receipt::complete;
use crate::aspace::Aspace;
use crate::thread::Thread;

/// Stands for the inode of the next.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// Carries out a shared mapping without a file.
///
/// # Errors
/// ENOMEM.
pub fn map(thread: &'static Thread, aspace: &mut Aspace, plan: &MmapPlan) -> Result<(), Errno> {
    let region = plan.region;
    if region.prot.is_empty() || !has_room(thread, region.len_bytes()) {
        return complete(thread, aspace, |aspace| aspace.map(plan));
    }
    make_vacant(thread, aspace, plan)?;
    let file = [NO_FILE, NEXT.fetch_add(1, Ordering::Relaxed)];
    let mapped = match map_held(thread, aspace, file, region, region.len_bytes()) {
        Err(Errno::ENOMEM) => aspace.map_new(region),
        mapped => mapped,
    };
    aspace.end_replacing();
    mapped
}

fn has_room(thread: &'static Thread, len_bytes: u64) -> bool {
    let Ok(node) = node() else { return false };
    let leaves_half = || node.with(|objects| objects.leaves_half(len_bytes));
    leaves_half() || (node.reclaim(thread) && leaves_half())
}
