//! Text that ranks share: what they map of files without write access lies once in the node pool (`qk_core::objects`;
//! docs/adr/0024), also for a rank that is alone: the next program that it becomes finds it there (docs/adr/0032).
//!
//! The first rank to map it has its proxy read it. The frames are never written to after that: a rank that is to get write access
//! gets a copy before ([`own`]), and so does one whose debugger writes. Where text cannot be shared, for whatever
//! reason, the rank reads it into memory of its own.

use core::sync::atomic::Ordering;

use abi::Errno;
use abi::control::HostOp;
use abi::map::{PAGE, USER_TOP};
use arrayvec::ArrayVec;
use hal::addr::Phys;
use qk_core::aspace::Gone;
use qk_core::objects::{Piece, TextKey};
use qk_core::regions::{Prot, Region};

use super::pool::{Node, node};
use crate::aspace::Aspace;
use crate::host::ship;
use crate::preempt;
use crate::rank::{Rank, TEXT_PAGE};
use crate::thread::Thread;

/// Work of going over a piece, in instructions.
const PIECE_WORK: u32 = 10;
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
    let args = [fd, region.start, region.len_bytes(), offset];
    let key = describe(thread, HostOp::DescribeText, args);
    key.and_then(|key| map_known(thread, aspace, [fd, offset], region, key))
        .is_ok()
}

fn map_known(
    thread: &'static Thread,
    aspace: &mut Aspace,
    [fd, from]: [u64; 2],
    region: Region,
    key: TextKey,
) -> Result<(), Errno> {
    let node = node()?;
    let to = from + region.len_bytes();
    let _gate = node.gate(key.file[1] as u32);
    fill(thread, node, fd, key, (from, to))?;
    let mut pieces = node.with(|objects| objects.attach_text(key, from, to))?;
    for piece in &mut pieces {
        preempt::point(PIECE_WORK);
        // A program's own segments have no offset.
        piece.offset = piece.offset - from + region.offset;
    }
    count(thread.rank, region.len_bytes(), true);
    let mapped = aspace.map_text(region, &pieces);
    if mapped.is_err() {
        // POINT: objects::text::find_text
        for piece in &pieces {
            forget(thread.rank, node, piece.pa, piece.len_bytes);
        }
    }
    mapped
}

/// Reads what the pool does not have of a text.
fn fill(
    thread: &'static Thread,
    node: &Node,
    fd: u64,
    key: TextKey,
    (from, to): (u64, u64),
) -> Result<(), Errno> {
    let extend = || node.with(|objects| objects.extend_text(key, from, to));
    let fresh = match extend() {
        Err(_) if node.reclaim(thread) => extend(),
        fresh => fresh,
    }?;
    // POINT: shared::text::load
    let filled = fresh
        .iter()
        .try_for_each(|piece| load(thread, fd, key, piece));
    let entered = filled.and_then(|()| node.with(|objects| objects.enter_text(key, &fresh)));
    if entered.is_err() {
        // Only the proxy, which is done, has used them.
        node.with(|objects| objects.free_text(&fresh));
    }
    entered
}

/// Reads a piece. Emulators do not notice that what they may have translated before is other code now, but of stores of the
/// node itself.
fn load(thread: &'static Thread, fd: u64, key: TextKey, piece: &Piece) -> Result<(), Errno> {
    let args = [fd, piece.pa, piece.len_bytes, piece.offset];
    if describe(thread, HostOp::LoadText, args)? != key {
        return Err(Errno::EAGAIN);
    }
    for pa in (piece.pa..piece.pa + piece.len_bytes).step_by(PAGE as usize) {
        hal::mem::copy(Phys(pa), Phys(pa), PAGE);
        preempt::point(PAGE as u32 / 8);
    }
    Ok(())
}

/// An operation that says what the text of a file is known by.
fn describe(thread: &'static Thread, op: HostOp, args: [u64; 4]) -> Result<TextKey, Errno> {
    let changed_ns = ship::host_op(thread, op, args)?;
    let file = thread.host.more();
    Ok(TextKey { file, changed_ns })
}

/// Gives the rank a copy of its own of all text in `start .. end`, with the same access.
///
/// # Errors
/// ENOMEM: if the partition is fragmented, some of it may be the rank's own then, without a sign which.
#[inline]
pub fn own(
    thread: &'static Thread,
    aspace: &mut Aspace,
    start: u64,
    end: u64,
) -> Result<(), Errno> {
    match thread.rank.maps_text() {
        true => own_text(thread, aspace, start, end),
        false => Ok(()),
    }
}

#[cold]
#[inline(never)]
fn own_text(
    thread: &'static Thread,
    aspace: &mut Aspace,
    start: u64,
    end: u64,
) -> Result<(), Errno> {
    if aspace.text(start, end).is_none() {
        return Ok(());
    }
    aspace.check_own(start, end)?; // for all of it, before the first
    each(thread, start, |at| aspace.own(at, end))
}

/// The same of page `number`, for a debugger; where there is no memory for it the page stays text, and cannot be changed.
pub fn own_page(thread: &'static Thread, number: u64) {
    let at = number.saturating_mul(PAGE).min(USER_TOP - PAGE);
    let _ = thread
        .rank
        .with_aspace(|aspace| own(thread, aspace, at, at + PAGE));
}

/// Unmaps all text in `start .. end`.
///
/// # Errors
/// ENOMEM, when there is no room for cutting a region in two.
pub fn take_out(
    thread: &'static Thread,
    aspace: &mut Aspace,
    start: u64,
    end: u64,
) -> Result<(), Errno> {
    if !thread.rank.maps_text() || aspace.text(start, end).is_none() {
        return Ok(());
    }
    each(thread, start, |at| aspace.take_text(at, end))
}

/// Has `next` let go of one piece after another from an address on; they count as gone when the proxy has let go of them, too.
#[cold]
#[inline(never)]
fn each(
    thread: &'static Thread,
    mut at: u64,
    mut next: impl FnMut(u64) -> Result<Option<Gone>, Errno>,
) -> Result<(), Errno> {
    let node = node()?;
    let mut gone = ArrayVec::<Gone, 32>::new();
    // BOUND: `next` takes the point, see the callers; after 32 pieces the proxy is waited for.
    loop {
        // BOUND: 32 pieces.
        let last = loop {
            match next(at) {
                Ok(Some(piece)) => {
                    at = piece.end;
                    gone.push(piece);
                }
                Ok(None) => break Some(Ok(())),
                Err(errno) => break Some(Err(errno)),
            }
            if gone.is_full() {
                break None;
            }
        };
        if !gone.is_empty() {
            // It fails only when the rank ends, by a proxy that does so itself.
            let _ = ship::host_op(thread, HostOp::Sync, []);
        }
        // POINT: objects::text::find_text
        for piece in gone.drain(..) {
            forget(thread.rank, node, piece.pa, piece.len_bytes);
        }
        if let Some(result) = last {
            return result;
        }
    }
}

/// The rank has ended: what it maps counts as gone, although its proxy may still look at it, for a report of how the rank ended.
pub fn end(rank: &Rank) {
    if !rank.maps_text() {
        return;
    }
    let Ok(node) = node() else { return };
    let _ = rank.with_aspace(|aspace| {
        aspace.visit_text(0, USER_TOP, |piece| {
            forget(rank, node, piece.pa, piece.len_bytes);
        });
        Ok(())
    });
}

/// A mapping of text by a rank is gone.
fn forget(rank: &Rank, node: &Node, pa: u64, len_bytes: u64) {
    count(rank, len_bytes, false);
    node.with(|objects| objects.detach_text(pa, len_bytes));
}

/// Counts what a rank maps.
fn count(rank: &Rank, len_bytes: u64, more: bool) {
    let pages = len_bytes / PAGE * TEXT_PAGE;
    match more {
        true => rank.pool_pages.fetch_add(pages, Ordering::Relaxed),
        false => rank.pool_pages.fetch_sub(pages, Ordering::Relaxed),
    };
}
