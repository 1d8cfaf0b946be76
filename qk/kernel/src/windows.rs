//! SMARTMAP windows: slot r + 1 of each rank's root table shows rank r's slot 0, its own as well.
//!
//! A rank's window is an entry in each root, set when the rank starts and cleared when it ends: one store per peer. The table
//! that it points to stays where it is for the rank's life, so nothing has to be done when memory is mapped or unmapped
//! there. What a peer's core may hold of a window, what that could do, and when it is dropped: docs/adr/0018.
//!
//! What a window shows is all of slot 0, with the owner's access and never executable. Not all of that is memory of the
//! rank's partition: the clock page, the information page and the vDSO are seen, too. They are read-only to all, the first
//! two are the node's for as long as it runs, and none holds anything that the peers have not at the same address. The
//! kernel's memory lies in other slots, the PCT's in an address space that has no window.

use core::sync::atomic::{AtomicU64, Ordering};

use abi::map::{USER_TOP, in_window};
use alloc::vec::Vec;
use hal::addr::{Phys, Va};
use hal::sync::Once;
use hal::tables;
use qk_core::paging::entry::{Entry, Level};
use qk_core::paging::{self, Tables, Translation};
use qk_core::sched::CoreSet;
use wire::boot::MAX_CPUS;
use wire::info::{InfoPage, VERSION};

use crate::aspace::PageTable;
use crate::rank::{self, Rank};
use crate::sleep_lock::SleepLock;
use crate::{preempt, shootdown};
use hal::sync::class;

/// What one peer's entry counts at preemption points, in instructions.
const ENTRY_WORK: u32 = 30;
/// What notifying the threads of one peer counts.
const NOTIFY_WORK: u32 = 200;

/// Those that have windows, and those that had some.
struct Members {
    live: Vec<Member>,
    ended: Vec<usize>,
}

/// A rank that has been started and has not ended.
struct Member {
    rank: &'static Rank,
    root: tables::Root,
    /// What the windows on it point to.
    window: tables::Window,
    info: &'static InfoPage,
    pid: u64,
}

/// Taken to start or end a rank.
static MEMBERS: Once<SleepLock<Members, class::Members>> = Once::new();

/// Of each core for which rank's window it last dropped what is old, and that rank's removals then.
static FLUSHED: [AtomicU64; MAX_CPUS] = [const { AtomicU64::new(0) }; MAX_CPUS];
/// Bits of a rank's removals there.
const REMOVALS_BITS: u32 = 48;

/// Makes room for the windows of `ranks` ranks.
pub fn init(ranks: usize) {
    let members = SleepLock::new(Members {
        live: Vec::with_capacity(ranks),
        ended: Vec::with_capacity(ranks),
    });
    assert!(MEMBERS.set(members).is_ok(), "windows are set up once");
    // BOUND: before the first program.
    for rank in rank::all() {
        let info = rank.host().info();
        info.rank.put(rank.id() as u64);
        info.ranks.put(ranks as u64);
        info.version.store(VERSION);
    }
}

fn members() -> &'static SleepLock<Members, class::Members> {
    MEMBERS.get().expect("set up at boot")
}

/// Opens the windows between `rank`, whose root table is `root`, and all that have been started, itself as well.
pub fn open(rank: &'static Rank, root: Phys) {
    let own = tables::Root::at(root);
    let table = paging::own_table(&Walk, root).map(tables::Table::at);
    let Some(window) = table.and_then(|table| table.window()) else {
        return; // Nothing is mapped there.
    };
    let (own_info, pid) = (rank.host().info(), rank.identity().pid);
    let mut members = members().lock();
    members.live.push(Member {
        rank,
        root: own,
        window,
        info: own_info,
        pid,
    });
    let begun = hal::time::tsc();
    for peer in &members.live {
        preempt::point(ENTRY_WORK);
        own.set_window(peer.rank.id() + 1, Some(peer.window));
        peer.root.set_window(rank.id() + 1, Some(window));
        peer.info.begins(rank.id(), pid);
        own_info.begins(peer.rank.id(), peer.pid);
    }
    let took = hal::time::tsc() - begun;
    rank.host().publish_windows(members.live.len(), took);
    // BOUND: the ranks of the node.
    for ended in &members.ended {
        own_info.begins(*ended, 0);
        own_info.ends(*ended);
    }
    rank.root().show(Some(root));
}

/// Closes the windows on `rank`, which runs no more. Its memory stays as it is until the job ends, its page tables too, so
/// nothing needs to wait for the peers' cores: those that used the window drop what they hold of it when they next leave the
/// kernel.
pub fn close(rank: &'static Rank) {
    let mut members = members().lock();
    rank.root().show(None);
    let is_own = |member: &Member| core::ptr::eq(member.rank, rank);
    // BOUND: the ranks of the node.
    let Some(own) = members.live.iter().position(is_own) else {
        return;
    };
    members.live.swap_remove(own);
    members.ended.push(rank.id());
    for peer in &members.live {
        preempt::point(ENTRY_WORK);
        let used = peer.root.take_window_use(rank.id() + 1);
        peer.root.set_window(rank.id() + 1, None);
        if used {
            preempt::point(NOTIFY_WORK);
            drop_soon(peer.rank);
        }
        // Last: a peer that sees that it has ended does not reach it after its next system call.
        peer.info.ends(rank.id());
    }
}

/// Has the cores in `peer` drop what they hold when they next leave the kernel.
fn drop_soon(peer: &'static Rank) {
    shootdown::drop_soon(peer.shootdown());
    // POINT: thread::numbers::each
    for thread in peer.threads().each() {
        thread.pending().note_work();
    }
}

/// Drops what cores hold of windows on `owner` that were used since the last time; returns when they have. The caller holds
/// the address space: the entries looked at are changed by no other task, but for peers that start or end, which run nowhere.
pub fn flush(owner: &Rank) {
    if !owner.has_windows() {
        return; // It is being loaded, or has ended.
    }
    let (mut cores, mut flush) = (CoreSet::EMPTY, None);
    for peer in rank::all() {
        preempt::point(ENTRY_WORK);
        let root = peer.root().shown().map(tables::Root::at);
        if let Some(root) = root.filter(|root| root.window_is_used(owner.id() + 1)) {
            flush.get_or_insert_with(Flush::begin);
            root.take_window_use(owner.id() + 1);
            cores = cores.or(&peer.shootdown().inside());
        }
    }
    if flush.is_some() {
        shootdown::flush_all_on(&cores);
    }
}

/// Flushes under way that have taken the use of windows.
static FLUSHES: AtomicU64 = AtomicU64::new(0);

/// One of them.
struct Flush;

impl Flush {
    fn begin() -> Flush {
        FLUSHES.fetch_add(1, Ordering::SeqCst);
        Flush
    }
}

impl Drop for Flush {
    fn drop(&mut self) {
        FLUSHES.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Drops what cores hold of any window, also on ranks that have ended; returns when they have. The use of windows stays as it
/// is: it is the owners' to take.
pub fn flush_all() {
    // The end of a rank notifies the cores under this lock.
    let members = members().lock();
    let mut cores = shootdown::not_dropped();
    for peer in &members.live {
        let inside = peer.rank.shootdown().inside();
        for owner in &members.live {
            preempt::point(ENTRY_WORK);
            if peer.root.window_is_used(owner.rank.id() + 1) {
                cores = cores.or(&inside);
            }
        }
        // A flush that has taken a use, and was not seen to have notified the cores: they are among all.
        if FLUSHES.load(Ordering::SeqCst) != 0 {
            cores = cores.or(&inside);
        }
    }
    drop(members);
    if !cores.is_empty() {
        shootdown::flush_all_on(&cores);
    }
}

/// Has this core find through its window on `owner` nothing that was taken away before: what munmap leaves to the program when
/// that goes there by itself, the kernel must not do in its name.
pub fn flush_stale(owner: &Rank) {
    let removals = owner.root().removals();
    let now = (owner.id() as u64) << REMOVALS_BITS | removals & ((1 << REMOVALS_BITS) - 1);
    let flushed = &FLUSHED[hal::cpu::id()];
    if flushed.load(Ordering::Relaxed) != now {
        hal::aspace::flush_all();
        flushed.store(now, Ordering::Relaxed);
    }
}

/// The rank whose memory a program's address leads to, and where that is: through a window, if there is one.
pub fn owner(addr: u64) -> Option<(&'static Rank, u64)> {
    let (rank, addr) = in_window(addr)?;
    let rank = rank::all().get(rank)?;
    rank.has_windows().then_some((rank, addr))
}

impl Rank {
    /// Whether the others have windows on it.
    pub fn has_windows(&self) -> bool {
        self.root().shown().is_some()
    }

    /// What its page tables say of an address in slot 0, read without a lock while it may change them: tables are tables of
    /// the same level for ever. `None`: nothing is mapped there, or the rank has no windows.
    pub fn peek_translation(&self, addr: u64) -> Option<Translation> {
        let root = self.root().shown().filter(|_| addr < USER_TOP)?;
        paging::translate(&Walk, root, Va(addr))
    }
}

/// Page tables that are only read.
struct Walk;

impl Tables for Walk {
    type Table = PageTable;

    fn table(&self, frame: Phys) -> PageTable {
        PageTable::at(frame)
    }

    #[inline]
    fn below(&self, table: &PageTable, index: usize, entry: Entry) -> PageTable {
        table.below(index, entry)
    }

    fn alloc_table(&mut self, _: Level) -> Option<Phys> {
        None
    }

    fn free_table(&mut self, _: Phys, _: Level) {}

    fn point(&self, work: u32) {
        preempt::point(work);
    }
}
