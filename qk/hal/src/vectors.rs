//! Interrupt vectors of the kernel, above the CPU's own exceptions (0..=31, Intel SDM vol. 3 §6.2).
//! Higher vectors have higher priority in the local APIC; it only matters for the order within one [`take_interrupts`](crate::cpu::take_interrupts).

/// A vector that may be sent to another CPU.
pub type Vector = u8;

/// First vector that is not an exception.
pub const FIRST_INTERRUPT: Vector = 32;
/// The host rang (ivshmem-doorbell, MSI-X).
pub const VEC_DOORBELL: Vector = 0x40;
/// The one-shot timer fired.
pub const VEC_TIMER: Vector = 0x50;
/// Another CPU has work for this one.
pub const VEC_WAKE: Vector = 0xe0;
/// Another CPU requests a TLB shoot-down.
pub const VEC_TLB: Vector = 0xf0;
/// The APIC's spurious vector; the low four bits must be ones on old parts (Intel SDM vol. 3 §11.9).
pub const VEC_SPURIOUS: Vector = 0xff;
