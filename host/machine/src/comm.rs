//! The communication area as the host sees it: typed views of its parts (layout and rules: crate `wire`).

use std::io;
use std::os::fd::BorrowedFd;

use wire::boot::Header;
use wire::clock::ClockPage;
use wire::layout::Layout;
use wire::rank::RankArea;
use wire::stats::CpuStats;
use wire::trace::TraceRing;

use crate::plan::Plan;
use crate::shared::Shared;

/// The mapped communication area.
#[derive(Debug)]
pub struct Comm {
    memory: Shared,
    layout: Layout,
}

impl Comm {
    /// Maps the area of a node's RAM.
    ///
    /// # Errors
    /// What mmap says.
    pub fn map(ram: BorrowedFd<'_>, plan: &Plan) -> io::Result<Comm> {
        let layout = Layout::new(&plan.config());
        let offset = plan
            .ram
            .offset(plan.comm_base, layout.total_bytes as u64)
            .ok_or(io::ErrorKind::InvalidInput)?;
        let memory = Shared::map(ram, offset, layout.total_bytes)?;
        Ok(Comm { memory, layout })
    }

    /// Boot information and the node's state.
    #[must_use]
    pub fn header(&self) -> &Header {
        self.memory.at(0)
    }

    /// The clock page.
    #[must_use]
    pub fn clock(&self) -> &ClockPage {
        self.memory.at(self.layout.clock)
    }

    /// A CPU's counters.
    #[must_use]
    pub fn stats(&self, cpu: usize) -> &CpuStats {
        self.memory.at(self.layout.cpu_stats(cpu))
    }

    /// A rank's area.
    #[must_use]
    pub fn rank(&self, rank: usize) -> &RankArea {
        self.memory.at(self.layout.rank(rank))
    }

    /// A rank's trace ring, when calls are traced.
    #[must_use]
    pub fn trace(&self, rank: usize) -> Option<&TraceRing> {
        self.layout.trace(rank).map(|offset| self.memory.at(offset))
    }
}
