//! The communication area: where it is, and typed views of its parts (layout and rules: crate `wire`).

use hal::addr::Phys;
use hal::mem::Shared;
use hal::sync::Once;
use wire::boot::{COMM_PARAM, Config, Header, node};
use wire::clock::ClockPage;
use wire::info::InfoPage;
use wire::layout::Layout;
use wire::objects::Directory;
use wire::rank::RankArea;
use wire::region_log::RegionLog;
use wire::stats::CpuStats;
use wire::thread::ThreadAreas;
use wire::trace::TraceRing;

/// The checked communication area.
pub struct Comm {
    base: Phys,
    layout: Layout,
    /// What the host requested.
    pub config: Config,
}

static COMM: Once<Comm> = Once::new();

/// The communication area; [`init`] must have been called.
pub fn get() -> &'static Comm {
    COMM.get()
        .expect("communication area used before it was found")
}

/// Whether there is one yet.
pub fn is_known() -> bool {
    COMM.get().is_some()
}

/// The physical address on the command line, if there is one.
pub fn address(cmdline: &str) -> Option<Phys> {
    // BOUND: the words of the command line, at boot.
    let value = cmdline
        .split_ascii_whitespace()
        .find_map(|word| word.strip_prefix(COMM_PARAM))?;
    let addr = u64::from_str_radix(value.strip_prefix("0x")?, 16).ok()?;
    (addr % abi::map::PAGE == 0).then_some(Phys(addr))
}

/// Checks the header at `base` and stores it. The area must lie in pool memory.
///
/// # Panics
/// When host and kernel do not agree: the only report is the log.
pub fn init(base: Phys) -> &'static Comm {
    let header = hal::mem::shared::<Header>(base);
    let config = match Config::read(header) {
        Ok(config) => config,
        Err(bad) => panic!("boot information at {:#x}: {bad:?}", base.0),
    };
    let comm = Comm {
        base,
        layout: Layout::new(&config),
        config,
    };
    assert!(COMM.set(comm).is_ok(), "communication area found twice");
    header.reach(node::BOOTING);
    get()
}

impl Comm {
    fn part<T: Shared>(&self, offset: usize) -> &'static T {
        hal::mem::shared(Phys(self.base.0 + offset as u64))
    }

    /// Boot information and the node's state.
    pub fn header(&self) -> &'static Header {
        self.part(0)
    }

    /// Bytes of the whole area.
    pub fn total_bytes(&self) -> u64 {
        self.layout.total_bytes as u64
    }

    /// Physical address of the clock page.
    pub fn clock_page(&self) -> Phys {
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

    /// A CPU's counters.
    pub fn stats(&self, cpu: usize) -> &'static CpuStats {
        self.part(self.layout.cpu_stats(cpu))
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

    /// The directory of the node pool.
    pub fn objects(&self) -> &'static Directory {
        self.part(self.layout.objects)
    }

    /// A rank's trace ring, when calls are traced.
    pub fn trace(&self, rank: usize) -> Option<&'static TraceRing> {
        self.layout.trace(rank).map(|offset| self.part(offset))
    }
}
