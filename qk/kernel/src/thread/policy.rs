//! A thread's NUMA memory policy. A node has one memory node, so every policy that can be set is one that its memory follows already;
//! it is kept to be returned (set_mempolicy(2)).

use qk_core::regions::{Region, RegionFlags};

/// A policy as it was set: MPOL_* with its mode flags. Each policy of a node with one memory node has that, or none.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Policy(pub u32);

impl Policy {
    /// What a process starts with.
    pub const DEFAULT: Policy = Policy(mode::DEFAULT);

    /// A bit per memory node.
    pub fn nodes(self) -> u64 {
        match self.0 & !mode::FLAGS {
            mode::DEFAULT | mode::LOCAL => 0,
            _ => NODE_0,
        }
    }

    /// As a region keeps it: the mode in three bits, and one for each flag.
    pub fn packed(self) -> RegionFlags {
        let bits = self.0 & mode::MASK | self.0 >> mode::FLAGS_TO_MASK & !mode::MASK;
        RegionFlags::from_bits_retain((bits << SHIFT) as u16)
    }

    /// Of a region.
    pub fn of(region: &Region) -> Policy {
        let bits = u32::from((region.flags & RegionFlags::POLICY).bits()) >> SHIFT;
        Policy(bits & mode::MASK | (bits & !mode::MASK) << mode::FLAGS_TO_MASK)
    }
}

/// Where regions keep it.
const SHIFT: u32 = RegionFlags::POLICY.bits().trailing_zeros();

/// Modes (include/uapi/linux/mempolicy.h).
pub mod mode {
    pub const DEFAULT: u32 = 0;
    pub const PREFERRED: u32 = 1;
    pub const INTERLEAVE: u32 = 3;
    pub const LOCAL: u32 = 4;
    /// MPOL_PREFERRED_MANY, the last.
    pub const LAST: u32 = 5;
    pub const STATIC_NODES: u32 = 1 << 15;
    pub const RELATIVE_NODES: u32 = 1 << 14;
    pub const FLAGS: u32 = STATIC_NODES | RELATIVE_NODES;
    /// Bits of a mode, and how far the flags lie above them.
    pub const MASK: u32 = 7;
    pub const FLAGS_TO_MASK: u32 = 11;
}

/// Memory node 0, the only one.
pub const NODE_0: u64 = 1;
