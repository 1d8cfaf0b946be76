//! From the loader's entry to `kernel_main`.
//!
//! `entry` (assembly) reaches long mode on a temporary identity map and calls [`early_main`], which reads what loader and firmware say
//! ([`crate::firmware`]); a co-kernel is there at once and calls [`early_cokernel`], which reads the record beside it. [`boot`] builds the final page tables, moves to a guarded stack and hands a [`Boot`] to the kernel. Another loader
//! needs another reader beside `firmware::pvh` and `firmware::multiboot2` and nothing else: everything later sees only [`Boot`].
//!
//! BOUND: at boot only.

pub(crate) mod entry;
pub(crate) mod frames;
pub(crate) mod kept;
pub(crate) mod paging;

use crate::addr::{Phys, PhysRange};
use crate::firmware::acpi::Cpu;
use crate::firmware::{self, Machine, Remark};
use crate::task::kstack;
use crate::{apic, cokernel, cpu, serial, traps};
use kept::Kept;

/// One range of usable RAM.
pub type MemRange = PhysRange;

/// What the loader passed, checked and copied out of the loader's memory.
#[derive(Clone, Copy, Debug)]
pub struct Boot {
    /// The command line; cut at [`firmware::MAX_CMDLINE`] bytes or at the first byte that is not UTF-8.
    pub cmdline: &'static str,
    /// Free RAM from 1 MiB up, also above 4 GiB: sorted, disjoint, whole pages, without the kernel image and what the
    /// hardware layer took during boot. It still includes the modules. RAM below 1 MiB is left to firmware tables and the AP trampoline.
    pub memory: &'static [MemRange],
    /// The CPUs that the node will have, by APIC id and NUMA node: this one first.
    pub cpus: &'static [Cpu],
    /// The files that the loader brought along, in its order.
    pub modules: &'static [PhysRange],
    /// Where the kernel image lies (not in `memory`).
    pub kernel: PhysRange,
    /// The ACPI root pointer, 0 when the loader named none.
    pub rsdp: Phys,
    /// Where processes of the host map the communication area, all that they can map of it, when its place is the loader's to say.
    pub comm: Option<PhysRange>,
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

/// First Rust code, called once by `entry` on the boot stack with the early page tables: `info` is the physical address of
/// the loader's record, `delta` how far the image lies from where it was linked.
extern "C" fn early_main(info: u64, delta: u64) -> ! {
    cpu::init_bsp();
    traps::init();
    boot(read_machine(Phys(info)), delta)
}

/// The same on a co-kernel: `record` is the physical address of what it shares with Linux, and `delta` where its memory begins.
extern "C" fn early_cokernel(record: u64, delta: u64) -> ! {
    cpu::init_bsp();
    traps::init();
    let is_there = cokernel::open(Phys(record));
    serial::init(serial::To::Record);
    assert!(is_there, "there is no record where the loader says");
    let machine = cokernel::read(Phys(record)).unwrap_or_else(|why| panic!("{why}"));
    paging::set_early(machine.ram[0]);
    boot(machine, delta)
}

/// From what there is to the kernel's main function.
fn boot(mut machine: Machine, delta: u64) -> ! {
    cpu::features::check();

    let image = paging::image_range(delta);
    let free = machine.free(image);
    frames::open(&free, &machine.modules, image, paging::early());

    cpu::features::patch_smap_sites();
    traps::sort_fixups();
    paging::build(&machine.ram, image, apic::window_page().as_slice());
    let stack = kstack::init_bsp();

    let mut free = free;
    free.subtract(frames::close());
    let free = firmware::hand_over(free, &mut machine.remarks);
    // BOUND: the remarks, a few.
    machine.remarks.iter().for_each(say);
    let kept = Kept {
        machine,
        free,
        image,
    };
    kept::keep(kept);
    apic::init_cpu();
    entry::run_on(stack, start_kernel)
}

/// Reads what there is, and opens the log where that says.
fn read_machine(info: Phys) -> Machine {
    let machine = firmware::read(&paging::Physical, info, cpu::this());
    serial::init(if machine.as_ref().map_or(true, Machine::logs_on_com1) {
        serial::To::Com1
    } else {
        serial::To::Nowhere
    });
    machine.unwrap_or_else(|why| panic!("{why}"))
}

fn say(remark: &Remark) {
    log::warn!("{remark}");
}

/// On the guarded stack: the last step of boot.
extern "C" fn start_kernel() -> ! {
    let Kept {
        machine,
        free,
        image,
    } = kept::get();
    let boot = Boot {
        cmdline: &machine.cmdline,
        memory: free,
        cpus: &machine.acpi.cpus,
        modules: &machine.modules,
        kernel: *image,
        rsdp: machine.rsdp,
        comm: machine.linux.as_ref().map(|linux| linux.comm),
    };
    // SAFETY: 1. `entry!` is the only definition of the symbol and checks the signature.
    //         2. It is called once: `early_main` panics on a second run.
    unsafe { qk_kernel_main(boot) }
}
