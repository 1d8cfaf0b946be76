//! From the loader's 32-bit entry to `kernel_main`.
//!
//! `entry` (assembly) reaches long mode on a temporary identity map and calls [`early_main`], which reads the PVH start
//! information, builds the final page tables, moves to a guarded stack and hands a [`Boot`] to the kernel. Other loaders (multiboot2 from
//! an ISO, a co-kernel start) will need another reader beside `pvh` and nothing else: everything later sees only [`Boot`].
//!
//! BOUND: at boot only.

pub(crate) mod entry;
pub(crate) mod frames;
mod modules;
pub(crate) mod paging;
mod pvh;

use crate::addr::{Phys, PhysRange};
use crate::ranges::Ranges;
use crate::sync::Once;
use crate::{acpi, apic, cpu, serial, traps};
use abi::map::{MAX_RAM_RANGES, PAGE};
use arrayvec::ArrayString;
use modules::Modules;

/// One range of usable RAM.
pub type MemRange = PhysRange;

/// Longest command line kept, in bytes.
pub const MAX_CMDLINE: usize = 2048;

/// What the loader passed, checked and copied out of the loader's memory.
#[derive(Clone, Copy, Debug)]
pub struct Boot {
    /// The command line; cut at [`MAX_CMDLINE`] bytes or at the first byte that is not UTF-8.
    pub cmdline: &'static str,
    /// Free RAM from 1 MiB up, also above 4 GiB: sorted, disjoint, whole pages, without the kernel image and what the
    /// hardware layer took during boot. It still includes the modules. RAM below 1 MiB is left to firmware tables and the AP trampoline.
    pub memory: &'static [MemRange],
    /// The files that the loader brought along, in its order.
    pub modules: &'static [PhysRange],
    /// Where the kernel image lies (not in `memory`).
    pub kernel: PhysRange,
    /// The ACPI root pointer, 0 when the loader named none.
    pub rsdp: Phys,
}

/// Names the kernel's main function: `qk_hal::entry!(kernel_main)` with `fn kernel_main(boot: Boot) -> !`.
///
/// A macro and not a call, because assembly calls up into the kernel crate, which may not contain `unsafe` itself.
#[macro_export]
macro_rules! entry {
    ($main:path) => {
        #[unsafe(no_mangle)]
        extern "Rust" fn qk_kernel_main(boot: $crate::boot::Boot) -> ! {
            let main: fn($crate::boot::Boot) -> ! = $main;
            main(boot)
        }
    };
}
pub use crate::entry;

unsafe extern "Rust" {
    /// Defined by [`entry!`] in the kernel crate.
    fn qk_kernel_main(boot: Boot) -> !;
}

/// What outlives boot of the loader's information.
struct Facts {
    cmdline: ArrayString<MAX_CMDLINE>,
    memory: Ranges,
    kernel: PhysRange,
    modules: Modules,
    rsdp: Phys,
    acpi: acpi::Facts,
    trampoline: Option<Phys>,
}

static FACTS: Once<Facts> = Once::new();

/// First Rust code, called once by `entry` on the boot stack with the early page tables: `info` is the physical address of
/// the PVH start information, `delta` how far the image lies from where it was linked.
extern "C" fn early_main(info: u64, delta: u64) -> ! {
    cpu::init_bsp();
    serial::init();
    traps::init();
    cpu::features::check();

    let loader = pvh::read(Phys(info)).unwrap_or_else(|why| panic!("PVH start information: {why}"));
    let kernel = paging::image_range(delta);
    let acpi = acpi::read(&paging::LowMemory, loader.rsdp);
    let mut free = loader.memory.clone();
    free.subtract(PhysRange {
        start: Phys(0),
        end: Phys(LOW_MEMORY_END),
    });
    free.subtract(kernel);
    frames::open(&free, &loader.in_use, kernel);

    cpu::features::patch_smap_sites();
    traps::sort_fixups();
    paging::build(&loader.memory, kernel);
    let taken = cpu::init_bsp_stacks();

    free.subtract(frames::close());
    free.keep_whole_pages();
    free.keep_largest(MAX_RAM_RANGES);
    let facts = Facts {
        cmdline: loader.cmdline,
        memory: free,
        kernel,
        modules: loader.modules,
        rsdp: loader.rsdp,
        acpi,
        trampoline: loader
            .memory
            .first_fit(LOWEST_TRAMPOLINE, REAL_MODE_END, PAGE)
            .map(|range| range.start),
    };
    assert!(FACTS.set(facts).is_ok(), "early_main ran twice");
    apic::init_cpu();
    entry::run_on(taken, start_kernel)
}

/// On the guarded stack: the last step of boot.
extern "C" fn start_kernel() -> ! {
    let Some(facts) = FACTS.get() else {
        unreachable!("early_main sets the facts")
    };
    let boot = Boot {
        cmdline: &facts.cmdline,
        memory: &facts.memory,
        modules: &facts.modules,
        kernel: facts.kernel,
        rsdp: facts.rsdp,
    };
    // SAFETY: 1. `entry!` is the only definition of the symbol and checks the signature.
    //         2. It is called once: `early_main` panics on a second run.
    unsafe { qk_kernel_main(boot) }
}

/// End of the first MiB: BIOS data, EBDA, option ROMs.
const LOW_MEMORY_END: u64 = 0x10_0000;
/// Where real-mode code can be: above the BIOS data area, below the VGA window.
const LOWEST_TRAMPOLINE: Phys = Phys(0x1000);
const REAL_MODE_END: Phys = Phys(0xa_0000);

/// RAM that boot left to the kernel; empty before boot has finished.
pub(crate) fn free_memory() -> &'static [MemRange] {
    FACTS.get().map_or(&[], |facts| &facts.memory)
}

/// What ACPI said.
pub(crate) fn acpi() -> &'static acpi::Facts {
    let Some(facts) = FACTS.get() else {
        panic!("ACPI facts are known after boot")
    };
    &facts.acpi
}

/// A page below 640 KiB for AP startup.
pub(crate) fn trampoline_page() -> Phys {
    let page = FACTS.get().and_then(|facts| facts.trampoline);
    page.unwrap_or_else(|| panic!("no RAM below 640 KiB to start CPUs in"))
}
