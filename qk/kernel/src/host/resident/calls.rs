//! What the resident server does for a thread: output, and what the PCT needs to load the program.

use core::sync::atomic::{AtomicU64, Ordering};

use abi::Errno;
use abi::control::HostOp;
use abi::map::MAX_THREADS;
use abi::syscall::layout::{MAX_VECTORS, VECTOR_BYTES};
use abi::syscall::{MAX_CALLS, by_nr};
use hal::addr::{Phys, User};
use wire::ship::{Request, Server};

use super::{Memory, PID, RANK, Resident};
use crate::host::area;
use crate::preempt;
use crate::user::get_words;

/// Numbers of the Linux calls that are served (arch/x86/entry/syscalls/syscall_64.tbl).
const WRITE: u64 = 1;
const WRITEV: u64 = 20;
/// Bytes that go to the console at once, and the work of one, in instructions.
const CHUNK: usize = 64;
const BYTE_WORK: u32 = 30;

/// Calls whose refusal was said, a bit for each number.
static SAID: [AtomicU64; MAX_CALLS / 64] = [const { AtomicU64::new(0) }; _];

/// Carries out a request; returns what Linux or a proxy would return.
pub(super) fn carry_out(resident: &Resident, memory: &dyn Memory, request: &Request) -> i64 {
    let result = match (request.host_op, HostOp::from_nr(request.nr)) {
        (false, _) => linux_call(request.nr, request.args),
        (true, Some(op)) => host_op(resident, memory, op, request.args),
        (true, None) => Err(Errno::ENOSYS),
    };
    result.map_or_else(Errno::ret, |value| value as i64)
}

fn linux_call(nr: u64, [fd, at, count, ..]: [u64; 6]) -> Result<u64, Errno> {
    match (nr, fd) {
        (WRITE, 1 | 2) => write(at, count),
        (WRITEV, 1 | 2) => write_vectors(at, count),
        (WRITE | WRITEV, _) => Err(Errno::EBADF),
        _ => Err(refused(nr)),
    }
}

/// Not served, which is said once of each call.
fn refused(nr: u64) -> Errno {
    let (word, bit) = (nr as usize / 64 % SAID.len(), 1 << (nr % 64));
    if SAID[word].fetch_or(bit, Ordering::Relaxed) & bit == 0 {
        let name = by_nr(nr).map_or("a call of no name", |row| row.name);
        log::info!("{name} ({nr}) is not served on a node without a host: ENOSYS");
    }
    Errno::ENOSYS
}

fn write(at: u64, len_bytes: u64) -> Result<u64, Errno> {
    let mut chunk = [0; CHUNK];
    let mut done = 0;
    while done < len_bytes {
        let step = (len_bytes - done).min(CHUNK as u64);
        let chunk = &mut chunk[..step as usize];
        let from = at.checked_add(done).and_then(|at| User::range(at, step));
        let read = from.map(|from| hal::user::copy_in(chunk, from));
        if !matches!(read, Some(Ok(()))) {
            return if done == 0 {
                Err(Errno::EFAULT)
            } else {
                Ok(done)
            };
        }
        hal::serial::bytes(chunk);
        preempt::point(BYTE_WORK * step as u32);
        done += step;
    }
    Ok(done)
}

fn write_vectors(at: u64, count: u64) -> Result<u64, Errno> {
    if count > MAX_VECTORS {
        return Err(Errno::EINVAL);
    }
    let mut done = 0;
    // POINT: write
    for i in 0..count {
        let [base, len_bytes] = get_words(at.wrapping_add(i * VECTOR_BYTES))?;
        match write(base, len_bytes) {
            Ok(written) => done += written,
            Err(errno) if done == 0 => return Err(errno),
            Err(_) => break,
        }
    }
    Ok(done)
}

fn host_op(
    resident: &Resident,
    memory: &dyn Memory,
    op: HostOp,
    [a0, a1, a2, ..]: [u64; 6],
) -> Result<u64, Errno> {
    match op {
        HostOp::ReadProgram => read_program(resident, memory, [a0, a1, a2]),
        HostOp::WriteStrings => write_strings(resident, memory, a0, a1),
        HostOp::GrowWorkers => Ok(grow_workers(a0)),
        // The log is carried out before each request. No file is held, so only memory without one is laid; no child runs, and nothing
        // continues what is stopped.
        HostOp::Sync
        | HostOp::Stop
        | HostOp::LeaveOut
        | HostOp::WriteCore
        | HostOp::ChildSignal
        | HostOp::LayFile
        | HostOp::ReleaseFile
        | HostOp::IsWithChild => Ok(0),
        HostOp::DescribeFile | HostOp::HoldText | HostOp::HoldFile => Err(Errno::EBADF),
        _ => Err(Errno::ENOSYS),
    }
}

/// The program's file into the rank's memory.
fn read_program(
    resident: &Resident,
    memory: &dyn Memory,
    [to, len_bytes, offset]: [u64; 3],
) -> Result<u64, Errno> {
    let file = resident.program.ok_or(Errno::ENOENT)?;
    let left = file.len_bytes().saturating_sub(offset);
    let len_bytes = len_bytes.min(left);
    let from = file.start.0 + offset;
    memory.fill(to, len_bytes, &|pa, done, step| {
        hal::mem::copy(pa, Phys(from + done), step);
    })
}

/// Arguments and path into the rank's memory.
fn write_strings(
    resident: &Resident,
    memory: &dyn Memory,
    to: u64,
    capacity: u64,
) -> Result<u64, Errno> {
    let mut done = 0;
    // BOUND: the command line.
    for text in resident.strings() {
        // BOUND: the command line.
        for bytes in [text.as_bytes(), b"\0"] {
            let len_bytes = bytes.len() as u64;
            if len_bytes > capacity - done {
                return Err(Errno::E2BIG);
            }
            memory.fill(to + done, len_bytes, &|pa, at, step| {
                hal::mem::copy_out(pa, &bytes[at as usize..(at + step) as usize]);
            })?;
            done += len_bytes;
        }
    }
    Ok(done)
}

/// Gives threads a worker each, whose id is the thread's; returns how many have one.
pub(super) fn grow_workers(wanted: u64) -> u64 {
    let (host, threads) = (&area::get().rank(RANK).host, area::get().threads(RANK));
    let (had, wanted) = (host.workers.load(), wanted.min(MAX_THREADS as u64));
    for index in had..wanted {
        preempt::point(BYTE_WORK);
        let thread = &threads[index as usize];
        thread.host.tid.put(PID + index);
        // A request always rings, and the ring is the call.
        Server::default().announce_wait(&thread.slot, true);
    }
    host.workers.store(wanted.max(had));
    wanted.max(had)
}
