//! The machine and the proxy, in hash maps: one node per thread.

mod node;

use super::lender::POOL;
use super::{Machine, P};
use crate::aspace::Aspace;
use crate::objects::Objects;
use crate::page::PageSize;
use crate::paging::entry::{Entry, Level, index, span};
use crate::paging::{self, Table};
use crate::regions::Prot;
use abi::addr::{Phys, Va, VaRange};
use std::boxed::Box;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::thread_local;
use std::vec::Vec;
use wire::region_log::{Change, prot};

/// Page frames and their translation by the proxy.
type Shown = BTreeMap<Va, (u64, bool)>;

/// A core that uses a window and drops nothing by itself, as far as it has cached the rank's tables and pages.
#[derive(Default)]
struct Peer {
    /// By the level of what it found and the first address that it translates: tables.
    tables: HashMap<(Level, Va), Phys>,
    /// The same of leaves.
    leaves: HashMap<(Level, Va), Entry>,
}

/// Everything that is not the address space.
#[derive(Default)]
pub(super) struct State {
    tables: HashMap<Phys, Box<[Entry; 512]>>,
    /// The level of every frame that ever was a table.
    levels: HashMap<Phys, Level>,
    /// Word 0 of each page that does not hold zeros.
    data: HashMap<u64, u64>,
    log: Vec<Change>,
    applied: usize,
    /// Records that the log holds.
    room: usize,
    /// A call is under way that may write to the rank's memory.
    is_written: bool,
    /// What the proxy has mapped, by page.
    shown: Shown,
    /// Frames that were mapped at the last [`Aspace::check`].
    used: HashSet<u64>,
    /// Frames of other ranks' text, too.
    text: HashSet<u64>,
    /// The node pool's objects, of one file, and what lies in that on the host, by page.
    pub objects: Option<Objects>,
    pub file: HashMap<u64, u64>,
    /// What the pool has lent, in bytes: of objects, and of text by frame.
    pub lent_bytes: u64,
    pub lent_text: HashSet<u64>,
    /// Ranges whose translations the rank's cores were to drop.
    flushed: Vec<VaRange>,
    /// What a peer's core holds of its window, and how often it had to drop that.
    peer: Peer,
    peer_flushes: u32,
    watching: bool,
    entries: u64,
    most_entries: u64,
    /// Entries that were ever looked at.
    all_entries: u64,
    most_work: u32,
}

impl State {
    /// What the file has of a page while nobody maps it.
    pub fn stored(&self, page: u64) -> u64 {
        self.file.get(&page).copied().unwrap_or(page + 5000)
    }
}

thread_local! {
    static STATE: RefCell<State> = RefCell::default();
}

pub(super) fn with<R>(work: impl FnOnce(&mut State) -> R) -> R {
    STATE.with(|state| work(&mut state.borrow_mut()))
}

impl State {
    fn table(&mut self, frame: Phys) -> &mut [Entry; 512] {
        let data = &self.data;
        self.tables.entry(frame).or_insert_with(|| {
            assert!(!data.contains_key(&frame.0), "a table that is not zeroed");
            Box::new([Entry::EMPTY; 512])
        })
    }

    /// The leaf that a peer finds from the lowest table that it has cached, or from `top`.
    fn walk_as_peer(&mut self, va: Va, top: Phys) -> Option<(Level, Entry)> {
        let base = |level| va.align_down(span(level));
        let known = |level: Level| self.peer.tables.get(&(level, base(level + 1)));
        let lowest = (1..3).find_map(|level| Some((level, *known(level)?)));
        let (mut level, mut table) = lowest.unwrap_or((3, top));
        loop {
            let entry = self.table(table)[index(va.0, level)];
            if !entry.is_present() {
                return None;
            }
            if !entry.is_table() {
                self.peer.leaves.insert((level, base(level)), entry);
                return Some((level, entry));
            }
            table = entry.address();
            self.peer.tables.insert((level - 1, base(level)), table);
            level -= 1;
        }
    }

    fn touch_entry(&mut self) {
        self.all_entries += 1;
        self.entries += u64::from(self.watching);
        self.most_entries = self.most_entries.max(self.entries);
    }

    fn apply(&mut self, until: usize) {
        for i in self.applied..until {
            match self.log[i] {
                Change::Map {
                    addr,
                    len_bytes,
                    gpa,
                    prot,
                } => {
                    for at in (0..len_bytes).step_by(P as usize) {
                        self.shown
                            .insert(Va(addr + at), (gpa + at, prot & prot::WRITE != 0));
                    }
                }
                Change::Forget { .. } => {}
                Change::Unmap { addr, len_bytes }
                | Change::Reserve {
                    addr, len_bytes, ..
                } => {
                    self.shown
                        .retain(|va, _| !VaRange::new(Va(addr), len_bytes).contains(*va));
                }
            }
        }
        self.applied = until;
    }
}

/// The node of this thread.
#[derive(Clone, Copy)]
pub struct Node;

/// A page table of it.
#[derive(Clone, Copy)]
pub struct Page(Phys);

impl Table for Page {
    fn get(&self, index: usize) -> Entry {
        with(|s| {
            s.touch_entry();
            s.table(self.0)[index]
        })
    }
    fn set(&self, index: usize, entry: Entry) {
        with(|s| s.table(self.0)[index] = entry);
    }
    fn exchange(&self, index: usize, current: Entry, new: Entry) -> Result<(), Entry> {
        with(|s| {
            s.touch_entry();
            let cell = &mut s.table(self.0)[index];
            if *cell != current {
                return Err(*cell);
            }
            *cell = new;
            Ok(())
        })
    }
}

impl Machine for Node {
    type Table = Page;

    fn table(self, frame: Phys) -> Page {
        Page(frame)
    }
    fn new_table(self, _: Phys, _: Level) {}
    fn zero(self, pa: Phys, len_bytes: u64) {
        with(|s| {
            (pa.0..pa.0 + len_bytes)
                .step_by(P as usize)
                .for_each(|at| _ = s.data.remove(&at))
        });
    }
    fn copy(self, to: Phys, from: Phys, len_bytes: u64) {
        assert!(len_bytes <= crate::aspace::COPY_BYTES);
        for at in (0..len_bytes).step_by(P as usize) {
            Node::store(to.0 + at, Node::load(from + at));
        }
    }
    fn rewrite(self, _: Phys) {}
    fn flush(self, range: VaRange) {
        with(|s| s.flushed.push(range));
    }
    fn flush_windows(self) {
        with(|s| {
            s.peer = Peer::default();
            s.peer_flushes += 1;
        });
    }
    fn largest_page(self) -> PageSize {
        PageSize::Size1G
    }
    fn log(self, change: &Change) -> bool {
        with(|s| {
            let fits = s.log.len() - s.applied < s.room;
            if fits {
                s.log.push(*change);
            }
            fits
        })
    }
    fn log_position(self) -> u64 {
        with(|s| s.log.len() as u64)
    }
    fn log_applied(self) -> u64 {
        with(|s| s.applied as u64)
    }
    fn is_written(self) -> bool {
        with(|s| s.is_written)
    }
    fn sync(self) {
        with(|s| s.apply(s.log.len()));
    }
    fn point(work: u32) {
        with(|s| {
            s.entries = 0;
            s.most_work = s.most_work.max(work);
        });
    }
}

impl Aspace<Node> {
    /// The pages that are mapped or kept: virtual to physical.
    pub fn leaves(&mut self) -> BTreeMap<Va, u64> {
        let (tables, root) = self.tables();
        let mut leaves = BTreeMap::new();
        paging::extents(&tables, root, VaRange::new(Va(0), span(4)), |e| {
            leaves.extend((0..e.len_bytes / P).map(|i| (e.va + i * P, e.pa.0 + i * P)));
        });
        leaves
    }

    /// What a peer's core finds at `va` through its window: physical address and access. From what it has cached, as far as it
    /// has; it caches the rest.
    pub fn seen_by_peer(&mut self, va: Va) -> Option<(Phys, Prot)> {
        let (tables, root) = self.tables();
        let top = paging::own_table(&tables, root)?;
        with(|s| {
            let remembered = (1..=3).find_map(|level| {
                let leaf = s.peer.leaves.get(&(level, va.align_down(span(level))))?;
                Some((level, *leaf))
            });
            let (level, leaf) = match remembered {
                Some(found) => found,
                None => s.walk_as_peer(va, top)?,
            };
            Some((leaf.address() + va.0 % span(level), leaf.prot()))
        })
    }

    /// Checks what must hold between two changes.
    pub fn check(&mut self) {
        self.check_pieces();
        let root = self.root;
        with(|s| check_table(s, root, 4));
        let mut frames = Node::table_frames();
        frames.extend(self.pool.frames(Node));
        assert!(
            frames.iter().all(|frame| !self.frames.holds(*frame, P)),
            "a page table lies in the partition"
        );
        with(|s| {
            for ((level, va), leaf) in &s.peer.leaves {
                let pages = (0..span(*level)).step_by(P as usize);
                let reached = pages
                    .map(|at| leaf.address() + at)
                    .find(|pa| frames.contains(pa));
                assert_eq!(reached, None, "a peer sees a page table at {va:?}");
            }
        });
        let leaves = self.leaves();
        let mut owner = HashMap::new();
        for (&va, &pa) in &leaves {
            assert!(
                self.regions().lookup(va).is_some(),
                "{va:?} is mapped and no region's"
            );
            assert!(
                with(|s| !s.levels.contains_key(&Phys(pa))),
                "a page table is mapped"
            );
            let other = owner.insert(pa, va);
            assert!(other.is_none() || pa >= POOL, "{pa:#x} is mapped twice");
        }
        let regions: Vec<_> = self.regions().iter().copied().collect();
        for region in regions.iter().filter(|r| r.is_backed()) {
            let mapped = leaves.range(region.start..region.end).count() as u64;
            assert_eq!(mapped, region.len_bytes() / P, "{region:x?}");
        }
        self.check_lent(&regions, &leaves);
        // A frame that came into use since the last look is not shown elsewhere by the proxy.
        let before = with(|s| core::mem::replace(&mut s.used, owner.keys().copied().collect()));
        for (va, (pa, _)) in Node::shown() {
            assert!(
                before.contains(&pa) || pa >= POOL || owner.get(&pa).is_none_or(|user| *user == va),
                "{pa:#x} is reused while the proxy has it"
            );
        }
    }
}

fn check_table(s: &mut State, frame: Phys, level: Level) {
    let known = *s.levels.entry(frame).or_insert(level);
    assert_eq!(known, level, "{frame:?} was a table of another level");
    // One that was never touched is empty.
    let entries = s.tables.get(&frame).map_or([Entry::EMPTY; 512], |t| **t);
    for entry in entries.iter().filter(|e| e.is_table()) {
        check_table(s, entry.address(), level - 1);
    }
}
