//! Page tables of programs: what the CPU's page walker reads, but for the kernel's half.
//!
//! Who can write them can reach all memory. So they lie in memory of their own ([`give`]), which no accessor of pool memory
//! reaches and no leaf shows, and their entries are set here, as far as `pte` allows:
//!
//! 1. A frame of that memory is a table of one level, from [`Table::new`] on and for good: a translation of an upper entry that
//!    some CPU has kept, however old, leads to a table of the level that it takes it for.
//! 2. A leaf shows pool memory, to programs, in as many bytes as its level says. The pool never shrinks.
//! 3. A link leads to a table of the next lower level.
//! 4. A root has the kernel's half from the start. Only the other half changes.
//!
//! By 1 and 2 what was once allowed in a table stays allowed there, whatever happens meanwhile. So the checks need no lock:
//! two CPUs that change an entry at once may lose a mapping, but make none that is not allowed.

mod levels;

pub use levels::give;

use crate::addr::Phys;
use crate::mem;
use crate::pte::{KERNEL_SLOT, Memory, ROOT, alike, allow, allow_leaves};
use abi::map::{DIRECT_MAP, PAGE};
use abi::pte::{A, ADDRESS, COUNT, ENTRIES, Level, NX, P, TABLE, U, W, span};
use core::num::NonZeroU64;
use core::sync::atomic::{AtomicU64, Ordering};
use levels::{BUSY, level, record};

/// Entries that are worked on together.
pub const GROUP: usize = 16;

type Entries = [AtomicU64; ENTRIES];

static KERNEL_ROOT: AtomicU64 = AtomicU64::new(0);

/// The root with nothing in the lower half.
pub(crate) fn kernel_root() -> Phys {
    Phys(KERNEL_ROOT.load(Ordering::Relaxed))
}

/// Says which one it is, at boot.
pub(crate) fn set_kernel_root(root: Phys) {
    KERNEL_ROOT.store(root.0, Ordering::Relaxed);
}

/// Whether `frame` is a root table: it has the kernel's half.
pub(crate) fn is_root(frame: Phys) -> bool {
    frame == kernel_root() || level(frame) == ROOT
}

/// Pool memory and tables as they are.
struct Ram;

impl Memory for Ram {
    #[inline]
    fn in_pool(&self, at: Phys, len_bytes: u64) -> bool {
        mem::in_pool(at, len_bytes)
    }

    #[inline]
    fn level(&self, at: Phys) -> Level {
        level(at)
    }
}

/// A page table of a program: where the direct map shows it, and its level in the lowest bits. In one register, as walks keep
/// many.
#[derive(Clone, Copy, Debug)]
pub struct Table(NonZeroU64);

/// Of a [`Table`]: its level.
const LEVEL: u64 = 7;

impl Table {
    /// Makes `frame` an empty table of `level`; a root gets the kernel's half.
    ///
    /// # Panics
    /// When there is no such level, when `frame` is not of the memory for tables, and when it is a table already.
    #[must_use]
    pub fn new(frame: Phys, level: Level) -> Self {
        assert!((1..=ROOT).contains(&level), "tables have no level {level}");
        let Some(record) = record(frame) else {
            panic!("{frame:?} is not of the memory for page tables")
        };
        let taken = record.compare_exchange(0, BUSY, Ordering::Acquire, Ordering::Relaxed);
        assert!(taken.is_ok(), "{frame:?} is a page table already");
        let entries = frame.direct() as *mut u8;
        let half = KERNEL_SLOT as u64 * 8;
        // SAFETY: 1. The frame is of the memory for tables, and no table yet (just taken): nothing else reaches it. 2. The direct
        //            map shows it. 3. So it does the kernel root, a frame of the hardware layer, constant after boot.
        unsafe {
            mem::clear(entries, if level == ROOT { half } else { PAGE });
            if level == ROOT {
                let kernel = (kernel_root().direct() + half) as *const u8;
                mem::copy_words(entries.add(half as usize), kernel, (PAGE - half) as usize);
            }
        }
        record.store(level as u8, Ordering::Release);
        Self::of(frame, level)
    }

    /// The table in `frame`.
    ///
    /// # Panics
    /// When `frame` is no table.
    #[inline]
    #[must_use]
    pub fn at(frame: Phys) -> Self {
        let level = level(frame);
        // One comparison: 0 and BUSY are none.
        if level.wrapping_sub(1) >= ROOT {
            no_table(frame);
        }
        Self::of(frame, level)
    }

    /// The table of `level` that `frame` is, by its record or a link to it.
    #[inline]
    fn of(frame: Phys, level: Level) -> Self {
        // SAFETY: 1. A frame for tables is RAM: the direct map shows it in the upper half, above 0.
        Self(unsafe { NonZeroU64::new_unchecked(frame.direct() | u64::from(level)) })
    }

    #[inline]
    fn level(&self) -> Level {
        (self.0.get() & LEVEL) as Level
    }

    #[inline]
    fn entries(&self) -> &'static Entries {
        let entries = (self.0.get() & !LEVEL) as *const Entries;
        // SAFETY: 1. It is a page of the memory for tables: it has a record, or a link leads to it (rule 6). The direct map shows
        //            it for ever. 2. It is reached as atomics only, and by the CPUs' page walkers.
        unsafe { &*entries }
    }

    /// The table that an entry points to; `None`: it points to none, or to one of the kernel's half, whose links lack TABLE. What a
    /// link leads to is a table of the next level: nothing is looked up.
    #[inline]
    #[must_use]
    pub fn below(&self, index: usize) -> Option<Self> {
        let word = self.get(index);
        (word & TABLE != 0).then(|| Self::of(Phys(word & ADDRESS), self.level() - 1))
    }

    /// An entry.
    #[inline]
    #[must_use]
    pub fn get(&self, index: usize) -> u64 {
        self.entries()[index].load(Ordering::Relaxed)
    }

    #[inline]
    fn group_at(&self, first: usize) -> &'static [AtomicU64; GROUP] {
        let group = self.entries()[first..].first_chunk();
        group.expect("a group lies in its table")
    }

    /// [`GROUP`] entries from `first` on: a fixed number, so that looking at them all needs no loop.
    #[inline]
    pub fn group(&self, first: usize) -> impl Iterator<Item = u64> {
        let group = self.group_at(first).iter();
        group.map(|entry| entry.load(Ordering::Relaxed))
    }

    /// Sets an entry with a single 8-byte store.
    ///
    /// # Panics
    /// When the table may not have it there.
    #[inline]
    pub fn set(&self, index: usize, word: u64) {
        let entry = &self.entries()[index];
        if word == 0 || !alike(entry.load(Ordering::Relaxed), word) {
            self.check(index, word);
        }
        entry.store(word, Ordering::Relaxed);
    }

    /// Sets `count` entries from `first` on to `leaf` and those that follow it.
    ///
    /// # Panics
    /// When the table may not have them there.
    #[inline]
    pub fn set_leaves(&self, first: usize, count: usize, mut leaf: u64) {
        let slots = &self.entries()[first..][..count];
        if !allow_leaves(&Ram, self.level(), count, leaf) {
            refuse(self.level(), first, leaf);
        }
        let step = span(self.level());
        let (groups, rest) = slots.as_chunks();
        if !groups.is_empty() {
            leaf = set_groups(groups, leaf, step);
        }
        // BOUND: GROUP.
        for entry in rest {
            entry.store(leaf, Ordering::Relaxed);
            leaf += step;
        }
    }

    /// Empties [`GROUP`] entries from `first` on.
    ///
    /// # Panics
    /// When they are the kernel's.
    #[inline]
    pub fn clear_group(&self, first: usize) {
        self.check(first, 0);
        // BOUND: GROUP.
        for entry in self.group_at(first) {
            entry.store(0, Ordering::Relaxed);
        }
    }

    /// Empties `groups` times [`GROUP`] entries from `first` on, as [`Self::exchange`] does, up to the first that is not `leaf` or
    /// the one that follows it. Returns how many.
    ///
    /// # Panics
    /// When some are the kernel's.
    #[inline]
    pub fn take_groups(&self, first: usize, groups: usize, leaf: u64) -> usize {
        let slots = &self.entries()[first..][..groups * GROUP];
        self.check((first + groups * GROUP).saturating_sub(1), 0);
        let step = span(self.level());
        let (mut next, mut count) = (leaf, 0);
        // BOUND: the entries of a table; the caller counts them.
        for group in slots.as_chunks::<GROUP>().0 {
            let is_taken = |entry: &AtomicU64| {
                let taken = entry.compare_exchange(next, 0, Ordering::SeqCst, Ordering::SeqCst);
                next = next.wrapping_add(step);
                taken.is_ok()
            };
            // BOUND: GROUP.
            let left = group.iter().map(is_taken).position(|taken| !taken);
            count += left.unwrap_or(GROUP);
            if left.is_some() {
                break;
            }
        }
        count
    }

    /// Sets an entry to `new` if it is `current`, as one atomic step with respect to every CPU that walks the table.
    ///
    /// # Errors
    /// What the entry is instead.
    ///
    /// # Panics
    /// When the table may not have it there.
    #[inline]
    pub fn exchange(&self, index: usize, current: u64, new: u64) -> Result<(), u64> {
        if !alike(current, new) {
            self.check(index, new);
        }
        self.entries()[index]
            .compare_exchange(current, new, Ordering::SeqCst, Ordering::SeqCst)
            .map(|_| ())
    }

    /// Has a link say that the table it leads to has `count` entries in use.
    #[inline]
    pub fn set_count(&self, index: usize, count: u64) {
        let entry = &self.entries()[index];
        // In every kind of entry the CPU ignores these bits (no protection keys: CR4.PKE is clear); those of the kernel's half are
        // links and stay.
        let link = entry.load(Ordering::Relaxed) & !COUNT | count << COUNT.trailing_zeros() & COUNT;
        entry.store(link, Ordering::Relaxed);
    }

    /// Keeps the address of a frame in an entry that translates nothing: of a table that is not in use.
    ///
    /// # Panics
    /// When it is the kernel's.
    #[inline]
    pub fn note(&self, index: usize, frame: Phys) {
        self.check(index, 0);
        self.entries()[index].store(frame.0 & ADDRESS, Ordering::Relaxed);
    }

    /// What a window that shows all this table translates points to; `None` for a table of another level than 3.
    #[must_use]
    pub fn window(&self) -> Option<Window> {
        let frame = (self.0.get() & !LEVEL) - DIRECT_MAP;
        // Without A: hardware sets that before it caches anything of the window (`Root::window_is_used`).
        (self.level() == ROOT - 1).then_some(Window(frame | P | W | U | NX))
    }

    #[inline(always)] // What is known of the word decides what is left of the check.
    fn check(&self, index: usize, word: u64) {
        if !allow(&Ram, self.level(), index, word) {
            refuse(self.level(), index, word);
        }
    }
}

#[inline(never)]
fn set_groups(groups: &[[AtomicU64; GROUP]], mut leaf: u64, step: u64) -> u64 {
    // BOUND: the entries of a table; the caller counts them.
    for group in groups {
        // BOUND: GROUP.
        for (i, entry) in group.iter().enumerate() {
            entry.store(leaf + i as u64 * step, Ordering::Relaxed);
        }
        leaf += GROUP as u64 * step;
    }
    leaf
}

#[cold]
#[inline(never)]
fn no_table(frame: Phys) -> ! {
    panic!("{frame:?} is no page table")
}

#[cold]
#[inline(never)]
fn refuse(level: Level, index: usize, word: u64) -> ! {
    panic!("a page table of level {level} cannot have {word:#x} at {index}")
}

/// An entry of a root that shows the memory of another address space, or its own, without execution: NX in a link covers all
/// below it (AMD APM vol. 2 §5.6.1).
#[derive(Clone, Copy, Debug)]
pub struct Window(u64);

/// A root table, as far as windows are concerned.
#[derive(Clone, Copy, Debug)]
pub struct Root(&'static [AtomicU64; KERNEL_SLOT]);

impl Root {
    /// The root in `frame`.
    ///
    /// # Panics
    /// When `frame` is not a root table.
    #[inline]
    #[must_use]
    pub fn at(frame: Phys) -> Self {
        let table = Table::at(frame);
        assert!(table.level() == ROOT, "{frame:?} is not a root table");
        Self(table.entries().first_chunk().expect("half of it"))
    }

    /// Makes slot `slot` show a window, or nothing.
    ///
    /// # Panics
    /// When the slot is the kernel's.
    #[inline]
    pub fn set_window(&self, slot: usize, window: Option<Window>) {
        self.0[slot].store(window.map_or(0, |window| window.0), Ordering::Relaxed);
    }

    /// Whether the window in `slot` was used since it was set, or since its use was last taken: hardware sets A before it caches
    /// anything of it (AMD APM vol. 2 §5.4.2, Intel SDM vol. 3 §4.8), which says what has to be flushed.
    ///
    /// # Panics
    /// When the slot is the kernel's.
    #[inline]
    #[must_use]
    pub fn window_is_used(&self, slot: usize) -> bool {
        self.0[slot].load(Ordering::Relaxed) & A != 0
    }

    /// Whether the window in `slot` was used since it was set, or since the last call. The cores that have the table loaded must
    /// then be flushed: only after that a use shows again.
    ///
    /// # Panics
    /// When the slot is the kernel's.
    #[inline]
    pub fn take_window_use(&self, slot: usize) -> bool {
        let entry = self.0[slot].load(Ordering::Relaxed);
        if entry & A == 0 {
            return false;
        }
        // Hardware can only set A: what is lost by a plain store is a use by a core that is about to be flushed.
        self.0[slot].store(entry & !A, Ordering::Relaxed);
        true
    }
}
