//! What each core counts; written by the QK on that core, read by yod without disturbing anyone.

use zerocopy::{FromBytes, KnownLayout};

use abi::syscall::MAX_CALLS;

use crate::word::Word;

/// A core's counters. `entries` always counts; the rest only with `flag::COUNTERS`, except where noted.
#[derive(FromBytes, KnownLayout, Debug)]
#[repr(C)]
pub struct CpuStats {
    /// Entries into the kernel from ring 3, for any reason (always counted).
    pub entries: Word,
    /// System calls served here (not counting the PCT's).
    pub local_calls: Word,
    /// System calls shipped to the proxy.
    pub shipped_calls: Word,
    /// Page faults from ring 3 (always counted).
    pub page_faults: Word,
    /// Other exceptions from ring 3 (always counted).
    pub exceptions: Word,
    /// Interrupts by kind (always counted).
    pub timer_interrupts: Word,
    /// Inter-processor interrupts.
    pub ipis: Word,
    /// Doorbells from the host.
    pub doorbells: Word,
    /// Any other interrupt.
    pub other_interrupts: Word,
    /// Longest section with interrupts off, in TSC ticks.
    pub irqs_off_max_ticks: Word,
    /// Time in the kernel, waiting for the host not counted, in TSC ticks.
    pub kernel_ticks: Word,
    /// Time spent waiting for the host, in TSC ticks.
    pub ship_wait_ticks: Word,
    /// Entries from ring 3 by the PCT (part of `entries`).
    pub pct_entries: Word,
    /// Times that the core polled before it would halt (always counted).
    pub halt_polls: Word,
    /// How fast the core's CPU runs at least, as it was asked to: IA32_HWP_REQUEST's minimum, of 255; 0: it is not asked (always
    /// counted).
    pub performance: Word,
    /// What Linux had the CPU speculate less for, and it no more does: IA32_SPEC_CTRL as it was found (always counted).
    pub lifted: Word,
    /// Calls by number.
    pub by_call: [Word; MAX_CALLS],
}

impl CpuStats {
    /// Interrupts of every kind.
    #[must_use]
    pub fn interrupts(&self) -> [&Word; 4] {
        [
            &self.timer_interrupts,
            &self.ipis,
            &self.doorbells,
            &self.other_interrupts,
        ]
    }
}
