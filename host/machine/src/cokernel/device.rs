//! /dev/margay: each open file of it is a node (host/cokernel/margay.h has its calls).
//!
//! The keeper opens it, and nothing passes the descriptor on: with the last one the node ends. What others get is the descriptors of memory.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;

/// Where the device is.
pub const PATH: &str = "/dev/margay";
/// MARGAY_VERSION.
const VERSION: u64 = 1;
/// MARGAY_MOST_CPUS.
const MOST_CPUS: usize = 256;

/// struct margay_reserve.
#[repr(C)]
struct Reserve {
    version: u64,
    bytes: u64,
    pool_bytes: u64,
    comm_offset: u64,
    comm_bytes: u64,
    numa_node: i32,
    cpu_count: u32,
    cpus: [u32; MOST_CPUS],
    start: u64,
}

/// struct margay_bell.
#[repr(C)]
struct Bell {
    to_host: u32,
    index: u32,
    eventfd: i32,
    zero: u32,
}

/// Which way data goes (include/uapi/asm-generic/ioctl.h).
const NONE: u32 = 0;
const WRITE: u32 = 1;
const READ: u32 = 2;

/// The number of a call, as _IOC makes it there: two bits of direction, 14 of the size, eight each of the driver's letter and the call.
const fn number(direction: u32, call: u32, bytes: usize) -> libc::Ioctl {
    (direction << 30 | (bytes as u32) << 16 | (b'M' as u32) << 8 | call) as libc::Ioctl
}

const RESERVE: libc::Ioctl = number(READ | WRITE, 1, size_of::<Reserve>());
const MEMORY: libc::Ioctl = number(NONE, 2, 0);
const BELL: libc::Ioctl = number(WRITE, 3, size_of::<Bell>());
const START: libc::Ioctl = number(NONE, 4, 0);
const ENDED: libc::Ioctl = number(NONE, 5, 0);

/// What a node is made of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parts {
    /// Bytes of memory; a multiple of 2 MiB.
    pub bytes: u64,
    /// Of them, at the end, those of the node pool's file; a multiple of 2 MiB.
    pub pool_bytes: u64,
    /// Where the communication area lies in it.
    pub comm_offset: u64,
    /// Its bytes; whole pages.
    pub comm_bytes: u64,
    /// Linux's numbers of the CPUs; the first boots.
    pub cpus: Vec<u32>,
}

/// A part of the memory, as it is mapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// All but the pool.
    Ram = 0,
    /// The pool's file.
    Pool = 1,
}

/// What a doorbell rings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// CPU of the node, by its place in the list.
    ToNode = 0,
    /// The eventfd.
    ToHost = 1,
}

/// An open file of the device.
#[derive(Debug)]
pub struct Device(OwnedFd);

impl Device {
    /// Opens it; there is no node yet.
    ///
    /// # Errors
    /// What open says.
    pub fn open() -> Result<Device, Errno> {
        open(PATH, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).map(Device)
    }

    /// Reserves memory and CPUs; returns the memory's physical address.
    ///
    /// # Errors
    /// margay.h, MARGAY_RESERVE; more CPUs than it has room for.
    pub fn reserve(&self, parts: &Parts) -> Result<u64, Errno> {
        let mut reserve = Reserve {
            version: VERSION,
            bytes: parts.bytes,
            pool_bytes: parts.pool_bytes,
            comm_offset: parts.comm_offset,
            comm_bytes: parts.comm_bytes,
            numa_node: -1,
            cpu_count: parts.cpus.len() as u32,
            cpus: [0; MOST_CPUS],
            start: 0,
        };
        let room = reserve.cpus.get_mut(..parts.cpus.len());
        room.ok_or(Errno::INVAL)?.copy_from_slice(&parts.cpus);
        // SAFETY: 1. RESERVE reads and writes a structure of this layout and size, which lives through the call.
        let done = unsafe { libc::ioctl(self.0.as_raw_fd(), RESERVE, &raw mut reserve) };
        checked(done).map(|_| reserve.start)
    }

    /// A descriptor that maps a part of the memory.
    ///
    /// # Errors
    /// No descriptor left.
    pub fn memory(&self, part: Part) -> Result<OwnedFd, Errno> {
        // SAFETY: 1. MEMORY takes a number.
        let fd = checked(unsafe { libc::ioctl(self.0.as_raw_fd(), MEMORY, part as libc::c_ulong) });
        // SAFETY: 1. A descriptor that MEMORY returns is new and has no other owner.
        let fd = unsafe { OwnedFd::from_raw_fd(fd?) };
        rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC)?;
        Ok(fd)
    }

    /// Makes `eventfd` doorbell `index`.
    ///
    /// # Errors
    /// There is no such CPU or bell.
    pub fn bell(&self, way: Way, index: usize, eventfd: BorrowedFd<'_>) -> Result<(), Errno> {
        let bell = Bell {
            to_host: way as u32,
            index: u32::try_from(index).map_err(|_| Errno::INVAL)?,
            eventfd: eventfd.as_raw_fd(),
            zero: 0,
        };
        // SAFETY: 1. BELL reads a structure of this layout and size, which lives through the call.
        checked(unsafe { libc::ioctl(self.0.as_raw_fd(), BELL, &raw const bell) }).map(drop)
    }

    /// Starts the node.
    ///
    /// # Errors
    /// margay.h, MARGAY_START.
    pub fn start(&self) -> Result<(), Errno> {
        // SAFETY: 1. START takes nothing.
        checked(unsafe { libc::ioctl(self.0.as_raw_fd(), START, 0) }).map(drop)
    }

    /// The exit code with which the node has ended, once it has.
    #[must_use]
    pub fn ended(&self) -> Option<i32> {
        // SAFETY: 1. ENDED takes nothing.
        let ended = checked(unsafe { libc::ioctl(self.0.as_raw_fd(), ENDED, 0) });
        ended.ok()?.checked_sub(1).filter(|&code| code >= 0)
    }

    /// Takes what there is of the node's log.
    pub fn read_log(&self, mut take: impl FnMut(&[u8])) {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = rustix::io::read(&self.0, &mut bytes[..]) {
            take(&bytes[..count]);
        }
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn checked(result: libc::c_int) -> Result<libc::c_int, Errno> {
    if result < 0 {
        let error = io::Error::last_os_error();
        return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO));
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::mem::offset_of;
    use std::path::Path;
    use std::process::{Command, Stdio};

    use super::*;

    /// A C compiler reads the header that the module is built with.
    #[test]
    fn calls_are_as_the_header_has_them() {
        let mut program = String::from("#include <stddef.h>\n#include \"margay.h\"\n");
        let reserve = "struct margay_reserve";
        let bell = "struct margay_bell";
        for (constant, is) in [
            ("MARGAY_VERSION".into(), VERSION),
            ("MARGAY_MOST_CPUS".into(), MOST_CPUS as u64),
            ("MARGAY_RESERVE".into(), RESERVE),
            ("MARGAY_MEMORY".into(), MEMORY),
            ("MARGAY_BELL".into(), BELL),
            ("MARGAY_START".into(), START),
            ("MARGAY_ENDED".into(), ENDED),
            (format!("sizeof({reserve})"), size_of::<Reserve>() as u64),
            (format!("sizeof({bell})"), size_of::<Bell>() as u64),
            (
                of(reserve, "pool_bytes"),
                offset_of!(Reserve, pool_bytes) as u64,
            ),
            (
                of(reserve, "comm_offset"),
                offset_of!(Reserve, comm_offset) as u64,
            ),
            (
                of(reserve, "comm_bytes"),
                offset_of!(Reserve, comm_bytes) as u64,
            ),
            (
                of(reserve, "numa_node"),
                offset_of!(Reserve, numa_node) as u64,
            ),
            (
                of(reserve, "cpu_count"),
                offset_of!(Reserve, cpu_count) as u64,
            ),
            (of(reserve, "cpus"), offset_of!(Reserve, cpus) as u64),
            (of(reserve, "start"), offset_of!(Reserve, start) as u64),
            (of(bell, "index"), offset_of!(Bell, index) as u64),
            (of(bell, "eventfd"), offset_of!(Bell, eventfd) as u64),
        ] {
            program += &format!("_Static_assert({constant} == {is:#x}, \"{constant}\");\n");
        }
        let here = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo runs this");
        let mut compiler = Command::new("cc")
            .args(["-fsyntax-only", "-x", "c", "-", "-I"])
            .arg(Path::new(&here).with_file_name("cokernel"))
            .stdin(Stdio::piped())
            .spawn()
            .expect("a C compiler");
        let mut input = compiler.stdin.take().expect("a pipe");
        input.write_all(program.as_bytes()).expect("it reads");
        drop(input);
        assert!(compiler.wait().expect("ends").success(), "{program}");
    }

    fn of(structure: &str, field: &str) -> String {
        format!("offsetof({structure}, {field})")
    }

    /// Any other file in its place refuses its calls, and does nothing.
    #[test]
    fn what_is_no_device_refuses_all_calls() {
        let null = std::fs::File::open("/dev/null").expect("a null device");
        let device = Device(null.into());
        let mut parts = Parts {
            bytes: 64 << 20,
            pool_bytes: 0,
            comm_offset: 1 << 20,
            comm_bytes: 4096,
            cpus: vec![1],
        };
        assert_eq!(device.reserve(&parts), Err(Errno::NOTTY));
        assert_eq!(device.memory(Part::Ram).err(), Some(Errno::NOTTY));
        let bell = device.bell(Way::ToNode, 0, device.as_fd());
        assert_eq!(bell, Err(Errno::NOTTY));
        assert_eq!(device.start(), Err(Errno::NOTTY));
        assert_eq!(device.ended(), None);
        device.read_log(|_| panic!("no log"));
        parts.cpus = vec![1; MOST_CPUS + 1];
        assert_eq!(device.reserve(&parts), Err(Errno::INVAL));
    }
}
