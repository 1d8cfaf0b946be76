//! `--stats`: what the QK counted, core by core and rank by rank, as a table or as one line of JSON.
//!
//! The wall time is this host's, from yod's start to the end of the last rank. All other times are TSC ticks, as counted, and nanoseconds by the TSC's frequency. Under `-icount` a tick is an instruction.

mod children;
mod output;
mod table;

use std::os::fd::AsFd;
use std::time::Duration;

use abi::syscall::{Serve, by_nr};
use children::Children;
use machine::comm::Comm;
use machine::pages;
use machine::plan::Plan;
pub use output::StatsTo;
use serde::Serialize;
use wire::stats::CpuStats;

/// Everything.
#[derive(Serialize, Debug)]
pub struct Stats {
    tsc_hz: u64,
    wall_ns: u64,
    /// An emulator executed it, and did not count instructions: times are its and its host's.
    emulated: bool,
    /// Cores and memory are the host's own: a co-kernel.
    native: bool,
    node: Node,
    ranks: Vec<Rank>,
    cores: Vec<Core>,
    total: Core,
    /// Most called first.
    calls: Vec<Call>,
}

#[derive(Serialize, Debug)]
struct Node {
    ram_bytes: u64,
    kernel_bytes: u64,
    up_tsc: u64,
    /// Memory of this host behind RAM, so much of it in large pages, and of the partitions had before it was touched.
    resident_bytes: u64,
    large_bytes: u64,
    populated_bytes: u64,
}

#[derive(Serialize, Debug)]
struct Rank {
    rank: usize,
    first_core: u64,
    cores: u64,
    partition_base: u64,
    partition_bytes: u64,
    used_bytes: u64,
    peak_bytes: u64,
    /// Ranks that had SMARTMAP windows when it started, itself included, and what it took to open them.
    windows: u64,
    windows_ticks: u64,
    /// As wait(2) has it.
    wait_status: u64,
    children: Children,
}

/// A duration.
#[derive(Serialize, Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Ticks {
    ticks: u64,
    ns: u64,
}

#[derive(Serialize, Debug, Clone, Default)]
struct Core {
    #[serde(skip_serializing_if = "Option::is_none")]
    core: Option<usize>,
    entries: u64,
    pct_entries: u64,
    local_calls: u64,
    shipped_calls: u64,
    page_faults: u64,
    exceptions: u64,
    timer_interrupts: u64,
    ipis: u64,
    doorbells: u64,
    other_interrupts: u64,
    halt_polls: u64,
    /// The least of 255 that the CPU was asked for; 0: it was not. In the total of the slowest core.
    performance: u64,
    /// IA32_SPEC_CTRL as it was left to the CPU. In the total of any core.
    lifted: u64,
    irqs_off_max: Ticks,
    kernel: Ticks,
    ship_wait: Ticks,
}

#[derive(Serialize, Debug, PartialEq, Eq)]
struct Call {
    name: String,
    served: &'static str,
    count: u64,
}

impl Stats {
    /// Reads all counters; the node may be running on. `ram`: RAM's file but for the pool; `wall`: how long the job has taken; `emulated`: by a CPU whose ticks are time,
    /// but not that of any CPU there is; `native`: by the host's.
    pub fn collect(
        plan: &Plan,
        comm: &Comm,
        ram: impl AsFd,
        wall: Duration,
        emulated: bool,
        native: bool,
    ) -> Stats {
        let ticks = |ticks: u64| Ticks {
            ticks,
            ns: (u128::from(ticks) * 1_000_000_000)
                .checked_div(plan.tsc_hz.into())
                .unwrap_or(0) as u64,
        };
        let cores: Vec<Core> = (0..plan.cpus)
            .map(|cpu| core(Some(cpu), comm.stats(cpu), ticks))
            .collect();
        let header = comm.header();
        Stats {
            tsc_hz: plan.tsc_hz,
            wall_ns: u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX),
            emulated,
            native,
            node: Node {
                ram_bytes: header.ram_bytes.load(),
                kernel_bytes: header.kernel_bytes.load(),
                up_tsc: header.up_tsc.load(),
                // A figure, and no reason to fail.
                resident_bytes: pages::resident_bytes(&ram).unwrap_or(0),
                large_bytes: pages::large_bytes(&ram).unwrap_or(0),
                populated_bytes: header.populated_bytes.load(),
            },
            ranks: (0..plan.ranks).map(|number| rank(number, comm)).collect(),
            total: cores
                .iter()
                .cloned()
                .reduce(|sum, core| sum.plus(&core))
                .unwrap_or_default(),
            cores,
            calls: calls((0..plan.cpus).map(|cpu| comm.stats(cpu))),
        }
    }

    /// One line.
    pub fn json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl Ticks {
    fn plus(self, other: Ticks) -> Ticks {
        Ticks {
            ticks: self.ticks + other.ticks,
            ns: self.ns + other.ns,
        }
    }
}

impl Core {
    /// Sums, except where the longest counts.
    fn plus(&self, other: &Core) -> Core {
        Core {
            core: None,
            entries: self.entries + other.entries,
            pct_entries: self.pct_entries + other.pct_entries,
            local_calls: self.local_calls + other.local_calls,
            shipped_calls: self.shipped_calls + other.shipped_calls,
            page_faults: self.page_faults + other.page_faults,
            exceptions: self.exceptions + other.exceptions,
            timer_interrupts: self.timer_interrupts + other.timer_interrupts,
            ipis: self.ipis + other.ipis,
            doorbells: self.doorbells + other.doorbells,
            other_interrupts: self.other_interrupts + other.other_interrupts,
            halt_polls: self.halt_polls + other.halt_polls,
            performance: self.performance.min(other.performance),
            lifted: self.lifted | other.lifted,
            irqs_off_max: std::cmp::max_by_key(self.irqs_off_max, other.irqs_off_max, |t| t.ticks),
            kernel: self.kernel.plus(other.kernel),
            ship_wait: self.ship_wait.plus(other.ship_wait),
        }
    }
}

fn core(core: Option<usize>, stats: &CpuStats, ticks: impl Fn(u64) -> Ticks) -> Core {
    Core {
        core,
        entries: stats.entries.load(),
        pct_entries: stats.pct_entries.load(),
        local_calls: stats.local_calls.load(),
        shipped_calls: stats.shipped_calls.load(),
        page_faults: stats.page_faults.load(),
        exceptions: stats.exceptions.load(),
        timer_interrupts: stats.timer_interrupts.load(),
        ipis: stats.ipis.load(),
        doorbells: stats.doorbells.load(),
        other_interrupts: stats.other_interrupts.load(),
        halt_polls: stats.halt_polls.load(),
        performance: stats.performance.load(),
        lifted: stats.lifted.load(),
        irqs_off_max: ticks(stats.irqs_off_max_ticks.load()),
        kernel: ticks(stats.kernel_ticks.load()),
        ship_wait: ticks(stats.ship_wait_ticks.load()),
    }
}

fn rank(number: usize, comm: &Comm) -> Rank {
    let area = comm.rank(number);
    let node = &area.node;
    Rank {
        rank: number,
        first_core: node.cpus[0].load(),
        cores: node.cpus[1].load(),
        partition_base: node.partition[0].load(),
        partition_bytes: node.partition[1].load(),
        used_bytes: node.used_bytes.load(),
        peak_bytes: node.most_bytes(),
        windows: node.windows[0].load(),
        windows_ticks: node.windows[1].load(),
        wait_status: node.wait_status.load(),
        children: Children::of(&area.children),
    }
}

fn calls<'a>(cores: impl Iterator<Item = &'a CpuStats> + Clone) -> Vec<Call> {
    let mut calls: Vec<Call> = (0..abi::syscall::MAX_CALLS)
        .filter_map(|nr| {
            let count = cores.clone().map(|stats| stats.by_call[nr].load()).sum();
            let row = by_nr(nr as u64);
            let served = match row.map(|row| row.serve) {
                Some(Serve::Local) => "local",
                Some(Serve::Shipped) => "shipped",
                Some(Serve::Refused(..)) => "refused",
                None => "unknown",
            };
            let name = row.map_or_else(|| format!("syscall_{nr}"), |row| row.name.to_owned());
            (count > 0).then_some(Call {
                name,
                served,
                count,
            })
        })
        .collect();
    calls.sort_by_key(|call| std::cmp::Reverse(call.count));
    calls
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::machine::Machine;
    use machine::memory::Memory;

    /// A node's communication area that no node ever wrote.
    fn area() -> (Plan, Comm, Memory) {
        let request = machine::plan::Request {
            ranks: 2,
            cores_per_rank: None,
            partition_bytes: Some(2 << 20),
            pool_bytes: None,
            oversubscribe: false,
            flags: 0,
            tsc_hz: 2_000_000_000,
            node_bytes: None,
        };
        let host = machine::resources::Resources {
            cores: 2,
            memory_bytes: 1 << 30,
        };
        let plan =
            machine::plan::plan(&request, &host, &machine::qemu::Q35::LIMITS).expect("a plan");
        let file =
            || rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).expect("memfd");
        let memory = Memory {
            ram: machine::qemu::ram(&plan).expect("RAM"),
            file: file(),
            pool: file(),
        };
        rustix::fs::ftruncate(&memory.file, memory.ram.bytes()).expect("grows");
        let comm = Comm::map(&memory, &plan).expect("maps");
        (plan, comm, memory)
    }

    #[test]
    fn cores_are_summed_and_calls_named() {
        let (plan, comm, memory) = area();
        for cpu in 0..2 {
            comm.stats(cpu).entries.put(10);
            comm.stats(cpu)
                .irqs_off_max_ticks
                .put(2000 * (cpu as u64 + 1));
            comm.stats(cpu).by_call[1].put(3);
        }
        comm.stats(0).by_call[39].put(7);
        comm.stats(0).by_call[511].put(1);
        comm.rank(1).node.peak_bytes.put(5 << 20);
        comm.header().populated_bytes.put(3 << 20);
        let wall = Duration::from_millis(1234);
        let stats = Stats::collect(&plan, &comm, &memory.file, wall, true, false);
        assert_eq!(stats.total.entries, 20);
        assert_eq!(
            stats.total.irqs_off_max,
            Ticks {
                ticks: 4000,
                ns: 2000
            }
        );
        let names: Vec<&str> = stats.calls.iter().map(|call| call.name.as_str()).collect();
        assert_eq!(names, ["getpid", "write", "syscall_511"]);
        let table = stats.table();
        assert!(
            table.contains("4000 = 2000 ns") && table.contains("5M of it used at most"),
            "{table}"
        );
        let off = table
            .lines()
            .find(|line| line.starts_with("longest interrupts-off"));
        assert!(off.is_some_and(|line| line.ends_with("(of the emulator and its host)")));
        let json: serde_json::Value = serde_json::from_str(&stats.json()).expect("JSON");
        assert!(table.contains("wall time: 1.234 s"), "{table}");
        assert_eq!(json["wall_ns"], 1_234_000_000);
        assert_eq!(json["cores"][1]["irqs_off_max"]["ns"], 2000);
        assert_eq!(json["calls"][1]["served"], "shipped");
        assert_eq!(json["ranks"][1]["peak_bytes"], 5 << 20);
        let host =
            "K of memory behind it, 0K of that in pages of 2 MiB, 3M had before it was touched";
        assert!(table.contains(host), "{table}");
        assert!(json["node"]["resident_bytes"].as_u64() > Some(0));
    }

    /// Of a second, on CPUs of the host's or not.
    fn table(plan: &Plan, comm: &Comm, memory: &Memory, native: bool) -> String {
        let wall = Duration::from_secs(1);
        Stats::collect(plan, comm, &memory.file, wall, false, native).table()
    }

    #[test]
    fn the_speed_of_cpus_that_linux_gave_up_has_a_line() {
        let (plan, comm, memory) = area();
        let table = |native| table(&plan, &comm, &memory, native);
        comm.stats(0).performance.put(47);
        assert!(table(true).contains("speed: as Linux left it\n"));
        comm.stats(1).performance.put(42);
        comm.stats(1).lifted.put(5);
        let line = "speed: level 42 of 255 asked for at least (HWP), SPEC_CTRL 0 instead of 0x5\n";
        let all = table(true);
        assert!(all.contains(line), "{all}");
        assert!(!table(false).contains("speed:"));
    }

    /// Linux interrupts all CPUs of the machine at once, its own and those that it gave up.
    #[test]
    fn interrupts_from_linux_have_a_line() {
        let (plan, comm, memory) = area();
        let table = |native| table(&plan, &comm, &memory, native);
        assert!(!table(true).contains("interrupts from Linux"));
        comm.stats(1).other_interrupts.put(12);
        let line = "interrupts from Linux: 12; boot Linux with no_ipi_broadcast=1\n";
        assert!(table(true).contains(line) && !table(true).contains("host:"));
        assert!(!table(false).contains("Linux"));
    }
}
