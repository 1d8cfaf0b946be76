//! The bell between node and host: QEMU's ivshmem-doorbell device (QEMU docs/specs/ivshmem-spec.txt).
//!
//! Two peers: the node is 0, the host 1. Each direction has its own vectors: MSI-X vector i of the device interrupts core i with
//! [`VEC_DOORBELL`]; [`ring`] signals one of the host's. Only doorbells pass here; what they are about lies in shared memory.
//! A co-kernel has no such device: Linux interrupts its cores with the same vector, and they one of Linux's ([`apic::ring_linux`]).

use crate::addr::Phys;
use crate::pci::{self, Config, Device};
use crate::vectors::VEC_DOORBELL;
use crate::{apic, cokernel, smp};
use core::sync::atomic::{AtomicU64, Ordering};

const VENDOR: u16 = 0x1af4;
const DEVICE: u16 = 0x1110;

/// BAR 0: registers.
const DOORBELL: u64 = 12;
/// The host's peer id.
const HOST: u32 = 1;

const CAPABILITY_MSIX: u8 = 0x11;
/// Message control, in the upper half of the capability's first dword: enable, mask all, entries - 1.
const MSIX_ENABLE: u32 = 1 << 31;
const MSIX_MASK_ALL: u32 = 1 << 30;
const MSIX_ENTRY_BYTES: u64 = 16;
/// Where message interrupts go: the local APICs' window, destination id from bit 12 (Intel SDM vol. 3 §11.11).
const MESSAGE_ADDRESS: u32 = 0xfee0_0000;
/// The destination that is not one CPU.
const ALL_CPUS: u8 = 0xff;

/// Physical address of the registers; 0: no device.
static REGISTERS: AtomicU64 = AtomicU64::new(0);
/// Bytes of the registers that are used.
const REGISTER_BYTES: u64 = 16;

/// Finds the device and directs its vectors: i to core i, as [`smp::start_aps`] numbers them. Returns how many cores the host can ring;
/// 0 when there is no device.
pub fn init() -> usize {
    if cokernel::is_here() {
        return smp::expected();
    }
    let Some(device) = pci::find(VENDOR, DEVICE) else {
        return 0;
    };
    let found = (
        device.memory(0, 0, REGISTER_BYTES),
        device.capability(CAPABILITY_MSIX),
    );
    let (Some(registers), Some(msix)) = found else {
        return 0;
    };
    let control = device.read(msix);
    let entries = (control >> 16 & 0x7ff) as usize + 1;
    let Some(table) = msix_table(device, msix, entries) else {
        return 0;
    };
    device.enable();
    device.write(msix, control | MSIX_ENABLE | MSIX_MASK_ALL);
    let directed = direct(table, entries);
    device.write(msix, control & !MSIX_MASK_ALL | MSIX_ENABLE);
    REGISTERS.store(registers.0, Ordering::Relaxed);
    directed
}

/// Directs as many vectors as there are cores; returns how many were.
fn direct(table: Phys, entries: usize) -> usize {
    let (mut directed, mut out_of_reach) = (0, 0);
    // BOUND: the CPUs, at boot.
    for (index, cpu) in smp::cpus().iter().enumerate().take(entries) {
        // Messages carry 8 bits of an id; their entries stay masked, as they are after reset.
        let Some(destination) = u8::try_from(cpu.apic_id).ok().filter(|&id| id != ALL_CPUS) else {
            out_of_reach += 1;
            continue;
        };
        let entry = table + index as u64 * MSIX_ENTRY_BYTES;
        // Address, upper address, data, mask bit.
        let words = [
            MESSAGE_ADDRESS | u32::from(destination) << 12,
            0,
            VEC_DOORBELL.into(),
            0,
        ];
        // BOUND: four words, at boot.
        for (word, value) in words.into_iter().enumerate() {
            write(entry + word as u64 * 4, value);
        }
        directed += 1;
    }
    if out_of_reach > 0 {
        log::warn!("the host cannot interrupt {out_of_reach} CPUs: their APIC ids are above 254");
    }
    directed
}

/// The MSI-X table: a base address register (bits 0..=2) and an offset in it.
fn msix_table(device: Device, msix: u16, entries: usize) -> Option<Phys> {
    let table = device.read(msix + 4);
    let len_bytes = entries as u64 * MSIX_ENTRY_BYTES;
    device.memory(table as u16 & 7, u64::from(table & !7), len_bytes)
}

fn write(at: Phys, value: u32) {
    // SAFETY: 1. `at` lies in what `Device::memory` has returned: a memory BAR of our device, outside of RAM, shown uncached.
    //         2. The device's registers cannot touch memory other than by the messages programmed here.
    unsafe { (at.direct() as *mut u32).write_volatile(value) };
}

/// Signals vector `vector` of the host; `false`: there is none to signal. Stores made before are visible to the host when it wakes up.
#[must_use]
pub fn ring(vector: u16) -> bool {
    let registers = REGISTERS.load(Ordering::Relaxed);
    if registers == 0 {
        return apic::ring_linux(vector);
    }
    write(Phys(registers + DOORBELL), HOST << 16 | u32::from(vector));
    true
}
