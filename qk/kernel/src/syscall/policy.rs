//! NUMA memory policies (set_mempolicy(2)). A node has one memory node, so every policy that can be set is one that its
//! memory follows already; it is kept to be returned.

use abi::Errno;
use abi::map::PAGE;

use super::{Call, SysResult};
use crate::preempt;
use crate::thread::policy::{NODE_0, Policy, mode};
use crate::user::{get_u64, put_u32_opt, put_words};
use hal::addr::Va;
use qk_core::mman;
use qk_core::regions::Region;

/// What a word of a mask counts at preemption points.
const WORD_WORK: u32 = 30;
/// Most bits of a mask that Linux takes (mm/mempolicy.c, get_nodes).
const MASK_BITS: u64 = PAGE * 8;

/// What is requested, if it is known and this node can follow it.
///
/// # Errors
/// EINVAL, EFAULT: as mpol_new and get_nodes have it.
fn parse(mode: u64, nodes: u64, max_node: u64) -> Result<Policy, Errno> {
    let (mode, flags) = (mode as u32 & !mode::FLAGS, mode as u32 & mode::FLAGS);
    if mode > mode::LAST || flags == mode::FLAGS {
        return Err(Errno::EINVAL);
    }
    let nodes = mask(nodes, max_node)?;
    match mode {
        _ if nodes & !NODE_0 != 0 => Err(Errno::EINVAL),
        mode::DEFAULT if nodes == 0 => Ok(Policy::DEFAULT),
        // An empty preference is a local one.
        mode::LOCAL | mode::PREFERRED if nodes == 0 && flags == 0 => Ok(Policy(mode::LOCAL)),
        mode::DEFAULT | mode::LOCAL => Err(Errno::EINVAL),
        _ if nodes == 0 => Err(Errno::EINVAL),
        mode => Ok(Policy(mode | flags)),
    }
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
    let first = get_u64(at)?;
    for word in 1..bits.div_ceil(64) {
        preempt::point(WORD_WORK);
        if get_u64(at.wrapping_add(word * 8))? != 0 {
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
    let policy = parse(mode, nodes, max_node)?;
    call.thread.set_memory_policy(policy);
    Ok(0)
}

/// The memory lies where any policy would place it.
pub fn mbind(call: &mut Call<'_>) -> SysResult {
    /// MPOL_MF_STRICT, MPOL_MF_MOVE, MPOL_MF_MOVE_ALL
    const FLAGS: u64 = 7;
    let [addr, len_bytes, mode, nodes, max_node, flags] = call.args();
    if flags & !FLAGS != 0 {
        return Err(Errno::EINVAL);
    }
    let policy = parse(mode, nodes, max_node)?;
    let default = policy == Policy::DEFAULT;
    call.rank.with_aspace(|aspace| {
        match mman::mbind(Va(addr), len_bytes, default, aspace.regions())? {
            Some(range) => aspace.bind(range, policy.packed()).map(|()| 0),
            None => Ok(0),
        }
    })
}

pub fn get_mempolicy(call: &mut Call<'_>) -> SysResult {
    const NODE: u64 = 1;
    const ADDR: u64 = 2;
    const BOTH: u64 = NODE | ADDR;
    const MEMS_ALLOWED: u64 = 4;
    let [mode_to, nodes_to, max_node, addr, flags, _] = call.args();
    if nodes_to != 0 && max_node < 1 {
        return Err(Errno::EINVAL);
    }
    let own = call.thread.memory_policy();
    let (mode, nodes) = match flags {
        0 if addr != 0 => return Err(Errno::EINVAL),
        0 => (own.0, own.nodes()),
        ADDR => {
            let policy = at(call, addr, |_| true)?;
            (policy.0, policy.nodes())
        }
        // The node of the address.
        BOTH => (0, at(call, addr, Region::is_backed)?.nodes()),
        // The next one of them.
        NODE if own.0 & !mode::FLAGS == mode::INTERLEAVE => (0, own.nodes()),
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

/// What was set for an address, where something is mapped that `serves`: not the process's.
fn at(call: &Call<'_>, addr: u64, serves: impl Fn(&Region) -> bool) -> Result<Policy, Errno> {
    call.rank.with_aspace(|aspace| {
        let region = aspace.regions().lookup(Va(addr)).filter(|r| serves(r));
        region.map(Policy::of).ok_or(Errno::EFAULT)
    })
}
