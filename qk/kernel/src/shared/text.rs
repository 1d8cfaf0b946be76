//! Text that ranks share: what they map of files without write access lies once in the node pool (`qk_core::objects`;
//! docs/adr/0024), also for a rank that is alone: the next program that it becomes finds it there (docs/adr/0032).
//!
//! The first rank to map it has its proxy read it. The frames are never written to after that: a rank that is to get write access
//! gets a copy before (`Aspace::own`), and so does one whose debugger writes. Where text cannot be shared, for whatever
//! reason, the rank reads it into memory of its own.

use abi::Errno;
use abi::control::HostOp;
use abi::map::{PAGE, USER_TOP};
use hal::addr::{Va, VaRange};
use qk_core::objects::{Piece, TextKey};
use qk_core::regions::{Prot, Region};

use super::pool::{Node, give_back, node};
use super::receipt::complete;
use crate::aspace::Aspace;
use crate::host::ship;
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
    let args = [fd, region.start.0, region.len_bytes(), offset];
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
    // What is stored there may leave the file's times as they were.
    if node.with(|objects| objects.has(key.file)) {
        return Err(Errno::EAGAIN);
    }
    let to = from + region.len_bytes();
    let _gate = node.gate(key.file[1] as u32);
    fill(thread, node, fd, key, (from, to))?;
    let text = node.with(|objects| objects.attach_text(key, from, to))?;
    aspace.map_text(region, text).map_err(|(errno, text)| {
        // POINT: objects::text::find_text
        text.into_leases().for_each(|lease| give_back(node, lease));
        errno
    })
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
    let args = [fd, piece.pa.0, piece.len_bytes, piece.offset];
    if describe(thread, HostOp::LoadText, args)? != key {
        return Err(Errno::EAGAIN);
    }
    for at in (0..piece.len_bytes).step_by(PAGE as usize) {
        hal::mem::copy(piece.pa + at, piece.pa + at, PAGE);
        preempt::point(PAGE as u32 / 8);
    }
    Ok(())
}

/// An operation that says what the text of a file is known by.
fn describe(thread: &'static Thread, op: HostOp, args: [u64; 4]) -> Result<TextKey, Errno> {
    let changed_ns = ship::host_op(thread, op, args)?;
    let file = thread.host().more();
    Ok(TextKey { file, changed_ns })
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
