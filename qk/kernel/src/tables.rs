//! Page-table memory of one address space: [`qk_core::paging::Tables`] over pool memory.

use core::sync::atomic::{AtomicU64, Ordering};

use arrayvec::ArrayVec;
use hal::addr::Phys;
use qk_core::frames::Frames;
use qk_core::page::PageSize;
use qk_core::paging::entry::Entry;
use qk_core::paging::{Table, Tables};

/// Tables that one step may empty: those of 32 large pages' worth of addresses and their parents.
pub type Emptied = ArrayVec<u64, 80>;

/// Tables whose frames come from, and go back to, a rank's share.
pub struct ShareTables<'a> {
    /// Where table frames come from.
    pub frames: &'a mut Frames,
    /// Tables that became empty. A peer's window may still walk them, so they must not be reused at once.
    pub emptied: &'a mut Emptied,
}

/// A table in pool memory.
#[derive(Clone, Copy)]
pub struct ShareTable(&'static [AtomicU64; 512]);

impl Table for ShareTable {
    #[inline]
    fn get(&self, index: usize) -> Entry {
        Entry(self.0[index].load(Ordering::Relaxed))
    }

    #[inline]
    fn set(&self, index: usize, entry: Entry) {
        self.0[index].store(entry.0, Ordering::Relaxed);
    }

    #[inline]
    fn exchange(&self, index: usize, current: Entry, new: Entry) -> Result<(), Entry> {
        self.0[index]
            .compare_exchange(current.0, new.0, Ordering::SeqCst, Ordering::SeqCst)
            .map(|_| ())
            .map_err(Entry)
    }
}

impl Tables for ShareTables<'_> {
    type Table = ShareTable;

    #[inline]
    fn table(&self, frame: u64) -> ShareTable {
        ShareTable(hal::mem::shared(Phys(frame)))
    }

    fn alloc_table(&mut self) -> Option<u64> {
        let frame = self.frames.alloc(PageSize::Size4K)?;
        if !frame.zero {
            hal::mem::zero(Phys(frame.addr), PageSize::Size4K.bytes());
        }
        Some(frame.addr)
    }

    fn free_table(&mut self, frame: u64) {
        self.emptied.push(frame);
    }
}
