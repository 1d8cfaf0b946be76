//! Where things lie in the communication area: byte offsets from its start, the same on both sides.
//!
//! ```text
//!   header       one page                    boot information, state of the node
//!   clock        one page                    mapped read-only into every rank
//!   info         one page per rank          mapped read-only into that rank
//!   cpu stats    STATS_STRIDE per CPU
//!   ranks        RANK_STRIDE per rank        record, signal mailbox, children
//!   threads      THREADS_STRIDE per rank     ship slots and words of up to MAX_THREADS threads
//!   region logs  LOG_STRIDE per rank
//!   traces       TRACE_STRIDE per rank       only with flag::TRACE
//! ```

use core::mem::size_of;

use crate::boot::{Config, Header, flag};
use crate::clock::ClockPage;
use crate::rank::RankArea;
use crate::region_log::RegionLog;
use crate::stats::CpuStats;
use crate::thread::ThreadAreas;
use crate::trace::TraceRing;

const PAGE: usize = abi::map::PAGE as usize;

const fn pages(bytes: usize) -> usize {
    bytes.div_ceil(PAGE) * PAGE
}

/// Bytes from one CPU's statistics to the next.
pub const STATS_STRIDE: usize = pages(size_of::<CpuStats>());
/// Bytes from one rank's area to the next.
pub const RANK_STRIDE: usize = pages(size_of::<RankArea>());
/// Bytes from one rank's threads' areas to the next. Most of it is never touched: the RAM behind it is not taken.
pub const THREADS_STRIDE: usize = pages(size_of::<ThreadAreas>());
/// Bytes from one rank's region log to the next.
pub const LOG_STRIDE: usize = pages(size_of::<RegionLog>());
/// Bytes from one rank's trace ring to the next.
pub const TRACE_STRIDE: usize = pages(size_of::<TraceRing>());

const _: () = assert!(size_of::<Header>() <= PAGE && size_of::<ClockPage>() <= PAGE);

/// Offsets in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    ranks: usize,
    cpus: usize,
    /// The clock page.
    pub clock: usize,
    info: usize,
    cpu_stats: usize,
    rank_areas: usize,
    thread_areas: usize,
    region_logs: usize,
    traces: Option<usize>,
    /// Bytes of the whole area.
    pub total_bytes: usize,
}

impl Layout {
    /// The layout for a checked configuration.
    #[must_use]
    pub const fn new(config: &Config) -> Layout {
        let clock = PAGE;
        let info = clock + PAGE;
        let cpu_stats = info + config.ranks * PAGE;
        let rank_areas = cpu_stats + config.cpus * STATS_STRIDE;
        let thread_areas = rank_areas + config.ranks * RANK_STRIDE;
        let region_logs = thread_areas + config.ranks * THREADS_STRIDE;
        let end = region_logs + config.ranks * LOG_STRIDE;
        let (traces, total_bytes) = if config.has(flag::TRACE) {
            (Some(end), end + config.ranks * TRACE_STRIDE)
        } else {
            (None, end)
        };
        Layout {
            ranks: config.ranks,
            cpus: config.cpus,
            clock,
            info,
            cpu_stats,
            rank_areas,
            thread_areas,
            region_logs,
            traces,
            total_bytes,
        }
    }

    /// A rank's information page ([`crate::info::InfoPage`]). Panics when there is no such rank.
    #[must_use]
    pub const fn info(&self, rank: usize) -> usize {
        assert!(rank < self.ranks);
        self.info + rank * PAGE
    }

    /// Statistics of a CPU ([`CpuStats`]). Panics when there is no such CPU.
    #[must_use]
    pub const fn cpu_stats(&self, cpu: usize) -> usize {
        assert!(cpu < self.cpus);
        self.cpu_stats + cpu * STATS_STRIDE
    }

    /// A rank's area ([`RankArea`]). Panics when there is no such rank.
    #[must_use]
    pub const fn rank(&self, rank: usize) -> usize {
        assert!(rank < self.ranks);
        self.rank_areas + rank * RANK_STRIDE
    }

    /// The areas of a rank's threads ([`ThreadAreas`]). Panics when there is no such rank.
    #[must_use]
    pub const fn threads(&self, rank: usize) -> usize {
        assert!(rank < self.ranks);
        self.thread_areas + rank * THREADS_STRIDE
    }

    /// A rank's region log ([`RegionLog`]). Panics when there is no such rank.
    #[must_use]
    pub const fn region_log(&self, rank: usize) -> usize {
        assert!(rank < self.ranks);
        self.region_logs + rank * LOG_STRIDE
    }

    /// A rank's trace ring ([`TraceRing`]), when calls are traced. Panics when there is no such rank.
    #[must_use]
    pub const fn trace(&self, rank: usize) -> Option<usize> {
        assert!(rank < self.ranks);
        match self.traces {
            Some(start) => Some(start + rank * TRACE_STRIDE),
            None => None,
        }
    }
}
