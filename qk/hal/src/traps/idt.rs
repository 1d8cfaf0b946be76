//! The interrupt descriptor table: one for all CPUs, 256 gates to 256 stubs.

use super::entry::{STUB_BYTES, stubs};
use crate::cpu::gdt::KERNEL_CS;
use crate::cpu::local::{IST_DOUBLE_FAULT, IST_MACHINE_CHECK, IST_NMI};
use core::sync::atomic::{AtomicU64, Ordering};
use x86_64::VirtAddr;
use x86_64::instructions::tables::lidt;
use x86_64::structures::DescriptorTablePointer;

const GATES: usize = 256;
/// Present, DPL 0, 64-bit interrupt gate (AMD APM vol. 2 §4.8.4). DPL 0: `int n` from ring 3 is a general protection fault.
const INTERRUPT_GATE: u64 = 0x8e00 << 32;
/// `int3` and `into`'s gates are open to programs, as on Linux.
const DPL_3: u64 = 3 << 45;

/// Two words per gate. Atomics only so that the table can be filled without `unsafe`; the CPUs read it after `lidt`.
#[repr(align(16))]
struct Idt([[AtomicU64; 2]; GATES]);

static IDT: Idt = Idt([const { [AtomicU64::new(0), AtomicU64::new(0)] }; GATES]);

/// Fills the table; once, before any CPU loads it.
pub(super) fn fill() {
    // BOUND: the vectors, at boot.
    for (vector, gate) in IDT.0.iter().enumerate() {
        let stub = stubs() + (vector * STUB_BYTES) as u64;
        let ist = match vector {
            2 => IST_NMI,
            8 => IST_DOUBLE_FAULT,
            18 => IST_MACHINE_CHECK,
            _ => 0,
        };
        let dpl = if matches!(vector, 3 | 4) { DPL_3 } else { 0 };
        let low = stub & 0xffff | u64::from(KERNEL_CS) << 16 | u64::from(ist) << 32;
        gate[0].store(
            low | INTERRUPT_GATE | dpl | (stub >> 16 & 0xffff) << 48,
            Ordering::Relaxed,
        );
        gate[1].store(stub >> 32, Ordering::Relaxed);
    }
}

/// Loads the table on this CPU.
pub(super) fn load() {
    let base = VirtAddr::new(&raw const IDT as u64);
    let pointer = DescriptorTablePointer {
        limit: (size_of::<Idt>() - 1) as u16,
        base,
    };
    // SAFETY: 1. The table lives for ever and every gate is valid: `fill` ran before.
    unsafe { lidt(&pointer) };
}
