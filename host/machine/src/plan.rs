//! The plan: how many cores and how much memory a job gets. Pure. Where that memory lies is the machine's to say.
//!
//! Defaults, documented in the book: cores per rank = cores available / ranks; ranks that are more share the cores. Memory per rank = 80 % of
//! the available memory / ranks, or what the machine says. QEMU's RAM is sparse, so what is not touched costs nothing: neither this host's memory
//! nor what a memory cgroup allows.

#[cfg(test)]
pub mod tests;

use abi::cores::Cores;
use abi::map::{MAX_RANKS, PAGE_2M};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use wire::boot::{COMM_PARAM, Config, TAIL_BYTES, flag, heap_bytes, table_bytes, thread_memory};
use wire::layout::Layout;
use wire::ram::Ram;

use crate::machine::Limits;
use crate::resources::Resources;

/// Kernel without its heap, PCT and firmware.
const NODE_BYTES: u64 = 8 << 20;

/// How the name of every node begins.
const NAME: &str = "margay:";

/// What the user requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// Processes to run.
    pub ranks: usize,
    /// Cores of each rank, if given.
    pub cores_per_rank: Option<usize>,
    /// Bytes of memory per rank, if given.
    pub partition_bytes: Option<u64>,
    /// Bytes of the node pool, if given.
    pub pool_bytes: Option<u64>,
    /// Allow more cores of ranks than the host has.
    pub oversubscribe: bool,
    /// Bits of [`wire::boot::flag`] besides RAM_ZEROED.
    pub flags: u64,
    /// Frequency of the TSC in Hz; 0: the kernel finds out.
    pub tsc_hz: u64,
    /// Bytes of memory besides the partitions, instead of what is known to be enough: for finding that out.
    pub node_bytes: Option<u64>,
}

/// What the job gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// Processes.
    pub ranks: usize,
    /// Cores of the node.
    pub cpus: usize,
    /// Bytes of memory per rank; a multiple of 2 MiB.
    pub partition_bytes: u64,
    /// Bytes of the node pool, which holds what ranks share; a multiple of 2 MiB.
    pub pool_bytes: u64,
    /// Bytes of memory besides the partitions and the node pool.
    pub node_bytes: u64,
    /// Where the communication area lies, in bytes from the start of RAM.
    pub comm_offset: u64,
    /// Bits of [`wire::boot::flag`].
    pub flags: u64,
    /// Frequency of the TSC in Hz; 0: the kernel finds out.
    pub tsc_hz: u64,
}

/// Why there is no plan. Each is a usage error: the user requested what this host does not have.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum PlanError {
    /// -n 0.
    #[error("-n 0: at least one rank is needed")]
    NoRanks,
    /// -d 0.
    #[error("-d 0: a rank needs at least one core")]
    NoCores,
    /// Beyond what 4-level paging has windows for.
    #[error("-n {0}: a node has room for at most {MAX_RANKS} ranks")]
    TooManyRanks(usize),
    /// More ranks than cores.
    #[error(
        "-n {ranks}: only {cores} cores are available here (--oversubscribe lets ranks share cores)"
    )]
    NotEnoughCores {
        /// Requested.
        ranks: usize,
        /// There.
        cores: usize,
    },
    /// More cores requested than there are.
    #[error(
        "-n {ranks} -d {each}: {} cores are needed, only {cores} are available here (--oversubscribe lets ranks share cores)", ranks.saturating_mul(*each)
    )]
    NotEnoughCoresForEach {
        /// Processes.
        ranks: usize,
        /// Cores of each.
        each: usize,
        /// There.
        cores: usize,
    },
    /// More than a node of this machine can have.
    #[error("-n {ranks} -d {each}: a node has room for at most {most} cores")]
    TooManyCores {
        /// Processes.
        ranks: usize,
        /// Cores of each.
        each: usize,
        /// Of the node.
        most: usize,
    },
    /// -m 0.
    #[error("-m 0: a rank needs at least 2M of memory")]
    NoMemory,
    /// Not even the smallest partitions.
    #[error("-n {ranks}: a rank needs at least 2M of memory, only {} are available here, enough for {}", Bytes(*available_bytes), available_bytes / PAGE_2M)]
    TooLittleMemory {
        /// Processes.
        ranks: usize,
        /// There.
        available_bytes: u64,
    },
    /// A larger pool than there is memory.
    #[error("--shared-memory {}: only {} of memory are available here", Bytes(*pool_bytes), Bytes(*available_bytes))]
    NotEnoughForPool {
        /// Requested.
        pool_bytes: u64,
        /// There.
        available_bytes: u64,
    },
    /// More memory than there is.
    #[error("{ranks} x {} of memory: only {} are available here, ask for less with -m", Bytes(*partition_bytes), Bytes(*available_bytes))]
    NotEnoughMemory {
        /// Processes.
        ranks: usize,
        /// Of each.
        partition_bytes: u64,
        /// There.
        available_bytes: u64,
    },
}

/// Bytes as people write them: `1536M`, `2G`, `12345K`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bytes(pub u64);

impl std::fmt::Display for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            b if b >= 1 << 30 && b % (1 << 30) == 0 => write!(f, "{}G", b >> 30),
            b if b >= 10 << 30 => write!(f, "{:.1}G", b as f64 / (1u64 << 30) as f64),
            b if b >= 1 << 20 => write!(f, "{}M", b >> 20),
            b => write!(f, "{}K", b >> 10),
        }
    }
}

/// Makes the plan for a machine with these limits.
///
/// # Errors
/// [`PlanError`] when the host does not have what is requested.
pub fn plan(request: &Request, host: &Resources, limits: &Limits) -> Result<Plan, PlanError> {
    let ranks = request.ranks;
    if ranks == 0 {
        return Err(PlanError::NoRanks);
    }
    if ranks > MAX_RANKS {
        return Err(PlanError::TooManyRanks(ranks));
    }
    let cpus = cpus(request, host.cores, limits.cores)?;
    let partition_bytes = partition_bytes(request, host, limits.default_fifths)?;
    let pool_bytes = pool_bytes(request, partition_bytes, host)?;
    let config = Config {
        ranks,
        cpus,
        flags: request.flags | if limits.zeroed { flag::RAM_ZEROED } else { 0 },
        tsc_hz: request.tsc_hz,
        partition_bytes,
        pool_bytes,
    };
    let comm_bytes = Layout::new(&config).total_bytes as u64;
    let unused = &limits.unused;
    let (comm_offset, comm_end) = if comm_bytes <= unused.end - unused.start {
        (unused.start, 0)
    } else {
        (limits.above_kernel, limits.above_kernel + comm_bytes)
    };
    let partitions_bytes = ranks as u64 * partition_bytes;
    let node_bytes = request.node_bytes.unwrap_or_else(|| {
        let all_bytes = partitions_bytes + pool_bytes;
        let tables = ranks as u64 * table_bytes(partition_bytes);
        let heap = heap_bytes(all_bytes, cpus as u64, ranks as u64);
        let needed = comm_end + NODE_BYTES + heap + tables;
        let threads = thread_memory(needed + partitions_bytes, ranks as u64);
        // The part of RAM that is for threads has such a part itself.
        (needed + threads + threads / 16).next_multiple_of(PAGE_2M)
    });
    Ok(Plan {
        ranks,
        cpus,
        partition_bytes,
        pool_bytes,
        node_bytes,
        comm_offset,
        flags: config.flags,
        tsc_hz: request.tsc_hz,
    })
}

/// Cores of the node: as many for each rank, or those of the host, which the ranks share.
fn cpus(request: &Request, cores: usize, most: usize) -> Result<usize, PlanError> {
    let ranks = request.ranks;
    let Some(each) = request.cores_per_rank else {
        let there = cores.clamp(1, most);
        return match there / ranks {
            0 if request.oversubscribe => Ok(there),
            0 => Err(PlanError::NotEnoughCores { ranks, cores }),
            each => Ok(ranks * each),
        };
    };
    if each == 0 {
        return Err(PlanError::NoCores);
    }
    let cpus = ranks
        .checked_mul(each)
        .filter(|&cpus| cpus <= most)
        .ok_or(PlanError::TooManyCores { ranks, each, most })?;
    Some(cpus)
        .filter(|&cpus| cpus <= cores || request.oversubscribe)
        .ok_or(PlanError::NotEnoughCoresForEach { ranks, each, cores })
}

fn partition_bytes(
    request: &Request,
    host: &Resources,
    default_fifths: u64,
) -> Result<u64, PlanError> {
    let ranks = request.ranks as u64;
    let wanted = match request.partition_bytes {
        Some(0) => return Err(PlanError::NoMemory),
        _ if host.memory_bytes / PAGE_2M < ranks => {
            return Err(PlanError::TooLittleMemory {
                ranks: request.ranks,
                available_bytes: host.memory_bytes,
            });
        }
        Some(bytes) => bytes.checked_next_multiple_of(PAGE_2M),
        None => {
            let all = host.memory_bytes / 5 * default_fifths;
            Some(((all / ranks) & !(PAGE_2M - 1)).max(PAGE_2M))
        }
    };
    wanted
        .filter(|&partition| {
            let all = partition.checked_mul(ranks);
            all.is_some_and(|all| all <= host.memory_bytes)
        })
        .ok_or(PlanError::NotEnoughMemory {
            ranks: request.ranks,
            partition_bytes: wanted.or(request.partition_bytes).unwrap_or(0),
            available_bytes: host.memory_bytes,
        })
}

/// The node pool: an eighth of the partitions together, unless its size is given. Text lies in it, which takes at most half: at least
/// what Python with numpy has (64 MiB) fits, whatever the partitions are, where that is at most an eighth of this host's memory. Like
/// the partitions the pool is sparse: what is not mapped costs nothing.
fn pool_bytes(request: &Request, partition_bytes: u64, host: &Resources) -> Result<u64, PlanError> {
    const LEAST: u64 = 16 << 20;
    const LEAST_WITH_TEXT: u64 = 160 << 20;
    let Some(bytes) = request.pool_bytes else {
        let least = (host.memory_bytes / 8).clamp(LEAST, LEAST_WITH_TEXT);
        let eighth = request.ranks as u64 * partition_bytes / 8;
        return Ok(eighth.max(least) & !(PAGE_2M - 1));
    };
    bytes
        .checked_next_multiple_of(PAGE_2M)
        .filter(|&bytes| bytes <= host.memory_bytes)
        .ok_or(PlanError::NotEnoughForPool {
            pool_bytes: bytes,
            available_bytes: host.memory_bytes,
        })
}

impl Plan {
    /// Boot information for the kernel.
    #[must_use]
    pub const fn config(&self) -> Config {
        Config {
            ranks: self.ranks,
            cpus: self.cpus,
            flags: self.flags,
            tsc_hz: self.tsc_hz,
            partition_bytes: self.partition_bytes,
            pool_bytes: self.pool_bytes,
        }
    }

    /// Guest-physical address of the communication area.
    #[must_use]
    pub const fn comm_base(&self, ram: &Ram) -> u64 {
        ram.base().saturating_add(self.comm_offset)
    }

    /// The kernel's command line.
    #[must_use]
    pub fn command_line(&self, ram: &Ram) -> String {
        format!("{COMM_PARAM}{:#x}", self.comm_base(ram))
    }

    /// Bytes at the end of guest RAM that are in a file of their own: the node pool and what follows it, or 0. Children of
    /// ranks map what they share from it, and it has nothing else that they could reach.
    #[must_use]
    pub const fn pool_file_bytes(&self) -> u64 {
        if self.pool_bytes == 0 {
            0
        } else {
            self.pool_bytes + TAIL_BYTES
        }
    }

    /// The node's name, `margay:RANKSxBYTES`: what others see of the plan in QEMU's command line.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{NAME}{}x{}", self.ranks, self.partition_bytes)
    }

    /// Ranks and bytes of each rank's partition, from what [`Self::name`] made.
    #[must_use]
    pub fn from_name(name: &str) -> Option<(usize, u64)> {
        let (ranks, partition_bytes) = name.strip_prefix(NAME)?.split_once('x')?;
        Some((ranks.parse().ok()?, partition_bytes.parse().ok()?))
    }

    /// The cores that rank `rank` gets.
    #[must_use]
    pub fn cores(&self, rank: usize) -> Cores {
        Cores::of(rank as u64, self.ranks as u64, self.cpus as u64)
            .expect("a plan has ranks and cores")
    }
}
