//! What loader and firmware say of the machine: memory map, CPUs, timers, and which devices of the PC there are.
//!
//! Read once during boot, because some firmware keeps its tables in memory that it reports as free. Pure code over [`Memory`], so that the
//! host runs it on the recorded tables of real machines (tests/firmware/machines.rs) and on damaged ones. Whatever the tables say, reading them
//! ends, and what is left out of them becomes a [`Remark`], one line of the log each.
//!
//! BOUND: at boot only, and no more than the tables have bytes.

pub mod acpi;
pub mod cokernel;
mod loader;
mod memory;
mod modules;
mod multiboot2;
mod pvh;
mod ram;
mod remark;

pub use loader::{MAX_CMDLINE, MAX_MAP_ENTRIES};
pub use memory::Memory;
pub use modules::{MAX_MODULES, Modules};
pub use ram::LOW_MEMORY_END;
pub use remark::{Remark, Remarks, TableFault};

use crate::addr::{Phys, PhysRange};
use crate::ranges::Ranges;
use abi::map::{DIRECT_MAP_BYTES, MAX_RAM_RANGES};
use arrayvec::{ArrayString, ArrayVec};
use loader::Loader;
use wire::boot::{LOG_COM1, LOG_PARAM};

/// Entries of a memory map that are kept while it is worked on.
const FEW_ENTRIES: usize = 32;

/// The CPU that reads: which of the others it can interrupt, and how far its addresses reach.
#[derive(Clone, Copy, Debug)]
pub struct ThisCpu {
    /// Its APIC id.
    pub apic_id: u32,
    /// Whether it has x2APIC: without, ids end at 254.
    pub x2apic: bool,
    /// Bits of a physical address.
    pub address_bits: u8,
}

impl ThisCpu {
    /// End of the physical addresses that the kernel can use.
    fn reach(self) -> Phys {
        let by_cpu = 1u64.checked_shl(self.address_bits.into());
        Phys(by_cpu.unwrap_or(u64::MAX).min(DIRECT_MAP_BYTES))
    }
}

/// Everything that boot needs to know.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The command line; cut at [`MAX_CMDLINE`] bytes or at the first byte that is not UTF-8.
    pub cmdline: ArrayString<MAX_CMDLINE>,
    /// All RAM, whole pages.
    pub ram: Ranges,
    /// The files that the loader brought along, in its order.
    pub modules: Modules,
    /// The ACPI root pointer, 0 when the loader named none.
    pub rsdp: Phys,
    /// What ACPI says.
    pub acpi: acpi::Facts,
    /// The Linux beside a co-kernel.
    pub linux: Option<cokernel::Linux>,
    /// What is to be logged.
    pub remarks: Remarks,
}

/// Reads the loader's record at `info` (PVH's or multiboot2's) and what it leads to.
///
/// # Errors
/// Why there is no such record.
pub fn read(memory: &impl Memory, info: Phys, this: ThisCpu) -> Result<Machine, &'static str> {
    let mut remarks = Remarks::new();
    let loader = read_loader(memory, info)?;
    let map = || loader.map.read(memory);
    // The map is gone over again and again: most have room here, where that costs a tenth.
    let few: ArrayVec<_, FEW_ENTRIES> = map().take(FEW_ENTRIES).collect();
    let ram = if few.is_full() {
        ram::usable(map, this.reach(), &mut remarks)
    } else {
        ram::usable(|| few.iter().copied(), this.reach(), &mut remarks)
    };
    let left_out = loader.map.entries - map().count() as u64;
    if left_out > 0 {
        remark::push(&mut remarks, Remark::MapEntries(left_out));
    }
    let acpi = acpi::read(memory, loader.rsdp, this, &ram, &mut remarks);
    Ok(Machine {
        cmdline: loader.cmdline,
        ram,
        modules: loader.modules,
        rsdp: loader.rsdp,
        acpi,
        linux: None,
        remarks,
    })
}

/// Reads the record of the loader at `at`. PVH's begins with a magic number, multiboot2's with its own length: which loader it was
/// needs no further word.
fn read_loader(memory: &impl Memory, at: Phys) -> Result<Loader, &'static str> {
    let mut loader = if memory::number::<4>(memory, at, 0) == Some(pvh::MAGIC) {
        pvh::read(memory, at)?
    } else {
        multiboot2::read(memory, at)?
    };
    if let [only] = loader.modules[..] {
        loader.modules = modules::of_one(only, &loader.cmdline)?;
    }
    Ok(loader)
}

impl Machine {
    /// Whether COM1 takes the log: where the command line says so, else on a PC.
    #[must_use]
    pub fn logs_on_com1(&self) -> bool {
        let mut words = self.cmdline.split(' ');
        let named = words.find_map(|word| word.strip_prefix(LOG_PARAM));
        named.map_or(self.acpi.legacy.pc, |name| name == LOG_COM1)
    }

    /// RAM for the kernel: without the first MiB, which is left to firmware tables and the trampoline of the other CPUs, without what a
    /// co-kernel shares with Linux, and without `image`.
    #[must_use]
    pub fn free(&self, image: PhysRange) -> Ranges {
        let mut free = self.ram.clone();
        free.subtract(PhysRange {
            start: Phys(0),
            end: LOW_MEMORY_END,
        });
        if let Some(linux) = &self.linux {
            free.subtract(linux.record);
        }
        free.subtract(image);
        free
    }
}

/// What the kernel gets of `free`: whole pages, of [`MAX_RAM_RANGES`] ranges at most. What is lost is remarked.
pub fn hand_over(mut free: Ranges, remarks: &mut Remarks) -> Ranges {
    free.keep_largest(MAX_RAM_RANGES);
    if free.lost().ranges > 0 {
        remark::push(remarks, Remark::SmallRanges(free.lost()));
    }
    free
}
