//! What the QK requests besides Linux calls.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use abi::Errno;
use abi::control::{HostOp, INTERPRETER, PROGRAM};
use abi::halt::Halt;
use abi::map::USER_TOP;

use wire::ship::Request;

use crate::agent::Access;
use crate::cancel;
use crate::child;
use crate::dump;
use crate::errno::linux;
use crate::exec;
use crate::fds;
use crate::left;
use crate::memory::{RankMemory, move_all};
use crate::objects::{Content, File};
use crate::rank::Rank;
use crate::signals;
use crate::special;
use crate::stub;
use crate::watcher;
use crate::worker;

/// Carries out an operation for thread `index`; returns its result or a negative error as a system call does.
///
/// # Errors
/// A line for the user when the rank has to end.
pub fn carry_out(rank: &'static Rank, index: usize, request: &Request) -> Result<i64, String> {
    let (nr, args) = (request.nr, &request.args);
    let gave_up = || rank.words().threads[index].slot.cancelled(request.seq);
    let ret = match HostOp::from_nr(nr) {
        Some(HostOp::ReadProgram) => load_image(rank, &rank.program().file, args),
        Some(HostOp::ReadInterpreter) => match &rank.program().interpreter {
            Some(file) => load_image(rank, file, args),
            None => Err(Errno::ENOENT),
        },
        Some(HostOp::DescribeFile) => describe_file(rank, args),
        Some(HostOp::LoadFile) => load_file(rank, args),
        Some(HostOp::WriteStrings) => write_strings(rank, args[0], args[1]),
        Some(HostOp::Sync) => {
            rank.catch_up(rank.words().log.position())?;
            Ok(0)
        }
        Some(HostOp::Stop) => {
            if rank.reception().stops().take() && args[0] != 0 {
                signals::stop::stop_self(args[1] as i32, args[0]);
                watcher::settle(rank);
            }
            Ok(0)
        }
        Some(HostOp::GrowWorkers) => worker::grow(rank, args[0]).map(|count| count as i64),
        Some(HostOp::Halted) => Halt::from_nr(args[0])
            .map(|why| {
                let registers = &rank.words().area.node.registers;
                rank.halted().order(index, why, args[1], registers).encode() as i64
            })
            .ok_or(Errno::EINVAL),
        Some(HostOp::LeaveOut) => {
            rank.dump().leave_out(args[0], args[1]);
            Ok(0)
        }
        Some(HostOp::WriteCore) => Ok(dump::write(rank).into()),
        Some(HostOp::Fork) => child::fork(rank, index),
        Some(HostOp::AwaitExec) => child::await_exec(rank, args[0], gave_up),
        Some(HostOp::PrepareExec) => cancel::interruptible(rank, index, request.seq, || {
            exec::prepare(rank, index, args)
        }),
        Some(HostOp::CommitExec) => exec::commit(rank, index),
        Some(HostOp::ChildSignal) => {
            child::child_signal(rank, args[0], args[1]);
            Ok(0)
        }
        Some(HostOp::IsWithChild) => rank.objects().is_with_child(args[0], args[1]),
        Some(HostOp::WakeChildren) => child::wake(rank, args),
        Some(HostOp::WaitWithChildren) => {
            cancel::interruptible(rank, index, request.seq, || child::wait_beside(rank, args))
        }
        Some(HostOp::LeaveSignals) => {
            left::follow(rank);
            watcher::settle(rank);
            Ok(0)
        }
        Some(HostOp::LeftPending) => Ok(signals::pending() as i64),
        Some(HostOp::HoldFile) => hold_file(rank, index, args),
        Some(HostOp::LayFile) => object(args, |file| lay(rank, Content::Shared(file), args)),
        Some(HostOp::WriteBack) => write_back(args),
        Some(HostOp::RestoreFrames) => rank.objects().restore(args[0], args[1]),
        Some(HostOp::ClearFrames) => rank.objects().clear(args[0], args[1]),
        Some(HostOp::ReleaseFile) => object(args, |file| {
            if args[2] != 0 {
                rank.objects().release(file);
            }
            Ok(0)
        }),
        Some(HostOp::HoldSegment) => hold_segment(rank, index, args),
        Some(HostOp::HoldText) => hold_text(rank, index, args),
        Some(HostOp::LayText) => object(args, |file| lay(rank, Content::Text(file), args)),
        Some(HostOp::FileBytes) => object(args, |file| rank.objects().file_bytes(file)),
        None => Err(Errno::ENOSYS),
    };
    Ok(ret.unwrap_or_else(Errno::ret))
}

/// Reads from the program's or its interpreter's file (address, bytes, offset).
fn load_image(rank: &Rank, file: &OwnedFd, args: &[u64; 6]) -> Result<i64, Errno> {
    let [addr, len_bytes, offset, ..] = *args;
    let read = read_file(file.as_fd(), addr, len_bytes, offset)?;
    // Headers are read through the stack, where nothing of a file stays.
    let stack_top = rank.words().areas().stack_top();
    if rank.memory().regions().alike_until(addr) != stack_top {
        place(rank, file.as_fd(), addr, read as u64, offset)?;
    }
    Ok(read)
}

fn describe_file(rank: &Rank, args: &[u64; 6]) -> Result<i64, Errno> {
    let [fd, offset, len_bytes, ..] = *args;
    let mut described = rank
        .memory()
        .files
        .describe(descriptor(rank, fd)?, offset, len_bytes)
        .map_err(linux)?;
    // What is made here stands for files of /proc and /sys, of which none can be mapped.
    described.mappable &= !special::is_text(rank, fd);
    Ok(described.encode() as i64)
}

/// Reads what is mapped (descriptor, address, bytes, offset); all of it counts as mapped, also what the file has not.
fn load_file(rank: &Rank, args: &[u64; 6]) -> Result<i64, Errno> {
    let [fd, addr, len_bytes, offset, ..] = *args;
    let file = descriptor(rank, fd)?;
    let read = read_file(file, addr, len_bytes, offset)?;
    place(rank, file, addr, len_bytes, offset)?;
    Ok(read)
}

/// Keeps the file that is mapped and shared (descriptor, address, bytes, offset).
fn hold_file(rank: &Rank, index: usize, args: &[u64; 6]) -> Result<i64, Errno> {
    let [fd, addr, len_bytes, offset, ..] = *args;
    let fd = descriptor(rank, fd)?;
    let (file, is_writable) = rank.objects().hold(fd)?;
    place(rank, fd, addr, len_bytes, offset)?;
    rank.words().threads[index].slot.put_more(file);
    Ok(i64::from(is_writable))
}

/// Keeps the file that is mapped as text (descriptor, address, bytes, offset).
fn hold_text(rank: &Rank, index: usize, args: &[u64; 6]) -> Result<i64, Errno> {
    // More are closed as soon as they are not mapped any more.
    const MOST: usize = 256;
    let [fd, addr, len_bytes, offset, ..] = *args;
    with_text(rank, fd, |fd| {
        let (file, changed_ns, held) = rank.objects().hold_text(fd)?;
        if held > MOST {
            let mut kept = rank.memory().texts();
            kept.insert(Content::Text(file));
            rank.objects().keep_texts(kept);
        }
        place(rank, fd, addr, len_bytes, offset)?;
        rank.words().threads[index].slot.put_more(file);
        Ok(changed_ns)
    })
}

/// Does something with a file of text: of a descriptor that the rank names, or the program's, or its interpreter's.
fn with_text(
    rank: &Rank,
    fd: u64,
    work: impl FnOnce(BorrowedFd<'_>) -> Result<i64, Errno>,
) -> Result<i64, Errno> {
    let program = rank.program();
    match (fd, &program.interpreter) {
        (PROGRAM, _) => work(program.file.as_fd()),
        (INTERPRETER, Some(file)) => work(file.as_fd()),
        (INTERPRETER, None) => Err(Errno::ENOENT),
        _ => work(descriptor(rank, fd)?),
    }
}

/// Attaches a segment (id, flags).
fn hold_segment(rank: &Rank, index: usize, args: &[u64; 6]) -> Result<i64, Errno> {
    let (file, bytes) = rank.objects().hold_segment(args[0], args[1])?;
    rank.words().threads[index].slot.put_more(file);
    Ok(bytes)
}

/// Does something with the file that the first two arguments name.
fn object(args: &[u64; 6], work: impl FnOnce(File) -> Result<i64, Errno>) -> Result<i64, Errno> {
    work([args[0], args[1]])
}

/// Has frames be pages of what is held (device, inode, address of the frames, bytes, offset, access).
fn lay(rank: &Rank, content: Content, args: &[u64; 6]) -> Result<i64, Errno> {
    let place = [args[2], args[3], args[4]];
    rank.objects().lay(content, place, access(args[5])?)
}

/// What the node itself is to have a file for.
fn access(nr: u64) -> Result<Option<Access>, Errno> {
    match nr {
        0 => Ok(None),
        1 => Ok(Some(Access::READ)),
        2 => Ok(Some(Access::WRITE)),
        _ => Err(Errno::EINVAL),
    }
}

/// Has what is stored in pages of a file written to it (address, bytes, flags).
fn write_back(args: &[u64; 6]) -> Result<i64, Errno> {
    let [addr, len_bytes, ..] = *args;
    if addr.checked_add(len_bytes).is_none_or(|end| end > USER_TOP) {
        return Err(Errno::EFAULT);
    }
    // SAFETY: 1. No memory changes, whatever is mapped there.
    Errno::check(unsafe { stub::syscall(libc::SYS_msync as u64, args) })
}

/// A descriptor that the rank names.
fn descriptor(rank: &Rank, fd: u64) -> Result<BorrowedFd<'_>, Errno> {
    if fd as i32 >= 0 && !fds::is_ours(fd, rank.limits().first_own_fd()) {
        // SAFETY: 1. It is only used for one operation, and Linux says EBADF when it is not open. 2. It is none of the
        // proxy's own (just checked).
        Ok(unsafe { BorrowedFd::borrow_raw(fd as i32) })
    } else {
        Err(Errno::EBADF)
    }
}

/// Notes that a file is mapped at `addr`.
///
/// # Errors
/// EFAULT for what is not below [`USER_TOP`]; EINVAL: no file has such an offset.
fn place(
    rank: &Rank,
    file: BorrowedFd<'_>,
    addr: u64,
    len_bytes: u64,
    offset: u64,
) -> Result<(), Errno> {
    let end = addr.checked_add(len_bytes).filter(|end| *end <= USER_TOP);
    let end = end.ok_or(Errno::EFAULT)?;
    offset.checked_add(len_bytes).ok_or(Errno::EINVAL)?;
    let files = &mut rank.memory().files;
    let number = files.number(file).map_err(linux)?;
    files.place(addr, end, number, offset);
    Ok(())
}

/// Reads from a file straight into the rank's memory, until all is there or the file ends.
fn read_file(file: BorrowedFd<'_>, addr: u64, len_bytes: u64, offset: u64) -> Result<i64, Errno> {
    // Pieces are read one after the other: the whole range counts, not what one call touches.
    if addr.checked_add(len_bytes).is_none_or(|end| end > USER_TOP) {
        return Err(Errno::EFAULT);
    }
    // SAFETY: 1. Linux writes only to memory of the rank: all of it lies below USER_TOP (just checked).
    unsafe { move_all(libc::SYS_pread64, file, addr, len_bytes, offset) }
}

fn write_strings(rank: &Rank, addr: u64, capacity_bytes: u64) -> Result<i64, Errno> {
    let program = rank.program();
    if program.strings_bytes() > capacity_bytes {
        return Err(Errno::E2BIG);
    }
    rank.running().set_strings_at(addr);
    let mut at = addr;
    let memory = rank.memory();
    for string in program.strings() {
        let bytes = string.to_bytes_with_nul();
        memory.write(at, bytes)?;
        at += bytes.len() as u64;
    }
    Ok((at - addr) as i64)
}
