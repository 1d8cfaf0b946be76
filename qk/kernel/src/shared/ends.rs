//! Where files end that are mapped: they grow, and are cut.
//!
//! What the calling rank cuts is taken from it before its call returns, so that its next access there is SIGBUS. What others cut Linux
//! takes from the node's memory: there an access finds zeros (host/agent/agent.c), the host says which core that was and rings it, and
//! the thread gets its SIGBUS late: some instructions later.

use core::sync::atomic::{AtomicU64, Ordering};

use abi::Errno;
use abi::cores::MAX_CPUS;
use abi::map::USER_TOP;
use hal::addr::{Phys, Va};
use qk_core::regions::{Kind, Prot, Region, RegionFlags};
use wire::lost::LostPage;

use super::mappings::fill;
use super::pool::node;
use super::{files, text};
use crate::aspace::Aspace;
use crate::thread::{self, Thread};
use crate::{host, preempt};

/// Work of looking at a piece, in instructions.
const LOOK_WORK: u32 = 20;

/// What the host has said last to each core of lost pages.
static SAID: [AtomicU64; MAX_CPUS] = [const { AtomicU64::new(0) }; _];

/// Makes memory behind the end of a file accessible if the file has grown and the region `allows` the access; `true`: `addr` has
/// a frame now.
pub fn grow(thread: &'static Thread, addr: Va, allows: impl FnOnce(Prot) -> bool) -> bool {
    if !thread.rank().memory().maps_objects() {
        return false;
    }
    let grown = thread.rank().with_aspace(|aspace| {
        let region = *aspace.regions().lookup(addr).ok_or(Errno::EFAULT)?;
        if !region.is_object() || !allows(region.prot) {
            return Err(Errno::EFAULT);
        }
        if !region.flags.contains(RegionFlags::PAST_END) {
            // Another thread was first.
            return aspace.translate(addr).map(|_| ()).ok_or(Errno::EFAULT);
        }
        let file = node()?.with(|objects| objects.file(region.object));
        let file = file.ok_or(Errno::EIO)?;
        let pages = files::pages_bytes(thread, file)?.saturating_sub(region.offset);
        let in_file = region.start + pages.min(region.len_bytes());
        if addr >= in_file {
            return Err(Errno::EFAULT);
        }
        let there = region.clip(region.start.until(in_file));
        fill(thread, file, &there, |pieces| {
            aspace.extend_object(there, pieces)
        })
    });
    grown.is_ok()
}

/// Takes away what of the rank's mappings lies behind the ends of their files, after a call that may have cut one.
pub fn cut(thread: &'static Thread) {
    if thread.rank().memory().maps_objects() {
        // A rank that ends meanwhile has nothing mapped.
        let _ = thread
            .rank()
            .with_aspace(|aspace| cut_mappings(thread, aspace));
    }
}

/// The host rang core `cpu`, perhaps for a page that it has touched. That may have been another thread than the one that
/// runs now; another rank's, which maps no such page, goes on as if nothing had been.
pub fn rung(cpu: usize) {
    let said = host::lost_page(cpu);
    if SAID[cpu].swap(said, Ordering::Relaxed) != said
        && let Some(thread) = thread::current()
    {
        thread.pending().note_lost(said);
    }
}

/// Sees to what the host has said to the thread's core. A page that a full disk has no room for is one that its file has, to look at.
/// Returns where the thread has touched it.
pub fn lost(thread: &'static Thread, page: LostPage) -> Option<Va> {
    let found = thread.rank().with_aspace(|aspace| {
        let frame = Phys(page.address);
        let found = find(aspace, frame).or_else(|| text::lost(thread, aspace, frame));
        // What it cannot take away now is looked for again when it is touched again.
        let _ = cut_mappings(thread, aspace);
        Ok(found)
    });
    found.ok().flatten().filter(|_| page.is_touched)
}

/// Where the rank maps a frame of a file, whose page is lost.
fn find(aspace: &Aspace, frame: Phys) -> Option<Va> {
    let node = node().ok()?;
    let mut at = Va(0);
    // POINT: aspace::evict::looked_at
    while let Some(region) = shown(aspace, at) {
        at = region.end;
        let (from, to) = (region.offset, region.offset + region.len_bytes());
        // POINT: objects::pieces
        let found = node.with(|objects| {
            let pieces = objects.pieces(region.object, from, to).ok()?;
            let clipped = pieces.iter().map(|piece| piece.clip(from, to));
            // POINT: preempt::point
            let offset = clipped
                .inspect(|_| preempt::point(LOOK_WORK))
                .find_map(|piece| piece.offset_of(frame))?;
            objects.note_lost(region.object, offset);
            Some(region.start + (offset - from))
        });
        if found.is_some() {
            return found;
        }
    }
    None
}

/// The first region from `at` on that shows pages which its file has.
fn shown(aspace: &Aspace, mut at: Va) -> Option<Region> {
    // POINT: aspace::evict::looked_at
    while let Some(region) = aspace.object(at.until(Va(USER_TOP))) {
        if region.kind == Kind::File && !region.flags.contains(RegionFlags::PAST_END) {
            return Some(region);
        }
        at = region.end;
    }
    None
}

fn cut_mappings(thread: &'static Thread, aspace: &mut Aspace) -> Result<(), Errno> {
    let mut at = Va(0);
    // POINT: aspace::evict::looked_at
    while let Some(region) = shown(aspace, at) {
        at = region.end;
        let file = node()?.with(|objects| objects.file(region.object));
        let file = file.ok_or(Errno::EIO)?;
        let in_file = files::pages_bytes(thread, file)?.saturating_sub(region.offset);
        if in_file < region.len_bytes() {
            aspace.cut_object((region.start + in_file).until(region.end))?;
        }
    }
    Ok(())
}
