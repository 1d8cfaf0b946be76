//! The communication area as the host sees it: typed views of its parts (layout and rules: crate `wire`).

use std::io;

use wire::boot::Header;
use wire::clock::ClockPage;
use wire::layout::Layout;
use wire::rank::RankArea;
use wire::stats::CpuStats;
use wire::trace::TraceRing;

use crate::memory::Memory;
use crate::plan::Plan;
use crate::shared::Shared;

/// The mapped communication area.
#[derive(Debug)]
pub struct Comm {
    memory: Shared,
    layout: Layout,
}

impl Comm {
    /// Maps the area of a node's memory.
    ///
    /// # Errors
    /// [`Memory::map`].
    pub fn map(memory: &Memory, plan: &Plan) -> io::Result<Comm> {
        let layout = Layout::new(&plan.config());
        let memory = memory.map(plan.comm_base(&memory.ram), layout.total_bytes)?;
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
