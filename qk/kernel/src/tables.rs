//! Page-table memory of one address space: [`qk_core::paging::Tables`] over pool memory.

use core::sync::atomic::{AtomicU64, Ordering};

use arrayvec::ArrayVec;
use hal::addr::Phys;
use qk_core::frames::Frames;
use qk_core::page::PageSize;
use qk_core::paging::Tables;

/// Tables that one step may empty: those of 32 large pages' worth of addresses and their parents.
pub type Emptied = ArrayVec<u64, 80>;

/// Tables whose frames come from, and go back to, a rank's share.
pub struct ShareTables<'a> {
    /// Where table frames come from.
    pub frames: &'a mut Frames,
    /// Tables that became empty. A peer's window may still walk them, so they must not be reused at once.
    pub emptied: &'a mut Emptied,
}

fn slot(table: u64, index: usize) -> Phys {
    Phys(table + index as u64 * 8)
}

impl Tables for ShareTables<'_> {
    #[inline]
    fn read(&self, table: u64, index: usize) -> u64 {
        hal::mem::read_u64(slot(table, index))
    }

    #[inline]
    fn write(&mut self, table: u64, index: usize, entry: u64) {
        hal::mem::write_u64(slot(table, index), entry);
    }

    fn exchange(&mut self, table: u64, index: usize, current: u64, new: u64) -> Result<(), u64> {
        let entry: &AtomicU64 = hal::mem::shared(slot(table, index));
        entry
            .compare_exchange(current, new, Ordering::SeqCst, Ordering::SeqCst)
            .map(|_| ())
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
