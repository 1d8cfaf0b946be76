//! Replacing the rank's program (execve(2)).
//!
//! First another is found, opened and checked, with its strings: all that execve can fail for, in Linux's order. Nothing changes
//! yet, and the rank may still refuse to go through with it. Then, with the rank's other threads gone, it becomes the rank's program.
//!
//! The strings are copied once, with the rank's memory locked: what threads change meanwhile is in the copy or is not.

pub(crate) mod state;
mod strings;

use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::Ordering;

use abi::Errno;
use abi::areas;
use abi::image::Image;
use abi::map::PAGE;
use abi::stack::{AUX_PAIRS, Contents, Plan};
use rustix::fs::{Access, FileType, Mode, OFlags, access, fstat, open};
use rustix::io::{self, fcntl_getfd};
use rustix::thread::{NanosleepRelativeResult, Timespec, nanosleep};

use crate::child;
use crate::describe;
use crate::errno::linux;
use crate::fds;
use crate::heritage;
use crate::kick::KICK;
use crate::program::{
    NoProgram, Program, Unloadable, behind_scripts, interpreter_path, read_image,
};
use crate::rank::Rank;
use crate::special::open::pin;
use crate::stub;

/// Pages that a program has besides its image and its stack: the vDSO and those beside it, the upper page tables.
const OTHER_PAGES: u64 = 16;
/// Bytes that a page table maps.
const TABLE_BYTES: u64 = 512 * PAGE;
/// uapi/asm-generic/fcntl.h
const F_SETSIG: i32 = 10;
/// How long a lease is waited for before it is polled again.
const LEASED: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 5_000_000,
};
const AT_FDCWD: u64 = libc::AT_FDCWD as u64;

/// Carries out [`abi::control::HostOp::PrepareExec`] for thread `index`.
///
/// # Errors
/// As execveat(2); EINTR also when a thread forks while a file is being opened.
pub fn prepare(rank: &Rank, index: usize, args: &[u64; 6]) -> Result<i64, Errno> {
    rank.next_program().prepare(None);
    let [at, path, argv, envp, flags, stack_limit] = *args;
    let (at, flags) = (at as i32 as u64, u64::from(flags as u32));
    let empty_path = flags & libc::AT_EMPTY_PATH as u64 != 0;
    let memory = rank.memory();
    let path = strings::path(&*memory, path)?;
    if path.is_empty() && !empty_path {
        return Err(Errno::ENOENT);
    }
    let name = name(at, &path);
    let strings = strings::read(&*memory, &name, [argv, envp], stack_limit)?;
    drop(memory);
    if flags & !((libc::AT_EMPTY_PATH | libc::AT_SYMLINK_NOFOLLOW) as u64) != 0 {
        return Err(Errno::EINVAL);
    }
    let [argv, env] = strings;
    let program = opening(rank, index, || {
        let file = executable(rank, at, path.to_bytes(), flags)?;
        let hidden = name != path && is_closed_by_exec(at); // there is such a descriptor, if one was named
        load(rank, file, name, hidden, (argv, env), stack_limit)
    })?;
    rank.next_program().prepare(Some(program));
    Ok(0)
}

/// Opens something for thread `index`. No child may have it on the way; so who forks interrupts this.
fn opening<T>(rank: &Rank, index: usize, open: impl FnOnce() -> T) -> T {
    let _no_fork = rank.children().fork_lock.no_fork();
    let opening = &rank.workers().at(index).opening;
    opening.store(true, Ordering::SeqCst);
    if rank.children().fork_lock.is_wanted() {
        rank.wake_watcher(); // it may have polled before
    }
    let opened = open();
    opening.store(false, Ordering::SeqCst);
    opened
}

/// What the program was started by, as it is passed (AT_EXECFN): the path, or where one leads that begins at a descriptor.
fn name(at: u64, path: &CStr) -> CString {
    if at == AT_FDCWD || path.to_bytes().starts_with(b"/") {
        return path.to_owned();
    }
    let mut name = format!("/dev/fd/{}", at as i32).into_bytes();
    if !path.is_empty() {
        name.push(b'/');
        name.extend(path.to_bytes());
    }
    CString::new(name).unwrap_or_default() // neither has a NUL inside
}

/// Whether the new program will not find what a name below this descriptor leads to.
fn is_closed_by_exec(at: u64) -> bool {
    // SAFETY: 1. The number is only used for this call, and Linux says EBADF when it is not open.
    let fd = unsafe { std::os::fd::BorrowedFd::borrow_raw(at as i32) };
    fcntl_getfd(fd).is_ok_and(|flags| flags.contains(rustix::io::FdFlags::CLOEXEC))
}

/// Opens a file for execution.
fn executable(rank: &Rank, at: u64, path: &[u8], flags: u64) -> Result<OwnedFd, Errno> {
    let pinned = if path.is_empty() {
        of_descriptor(rank, at)?
    } else {
        let follow = flags & libc::AT_SYMLINK_NOFOLLOW as u64 == 0;
        let flags = if follow { 0 } else { libc::O_NOFOLLOW as u64 };
        pin(rank, visible(rank, at), path, flags)?
    };
    match FileType::from_raw_mode(fstat(&pinned).map_err(linux)?.st_mode) {
        FileType::RegularFile => {}
        FileType::Symlink => return Err(Errno::ELOOP),
        _ => return Err(Errno::EACCES),
    }
    let path = format!("/proc/self/fd/{}", pinned.as_raw_fd());
    // Also where the file system is mounted noexec.
    access(&*path, Access::EXEC_OK).map_err(linux)?;
    let file = open_above(rank, &path).map_err(linux)?;
    if is_written(&file) {
        return Err(Errno::ETXTBSY);
    }
    Ok(file)
}

/// Opens a regular file above the rank's descriptors. No other call of the rank sees the number that it has on the way, so
/// nothing may be waited for meanwhile: while a process has a lease on the file, it is tried again.
fn open_above(rank: &Rank, path: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    loop {
        let opened = rank.limits().with_room(|| {
            let file = open(path, flags, Mode::empty())?;
            Ok(rank.limits().above(file))
        });
        if !matches!(opened, Err(io::Errno::AGAIN)) {
            return opened;
        }
        // Who gives the call up interrupts this: EINTR.
        match nanosleep(&LEASED) {
            NanosleepRelativeResult::Ok => {}
            NanosleepRelativeResult::Interrupted(_) => return Err(io::Errno::INTR),
            NanosleepRelativeResult::Err(error) => return Err(error),
        }
    }
}

/// A descriptor as Linux may be given it.
fn visible(rank: &Rank, at: u64) -> u64 {
    fds::visible(at, rank.limits().first_own_fd())
}

/// What a descriptor of the rank leads to; without one, the working directory.
fn of_descriptor(rank: &Rank, at: u64) -> Result<OwnedFd, Errno> {
    let path = match at {
        AT_FDCWD => ".".into(),
        at if (at as i32) < 0 => return Err(Errno::EBADF),
        at => format!("/proc/self/fd/{}", visible(rank, at) as i32),
    };
    let opened = rank.limits().with_room(|| {
        let file = open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        Ok(rank.limits().above(file))
    });
    opened.map_err(|error| match error {
        rustix::io::Errno::NOENT => Errno::EBADF,
        error => linux(error),
    })
}

/// Whether a process has the file open for writing: then no read lease on it can be had (fcntl(2)). Of files that are not the
/// user's own that cannot be known.
fn is_written(file: &OwnedFd) -> bool {
    let fcntl = |command: i32, arg: i32| {
        let args = [fds::raw(file), command as u64, arg as u64, 0, 0, 0];
        // SAFETY: 1. fcntl of these kinds touches no memory.
        unsafe { stub::syscall(libc::SYS_fcntl as u64, &args) }
    };
    // Who opens it for writing just now would have SIGIO sent: let it be the signal that does nothing.
    fcntl(F_SETSIG, KICK);
    let leased = fcntl(libc::F_SETLEASE, libc::F_RDLCK);
    if leased == 0 {
        fcntl(libc::F_SETLEASE, libc::F_UNLCK);
    }
    leased == Errno::EAGAIN.ret()
}

/// Follows a file to the program that is to run, and checks that the node can load it.
fn load(
    rank: &Rank,
    file: OwnedFd,
    name: CString,
    hidden: bool,
    (mut argv, env): (Vec<CString>, Vec<CString>),
    stack_limit: u64,
) -> Result<Program, Errno> {
    let open = |path: &CStr| match path.to_bytes() {
        _ if hidden => Err(Errno::ENOENT),
        b"" => Err(Errno::EACCES), // to Linux it is the working directory
        path => executable(rank, AT_FDCWD, path, 0),
    };
    let file = behind_scripts(file, &name, &mut argv, open).map_err(|none| match none {
        NoProgram::Line => Errno::ENOEXEC,
        NoProgram::Nested => Errno::ELOOP,
        NoProgram::Interpreter(_, errno) => errno,
        NoProgram::Read(error) => linux(error),
    })?;
    let partition = rank.words().area.node.partition[1].load();
    let areas = rank.words().areas();
    let (base, stack_bytes) = areas.stack(stack_limit, partition);
    let top = areas::mmap_top(base);
    let image = read_image(&file, Image::parse).map_err(unloadable(Errno::ENOEXEC))?;
    let mut images = vec![image];
    let mut interpreter = None;
    if let Some(place) = image.interpreter {
        let path = interpreter_path(&file, place).map_err(unloadable(Errno::ENOEXEC))?;
        let opened = executable(rank, AT_FDCWD, path.to_bytes(), 0)?;
        let parse = |head: &[u8], bytes| Image::parse_interpreter(head, bytes, top);
        images.push(read_image(&opened, parse).map_err(unloadable(Errno::ELIBBAD))?);
        interpreter = Some(opened);
    }
    let real_path = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let real_path = real_path.map_err(|_| Errno::ENOENT)?.into_os_string();
    let program = Program {
        file,
        interpreter,
        started_as: name,
        real_path: CString::new(std::os::unix::ffi::OsStringExt::into_vec(real_path))
            .map_err(|_| Errno::ENOENT)?,
        argv,
        env,
    };
    let contents = Contents {
        argc: program.argv.len() as u64,
        envc: program.env.len() as u64,
        strings_bytes: program.strings_bytes(),
        aux_pairs: AUX_PAIRS as u64,
    };
    Plan::new(areas.stack_top(), stack_bytes, contents)?;
    fits(&images, top, stack_bytes, partition)?;
    Ok(program)
}

/// Checks that images have places and that there is memory for them.
fn fits(images: &[Image], top: u64, stack_bytes: u64, partition_bytes: u64) -> Result<(), Errno> {
    let spans: Vec<(u64, u64)> = images.iter().map(Image::span).collect();
    let collide = |a: &(u64, u64), b: &(u64, u64)| a.0 < b.1 && b.0 < a.1;
    if spans.iter().any(|span| span.1 > top) || matches!(&spans[..], [a, b] if collide(a, b)) {
        return Err(Errno::ENOMEM);
    }
    let segments = images.iter().flat_map(Image::segments);
    let images: u64 = segments.map(|s| s.end_page() - s.first_page()).sum();
    let bytes = images + stack_bytes;
    let tables = bytes.div_ceil(TABLE_BYTES) * PAGE;
    if bytes + tables + OTHER_PAGES * PAGE > partition_bytes {
        return Err(Errno::ENOMEM);
    }
    Ok(())
}

fn unloadable(as_image: Errno) -> impl Fn(Unloadable) -> Errno {
    move |why| match why {
        Unloadable::Read(error) => linux(error),
        Unloadable::Image(_) => as_image,
    }
}

/// Carries out [`abi::control::HostOp::CommitExec`] for thread `index`.
///
/// # Errors
/// EINVAL: no program was prepared.
pub fn commit(rank: &Rank, index: usize) -> Result<i64, Errno> {
    let program = rank.next_program().take().ok_or(Errno::EINVAL)?;
    child::await_borrowers(rank);
    heritage::take_over_by_first(rank, index);
    let own = std::iter::once(&program.file).chain(&program.interpreter);
    let own: Vec<RawFd> = own.map(AsRawFd::as_raw_fd).collect();
    fds::close_on_exec(rank.limits().first_own, &own);
    describe::name_process(rank.pid(), &program);
    describe::describe(&rank.words().area.host, &program);
    rank.running().replace(program);
    Ok(0)
}
