//! This CPU and the others: identity, waiting, and the way out of the node.

pub mod debug;
pub mod features;
pub(crate) mod gdt;
pub(crate) mod local;
mod percpu;
mod speed;

pub use features::{feature_words, giant_pages, hwcaps, identity_words};
pub use local::id;
pub use percpu::PerCpu;
pub use speed::{Speed, speed};

use crate::firmware::ThisCpu;
use crate::vectors::{FIRST_INTERRUPT, Vector};
use crate::{apic, cokernel, sync};
use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering};
use x86_64::instructions::port::Port;

pub use wire::boot::MAX_CPUS;
use wire::cokernel::LOG_BELL;

/// I/O port of QEMU's isa-debug-exit device (`-device isa-debug-exit,iobase=0xf4`).
const DEBUG_EXIT_PORT: u16 = 0xf4;

/// CPUs that run the kernel.
#[must_use]
pub fn count() -> usize {
    local::count()
}

/// The local APIC id of CPU `cpu`.
#[must_use]
pub fn apic_id(cpu: usize) -> Option<u32> {
    local::of(cpu).map(|local| local.apic_id.load(Ordering::Relaxed))
}

/// Interrupts CPU `cpu` with `vector`. Stores made before are visible to its handler.
///
/// # Panics
/// When there is no such CPU, or the vector is an exception's: its handler takes what it finds on the stack for what the CPU pushes.
#[inline] // The vector is a constant.
pub fn send_ipi(cpu: usize, vector: Vector) {
    assert!(vector >= FIRST_INTERRUPT, "an IPI is no exception");
    interrupt(cpu, vector);
}

#[inline(never)] // Who may have to call it need not make room for all that it does.
fn interrupt(cpu: usize, vector: Vector) {
    let Some(to) = apic_id(cpu) else {
        panic!("IPI to CPU {cpu}, which does not run")
    };
    apic::ipi(to, vector);
}

/// Stops all other CPUs, for a panic that is in progress: those by NMI that can take one. A CPU that is only starting would be
/// reset by it, and the node with it; it looks for itself (`traps::init_cpu`).
pub(crate) fn stop_others() {
    // BOUND: the CPUs, in a panic.
    (0..count())
        .filter(|&cpu| cpu != id())
        .filter_map(local::of)
        .filter(|local| local.takes_nmi.load(Ordering::SeqCst))
        .for_each(|local| apic::send_nmi(local.apic_id.load(Ordering::Relaxed)));
}

/// This CPU, as the reader of the firmware's tables wants to know it.
pub(crate) fn this() -> ThisCpu {
    ThisCpu {
        apic_id: features::apic_id(),
        x2apic: apic::has_x2apic(),
        address_bits: features::physical_address_bits(),
    }
}

/// The boot CPU's record: the first thing Rust does, because everything else may call [`id`].
pub(crate) fn init_bsp() {
    local::install_bsp();
    sync::check_order(|| &local::local().holds);
    init_this_cpu();
}

/// What every CPU does for itself, after its record is installed.
pub(crate) fn init_this_cpu() {
    features::enable();
    features::set_tsc_aux(id() as u64);
    speed::set();
}

/// Marks a spin loop for the CPU.
pub fn pause() {
    core::hint::spin_loop();
}

/// Takes pending interrupts now, then returns with interrupts off again.
pub fn take_interrupts() {
    sync::may_wait();
    // SAFETY: 1. Interrupt handlers save every register they change (traps::entry) and return here (rule 1).
    //         2. `sti` delays interrupts by one instruction, hence the `nop`. No `nomem`: handlers change memory.
    unsafe { asm!("sti", "nop", "cli", options(nostack)) };
}

/// Sleeps until the next interrupt, takes it, and returns with interrupts off.
///
/// No wake-up is lost: an interrupt that is already pending ends the `hlt` at once.
pub fn halt() {
    sync::may_wait();
    // SAFETY: 1. Interrupt handlers save every register they change and return here (rule 1). 2. `sti` takes effect after `hlt` has begun
    //            (Intel SDM vol. 2, STI).
    unsafe { asm!("sti", "hlt", "cli", options(nostack)) };
}

/// Makes `counter` the word that counts CPU `cpu`'s entries from ring 3 (system calls, traps, interrupts).
///
/// Only that CPU writes it, with a plain increment; others may read it at any time.
pub fn set_entry_counter(cpu: usize, counter: &'static AtomicU64) {
    if let Some(local) = local::of(cpu) {
        local
            .entries
            .store(core::ptr::from_ref(counter).cast_mut(), Ordering::Relaxed);
    }
}

/// Ends the node: QEMU's exit status becomes `code << 1 | 1`, and a co-kernel's host is told. On a machine without either the CPU
/// stops.
pub fn exit_node(code: u8) -> ! {
    cokernel::end(code);
    if !apic::ring_linux(LOG_BELL) {
        // SAFETY: 1. Writing the debug-exit port ends the machine or, without the device, does nothing.
        unsafe { Port::<u32>::new(DEBUG_EXIT_PORT).write(u32::from(code)) };
    }
    stop()
}

/// Stops this CPU for good.
pub(crate) fn stop() -> ! {
    // BOUND: the CPU stops, and nothing is to run on it.
    loop {
        // SAFETY: 1. With interrupts off, `hlt` only ends for an NMI, and then we halt again.
        unsafe { asm!("cli", "hlt", options(nomem, nostack)) };
    }
}

/// A random number of the CPU's generator, when it has one that answers (Intel SDM vol. 1 §7.3.17 recommends ten tries).
#[must_use]
pub fn rdrand() -> Option<u64> {
    let random = x86_64::instructions::random::RdRand::new()?;
    // BOUND: ten.
    (0..10).find_map(|_| random.get_u64())
}
