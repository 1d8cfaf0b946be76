//! RAM at boot: what there is, and what of it is free.
//!
//! BOUND: the ranges of RAM, at boot; so all below.

use abi::map::{PAGE, PAGE_2M};
use hal::addr::{Phys, PhysRange};
use hal::boot::Boot;
use hal::ranges::Ranges;
use wire::boot::TAIL_BYTES;

/// The RAM of the node, and what of it nothing lies in yet.
pub struct Free {
    ram: Ranges,
    free: Ranges,
}

/// Ends the node: how much is wanted is the host's word, which is no fault of the kernel's.
fn end(why: &str) -> ! {
    crate::last_line::end(1, format_args!("{why}"))
}

impl Free {
    /// All RAM but what the loader brought along.
    pub fn of(boot: &Boot) -> Free {
        // BOUND: as above.
        let ram: Ranges = boot.memory.iter().copied().collect();
        let mut free = Free {
            free: ram.clone(),
            ram,
        };
        // BOUND: the loader's modules.
        for module in boot.modules {
            free.carve(PhysRange::new(
                module.start,
                module.len_bytes().next_multiple_of(PAGE),
            ));
        }
        free
    }

    /// Bytes of RAM.
    pub fn ram_bytes(&self) -> u64 {
        self.ram.bytes()
    }

    /// Bytes that are free.
    pub fn free_bytes(&self) -> u64 {
        self.free.bytes()
    }

    /// Takes `len_bytes` from the first range that has them; when none has, the node ends.
    pub fn take(&mut self, len_bytes: u64) -> PhysRange {
        // BOUND: as above.
        let range = self
            .free
            .iter()
            .find(|range| range.len_bytes() >= len_bytes);
        let Some(range) = range else {
            end("there is not enough memory for the kernel");
        };
        let taken = PhysRange::new(range.start, len_bytes);
        self.carve(taken);
        taken
    }

    /// Takes the node pool, which the host has in a file of its own: the last `len_bytes` of RAM before the tail. What a firmware or
    /// the loader has put there, an initrd too, lies in the tail. When the end of RAM is not free, the node ends.
    pub fn take_end(&mut self, len_bytes: u64) -> PhysRange {
        // BOUND: as above.
        let top = self.ram.iter().map(|range| range.end.0).max().unwrap_or(0);
        let apart = len_bytes.saturating_add(TAIL_BYTES);
        let start = top.next_multiple_of(PAGE_2M).checked_sub(apart);
        let taken = start.map(|start| PhysRange::new(Phys(start), len_bytes));
        let is_free = |taken: &PhysRange| {
            let mut ranges = self.free.iter();
            // BOUND: as above.
            ranges.any(|range| range.holds(taken.start, taken.len_bytes()))
        };
        let Some(taken) = taken.filter(is_free) else {
            end("the end of RAM has no room for the node pool");
        };
        self.carve(PhysRange::new(taken.start, apart));
        taken
    }

    /// Takes `gone` out of what is free.
    pub fn carve(&mut self, gone: PhysRange) {
        self.free.subtract(gone);
    }

    /// All RAM but `gone`.
    pub fn ram_without<const N: usize>(&self, gone: [PhysRange; N]) -> Ranges {
        let mut ram = self.ram.clone();
        // BOUND: a few.
        for range in gone {
            ram.subtract(range);
        }
        ram
    }

    /// What is free.
    pub fn ranges(&self) -> &Ranges {
        &self.free
    }

    /// What is free, at last.
    pub fn into_ranges(self) -> Ranges {
        self.free
    }
}
