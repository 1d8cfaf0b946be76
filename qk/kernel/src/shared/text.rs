//! Text that ranks share: what they map of files without write access lies once in the node pool (`qk_core::objects`;
//! docs/adr/0024), also for a rank that is alone: the next program that it becomes finds it there (docs/adr/0032).
//!
//! The first rank to map it has the file laid over frames, to be read. They are never written to: a rank that is to get write access
//! gets a copy before (`Aspace::own`), and so does one whose debugger writes. Where text cannot be shared, for whatever
//! reason, the rank reads it into memory of its own.

use abi::Errno;
use abi::map::{PAGE, USER_TOP};
use hal::addr::{Phys, Va, VaRange};
use qk_core::objects::{File, Laid, Piece, TextKey};
use qk_core::regions::{Prot, Region, RegionFlags};

use super::files;
use super::mappings::LAY_WORK;
use super::pool::{Node, give_back, node};
use super::receipt::complete;
use crate::aspace::Aspace;
use crate::preempt;
use crate::rank::Rank;
use crate::thread::Thread;

/// Less is read as fast as it is shared.
const LEAST_BYTES: u64 = 64 << 10;

/// Maps what `region` is to show of a file from `offset` on, all of which lies in the file and where nothing is mapped, so that
/// its frames are also other ranks'; `false`: that cannot be, and nothing has changed.
pub fn map(
    thread: &'static Thread,
    aspace: &mut Aspace,
    [fd, offset]: [u64; 2],
    region: Region,
) -> bool {
    let is_text = !region.prot.is_empty() && !region.prot.contains(Prot::WRITE);
    if !is_text || region.len_bytes() < LEAST_BYTES {
        return false;
    }
    let there = Region { offset, ..region };
    let held = files::hold_text(thread, fd, &there);
    held.and_then(|key| map_held(thread, aspace, key, offset, region))
        .is_ok()
}

fn map_held(
    thread: &'static Thread,
    aspace: &mut Aspace,
    key: TextKey,
    from: u64,
    region: Region,
) -> Result<(), Errno> {
    let node = node()?;
    let to = from + region.len_bytes();
    let _gate = node.gate(key.file[1] as u32);
    fill(thread, node, key, (from, to))?;
    let text = node.with(|objects| objects.attach_text(key, from, to))?;
    let show = |piece: &Piece| lay(thread, key.file, piece, Laid::No);
    // POINT: shared::text::lay
    let shown = text.pieces().iter().try_for_each(show);
    let mapped = match shown {
        Ok(()) => aspace.map_text(region, text),
        Err(errno) => Err((errno, text)),
    };
    mapped.map_err(|(errno, text)| {
        // POINT: objects::text::find_text
        text.into_leases().for_each(|lease| give_back(node, lease));
        errno
    })
}

/// Has the file laid over frames for what the pool does not have of a text.
fn fill(
    thread: &'static Thread,
    node: &Node,
    key: TextKey,
    (from, to): (u64, u64),
) -> Result<(), Errno> {
    let extend = || node.with(|objects| objects.extend_text(key, from, to));
    let mut fresh = match extend() {
        Err(_) if node.reclaim(thread) => extend(),
        fresh => fresh,
    }?;
    let fill = |piece: &Piece| lay(thread, key.file, piece, Laid::ToRead);
    // POINT: shared::text::lay
    let laid = fresh.iter().try_for_each(fill);
    let entered = laid.and_then(|()| node.with(|objects| objects.enter_text(key, &fresh)));
    if let Err(errno) = entered {
        fresh.retain(|piece| {
            preempt::point(LAY_WORK);
            // Frames that the file might still be laid over are never used again. Without an agent it is over none.
            errno == Errno::ENODEV || files::clear(thread, piece).is_ok()
        });
        node.with(|objects| objects.free_text(&fresh));
    }
    entered
}

fn lay(thread: &'static Thread, file: File, piece: &Piece, access: Laid) -> Result<(), Errno> {
    preempt::point(LAY_WORK);
    files::lay_text(thread, file, piece, access)
}

/// A page of text is gone, for others have cut its file: what the rank maps of it from there on lies behind the end now. Where it
/// shows the page.
pub fn lost(thread: &'static Thread, aspace: &mut Aspace, frame: Phys) -> Option<Va> {
    let is_text = node().ok()?.with(|objects| objects.lose_text(frame));
    let (region, at) = is_text.then(|| aspace.text_showing(frame)).flatten()?;
    // Where memory is short zeros stay.
    let _ = cut(thread, aspace, region.clip(at.until(region.end)));
    Some(at)
}

fn cut(thread: &'static Thread, aspace: &mut Aspace, mut behind: Region) -> Result<(), Errno> {
    let range = behind.range();
    behind.flags -= RegionFlags::TEXT;
    behind.flags |= RegionFlags::PAST_END;
    complete(thread, aspace, |aspace| aspace.vacate(range))?;
    let mapped = aspace.map_new(behind);
    aspace.end_replacing();
    if mapped.is_err() {
        complete(thread, aspace, |aspace| aspace.unmap(range))?;
    }
    mapped
}

/// Makes page `number` the rank's own, for a debugger; where there is no memory for it the page stays text, and cannot be changed.
pub fn own_page(thread: &'static Thread, number: u64) {
    let at = number.saturating_mul(PAGE).min(USER_TOP - PAGE);
    let page = VaRange::new(Va(at), PAGE);
    let _ = thread
        .rank()
        .with_aspace(|aspace| complete(thread, aspace, |aspace| aspace.own(page)));
}

/// The rank has ended: what it maps counts as gone, although its proxy may still look at it, for a report of how the rank ended.
pub fn end(rank: &Rank) {
    let Ok(node) = node() else { return };
    // Without its address space there is none.
    let _ = rank.with_aspace(|aspace| {
        aspace.end_text(|lease| give_back(node, lease));
        Ok(())
    });
}
