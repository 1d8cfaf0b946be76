//! A node that is a QEMU machine: which QEMU, what executes, its command line, its doorbells, its RAM, its process, the agent in it.
//!
//! RAM and the ivshmem server are handed over as descriptors, so nothing is ever created in a file system.

pub mod accel;
mod command;
mod cpus;
mod features;
mod ivshmem;
mod preload;
mod process;
mod program;
mod ram;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use abi::map::{COMM_BASE, PAGE_2M};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use wire::boot::MAX_CPUS;

use self::accel::Accel;
use self::process::Process;
use crate::machine::{Boot, Limits, Machine};
use crate::memory::Memory;
use crate::plan::Plan;

pub use program::{NotFound, OLDEST, Qemu, Version};
pub use ram::of as ram;

/// Cores that xAPIC ids distinguish: these have 8 bits, and 255 means everybody (Intel SDM vol. 3, 11.6.1).
const XAPIC_CORES: usize = 0xff;
const _: () = assert!(XAPIC_CORES <= MAX_CPUS);

/// QEMU's model of a PC with PCI Express.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Q35 {
    /// The program.
    pub qemu: Qemu,
    /// Who executes.
    pub accel: Accel,
    /// The agent, a library that is preloaded where there is a node pool.
    pub agent: PathBuf,
    /// Virtual time: the TSC counts instructions. For measurements.
    pub icount: bool,
    /// A plugin of QEMU's emulation, as -plugin takes it: the absolute path of its file, and its arguments. It writes when QEMU
    /// ends in order. For measurements.
    pub plugin: Option<OsString>,
}

impl Machine for Q35 {
    const NAME: &'static str = "QEMU";
    const LIMITS: Limits = Limits {
        cores: XAPIC_CORES,
        default_fifths: 4,
        zeroed: true,
        // Between what firmware leaves below 1 MiB and the kernel's image.
        unused: COMM_BASE..PAGE_2M,
        above_kernel: 16 << 20,
    };
    type Reserved = ();
    type Instance = Process;

    fn memory(&self, plan: &Plan) -> io::Result<(Memory, ())> {
        let ram = ram(plan).map_err(io::Error::other)?;
        let file = memfd_create("margay-ram", MemfdFlags::CLOEXEC)?;
        ftruncate(&file, ram.bytes() - plan.pool_file_bytes())?;
        let pool = memfd_create("margay-pool", MemfdFlags::CLOEXEC)?;
        ftruncate(&pool, plan.pool_file_bytes())?;
        Ok((Memory { ram, file, pool }, ()))
    }

    fn unfit(&self) -> Option<String> {
        let version = self.qemu.version().filter(|version| *version < OLDEST);
        version.map(|version| self.qemu.too_old(version))
    }

    fn start(&self, plan: &Plan, memory: &Memory, (): (), boot: &Boot<'_>) -> io::Result<Process> {
        Process::start(self, plan, memory, boot)
    }
}
