//! What exists, and what it says: Documentation/ABI/testing/sysfs-devices-system-cpu, sysfs-devices-node (stable),
//! Documentation/admin-guide/cputopology.rst.
//!
//! The node is one package with one NUMA domain; a core has one hardware thread. Caches are those of the host's first
//! processor: cores of the node are such processors, or emulated ones that have none of their own.

#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use crate::rank::Rank;
use crate::special::content;

/// Most processors that there could be.
const MOST: usize = wire::boot::MAX_CPUS;
/// Bits of a mask between two commas.
const WORD_BITS: usize = 32;

/// A directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dir {
    /// /sys/devices/system/cpu
    Cpus,
    /// cpuN there.
    Cpu(usize),
    /// cpuN/topology
    Topology(usize),
    /// cpuN/cache
    Caches(usize),
    /// cpuN/cache/indexM
    Cache(usize, usize),
    /// /sys/devices/system/node
    Nodes,
    /// node0 there.
    Node0,
    /// /sys/bus/cpu
    CpuBus,
    /// devices there.
    CpuDevices,
    /// /sys/bus/node
    NodeBus,
    /// devices there.
    NodeDevices,
}

/// What a name stands for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Entry {
    /// A directory.
    Directory(Dir),
    /// A file.
    File(Text),
    /// A symbolic link.
    Link(String),
}

/// What a file says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Text {
    /// This line.
    Line(String),
    /// The memory of node 0.
    Meminfo,
    /// How often memory of node 0 was allocated from where: not counted.
    Numastat,
}

impl Text {
    /// The text as of now.
    pub fn read(&self, rank: &Rank) -> Vec<u8> {
        match self {
            Text::Line(line) => format!("{line}\n"),
            Text::Meminfo => content::node_meminfo(rank),
            Text::Numastat => [
                "numa_hit",
                "numa_miss",
                "numa_foreign",
                "interleave_hit",
                "local_node",
                "other_node",
            ]
            .map(|name| format!("{name} 0\n"))
            .concat(),
        }
        .into_bytes()
    }
}

/// What the node has.
#[derive(Clone, Debug)]
pub struct Facts {
    cores: usize,
    caches: Vec<Cache>,
}

/// A cache of the host's first processor: its files that hold one value each.
#[derive(Clone, Debug)]
struct Cache(Vec<(&'static str, String)>);

/// The values of a cache that are taken as they are.
const CACHE_FILES: &[&str] = &[
    "coherency_line_size",
    "level",
    "number_of_sets",
    "physical_line_partition",
    "size",
    "type",
    "ways_of_associativity",
];

impl Cache {
    fn read(index: usize) -> Option<Cache> {
        let folder = format!("/sys/devices/system/cpu/cpu0/cache/index{index}");
        let value = |name: &'static str| {
            let text = std::fs::read_to_string(format!("{folder}/{name}")).ok()?;
            Some((name, text.trim_end().to_owned()))
        };
        let cache = Cache(CACHE_FILES.iter().filter_map(|name| value(name)).collect());
        cache.value("level").is_some().then_some(cache)
    }

    fn value(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Whether all cores have it together, as those of a package have the last level.
    fn is_shared(&self) -> bool {
        !matches!(self.value("level"), Some("1" | "2"))
    }
}

impl Facts {
    /// Those of a node of `cores` cores, with the host's caches.
    pub fn new(cores: usize) -> Facts {
        Facts {
            cores,
            caches: (0..).map_while(Cache::read).collect(),
        }
    }

    /// What is at a path below /sys.
    pub fn find(&self, path: &str) -> Option<Entry> {
        let mut rest = None;
        let root = Dir::ROOTS.iter().find(|root| {
            let below = path.strip_prefix(root.path().as_str());
            rest = below.filter(|below| below.is_empty() || below.starts_with('/'));
            rest.is_some()
        });
        let mut entry = Entry::Directory(*root?);
        for name in rest?.split('/').filter(|name| !name.is_empty()) {
            let Entry::Directory(dir) = entry else {
                return None;
            };
            entry = self.child(dir, name)?;
        }
        Some(entry)
    }

    /// What a name stands for in a directory.
    pub fn child(&self, dir: Dir, name: &str) -> Option<Entry> {
        let line = |text: String| Some(Entry::File(Text::Line(text)));
        let link = |text: String| Some(Entry::Link(text));
        let below = |dir: Dir| Some(Entry::Directory(dir));
        let core = number(name, "cpu").filter(|&core| core < self.cores);
        match (dir, name) {
            (Dir::Cpus, "online" | "possible" | "present" | "enabled") => line(range(self.cores)),
            (Dir::Cpus, "offline" | "isolated") => line(String::new()),
            (Dir::Cpus, "kernel_max") => line((MOST - 1).to_string()),
            (Dir::Cpus, _) => below(Dir::Cpu(core?)),
            (Dir::Cpu(n), "topology") => below(Dir::Topology(n)),
            (Dir::Cpu(n), "cache") if !self.caches.is_empty() => below(Dir::Caches(n)),
            (Dir::Cpu(_), "node0") => link("../../node/node0".into()),
            (Dir::Cpu(_), "subsystem") => link("../../../../bus/cpu".into()),
            (Dir::Topology(n), _) => line(self.topology(n, name)?),
            (Dir::Caches(n), _) => {
                let index = number(name, "index").filter(|&index| index < self.caches.len());
                below(Dir::Cache(n, index?))
            }
            (Dir::Cache(n, index), _) => line(self.cache(n, index, name)?),
            (
                Dir::Nodes,
                "online" | "possible" | "has_cpu" | "has_memory" | "has_normal_memory",
            ) => line("0".into()),
            (Dir::Nodes, "node0") => below(Dir::Node0),
            (Dir::Node0, "cpulist") => line(range(self.cores)),
            (Dir::Node0, "cpumap") => line(mask(0..self.cores, self.cores)),
            (Dir::Node0, "distance") => line("10".into()),
            (Dir::Node0, "meminfo") => Some(Entry::File(Text::Meminfo)),
            (Dir::Node0, "numastat") => Some(Entry::File(Text::Numastat)),
            (Dir::Node0, "subsystem") => link("../../../../bus/node".into()),
            (Dir::Node0, _) => link(format!("../../cpu/cpu{}", core?)),
            (Dir::CpuBus, "devices") => below(Dir::CpuDevices),
            (Dir::CpuDevices, _) => link(format!("../../../devices/system/cpu/cpu{}", core?)),
            (Dir::NodeBus, "devices") => below(Dir::NodeDevices),
            (Dir::NodeDevices, "node0") => link("../../../devices/system/node/node0".into()),
            _ => None,
        }
    }

    /// The names in a directory.
    pub fn names(&self, dir: Dir) -> Vec<String> {
        let some = |names: &[&str]| {
            names
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<Vec<_>>()
        };
        let cores = || (0..self.cores).map(|core| format!("cpu{core}"));
        match dir {
            Dir::Cpus => {
                let files = [
                    "enabled",
                    "isolated",
                    "kernel_max",
                    "offline",
                    "online",
                    "possible",
                    "present",
                ];
                [cores().collect(), some(&files)].concat()
            }
            Dir::Cpu(_) if self.caches.is_empty() => some(&["node0", "subsystem", "topology"]),
            Dir::Cpu(_) => some(&["cache", "node0", "subsystem", "topology"]),
            Dir::Topology(_) => some(TOPOLOGY_FILES),
            Dir::Caches(_) => (0..self.caches.len())
                .map(|i| format!("index{i}"))
                .collect(),
            Dir::Cache(_, index) => {
                let values = self.caches[index]
                    .0
                    .iter()
                    .map(|(name, _)| (*name).to_owned());
                values
                    .chain(some(&["id", "shared_cpu_list", "shared_cpu_map"]))
                    .collect()
            }
            Dir::Nodes => some(&[
                "has_cpu",
                "has_memory",
                "has_normal_memory",
                "node0",
                "online",
                "possible",
            ]),
            Dir::Node0 => {
                let files = [
                    "cpulist",
                    "cpumap",
                    "distance",
                    "meminfo",
                    "numastat",
                    "subsystem",
                ];
                [cores().collect(), some(&files)].concat()
            }
            Dir::CpuBus | Dir::NodeBus => some(&["devices"]),
            Dir::CpuDevices => cores().collect(),
            Dir::NodeDevices => some(&["node0"]),
        }
    }

    fn topology(&self, core: usize, name: &str) -> Option<String> {
        if !TOPOLOGY_FILES.contains(&name) {
            return None;
        }
        let package = ["die_", "package_", "core_siblings"]
            .iter()
            .any(|part| name.starts_with(part));
        Some(match name {
            "core_id" => core.to_string(),
            "die_id" | "physical_package_id" => "0".into(),
            _ if name.ends_with("list") && package => range(self.cores),
            _ if name.ends_with("list") => core.to_string(),
            _ if package => mask(0..self.cores, self.cores),
            _ => mask(core..core + 1, self.cores),
        })
    }

    fn cache(&self, core: usize, index: usize, name: &str) -> Option<String> {
        let cache = self.caches.get(index)?;
        Some(match (name, cache.is_shared()) {
            ("id", true) => "0".into(),
            ("id", false) => core.to_string(),
            ("shared_cpu_list", true) => range(self.cores),
            ("shared_cpu_list", false) => core.to_string(),
            ("shared_cpu_map", true) => mask(0..self.cores, self.cores),
            ("shared_cpu_map", false) => mask(core..core + 1, self.cores),
            _ => cache.value(name)?.to_owned(),
        })
    }
}

const TOPOLOGY_FILES: &[&str] = &[
    "core_cpus",
    "core_cpus_list",
    "core_id",
    "core_siblings",
    "core_siblings_list",
    "die_cpus",
    "die_cpus_list",
    "die_id",
    "package_cpus",
    "package_cpus_list",
    "physical_package_id",
    "thread_siblings",
    "thread_siblings_list",
];

impl Dir {
    /// Where the trees begin.
    pub const ROOTS: [Dir; 4] = [Dir::Cpus, Dir::Nodes, Dir::CpuBus, Dir::NodeBus];

    /// Its path below /sys.
    pub fn path(self) -> String {
        match self {
            Dir::Cpus => "/devices/system/cpu".into(),
            Dir::Nodes => "/devices/system/node".into(),
            Dir::CpuBus => "/bus/cpu".into(),
            Dir::NodeBus => "/bus/node".into(),
            Dir::Cpu(n) => format!("{}/cpu{n}", Dir::Cpus.path()),
            Dir::Topology(n) => format!("{}/topology", Dir::Cpu(n).path()),
            Dir::Caches(n) => format!("{}/cache", Dir::Cpu(n).path()),
            Dir::Cache(n, index) => format!("{}/index{index}", Dir::Caches(n).path()),
            Dir::Node0 => format!("{}/node0", Dir::Nodes.path()),
            Dir::CpuDevices => format!("{}/devices", Dir::CpuBus.path()),
            Dir::NodeDevices => format!("{}/devices", Dir::NodeBus.path()),
        }
    }

    /// The directory that it lies in; `None` for the root of a tree.
    pub fn parent(self) -> Option<Dir> {
        match self {
            Dir::Cpus | Dir::Nodes | Dir::CpuBus | Dir::NodeBus => None,
            Dir::Cpu(_) => Some(Dir::Cpus),
            Dir::Topology(n) | Dir::Caches(n) => Some(Dir::Cpu(n)),
            Dir::Cache(n, _) => Some(Dir::Caches(n)),
            Dir::Node0 => Some(Dir::Nodes),
            Dir::CpuDevices => Some(Dir::CpuBus),
            Dir::NodeDevices => Some(Dir::NodeBus),
        }
    }
}

/// The number that follows `prefix`, as Linux writes it.
fn number(name: &str, prefix: &str) -> Option<usize> {
    let digits = name.strip_prefix(prefix)?;
    let number: usize = digits.parse().ok()?;
    (number.to_string() == digits).then_some(number)
}

/// All of `count` in a list.
fn range(count: usize) -> String {
    if count == 1 {
        "0".into()
    } else {
        format!("0-{}", count - 1)
    }
}

/// A mask of `width` bits in hexadecimal (Documentation/admin-guide/cputopology.rst): the highest word first.
fn mask(bits: std::ops::Range<usize>, width: usize) -> String {
    let mut text = String::new();
    for word in (0..width.div_ceil(WORD_BITS)).rev() {
        let first = word * WORD_BITS;
        let set = (0..WORD_BITS).filter(|bit| bits.contains(&(first + bit)));
        let value: u32 = set.map(|bit| 1 << bit).sum();
        let digits = (width - first).min(WORD_BITS).div_ceil(4);
        let comma = if word == 0 { "" } else { "," };
        let _ = write!(text, "{value:0digits$x}{comma}");
    }
    text
}
