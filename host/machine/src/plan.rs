//! The plan: how many cores and how much memory a job gets, and where in guest RAM what lies. Pure.
//!
//! Defaults, documented in the book: cores per rank = cores available / ranks; ranks that are more share the cores. Memory per rank = 80 % of
//! the available memory / ranks. Guest RAM is sparse, so what is not touched costs nothing: neither this host's memory
//! nor what a memory cgroup allows.

use abi::cores::Cores;
use abi::map::{COMM_BASE, MAX_RANKS, PAGE_2M};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use wire::boot::{Config, TAIL_BYTES, flag, heap_bytes, thread_memory};
use wire::layout::Layout;

use crate::ram::{LOW_BYTES, Ram, SPLIT_BYTES};
use crate::resources::Resources;

/// Most cores of a node: xAPIC ids have 8 bits and 255 means everybody (Intel SDM vol. 3, 11.6.1).
const MAX_CORES: usize = 255;
/// Kernel without its heap, PCT and firmware.
const NODE_BYTES: u64 = 8 << 20;
/// The kernel image is loaded here: below it is room for a small communication area.
const KERNEL_PHYS: u64 = PAGE_2M;
/// A large communication area lies here, above the kernel image.
const LARGE_COMM_BASE: u64 = 16 << 20;

/// How the name of every node begins.
const NAME: &str = "margay:";

/// What the user asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// Processes to run.
    pub ranks: usize,
    /// Cores of each rank, if given.
    pub cores_per_rank: Option<usize>,
    /// Bytes of memory per rank, if given.
    pub share_bytes: Option<u64>,
    /// Bytes of the node pool, if given.
    pub pool_bytes: Option<u64>,
    /// Allow more cores of ranks than the host has.
    pub oversubscribe: bool,
    /// Bits of [`wire::boot::flag`] besides RAM_ZEROED.
    pub flags: u64,
    /// Frequency of the TSC in Hz; 0: the kernel finds out.
    pub tsc_hz: u64,
    /// Bytes of memory besides the shares, instead of what is known to be enough: for finding that out.
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
    pub share_bytes: u64,
    /// Bytes of the node pool, which holds what ranks share; a multiple of 2 MiB.
    pub pool_bytes: u64,
    /// Guest RAM.
    pub ram: Ram,
    /// Guest-physical address of the communication area.
    pub comm_base: u64,
    /// Bits of [`wire::boot::flag`].
    pub flags: u64,
    /// Frequency of the TSC in Hz; 0: the kernel finds out.
    pub tsc_hz: u64,
}

/// Why there is no plan. Each is a usage error: the user asked for what this host does not have.
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
        /// Asked for.
        ranks: usize,
        /// There.
        cores: usize,
    },
    /// More cores asked for than there are.
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
    /// Beyond what xAPIC ids can tell apart.
    #[error("-n {ranks} -d {each}: a node has room for at most {MAX_CORES} cores")]
    TooManyCores {
        /// Processes.
        ranks: usize,
        /// Cores of each.
        each: usize,
    },
    /// -m 0.
    #[error("-m 0: a rank needs at least 2M of memory")]
    NoMemory,
    /// Not even the smallest shares.
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
        /// Asked for.
        pool_bytes: u64,
        /// There.
        available_bytes: u64,
    },
    /// More memory than there is.
    #[error("{ranks} x {} of memory: only {} are available here, ask for less with -m", Bytes(*share_bytes), Bytes(*available_bytes))]
    NotEnoughMemory {
        /// Processes.
        ranks: usize,
        /// Of each.
        share_bytes: u64,
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

/// Makes the plan.
///
/// # Errors
/// [`PlanError`] when the host does not have what is asked for.
pub fn plan(request: &Request, host: &Resources) -> Result<Plan, PlanError> {
    let ranks = request.ranks;
    if ranks == 0 {
        return Err(PlanError::NoRanks);
    }
    if ranks > MAX_RANKS {
        return Err(PlanError::TooManyRanks(ranks));
    }
    let cpus = cpus(request, host.cores)?;
    let share_bytes = share_bytes(request, host)?;
    let pool_bytes = pool_bytes(request, share_bytes, host)?;
    let config = Config {
        ranks,
        cpus,
        flags: request.flags | flag::RAM_ZEROED,
        tsc_hz: request.tsc_hz,
        share_bytes,
        pool_bytes,
    };
    let comm_bytes = Layout::new(&config).total_bytes as u64;
    let (comm_base, comm_end) = if COMM_BASE + comm_bytes <= KERNEL_PHYS {
        (COMM_BASE, 0) // In memory that the kernel does not use: it costs nothing.
    } else {
        (LARGE_COMM_BASE, LARGE_COMM_BASE + comm_bytes)
    };
    let shares_bytes = ranks as u64 * share_bytes;
    let node_bytes = request.node_bytes.unwrap_or_else(|| {
        let all_bytes = shares_bytes + pool_bytes;
        let needed = comm_end + NODE_BYTES + heap_bytes(all_bytes, cpus as u64, ranks as u64);
        let threads = thread_memory(needed + shares_bytes, ranks as u64);
        // The part of RAM that is for threads has such a part itself.
        (needed + threads + threads / 16).next_multiple_of(PAGE_2M)
    });
    let tail_bytes = if pool_bytes > 0 { TAIL_BYTES } else { 0 };
    let ram = ram(
        node_bytes + pool_bytes + tail_bytes,
        ranks as u64,
        share_bytes,
    );
    Ok(Plan {
        ranks,
        cpus,
        share_bytes,
        pool_bytes,
        ram,
        comm_base,
        flags: config.flags,
        tsc_hz: request.tsc_hz,
    })
}

/// Cores of the node: as many for each rank, or those of the host, which the ranks share.
fn cpus(request: &Request, cores: usize) -> Result<usize, PlanError> {
    let ranks = request.ranks;
    let Some(each) = request.cores_per_rank else {
        let there = cores.clamp(1, MAX_CORES);
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
        .filter(|&cpus| cpus <= MAX_CORES)
        .ok_or(PlanError::TooManyCores { ranks, each })?;
    Some(cpus)
        .filter(|&cpus| cpus <= cores || request.oversubscribe)
        .ok_or(PlanError::NotEnoughCoresForEach { ranks, each, cores })
}

fn share_bytes(request: &Request, host: &Resources) -> Result<u64, PlanError> {
    let ranks = request.ranks as u64;
    let wanted = match request.share_bytes {
        Some(0) => return Err(PlanError::NoMemory),
        _ if host.memory_bytes / PAGE_2M < ranks => {
            return Err(PlanError::TooLittleMemory {
                ranks: request.ranks,
                available_bytes: host.memory_bytes,
            });
        }
        Some(bytes) => bytes.checked_next_multiple_of(PAGE_2M),
        None => Some(((host.memory_bytes / 5 * 4 / ranks) & !(PAGE_2M - 1)).max(PAGE_2M)),
    };
    wanted
        .filter(|&share| {
            let all = share.checked_mul(ranks);
            all.is_some_and(|all| all <= host.memory_bytes)
        })
        .ok_or(PlanError::NotEnoughMemory {
            ranks: request.ranks,
            share_bytes: wanted.or(request.share_bytes).unwrap_or(0),
            available_bytes: host.memory_bytes,
        })
}

/// The node pool: an eighth of the shares together, at least 16 MiB, unless it was asked for. Like the shares it is sparse: what
/// nobody maps costs nothing.
fn pool_bytes(request: &Request, share_bytes: u64, host: &Resources) -> Result<u64, PlanError> {
    const LEAST: u64 = 16 << 20;
    let Some(bytes) = request.pool_bytes else {
        let eighth = request.ranks as u64 * share_bytes / 8;
        return Ok((eighth & !(PAGE_2M - 1)).max(LEAST));
    };
    bytes
        .checked_next_multiple_of(PAGE_2M)
        .filter(|&bytes| bytes <= host.memory_bytes)
        .ok_or(PlanError::NotEnoughForPool {
            pool_bytes: bytes,
            available_bytes: host.memory_bytes,
        })
}

/// RAM with room for every share in one piece: low memory is filled first, the rest goes above 4 GiB. When RAM is split,
/// the kernel may take its own memory from either part.
fn ram(node_bytes: u64, ranks: u64, share_bytes: u64) -> Ram {
    let all = node_bytes + ranks * share_bytes;
    if all < SPLIT_BYTES {
        return Ram::new(all);
    }
    let low_shares = (LOW_BYTES.saturating_sub(node_bytes) / share_bytes).min(ranks);
    let high_bytes = (ranks - low_shares) * share_bytes + node_bytes;
    Ram::new(LOW_BYTES + high_bytes.max(SPLIT_BYTES - LOW_BYTES))
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
            share_bytes: self.share_bytes,
            pool_bytes: self.pool_bytes,
        }
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
        format!("{NAME}{}x{}", self.ranks, self.share_bytes)
    }

    /// Ranks and bytes of each rank's share, from what [`Self::name`] made.
    #[must_use]
    pub fn from_name(name: &str) -> Option<(usize, u64)> {
        let (ranks, share_bytes) = name.strip_prefix(NAME)?.split_once('x')?;
        Some((ranks.parse().ok()?, share_bytes.parse().ok()?))
    }

    /// The cores that rank `rank` gets.
    #[must_use]
    pub fn cores(&self, rank: usize) -> Cores {
        Cores::of(rank as u64, self.ranks as u64, self.cpus as u64)
            .expect("a plan has ranks and cores")
    }

    /// Doorbells of either peer: one per core towards the node; one per rank and one for the keeper towards the host.
    #[must_use]
    pub const fn vectors(&self) -> usize {
        let host = self.ranks + 1;
        if self.cpus > host { self.cpus } else { host }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GIB: u64 = 1 << 30;

    fn host(cores: usize, memory_bytes: u64) -> Resources {
        Resources {
            cores,
            memory_bytes,
        }
    }

    fn ask(ranks: usize, share_bytes: Option<u64>) -> Request {
        Request {
            ranks,
            cores_per_rank: None,
            share_bytes,
            pool_bytes: None,
            oversubscribe: false,
            flags: 0,
            tsc_hz: 0,
            node_bytes: None,
        }
    }

    #[test]
    fn cores_are_divided_evenly() {
        let cpus = |n, cores| {
            plan(&ask(n, None), &host(cores, 64 * GIB))
                .expect("fits")
                .cpus
        };
        assert_eq!(cpus(1, 8), 8);
        assert_eq!(cpus(3, 8), 6);
        assert_eq!(cpus(8, 8), 8);
        assert_eq!(cpus(1, 1000), 255);
        assert_eq!(cpus(2, 1000), 254);
    }

    #[test]
    fn more_ranks_than_cores_must_be_asked_for() {
        let few = host(2, 64 * GIB);
        let error = plan(&ask(16, None), &few).expect_err("too many");
        assert_eq!(
            error.to_string(),
            "-n 16: only 2 cores are available here (--oversubscribe lets ranks share cores)"
        );
        let request = Request {
            oversubscribe: true,
            ..ask(16, None)
        };
        let plan_of_16 = plan(&request, &few).expect("fits");
        assert_eq!(plan_of_16.cpus, 2);
        assert_eq!([7, 8].map(|rank| plan_of_16.cores(rank).first), [0, 1]);
        assert_eq!(plan(&ask(0, None), &few), Err(PlanError::NoRanks));
        assert_eq!(
            plan(&ask(256, None), &host(512, GIB)),
            Err(PlanError::TooManyRanks(256))
        );
    }

    #[test]
    fn cores_per_rank_are_what_was_asked_for() {
        let cpus = |ranks, each, cores, oversubscribe| -> Result<usize, String> {
            let request = Request {
                cores_per_rank: Some(each),
                oversubscribe,
                ..ask(ranks, None)
            };
            let plan = plan(&request, &host(cores, 64 * GIB)).map_err(|error| error.to_string())?;
            assert_eq!(plan.cores(0).count, each as u64);
            Ok(plan.cpus)
        };
        assert_eq!(cpus(1, 1, 8, false), Ok(1));
        assert_eq!(cpus(2, 2, 8, false), Ok(4));
        assert_eq!(cpus(2, 4, 8, false), Ok(8));
        assert_eq!(cpus(2, 4, 2, true), Ok(8));
        assert_eq!(cpus(85, 3, 2, true), Ok(255));
        let refused =
            |ranks, each, oversubscribe| cpus(ranks, each, 2, oversubscribe).expect_err("not here");
        assert_eq!(
            refused(2, 2, false),
            "-n 2 -d 2: 4 cores are needed, only 2 are available here (--oversubscribe lets ranks share cores)"
        );
        assert_eq!(refused(1, 0, true), "-d 0: a rank needs at least one core");
        let most = "a node has room for at most 255 cores";
        assert_eq!(refused(64, 4, true), format!("-n 64 -d 4: {most}"));
        assert_eq!(
            refused(2, usize::MAX, false),
            format!("-n 2 -d {}: {most}", usize::MAX)
        );
    }

    #[test]
    fn shares_are_four_fifths_of_what_there_is() {
        let share = |n, memory| {
            plan(&ask(n, None), &host(16, memory))
                .expect("fits")
                .share_bytes
        };
        assert_eq!(share(1, 80 * GIB), 64 * GIB);
        assert_eq!(share(4, GIB), 204 << 20);
    }

    #[test]
    fn asked_shares_are_rounded_up_and_must_be_there() {
        let share = |m| plan(&ask(2, Some(m)), &host(2, 4 * GIB)).map(|p| p.share_bytes);
        assert_eq!(share(1), Ok(2 << 20));
        assert_eq!(share((2 << 20) + 1), Ok(4 << 20));
        assert_eq!(share(2 * GIB), Ok(2 * GIB));
        assert_eq!(share(0), Err(PlanError::NoMemory));
        assert_eq!(
            share(3 * GIB).expect_err("too much").to_string(),
            "2 x 3G of memory: only 4G are available here, ask for less with -m"
        );
        assert!(share(u64::MAX).is_err());
    }

    /// Where the default came to nothing, the line was "255 x 0K of memory: ..., ask for less with -m".
    #[test]
    fn too_little_memory_for_so_many_ranks_is_said() {
        let of = |memory_bytes, share_bytes| {
            let request = Request {
                oversubscribe: true,
                ..ask(255, share_bytes)
            };
            let plan = plan(&request, &host(2, memory_bytes));
            plan.map(|plan| plan.share_bytes)
                .map_err(|error| error.to_string())
        };
        let line = "-n 255: a rank needs at least 2M of memory, only 100M are available here, enough for 50";
        assert_eq!(of(100 << 20, None), Err(line.into()));
        assert_eq!(of(100 << 20, Some(1)), Err(line.into()));
        assert_eq!(of(510 << 20, None), Ok(2 << 20));
        assert_eq!(of(510 << 20, Some(1)), Ok(2 << 20));
        assert_eq!(
            of(510 << 20, Some(4 << 20)),
            Err("255 x 4M of memory: only 510M are available here, ask for less with -m".into())
        );
    }

    #[test]
    fn one_rank_costs_at_most_twelve_mib_besides_its_share_and_room_for_threads() {
        let beside = |share_bytes, cores| {
            let plan = plan(&ask(1, Some(share_bytes)), &host(cores, 4 * GIB)).expect("fits");
            assert_eq!(plan.comm_base, COMM_BASE);
            let besides_pool = plan.ram.bytes - plan.pool_file_bytes();
            besides_pool - thread_memory(besides_pool, 1) - share_bytes
        };
        // Measured with MARGAY_NODE_MIB: one core takes 7 MiB, two take 9. RAM comes in pieces of 2 MiB.
        for (share_bytes, cores) in [(64 << 20, 2), (GIB, 1), (GIB, 2), (GIB, 4)] {
            let bytes = beside(share_bytes, cores);
            assert!(
                (9 << 20..=13 << 20).contains(&bytes),
                "{bytes} for {cores} cores"
            );
        }
    }

    #[test]
    fn a_name_tells_the_plan() {
        let plan = plan(&ask(2, Some(64 << 20)), &host(2, 4 * GIB)).expect("fits");
        assert_eq!(Plan::from_name(&plan.name()), Some((2, 64 << 20)));
        for other in ["margay", "margay:2", "x:2x3", "margay:2x"] {
            assert_eq!(Plan::from_name(other), None);
        }
    }

    #[test]
    fn memory_besides_the_share_can_be_set() {
        let request = Request {
            node_bytes: Some(7 << 20),
            ..ask(1, Some(64 << 20))
        };
        let plan = plan(&request, &host(2, 4 * GIB)).expect("fits");
        assert_eq!(plan.ram.bytes, ((64 + 7) << 20) + plan.pool_file_bytes());
    }

    #[test]
    fn the_pool_is_an_eighth_of_the_shares_or_what_was_asked_for() {
        let of = |ranks, share_bytes, pool_bytes| {
            let request = Request {
                pool_bytes,
                ..ask(ranks, Some(share_bytes))
            };
            plan(&request, &host(4, 8 * GIB)).map(|plan| plan.pool_bytes)
        };
        assert_eq!(of(1, 64 << 20, None), Ok(16 << 20));
        assert_eq!(of(2, GIB, None), Ok(GIB / 4));
        assert_eq!(of(2, GIB, Some((64 << 20) + 1)), Ok(66 << 20));
        assert_eq!(of(2, GIB, Some(0)), Ok(0));
        let error = of(1, GIB, Some(9 * GIB)).expect_err("more than there is");
        assert_eq!(
            error.to_string(),
            "--shared-memory 9G: only 8G of memory are available here"
        );
        assert!(of(1, GIB, Some(u64::MAX)).is_err());
    }

    #[test]
    fn a_large_communication_area_goes_above_the_kernel() {
        let request = Request {
            oversubscribe: true,
            flags: flag::TRACE,
            ..ask(255, Some(2 << 20))
        };
        let plan = plan(&request, &host(2, 64 * GIB)).expect("fits");
        let comm_bytes = Layout::new(&plan.config()).total_bytes as u64;
        assert_eq!(plan.comm_base, LARGE_COMM_BASE);
        assert!(plan.ram.bytes > LARGE_COMM_BASE + comm_bytes + 255 * (2 << 20));
    }

    proptest! {
        #[test]
        fn every_share_finds_a_place_of_its_own(
            ranks in 1usize..=255,
            share in 1u64..16 << 30,
            cores in 1usize..300,
            trace: bool,
        ) {
            let request = Request {
                oversubscribe: true,
                flags: if trace { flag::TRACE } else { 0 },
                ..ask(ranks, Some(share))
            };
            let plan = plan(&request, &host(cores, 1 << 50)).expect("fits");
            prop_assert!(plan.cpus >= ranks.min(cores) && plan.cpus <= cores.min(255));
            prop_assert!(plan.share_bytes >= share && plan.share_bytes.is_multiple_of(PAGE_2M));
            prop_assert_eq!(Ram::new(plan.ram.bytes), plan.ram);
            let low = (plan.ram.low_bytes - NODE_BYTES) / plan.share_bytes;
            let high = (plan.ram.bytes - plan.ram.low_bytes) / plan.share_bytes;
            prop_assert!(low + high >= ranks as u64);
            let comm_bytes = Layout::new(&plan.config()).total_bytes as u64;
            prop_assert!(plan.ram.offset(plan.comm_base, comm_bytes).is_some());
        }
    }
}
