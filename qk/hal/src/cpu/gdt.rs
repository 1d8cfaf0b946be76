//! Segments and the task state segment of one CPU.
//!
//! The layout follows Linux's (arch/x86/include/asm/segment.h), because programs can see the selectors: CS 0x33 and SS 0x2b in signal
//! frames, and `lsl` on 0x7b gives the CPU number.

use core::cell::UnsafeCell;
use x86_64::instructions::segmentation::{CS, DS, ES, FS, GS, SS, Segment};
use x86_64::instructions::tables::{lgdt, load_tss};
use x86_64::structures::DescriptorTablePointer;
use x86_64::structures::gdt::SegmentSelector;
use x86_64::structures::tss::TaskStateSegment;
use x86_64::{PrivilegeLevel, VirtAddr};

/// Kernel code; SYSCALL also loads SS = this + 8.
pub(crate) const KERNEL_CS: u16 = 0x10;
const KERNEL_SS: u16 = 0x18;
/// SYSRET loads SS = this + 8 and CS = this + 16.
pub(crate) const SYSRET_BASE: u16 = 0x20 | 3;
/// User stack segment.
pub(crate) const USER_SS: u16 = 0x28 | 3;
/// User 64-bit code segment.
pub(crate) const USER_CS: u16 = 0x30 | 3;
const TSS: u16 = 0x40;

const ENTRIES: usize = 16;

/// Descriptors (AMD APM vol. 2 §4.8): 64-bit code, flat data, DPL 0 and 3, all marked accessed.
const GDT: [u64; ENTRIES] = {
    let mut gdt = [0; ENTRIES];
    gdt[KERNEL_CS as usize / 8] = 0x00af_9b00_0000_ffff;
    gdt[KERNEL_SS as usize / 8] = 0x00cf_9300_0000_ffff;
    gdt[USER_SS as usize / 8] = 0x00cf_f300_0000_ffff;
    gdt[USER_CS as usize / 8] = 0x00af_fb00_0000_ffff;
    gdt
};
/// The segment whose limit is the CPU number: read-only data, DPL 3 (Linux: `GDT_ENTRY_CPUNODE`).
const CPU_NUMBER_ENTRY: usize = 15;
const CPU_NUMBER_DESCRIPTOR: u64 = 0x0040_f500_0000_0000;

/// GDT and TSS of one CPU.
pub(crate) struct Tables {
    gdt: UnsafeCell<[u64; ENTRIES]>,
    tss: UnsafeCell<TaskStateSegment>,
}

// SAFETY: 1. Only the owning CPU touches its tables, with interrupts off (rule 1).
unsafe impl Sync for Tables {}

impl Tables {
    pub(crate) const fn new() -> Self {
        Self {
            gdt: UnsafeCell::new(GDT),
            tss: UnsafeCell::new(TaskStateSegment::new()),
        }
    }

    /// Makes this CPU use the tables, as CPU number `id`.
    pub(crate) fn load(&'static self, id: usize) {
        let tss = self.tss.get() as u64;
        let limit = size_of::<TaskStateSegment>() as u64 - 1;
        // SAFETY: 1. The tables belong to this CPU, live for ever, and are not in use by it before this call.
        //         2. The descriptors are valid for long mode, so the segment loads cannot fault.
        unsafe {
            let gdt = &mut *self.gdt.get();
            // Available 64-bit TSS, base split over two entries (AMD APM vol. 2 §4.8.3).
            gdt[TSS as usize / 8] =
                limit | (tss & 0xff_ffff) << 16 | 0x89 << 40 | (tss >> 24 & 0xff) << 56;
            gdt[TSS as usize / 8 + 1] = tss >> 32;
            gdt[CPU_NUMBER_ENTRY] = CPU_NUMBER_DESCRIPTOR | id as u64 & 0xffff;
            let base = VirtAddr::new(self.gdt.get() as u64);
            lgdt(&DescriptorTablePointer {
                limit: (ENTRIES * 8 - 1) as u16,
                base,
            });
            CS::set_reg(SegmentSelector::new(KERNEL_CS / 8, PrivilegeLevel::Ring0));
            SS::set_reg(SegmentSelector::new(KERNEL_SS / 8, PrivilegeLevel::Ring0));
            DS::set_reg(SegmentSelector::NULL);
            ES::set_reg(SegmentSelector::NULL);
            FS::set_reg(SegmentSelector::NULL);
            GS::set_reg(SegmentSelector::NULL);
            load_tss(SegmentSelector::new(TSS / 8, PrivilegeLevel::Ring0));
        }
    }

    /// The stack that interrupts from ring 3 start on.
    pub(crate) fn set_rsp0(&self, top: u64) {
        // SAFETY: 1. Only this CPU changes its TSS, with interrupts off (rule 1). 2. The processor reads it only on an entry from ring 3.
        unsafe { (*self.tss.get()).privilege_stack_table[0] = VirtAddr::new_unsafe(top) };
    }

    /// The stack of IST slot `slot`, 1..=7.
    pub(crate) fn set_ist(&self, slot: u16, top: u64) {
        // SAFETY: 1. As in `set_rsp0`. 2. The slot is read only when its exception strikes.
        unsafe {
            (*self.tss.get()).interrupt_stack_table[usize::from(slot) - 1] =
                VirtAddr::new_unsafe(top)
        };
    }
}
