//! Boot information: the header of the communication area.
//!
//! The host fills it before the node starts and passes the kernel its physical address on the command line
//! (`margay.comm=0x100000`). The kernel uses nothing of it until [`Config::read`] has checked it.

use core::ops::RangeInclusive;
use core::sync::atomic::Ordering;

use zerocopy::{FromBytes, KnownLayout};

pub use abi::cores::MAX_CPUS;

use crate::layout::Layout;
use crate::word::Word;

/// The command line word that carries the communication area's physical address in hexadecimal.
pub const COMM_PARAM: &str = "margay.comm=";
/// The command line word that says where the kernel log goes: [`LOG_COM1`], or nowhere. Without it COM1 is used where ACPI does not deny
/// that the machine is a PC.
pub const LOG_PARAM: &str = "margay.log=";
/// COM1 takes the log.
pub const LOG_COM1: &str = "com1";
/// "MARGAYC" and a zero, little-endian.
pub const MAGIC: u64 = 0x0043_5941_4752_414d;
/// Version of everything in this crate; both sides must have the same.
pub const VERSION: u64 = 9;
/// The ivshmem peer number of the node.
pub const NODE_PEER: u16 = 0;
/// The ivshmem peer number of the host.
pub const HOST_PEER: u16 = 1;

/// Bytes of kernel heap besides [`thread_memory`]: a fixed part; per CPU its stacks and tables; per rank some 100 KiB for its main
/// thread, its signals, its timers and its lists, and room for all regions that it may have: 8,192, of which a chunk of 1 KiB has 14 at
/// least, on average; three bits per 4 KiB frame of RAM, and what finds them.
#[must_use]
pub const fn heap_bytes(ram_bytes: u64, cpus: u64, ranks: u64) -> u64 {
    const FIXED: u64 = 1 << 20;
    const PER_CPU: u64 = 256 << 10;
    const PER_RANK: u64 = 704 << 10;
    FIXED + PER_CPU * cpus + PER_RANK * ranks + ram_bytes / 8192
}

/// Bytes of RAM, of `ram_bytes` besides the node pool, that the kernel keeps for threads besides each rank's first: what a thread takes (its stack in the kernel, its FPU
/// state, its record, its places in lists: at most 45 KiB) is taken from here. It costs nothing before there are threads.
#[must_use]
pub const fn thread_memory(ram_bytes: u64, ranks: u64) -> u64 {
    /// As many threads as a rank may have ([`abi::map::MAX_THREADS`]).
    const MOST_PER_RANK: u64 = 48 << 20;
    let part = ram_bytes / 32;
    let most = MOST_PER_RANK * ranks;
    if part < most { part } else { most }
}

/// Bytes of RAM that the kernel keeps for the page tables of a rank with a partition of `partition_bytes`: a multiple of 4 KiB. They lie
/// outside of all partitions, where no host process maps them. A 512th of the partition is enough to map it with 4 KiB pages
/// where mappings are adjacent. Eight times that, and a fixed part, is for those that lie apart, which take a table or two each, and
/// for what ranks share. When it is used up, what would need more fails with ENOMEM.
#[must_use]
pub const fn table_bytes(partition_bytes: u64) -> u64 {
    const FIXED: u64 = 512 << 10;
    FIXED + (partition_bytes / 64).next_multiple_of(abi::map::PAGE)
}

/// Rounds in which the host measures the guest's TSC; see [`Header::ping`].
pub const PING_ROUNDS: u64 = 8;

/// Bits of [`Header::flags`].
pub mod flag {
    /// Guest RAM was handed over zeroed (outside of what was loaded).
    pub const RAM_ZEROED: u64 = 1;
    /// Write a trace record for every system call.
    pub const TRACE: u64 = 2;
    /// Count calls by name, measure time in the kernel and the longest section with interrupts off.
    pub const COUNTERS: u64 = 4;
    /// The host does not write the clock page: the guest's clock is its own (`-icount`).
    pub const OWN_CLOCK: u64 = 8;
    /// Debuggers may attach to ranks: every way back to ring 3 checks for their requests.
    pub const DEBUG: u64 = 16;
    /// All flags there are.
    pub const ALL: u64 = 31;
}

/// Bytes at the very end of RAM that ranks and their pool do not get, where there is a pool: a firmware leaves its tables there,
/// and QEMU the PCT. The pool lies before them.
pub const TAIL_BYTES: u64 = abi::map::PAGE_2M;

/// State of the node: [`Header::node_state`]. It only goes up, to what is worse ([`Header::reach`]).
pub mod node {
    /// Not reported yet.
    pub const RESET: u64 = 0;
    /// The kernel has accepted the boot information.
    pub const BOOTING: u64 = 1;
    /// The PCT runs.
    pub const UP: u64 = 2;
    /// The PCT is gone (it faulted or could not be loaded): no rank can be started any more.
    pub const PCT_LOST: u64 = 3;
    /// The kernel panicked; the panic report is on the serial line.
    pub const PANICKED: u64 = 4;
}

/// The first page of the communication area.
#[derive(FromBytes, KnownLayout, Debug)]
#[repr(C)]
pub struct Header {
    // Written by the host before the node starts.
    /// [`MAGIC`].
    pub magic: Word,
    /// [`VERSION`].
    pub version: Word,
    /// Bytes of the whole communication area.
    pub total_bytes: Word,
    /// Ranks on this node.
    pub ranks: Word,
    /// CPUs of this node.
    pub cpus: Word,
    /// See [`flag`].
    pub flags: Word,
    /// Frequency of the guest's TSC in Hz; 0: calibrate.
    pub tsc_hz: Word,
    /// Bytes of memory per rank; 0: divide evenly.
    pub partition_bytes: Word,
    /// Bytes of the node pool, which holds the mappings that ranks share; a multiple of 2 MiB, 0: there is none.
    pub pool_bytes: Word,
    /// System calls to treat as if they did not exist, a bit per number: for finding out which program needs what.
    pub refuse: [Word; 8],
    // Written by the QK.
    /// See [`node`]; written by [`Self::reach`].
    pub node_state: Word,
    /// The guest's TSC when `node_state` became [`node::UP`].
    pub up_tsc: Word,
    /// Usable bytes of RAM that the kernel found.
    pub ram_bytes: Word,
    /// Bytes that the kernel, its tables and the PCT take of it.
    pub kernel_bytes: Word,
    /// The round that began last, from 1. The host answers each of [`PING_ROUNDS`] rounds by [`Self::pong`]; one more
    /// number says that there will be none, and brings the last `pong_tsc`. A node with its own clock stays at 0.
    ///
    /// The guest's TSC counts from the start of the machine. A look at the host's between `ping_tsc` and the round's
    /// `pong_tsc` shows how far apart they are, to within the time between the two.
    pub ping: Word,
    /// The guest's TSC just before the round began. It and `pong_tsc` stay as they are until the host has answered.
    pub ping_tsc: Word,
    /// The guest's TSC just after the answer to the round before was seen; 0 in the first round.
    pub pong_tsc: Word,
    _pad: Word,
    // Written by the host while the kernel boots.
    /// The round that was answered last.
    pub pong: Word,
    // Written by the host when the node is up, for yod.
    /// Bytes of the partitions that were given memory of the host before they were touched.
    pub populated_bytes: Word,
    // Written by the host when the node is up, for the QK, whose core it rings then.
    /// For each core the last [`LostPage`](crate::lost::LostPage).
    pub lost: [Word; MAX_CPUS],
}

impl Header {
    /// The QK's: the node is in `state` now, unless it is past that. The core that boots may say that the node is up when
    /// the PCT has ended on another, and a panic on a third is the last word.
    pub fn reach(&self, state: u64) {
        self.node_state
            .as_atomic()
            .fetch_max(state, Ordering::AcqRel);
    }
}

/// Frequencies that a TSC can have, in Hz: another would make waits for hardware too short, or endless.
const TSC_HZ: RangeInclusive<u64> = 500_000_000..=16_000_000_000;

/// Why boot information was not accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bad {
    /// Not a communication area.
    Magic,
    /// Host and kernel are of different builds.
    Version,
    /// Numbers out of range.
    Counts,
    /// The length is not the one the numbers give.
    Length,
    /// Unknown flags.
    Flags,
}

/// Checked boot information.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Ranks on this node, 1..=[`abi::map::MAX_RANKS`].
    pub ranks: usize,
    /// CPUs of this node, 1..=[`MAX_CPUS`]; ranks share them where there are fewer.
    pub cpus: usize,
    /// See [`flag`].
    pub flags: u64,
    /// See [`Header::tsc_hz`].
    pub tsc_hz: u64,
    /// See [`Header::partition_bytes`].
    pub partition_bytes: u64,
    /// See [`Header::pool_bytes`].
    pub pool_bytes: u64,
}

impl Config {
    /// Writes the header, magic last.
    pub fn write(&self, header: &Header) {
        header.version.put(VERSION);
        header.total_bytes.put(Layout::new(self).total_bytes as u64);
        header.ranks.put(self.ranks as u64);
        header.cpus.put(self.cpus as u64);
        header.flags.put(self.flags);
        header.tsc_hz.put(self.tsc_hz);
        header.partition_bytes.put(self.partition_bytes);
        header.pool_bytes.put(self.pool_bytes);
        header.magic.store(MAGIC);
    }

    /// Reads and checks the header.
    ///
    /// # Errors
    /// Says what is wrong; nothing of a bad header is used.
    pub fn read(header: &Header) -> Result<Config, Bad> {
        if header.magic.load() != MAGIC {
            return Err(Bad::Magic);
        }
        if header.version.load() != VERSION {
            return Err(Bad::Version);
        }
        let (ranks, cpus, flags) = (header.ranks.load(), header.cpus.load(), header.flags.load());
        if ranks == 0 || ranks > abi::map::MAX_RANKS as u64 || cpus == 0 || cpus > MAX_CPUS as u64 {
            return Err(Bad::Counts);
        }
        if flags & !flag::ALL != 0 {
            return Err(Bad::Flags);
        }
        let pool_bytes = header.pool_bytes.load();
        if !pool_bytes.is_multiple_of(abi::map::PAGE_2M) {
            return Err(Bad::Counts);
        }
        let config = Config {
            ranks: ranks as usize,
            cpus: cpus as usize,
            flags,
            tsc_hz: header.tsc_hz.load(),
            partition_bytes: header.partition_bytes.load(),
            pool_bytes,
        };
        if header.total_bytes.load() != Layout::new(&config).total_bytes as u64 {
            return Err(Bad::Length);
        }
        Ok(config)
    }

    /// The TSC's frequency as the host knows it, in Hz; `None`: it says none, or one that cannot be.
    #[must_use]
    pub fn known_tsc_hz(&self) -> Option<u64> {
        Some(self.tsc_hz).filter(|hz| TSC_HZ.contains(hz))
    }

    /// Whether a flag is set.
    #[must_use]
    pub const fn has(&self, flag: u64) -> bool {
        self.flags & flag != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;

    /// A host that said 1 Hz, or 2^60, had the kernel wait for its timers for ever, or not at all.
    #[test]
    fn a_frequency_that_cannot_be_is_not_known() {
        let known = |tsc_hz| {
            let config = Config {
                ranks: 1,
                cpus: 1,
                flags: 0,
                tsc_hz,
                partition_bytes: 0,
                pool_bytes: 0,
            };
            config.known_tsc_hz()
        };
        for hz in [500_000_000, 1_000_000_000, 5_200_000_000, 16_000_000_000] {
            assert_eq!(known(hz), Some(hz));
        }
        for hz in [0, 1, 499_999_999, 16_000_000_001, 1 << 60, u64::MAX] {
            assert_eq!(known(hz), None);
        }
    }

    #[test]
    fn the_node_only_gets_worse() {
        let header = Header::new_zeroed();
        for (reached, state) in [
            (node::BOOTING, node::BOOTING),
            (node::PCT_LOST, node::PCT_LOST),
            (node::UP, node::PCT_LOST),
            (node::PANICKED, node::PANICKED),
            (node::PCT_LOST, node::PANICKED),
        ] {
            header.reach(reached);
            assert_eq!(header.node_state.load(), state);
        }
    }
}
