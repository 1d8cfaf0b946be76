//! What a co-kernel is started with, and what it says to the Linux beside it: the record that margay.ko (host/cokernel) lays at the start
//! of the memory that Linux gave up. Only ring 0 of either side reaches it.
//!
//! ```text
//! memory of the node, from its start on (64 MiB aligned)
//!   0        Record: facts, mailboxes, log           1 MiB; no RAM for the kernel
//!   1 MiB    the communication area, where it fits   else from 16 MiB on
//!   2 MiB    the kernel's image
//!   the end  the PCT, in the last boot::TAIL_BYTES
//! ```
//!
//! Every CPU of the node enters with 64-bit code and data segments, interrupts off, four-level page tables that show the first
//! [`EARLY_BYTES`] of this memory (or all of it, where it is less) twice: at `abi::map::DIRECT_MAP` plus their address, and at `KERNEL_BASE`.
//! RDI is the address of the record, RSI that of the memory: how far the image lies from where it is linked. It waits until its word of
//! [`Record::mailbox`] is not zero, and jumps there: the first CPU to the entry of the ELF file, as soon as all are there; the others
//! where the kernel says. (The idea is that of ACPI 6.4 §5.2.12.19, the multiprocessor wakeup structure.)

use zerocopy::{FromBytes, KnownLayout};

use crate::boot::MAX_CPUS;
use crate::ram::MAX_RANGES;
use crate::word::Word;

/// "MARGAYK" and a zero, little-endian.
pub const MAGIC: u64 = 0x004b_5941_4752_414d;
/// Version of the record.
pub const VERSION: u64 = 1;
/// Bytes of the part of the memory that the record has.
pub const RECORD_BYTES: u64 = 1 << 20;
/// What the first page tables show, and what the memory is aligned to.
pub const EARLY_BYTES: u64 = 64 << 20;
/// Bytes of the log's ring.
pub const LOG_BYTES: usize = 64 << 10;
/// The bell to Linux that says that there is more of the log, or that the node has ended: behind those of the ranks and the keeper.
pub const LOG_BELL: u16 = 256;
/// Bells to Linux, in words of bits.
pub const BELL_WORDS: usize = 5;

/// A range of physical memory: its start, and its length in bytes. Of length 0: none.
#[derive(FromBytes, KnownLayout, Debug)]
#[repr(C)]
pub struct Range {
    /// Physical address.
    pub start: Word,
    /// Bytes.
    pub len_bytes: Word,
}

/// The record.
#[derive(FromBytes, KnownLayout, Debug)]
#[repr(C, align(4096))]
pub struct Record {
    // Written by the module before the node starts.
    /// [`MAGIC`].
    pub magic: Word,
    /// [`VERSION`].
    pub version: Word,
    /// All memory of the node.
    pub memory: Range,
    /// What of it the host's processes map as the communication area.
    pub comm: Range,
    /// The PCT.
    pub pct: Range,
    /// Frequency of the TSC in Hz.
    pub tsc_hz: Word,
    /// The CPU of Linux that takes the node's bells, by APIC id.
    pub bell_apic_id: Word,
    /// And the vector it takes them with.
    pub bell_vector: Word,
    /// CPUs of the node.
    pub cpu_count: Word,
    // Written by the kernel.
    /// Bells to Linux that were signalled, a bit each; the module takes them. Changed by read-modify-write from both sides, which are
    /// CPUs of one machine.
    pub bells: [Word; BELL_WORDS],
    /// 0: the node runs; else it has ended, with this exit code and one.
    pub ended: Word,
    /// Ranges of [`Self::shown`]; counted when they are all there.
    pub shown_count: Word,
    /// Memory that the host's processes may map besides the communication area.
    pub shown: [Range; MAX_RANGES],
    /// Bytes written to [`Self::log`] so far; the last of them are there.
    pub log_end: Word,
    // Written by the module before the node starts.
    /// The CPUs: APIC id below, NUMA node above 32 bits. The first is the boot CPU.
    pub cpus: [Word; MAX_CPUS],
    // Written by the module for the first CPU, by the kernel for the others.
    /// Where each CPU is to go on; 0: it waits.
    pub mailbox: [Word; MAX_CPUS],
    // Written by the kernel.
    /// The log, as a ring of bytes.
    pub log: [Word; LOG_BYTES / 8],
}

const _: () = assert!(size_of::<Record>() as u64 <= RECORD_BYTES);

#[cfg(test)]
mod tests {
    use core::mem::offset_of;

    use super::*;

    /// host/cokernel/record.h has the same numbers, which its compiler checks.
    #[test]
    fn the_record_is_laid_out_as_the_module_has_it() {
        let offsets = [
            (offset_of!(Record, memory), 16),
            (offset_of!(Record, comm), 32),
            (offset_of!(Record, pct), 48),
            (offset_of!(Record, tsc_hz), 64),
            (offset_of!(Record, cpu_count), 88),
            (offset_of!(Record, bells), 96),
            (offset_of!(Record, ended), 136),
            (offset_of!(Record, shown), 152),
            (offset_of!(Record, log_end), 1176),
            (offset_of!(Record, cpus), 1184),
            (offset_of!(Record, mailbox), 3232),
            (offset_of!(Record, log), 5280),
        ];
        for (is, wanted) in offsets {
            assert_eq!(is, wanted);
        }
    }
}
