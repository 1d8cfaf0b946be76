//! NUMA memory policies (set_mempolicy(2)). A node has one memory node, so every policy that can be set is one that its
//! memory follows already; it is kept to be told back.

use abi::Errno;
use abi::map::PAGE;

use super::args::{get_words, put_u32_opt, put_words};
use super::{Call, SysResult};
use crate::preempt;

/// A policy as it was set.
#[derive(Clone, Copy)]
pub struct Policy {
    /// MPOL_* with its mode flags.
    mode: u32,
    /// A bit per memory node.
    nodes: u64,
}

impl Policy {
    /// What a process starts with.
    pub const DEFAULT: Policy = Policy {
        mode: mode::DEFAULT,
        nodes: 0,
    };
}

/// Modes (include/uapi/linux/mempolicy.h).
mod mode {
    pub const DEFAULT: u32 = 0;
    pub const PREFERRED: u32 = 1;
    pub const LOCAL: u32 = 4;
    /// MPOL_PREFERRED_MANY, the last.
    pub const LAST: u32 = 5;
    pub const STATIC_NODES: u32 = 1 << 15;
    pub const RELATIVE_NODES: u32 = 1 << 14;
    pub const FLAGS: u32 = STATIC_NODES | RELATIVE_NODES;
}

/// What a word of a mask counts at preemption points.
const WORD_WORK: u32 = 30;
/// Memory node 0, the only one.
const NODE_0: u64 = 1;
/// Most bits of a mask that Linux takes (mm/mempolicy.c, get_nodes).
const MASK_BITS: u64 = PAGE * 8;

/// What is asked for, if it is known and this node can follow it.
///
/// # Errors
/// EINVAL, EFAULT: as mpol_new and get_nodes have it.
fn parse(mode: u64, nodes: u64, max_node: u64) -> Result<Policy, Errno> {
    let (mode, flags) = (mode as u32 & !mode::FLAGS, mode as u32 & mode::FLAGS);
    if mode > mode::LAST || flags == mode::FLAGS {
        return Err(Errno::EINVAL);
    }
    let nodes = mask(nodes, max_node)?;
    let may_be_empty = match mode {
        mode::DEFAULT | mode::LOCAL if nodes != 0 => return Err(Errno::EINVAL),
        mode::DEFAULT | mode::LOCAL => true,
        mode::PREFERRED => flags == 0,
        _ => false,
    };
    if nodes & !NODE_0 != 0 || (nodes == 0 && !may_be_empty) {
        return Err(Errno::EINVAL);
    }
    // An empty preference is a local one.
    let mode = if mode == mode::PREFERRED && nodes == 0 {
        mode::LOCAL
    } else {
        mode
    };
    Ok(Policy {
        mode: mode | flags,
        nodes,
    })
}

/// The program's mask of nodes, whose length counts one bit too many.
fn mask(at: u64, max_node: u64) -> Result<u64, Errno> {
    let bits = max_node.wrapping_sub(1);
    if at == 0 || max_node == 0 || bits == 0 {
        return Ok(0);
    }
    if bits > MASK_BITS {
        return Err(Errno::EINVAL);
    }
    let [first] = get_words(at)?;
    for word in 1..bits.div_ceil(64) {
        preempt::point(WORD_WORK);
        if get_words(at.wrapping_add(word * 8))? != [0] {
            return Err(Errno::EINVAL);
        }
    }
    Ok(if bits < 64 {
        first & ((1 << bits) - 1)
    } else {
        first
    })
}

pub fn set_mempolicy(call: &mut Call<'_>) -> SysResult {
    let [mode, nodes, max_node, ..] = call.args();
    *call.thread.memory_policy.lock() = parse(mode, nodes, max_node)?;
    Ok(0)
}

/// The memory lies where any policy wants it. It is not kept by range: get_mempolicy of an address tells the process's.
pub fn mbind(call: &mut Call<'_>) -> SysResult {
    /// MPOL_MF_STRICT, MPOL_MF_MOVE, MPOL_MF_MOVE_ALL
    const FLAGS: u64 = 7;
    let [addr, len_bytes, mode, nodes, max_node, flags] = call.args();
    if flags & !FLAGS != 0 || addr % PAGE != 0 {
        return Err(Errno::EINVAL);
    }
    parse(mode, nodes, max_node)?;
    let end = len_bytes
        .checked_next_multiple_of(PAGE)
        .and_then(|len_bytes| addr.checked_add(len_bytes))
        .ok_or(Errno::EINVAL)?;
    if addr < end {
        mapped(call, addr)?;
        mapped(call, end - 1)?;
    }
    Ok(0)
}

pub fn get_mempolicy(call: &mut Call<'_>) -> SysResult {
    const NODE: u64 = 1;
    const ADDR: u64 = 2;
    const MEMS_ALLOWED: u64 = 4;
    let [mode_to, nodes_to, max_node, addr, flags, _] = call.args();
    if nodes_to != 0 && max_node < 1 {
        return Err(Errno::EINVAL);
    }
    let policy = *call.thread.memory_policy.lock();
    if flags & ADDR != 0 && flags & MEMS_ALLOWED == 0 {
        mapped(call, addr)?;
    }
    let (mode, nodes) = match flags {
        0 if addr != 0 => return Err(Errno::EINVAL),
        0 | ADDR => (policy.mode, policy.nodes),
        // The node of the address.
        flags if flags == NODE | ADDR => (0, policy.nodes),
        MEMS_ALLOWED => (0, NODE_0),
        _ => return Err(Errno::EINVAL),
    };
    put_u32_opt(mode_to, mode)?;
    if nodes_to != 0 {
        put_mask(nodes_to, max_node, nodes)?;
    }
    Ok(0)
}

/// Fills the program's mask of nodes, in whole words (Linux: copy_nodes_to_user).
fn put_mask(to: u64, max_node: u64, nodes: u64) -> Result<(), Errno> {
    let bits = max_node - 1;
    if bits > MASK_BITS {
        return Err(Errno::EINVAL);
    }
    for word in 0..bits.div_ceil(64) {
        preempt::point(WORD_WORK);
        let bits = if word == 0 { nodes } else { 0 };
        put_words(to.wrapping_add(word * 8), &[bits])?;
    }
    Ok(())
}

/// Checks that the program has something at `addr`.
fn mapped(call: &Call<'_>, addr: u64) -> Result<(), Errno> {
    let region = call
        .rank
        .with_aspace(|aspace| Ok(aspace.regions().lookup(addr).is_some()))?;
    if region { Ok(()) } else { Err(Errno::EFAULT) }
}
