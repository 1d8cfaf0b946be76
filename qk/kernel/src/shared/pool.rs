//! The node pool: what holds its records, and when its frames are free.
//!
//! Frames that an object had are retired when its last mapping is gone and no file is laid over them; those of text when the pool runs
//! short, with the file still over them. Two kinds of others may still
//! reach them: cores that used a window on a rank that mapped them, and children of ranks, which share what the rank had
//! when it forked. Neither is notified or waited for then. When the pool runs short, the cores drop what they hold, and what no
//! child maps is free ([`Node::reclaim`]). So a frame never holds another file's bytes while a core or child sees it as it was.

use abi::Errno;
use abi::map::PAGE;
use alloc::boxed::Box;
use hal::addr::{Phys, PhysRange};
use hal::sync::Once;
use qk_core::objects::{File, Laid, Lease, Objects, Piece, TextLease};
use wire::boot::flag;

use super::{files, sharing};
use crate::sleep_lock::{SleepGuard, SleepLock};
use crate::thread::Thread;
use crate::{host, preempt, windows};
use hal::sync::class;

/// Gates: two objects that have the same one are laid one after the other. So many that a file that is slow to map, as one of a
/// server that does not answer, hardly ever holds up a mapping of another one.
const GATES: usize = 509;
/// Work of having a piece cleared, in instructions, and of asking whether a child maps it.
const CLEAR_WORK: u32 = 30;

/// What the node shares.
pub struct Node {
    pool: PhysRange,
    /// Made at first use: a pool that no rank uses costs nothing.
    table: SleepLock<Option<Objects>, class::Objects>,
    gates: Box<[SleepLock<(), class::Gates>]>,
    /// Held while retired frames are made free.
    reclaiming: SleepLock<(), class::Reclaiming>,
}

static NODE: Once<Node> = Once::new();

impl Node {
    /// Held while frames of an object are filled.
    pub fn gate(&self, object: u32) -> SleepGuard<'_, (), class::Gates> {
        self.gates[object as usize % GATES].lock()
    }

    /// Works on the table.
    pub fn with<R>(&self, work: impl FnOnce(&mut Objects) -> R) -> R {
        work(self.table.lock().as_mut().expect("made by `node`"))
    }

    /// Makes frames free that cannot be reached any more, of retired objects and of unmapped text; whether there were any.
    pub fn reclaim(&self, thread: &'static Thread) -> bool {
        let _turn = self.reclaiming.lock();
        let mut pieces = self.with(|objects| {
            // From now on it is not mapped anew.
            objects.retire_idle_text();
            objects.retired().unwrap_or_default()
        });
        if pieces.is_empty() {
            return false;
        }
        windows::flush_all();
        pieces.retain(|piece| {
            preempt::point(CLEAR_WORK);
            !sharing::is_mapped(thread, piece.pa, piece.len_bytes) && uncover(thread, piece)
        });
        self.with(|objects| objects.release(&pieces));
        !pieces.is_empty()
    }
}

/// Sets up what is kept of the pool, if there is one.
pub fn init(pool: Option<PhysRange>) {
    let Some(pool) = pool else { return };
    let node = Node {
        pool,
        table: SleepLock::new(None),
        // BOUND: once, when the node starts.
        gates: (0..GATES).map(|_| SleepLock::new(())).collect(),
        reclaiming: SleepLock::new(()),
    };
    assert!(NODE.set(node).is_ok(), "the pool is set up once");
}

/// Where the pool lies; nowhere: there is none.
pub fn pool() -> PhysRange {
    let nowhere = PhysRange::new(Phys(0), 0);
    NODE.get().map_or(nowhere, |node| node.pool)
}

/// What the node shares.
///
/// # Errors
/// ENOMEM: there is no pool, or no memory for what is to be known of it.
pub fn node() -> Result<&'static Node, Errno> {
    let node = NODE.get().ok_or(Errno::ENOMEM)?;
    let mut table = node.table.lock();
    if table.is_none() {
        let zeroed = host::config().has(flag::RAM_ZEROED);
        let made = Objects::new(node.pool, zeroed, preempt::point);
        *table = Some(made.ok_or(Errno::ENOMEM)?);
    }
    Ok(node)
}

/// Retires frames of an object that is not mapped any more, once no file is laid over them. `last`: the calling rank maps nothing of
/// the file.
pub fn recycle(thread: &'static Thread, file: File, pieces: &[Piece], last: bool) {
    let Ok(node) = node() else { return };
    files::release(thread, file, last);
    for piece in pieces {
        preempt::point(CLEAR_WORK);
        // Frames that a file might still be laid over are never used again.
        if files::is_none(file) || files::clear(thread, piece).is_ok() {
            let laid = Laid::No;
            node.with(|objects| objects.retire(&[Piece { laid, ..*piece }]));
        }
    }
}

/// Sees to it that no file is laid over a retired piece, as over text, and that its code is forgotten; `false`: one might be laid.
fn uncover(thread: &'static Thread, piece: &Piece) -> bool {
    let is_text = piece.laid != Laid::No;
    if is_text && files::clear(thread, piece).is_err() {
        return false;
    }
    if is_text || sharing::was_code() {
        // An emulator does not notice that the code there has gone which it may have translated, but of stores of the node itself.
        preempt::zero(piece.pa, piece.len_bytes);
    }
    true
}

/// A mapping of an object, by the calling thread's rank, is gone; its proxy keeps the `kept` file.
pub fn detach(thread: &'static Thread, lease: Lease, kept: Option<File>) {
    thread
        .rank()
        .memory()
        .remove_object_pages(lease.len_bytes() / PAGE);
    let node = node().expect("it has lent something");
    let left = node.with(|objects| objects.detach(lease, thread.rank().id()));
    let Some(left) = left else { return };
    let last = left.last && kept != Some(left.file);
    match left.dead {
        Some(pieces) => recycle(thread, left.file, &pieces, last),
        // Also so that its proxy has let go of the frames, whichever rank gives them back later.
        None => files::release(thread, left.file, last),
    }
}

/// A mapping of text is gone.
pub fn give_back(node: &Node, lease: TextLease) {
    node.with(|objects| objects.detach_text(lease));
}
