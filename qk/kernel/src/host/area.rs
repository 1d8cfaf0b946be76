//! The communication area: where it is, and typed views of its parts (layout and rules: crate `wire`).

use hal::addr::{Phys, PhysRange};
use hal::mem::Shared;
use hal::sync::Once;
use wire::boot::{COMM_PARAM, Config, Header, node};
use wire::clock::ClockPage;
use wire::info::InfoPage;
use wire::layout::Layout;
use wire::rank::RankArea;
use wire::region_log::RegionLog;
use wire::stats::CpuStats;
use wire::thread::ThreadAreas;
use wire::trace::TraceRing;

/// The checked communication area.
pub(super) struct Area {
    base: Phys,
    layout: Layout,
    config: Config,
}

static AREA: Once<Area> = Once::new();

/// The communication area; [`init`] must have been called.
pub(super) fn get() -> &'static Area {
    AREA.get().expect("the port is set up before it is used")
}

/// The same, if there is one yet.
pub(super) fn known() -> Option<&'static Area> {
    AREA.get()
}

/// What the host requested of the node.
pub fn config() -> &'static Config {
    &get().config
}

/// Whether the host has taken away system call `nr`.
pub fn refuses(nr: usize) -> bool {
    get().header().refuse[nr / 64].load() >> (nr % 64) & 1 != 0
}

/// What the host has said last to a core of pages that were lost ([`wire::lost`]); 0: nothing.
pub fn lost_page(cpu: usize) -> u64 {
    get().header().lost[cpu].load()
}

/// The counters of a CPU.
pub fn counters(cpu: usize) -> &'static CpuStats {
    get().part(get().layout.cpu_stats(cpu))
}

/// Physical address of the clock page.
pub fn clock_page() -> Phys {
    get().clock_page()
}

/// The physical address of the area on the command line, if there is one.
pub(super) fn address(cmdline: &str) -> Option<Phys> {
    // BOUND: the words of the command line, at boot.
    let value = cmdline
        .split_ascii_whitespace()
        .find_map(|word| word.strip_prefix(COMM_PARAM))?;
    let addr = u64::from_str_radix(value.strip_prefix("0x")?, 16).ok()?;
    (addr % abi::map::PAGE == 0).then_some(Phys(addr))
}

/// Checks the header at `base`, which lies in the pool, and with it the area. Returns what is not the kernel's: the area, and all of
/// `mapped`, which processes of the host map, whatever the header says.
///
/// The node ends when host and kernel do not agree: the only report is the log.
pub(super) fn set(base: Phys, mapped: Option<PhysRange>) -> PhysRange {
    let header = hal::mem::shared::<Header>(base);
    let config = match Config::read(header) {
        Ok(config) => config,
        Err(bad) => crate::last_line::end(
            1,
            format_args!(
                "the boot information at {:#x} is none of this kernel's: {bad:?}",
                base.0
            ),
        ),
    };
    let area = Area {
        base,
        layout: Layout::new(&config),
        config,
    };
    let own = PhysRange::new(base, area.layout.total_bytes as u64);
    let range = mapped.unwrap_or(own);
    if !range.holds(base, own.len_bytes()) {
        let (there, wanted) = (range.len_bytes(), own.len_bytes());
        crate::last_line::end(
            1,
            format_args!("the communication area has {there} bytes, {wanted} are needed"),
        );
    }
    assert!(AREA.set(area).is_ok(), "the port is set up twice");
    header.reach(node::BOOTING);
    range
}

impl Area {
    fn part<T: Shared>(&self, offset: usize) -> &'static T {
        hal::mem::shared(Phys(self.base.0 + offset as u64))
    }

    /// Boot information and the node's state.
    pub fn header(&self) -> &'static Header {
        self.part(0)
    }

    fn clock_page(&self) -> Phys {
        Phys(self.base.0 + self.layout.clock as u64)
    }

    /// The clock.
    pub fn clock(&self) -> &'static ClockPage {
        self.part(self.layout.clock)
    }

    /// Physical address of a rank's information page.
    pub fn info_page(&self, rank: usize) -> Phys {
        Phys(self.base.0 + self.layout.info(rank) as u64)
    }

    /// What a rank can read of its job.
    pub fn info(&self, rank: usize) -> &'static InfoPage {
        self.part(self.layout.info(rank))
    }

    /// A rank's area.
    pub fn rank(&self, rank: usize) -> &'static RankArea {
        self.part(self.layout.rank(rank))
    }

    /// The areas of a rank's threads.
    pub fn threads(&self, rank: usize) -> &'static ThreadAreas {
        self.part(self.layout.threads(rank))
    }

    /// A rank's region log.
    pub fn region_log(&self, rank: usize) -> &'static RegionLog {
        self.part(self.layout.region_log(rank))
    }

    /// A rank's trace ring, when calls are traced.
    pub fn trace(&self, rank: usize) -> Option<&'static TraceRing> {
        self.layout.trace(rank).map(|offset| self.part(offset))
    }
}
