//! What outlives boot: what loader and firmware say, and what RAM boot left.

use crate::addr::{Phys, PhysRange};
use crate::firmware::Machine;
use crate::firmware::acpi::Facts;
use crate::ranges::Ranges;
use crate::sync::Once;
use abi::map::PAGE;

/// What outlives boot.
pub(super) struct Kept {
    pub machine: Machine,
    /// RAM that boot left to the kernel.
    pub free: Ranges,
    pub image: PhysRange,
}

static KEPT: Once<Kept> = Once::new();

/// Keeps it.
///
/// # Panics
/// On a second call.
pub(super) fn keep(kept: Kept) {
    assert!(KEPT.set(kept).is_ok(), "early_main ran twice");
}

/// Where real-mode code can be: above the BIOS data area, below the VGA window.
const LOWEST_TRAMPOLINE: Phys = Phys(0x1000);
const REAL_MODE_END: Phys = Phys(0xa_0000);

/// All of it.
pub(super) fn get() -> &'static Kept {
    let Some(kept) = KEPT.get() else {
        panic!("what the firmware says is known after boot")
    };
    kept
}

/// RAM that boot left to the kernel; empty before boot has finished.
pub(crate) fn free_memory() -> &'static [PhysRange] {
    KEPT.get().map_or(&[], |kept| &kept.free)
}

/// What ACPI says.
pub(crate) fn acpi() -> &'static Facts {
    &get().machine.acpi
}

/// All RAM.
pub(crate) fn ram() -> &'static Ranges {
    &get().machine.ram
}

/// A page below 640 KiB for AP startup.
pub(crate) fn trampoline_page() -> Phys {
    let page = ram().first_fit(LOWEST_TRAMPOLINE, REAL_MODE_END, PAGE);
    page.unwrap_or_else(|| panic!("no RAM below 640 KiB to start CPUs in"))
        .start
}
