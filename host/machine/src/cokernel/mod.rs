//! A node that is a co-kernel: CPUs and memory that the running Linux gives up through /dev/margay, a device of the module margay.ko
//! (host/cokernel).
//!
//! There is no process and no emulator: the node's kernel has the CPUs themselves, and addresses of its memory are the host's. An open
//! file of the device owns all of it. The keeper opens it when it makes RAM, once it has closed all that it inherited, and passes it
//! to no process; so the node ends with the keeper, whatever that dies of.

mod cpus;
#[allow(unsafe_code)]
mod device;
mod refused;
mod running;

use std::io;
use std::time::Duration;

use abi::map::{COMM_BASE, PAGE_2M};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use wire::boot::MAX_CPUS;
use wire::cokernel::EARLY_BYTES;
use wire::layout::Layout;
use wire::ram::{Bad, Place, Ram, RamRange};

use self::device::{Device, Part, Parts};
use self::running::Running;
use crate::machine::{Boot, Limits, Machine};
use crate::memory::Memory;
use crate::plan::Plan;
use crate::resources::{Resources, allowed_cpus};

pub use self::cpus::Cpus;
pub use self::device::PATH;
pub use self::refused::list;

/// As QEMU's nodes have at most: what the tests of the kernel have shown.
const MOST_CORES: usize = 255;
const _: () = assert!(MOST_CORES <= MAX_CPUS);

/// A co-kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cokernel;

/// The open device with a node that is not started, and the node's CPUs.
#[derive(Debug)]
pub struct Reserved {
    device: Device,
    cpus: Vec<u32>,
}

/// Whether this user can have such nodes, as far as that is known without one.
///
/// # Errors
/// Why not, as a line.
pub fn usable() -> Result<(), String> {
    open().map(drop)
}

/// The device; why not, as a line.
fn open() -> Result<Device, String> {
    Device::open().map_err(|errno| refused::open(errno, loads_only_signed()))
}

/// Whether Linux wants signatures of modules, by itself (module.sig_enforce) or as Secure Boot has locked it down
/// (kernel_lockdown(7)): then the word in force has brackets.
fn loads_only_signed() -> bool {
    let enforced = "/sys/module/module/parameters/sig_enforce";
    let lockdown = "/sys/kernel/security/lockdown";
    let has = |path, words: &[&str]| {
        std::fs::read_to_string(path).is_ok_and(|text| words.iter().any(|word| text.contains(word)))
    };
    has(enforced, &["Y"]) || has(lockdown, &["[integrity]", "[confidentiality]"])
}

/// What a job may use of such a node, of what it may use of this host, and what plans have to know: a core that is not there
/// cannot be made. `None`: there is no CPU for one.
#[must_use]
pub fn offer(cpus: &Cpus, host: &Resources) -> Option<(Resources, Limits)> {
    let limits = Limits {
        cores: cpus.count().min(MOST_CORES),
        ..Cokernel::LIMITS
    };
    let cores = cpus.cores().min(host.cores);
    (cores > 0).then_some((Resources { cores, ..*host }, limits))
}

/// Least memory besides the pool: what of it the kernel's image may have, and what it boots with.
const LEAST_BYTES: u64 = 32 << 20;

/// Bytes of memory for a plan.
#[must_use]
pub fn bytes(plan: &Plan) -> u64 {
    let partitions = plan.ranks as u64 * plan.partition_bytes;
    let bytes = (plan.node_bytes + partitions).next_multiple_of(PAGE_2M);
    (bytes.max(LEAST_BYTES) + plan.pool_file_bytes()).max(EARLY_BYTES)
}

fn parts(plan: &Plan, cpus: Vec<u32>) -> Parts {
    Parts {
        bytes: bytes(plan),
        pool_bytes: plan.pool_file_bytes(),
        comm_offset: plan.comm_offset,
        comm_bytes: Layout::new(&plan.config()).total_bytes as u64,
        cpus,
    }
}

/// How long, and how often, CPUs are waited for that another node has: it may be ending.
const ENDING_WAITS: usize = 100;
const ENDING_WAIT: Duration = Duration::from_millis(20);

fn reserve(device: &Device, parts: &Parts) -> Result<u64, Errno> {
    for _ in 0..ENDING_WAITS {
        match device.reserve(parts) {
            Err(Errno::BUSY) => std::thread::sleep(ENDING_WAIT),
            done => return done,
        }
    }
    device.reserve(parts)
}

/// Memory of a piece from `start` on: the pool is its end.
fn ram(start: u64, parts: &Parts) -> Result<Ram, Bad> {
    let pool = start.saturating_add(parts.bytes - parts.pool_bytes);
    let ranges = [
        RamRange {
            gpa: start,
            len_bytes: parts.bytes - parts.pool_bytes,
            place: Place::Ram(0),
        },
        RamRange {
            gpa: pool,
            len_bytes: parts.pool_bytes,
            place: Place::Pool(0),
        },
    ];
    Ram::new(ranges.into_iter().filter(|range| range.len_bytes > 0))
}

impl Machine for Cokernel {
    const NAME: &'static str = "co-kernel";
    const LIMITS: Limits = Limits {
        cores: MOST_CORES,
        // All of it is gone from Linux, touched or not, and has to be in one piece.
        default_fifths: 1,
        zeroed: true,
        // Between the module's record and the kernel's image.
        unused: COMM_BASE..PAGE_2M,
        above_kernel: 16 << 20,
    };
    type Reserved = Reserved;
    type Instance = Running;

    fn memory(&self, plan: &Plan) -> io::Result<(Memory, Reserved)> {
        // The keeper may run on all CPUs that any yod of the job may use.
        let all = Cpus::of_host(&allowed_cpus());
        let cpus = all.choose(plan.cpus);
        let too_few = || line(refused::too_few(plan.cpus, all.count()));
        let parts = parts(plan, cpus.ok_or_else(too_few)?);
        let device = open().map_err(line)?;
        let start = reserve(&device, &parts);
        let start = start.map_err(|errno| line(refused::reserve(errno, &parts)))?;
        let part = |part| {
            let memory = device.memory(part);
            memory.map_err(|errno| not_done("map its memory", errno))
        };
        let memory = Memory {
            ram: ram(start, &parts).map_err(io::Error::other)?,
            file: part(Part::Ram)?,
            pool: match parts.pool_bytes {
                0 => memfd_create("margay-pool", MemfdFlags::CLOEXEC)?,
                _ => part(Part::Pool)?,
            },
        };
        let cpus = parts.cpus;
        Ok((memory, Reserved { device, cpus }))
    }

    fn unfit(&self) -> Option<String> {
        usable().err()
    }

    fn start(
        &self,
        plan: &Plan,
        _: &Memory,
        reserved: Reserved,
        // Of the kernel that is loaded into ring 0 of this host the module takes no user's word: it has root's files, and it
        // makes the command line, for it has the memory.
        _: &Boot<'_>,
    ) -> io::Result<Running> {
        Running::start(plan, reserved)
    }
}

fn line(text: String) -> io::Error {
    io::Error::other(text)
}

/// A limit on descriptors has a line that names it.
fn not_done(what: &str, errno: Errno) -> io::Error {
    match errno {
        Errno::MFILE => errno.into(),
        other => line(refused::other(what, other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::two_ranks;

    const MIB: u64 = 1 << 20;

    fn plan(pool_bytes: u64) -> Plan {
        Plan {
            pool_bytes,
            ..two_ranks(&Cokernel::LIMITS, 0)
        }
    }

    #[test]
    fn memory_is_one_piece_with_the_pool_at_its_end() {
        let parts = parts(&plan(32 * MIB), vec![1, 2]);
        assert_eq!((parts.pool_bytes, parts.bytes % PAGE_2M), (34 * MIB, 0));
        let ram = ram(1 << 40, &parts).expect("RAM");
        let [all, pool] = ram.ranges() else {
            panic!("{ram:?}");
        };
        assert_eq!((all.gpa, all.place), (1 << 40, Place::Ram(0)));
        assert_eq!((pool.len_bytes, pool.place), (34 * MIB, Place::Pool(0)));
        assert_eq!(pool.gpa + pool.len_bytes, all.gpa + parts.bytes);
        assert_eq!(ram.bytes(), parts.bytes);
    }

    /// A pool that is larger than all else left no room for the kernel's image.
    #[test]
    fn a_large_pool_leaves_room_for_the_kernel() {
        let parts = parts(&plan(1 << 30), vec![1]);
        assert_eq!(parts.bytes - parts.pool_bytes, LEAST_BYTES);
    }

    /// The device takes whole pages, and the first page tables show 64 MiB.
    #[test]
    fn the_smallest_node_has_what_the_device_wants() {
        let plan = plan(0);
        let parts = parts(&plan, vec![1]);
        assert_eq!((parts.bytes, parts.pool_bytes), (EARLY_BYTES, 0));
        assert_eq!(parts.comm_bytes % 4096, 0);
        assert!(ram(u64::MAX - PAGE_2M + 1, &parts).is_err());
        let ram = ram(EARLY_BYTES, &parts).expect("RAM");
        assert_eq!(ram.ranges().len(), 1);
        let comm = ram.place(plan.comm_base(&ram), parts.comm_bytes);
        assert_eq!(comm, Some(Place::Ram(plan.comm_offset)));
    }

    #[test]
    fn cores_are_cpus_that_linux_gives_up() {
        let host = Resources {
            cores: 4,
            memory_bytes: 1 << 30,
        };
        assert_eq!(offer(&Cpus::of_host(&[0]), &host), None);
        // Linux says nothing of the cores of CPUs that there are not.
        let cpus: Vec<u32> = (1 << 20..).take(9).collect();
        let (resources, limits) = offer(&Cpus::of_host(&cpus), &host).expect("eight");
        assert_eq!((resources.cores, limits.cores), (4, 8));
        assert_eq!(resources.memory_bytes, host.memory_bytes);
    }

    /// No test may start a node on CPUs of the machine that it runs on.
    #[test]
    fn without_the_device_there_is_a_line() {
        if usable().is_ok() {
            return;
        }
        let plan = Plan { cpus: 0, ..plan(0) };
        let error = Cokernel.memory(&plan).expect_err("no device").to_string();
        assert!(error.starts_with(PATH), "{error}");
        assert_eq!(Cokernel.unfit(), Some(error));
    }
}
