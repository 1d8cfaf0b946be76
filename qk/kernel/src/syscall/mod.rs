//! System calls of the ranks: from the table in `abi` to the handler.
//!
//! The rows of `abi::syscall` say how a call is served; [`HANDLERS`] is made from them when the kernel is compiled, and it does not
//! compile when a local row has no handler here or a handler no local row.

mod aio;
mod bounce;
pub mod children;
mod clone;
mod exec;
mod files;
mod futex;
mod ids;
mod limits;
mod memory;
mod memory_limits;
mod others;
mod policy;
mod process;
mod process_vm;
mod schedule;
mod shipped;
mod signals;
mod system;
mod time;
mod timers;
pub mod vsyscall;
mod xpmem;

use abi::Errno;
use abi::syscall::{ALL, MAX_CALLS, Serve, same};
use alloc::boxed::Box;
use hal::sync::Once;
use hal::traps::UserFrame;
use wire::boot::flag;

use crate::host::{self, trace};
use crate::rank::Rank;
use crate::result::{RESTART, RESTART_ALWAYS, RESTART_NO_HANDLER, SysResult};
use crate::thread::{self, Thread};
use crate::{control, delivery, stats};

/// What a handler works on.
pub struct Call<'a> {
    /// The caller's registers: arguments in rdi, rsi, rdx, r10, r8, r9.
    pub frame: &'a mut UserFrame,
    /// The calling thread.
    pub thread: &'static Thread,
    /// Its rank.
    pub rank: &'static Rank,
}

/// A system call's entry in the table; returns what goes into rax.
type Handler = fn(&mut Call<'_>) -> u64;

impl Call<'_> {
    /// Its number. Linux takes it as an unsigned int: the register's upper half says nothing (arch/x86/entry/common.c,
    /// do_syscall_64).
    #[inline]
    pub fn nr(&self) -> u64 {
        nr(self.frame)
    }

    /// The six arguments.
    pub fn args(&self) -> [u64; 6] {
        let f = &self.frame;
        [f.rdi, f.rsi, f.rdx, f.r10, f.r8, f.r9]
    }
}

/// The local calls: by name, with what serves each made part of its entry in the table.
macro_rules! local {
    ($($name:literal => $handler:path,)*) => {
        &[$(($name, |call: &mut Call<'_>| encode($handler(call)))),*]
    };
}

const LOCAL: &[(&str, Handler)] = local! {
    "io_setup" => aio::setup,
    "io_destroy" => aio::destroy,
    "io_submit" => aio::submit,
    "io_cancel" => aio::cancel,
    "io_getevents" => aio::getevents,
    "io_pgetevents" => aio::pgetevents,
    "mmap" => memory::mmap,
    "mprotect" => memory::mprotect,
    "munmap" => memory::munmap,
    "shmat" => memory::shmat,
    "shmdt" => memory::shmdt,
    "brk" => memory::brk,
    "mremap" => memory::mremap,
    "remap_file_pages" => memory::remap_file_pages,
    "madvise" => memory::madvise,
    "mincore" => memory::mincore,
    "msync" => memory::msync,
    "mlock" => memory::mlock,
    "mlock2" => memory::mlock2,
    "munlock" => memory::munlock,
    "mlockall" => memory::mlockall,
    "munlockall" => memory::munlockall,
    "rt_sigaction" => signals::sigaction,
    "rt_sigprocmask" => signals::sigprocmask,
    "rt_sigreturn" => signals::sigreturn,
    "rt_sigpending" => signals::sigpending,
    "rt_sigtimedwait" => signals::sigtimedwait,
    "rt_sigsuspend" => signals::sigsuspend,
    "sigaltstack" => signals::sigaltstack,
    "rt_sigqueueinfo" => signals::sigqueueinfo,
    "rt_tgsigqueueinfo" => signals::tgsigqueueinfo,
    "kill" => signals::kill,
    "tkill" => signals::tkill,
    "tgkill" => signals::tgkill,
    "pause" => signals::pause,
    "alarm" => time::alarm,
    "setitimer" => time::setitimer,
    "getitimer" => time::getitimer,
    "timer_create" => timers::create,
    "timer_settime" => timers::settime,
    "timer_gettime" => timers::gettime,
    "timer_getoverrun" => timers::getoverrun,
    "timer_delete" => timers::delete,
    "nanosleep" => time::nanosleep,
    "clock_nanosleep" => time::clock_nanosleep,
    "clock_gettime" => time::clock_gettime,
    "clock_getres" => time::clock_getres,
    "clock_settime" => time::clock_settime,
    "gettimeofday" => time::gettimeofday,
    "time" => time::time,
    "times" => time::times,
    "getrusage" => time::getrusage,
    "getpid" => ids::getpid,
    "getppid" => ids::getppid,
    "gettid" => ids::gettid,
    "getuid" => ids::getuid,
    "geteuid" => ids::geteuid,
    "getgid" => ids::getgid,
    "getegid" => ids::getegid,
    "getresuid" => ids::getresuid,
    "getresgid" => ids::getresgid,
    "setuid" => ids::setuid,
    "setgid" => ids::setgid,
    "setreuid" => ids::setreuid,
    "setregid" => ids::setregid,
    "setresuid" => ids::setresuid,
    "setresgid" => ids::setresgid,
    "setgroups" => ids::setgroups,
    "setfsuid" => ids::setfsuid,
    "setfsgid" => ids::setfsgid,
    "set_tid_address" => ids::set_tid_address,
    "prlimit64" => limits::prlimit64,
    "getrlimit" => limits::getrlimit,
    "setrlimit" => limits::setrlimit,
    "exit" => process::exit,
    "exit_group" => process::exit_group,
    "arch_prctl" => process::arch_prctl,
    "prctl" => process::prctl,
    "personality" => process::personality,
    "rseq" => process::rseq,
    "unshare" => process::unshare,
    "process_vm_readv" => process_vm::process_vm_readv,
    "process_vm_writev" => process_vm::process_vm_writev,
    "set_robust_list" => process::set_robust_list,
    "get_robust_list" => process::get_robust_list,
    "futex" => futex::futex,
    "futex_waitv" => futex::futex_waitv,
    "fork" => children::fork,
    "vfork" => children::vfork,
    "execve" => exec::execve,
    "execveat" => exec::execveat,
    "clone" => clone::clone,
    "clone3" => clone::clone3,
    "sched_yield" => schedule::sched_yield,
    "sched_getaffinity" => schedule::sched_getaffinity,
    "sched_setaffinity" => schedule::sched_setaffinity,
    "sched_getscheduler" => schedule::sched_getscheduler,
    "sched_setscheduler" => schedule::sched_setscheduler,
    "sched_getparam" => schedule::sched_getparam,
    "sched_setparam" => schedule::sched_setparam,
    "sched_get_priority_max" => schedule::sched_get_priority,
    "sched_get_priority_min" => schedule::sched_get_priority,
    "sched_rr_get_interval" => schedule::sched_rr_get_interval,
    "getcpu" => schedule::getcpu,
    "get_mempolicy" => policy::get_mempolicy,
    "set_mempolicy" => policy::set_mempolicy,
    "mbind" => policy::mbind,
    "membarrier" => schedule::membarrier,
    "getrandom" => system::getrandom,
    "uname" => system::uname,
    "sysinfo" => system::sysinfo,
};

/// The shipped calls that there is something more to do about.
const SHIPPED: &[(&str, Handler)] = local! {
    "wait4" => children::wait,
    "waitid" => children::wait,
    "ioctl" => xpmem::ioctl,
    "fcntl" => signals::fcntl,
    "mq_notify" => signals::mq_notify,
    "signalfd" => signals::signalfd,
    "signalfd4" => signals::signalfd,
    "pidfd_send_signal" => signals::pidfd_send_signal,
    "close" => xpmem::closing,
    "close_range" => xpmem::closing,
    "dup2" => xpmem::closing,
    "dup3" => xpmem::closing,
    "open" => files::open,
    "openat" => files::openat,
    "openat2" => files::cutting,
    "creat" => files::cutting,
    "truncate" => files::cutting,
    "ftruncate" => files::cutting,
    "fallocate" => files::cutting,
    "shmctl" => files::shmctl,
};

static HANDLERS: [Handler; MAX_CALLS] = {
    let mut table = [unknown as Handler; MAX_CALLS];
    let mut used = 0;
    let mut i = 0;
    // BOUND: the compiler does it.
    while i < ALL.len() {
        table[ALL[i].nr as usize] = match ALL[i].serve {
            Serve::Shipped => match find(SHIPPED, ALL[i].name) {
                Some(handler) => handler,
                None => |call| encode(shipped::ship(call)),
            },
            Serve::Refused(..) => refused,
            Serve::Local => {
                used += 1;
                match find(LOCAL, ALL[i].name) {
                    Some(handler) => handler,
                    None => panic!("a local row without a handler"),
                }
            }
        };
        i += 1;
    }
    assert!(used == LOCAL.len(), "a handler without a local row");
    table
};

const fn find(handlers: &[(&str, Handler)], name: &str) -> Option<Handler> {
    let mut i = 0;
    // BOUND: the compiler does it.
    while i < handlers.len() {
        if same(handlers[i].0, name) {
            return Some(handlers[i].1);
        }
        i += 1;
    }
    None
}

fn unknown(_: &mut Call<'_>) -> u64 {
    encode(Err(Errno::ENOSYS))
}

fn refused(call: &mut Call<'_>) -> u64 {
    let row = abi::syscall::by_nr(call.nr());
    let errno = match row.map(|row| row.serve) {
        Some(Serve::Refused(errno, _)) => errno,
        _ => Errno::ENOSYS,
    };
    call.rank.host().note_refused(call.nr());
    encode(Err(errno))
}

static TABLE: Once<Box<[Handler; MAX_CALLS]>> = Once::new();

/// Makes the dispatch table: the compiled one without what the boot information refuses. Returns what is to be called for
/// each `syscall` instruction.
pub fn init() -> extern "C" fn(&mut UserFrame) {
    let table: Box<[Handler]> = HANDLERS
        .iter()
        .enumerate()
        // BOUND: the calls that there are, at boot.
        .map(|(nr, handler)| if host::refuses(nr) { unknown } else { *handler })
        .collect();
    let table = table
        .try_into()
        .ok()
        .and_then(|table| TABLE.set(table).ok());
    assert!(table.is_some(), "system calls are set up once");
    let config = host::config();
    let watched = config.has(flag::COUNTERS) || config.has(flag::TRACE);
    match (watched, config.has(flag::DEBUG)) {
        (false, false) => entered::<false>,
        (false, true) => entered::<true>,
        (true, false) => entered_observed::<false>,
        (true, true) => entered_observed::<true>,
    }
}

/// A `syscall` instruction in ring 3. `DEBUG`: ranks may be debugged.
extern "C" fn entered<const DEBUG: bool>(frame: &mut UserFrame) {
    let Some(thread) = thread::current() else {
        return by_pct(frame);
    };
    let handler = handler(nr(frame));
    let mut call = Call {
        frame,
        thread,
        rank: thread.rank(),
    };
    let result = handler(&mut call);
    finish::<DEBUG>(call.frame, thread, result);
}

/// Out of the way of the ranks' calls.
#[cold]
#[inline(never)]
fn by_pct(frame: &mut UserFrame) {
    stats::here().pct_entries.add(1);
    stats::section_starts();
    frame.rax = encode(control::call(frame));
    stats::section_ends();
}

/// The number of the call that `frame` makes; see [`Call::nr`].
#[inline]
fn nr(frame: &UserFrame) -> u64 {
    u64::from(frame.rax as u32)
}

/// How call `nr` is served.
#[inline]
fn handler(nr: u64) -> Handler {
    let found = TABLE.get().and_then(|table| table.get(nr as usize));
    let Some(handler) = found else {
        core::hint::cold_path();
        return unknown;
    };
    *handler
}

/// Makes a call on behalf of one that stands for it, as if the program had made it.
///
/// # Errors
/// The call's.
fn make(call: &Call<'_>, row: &abi::syscall::Call, args: [u64; 6]) -> SysResult {
    let mut frame = *call.frame;
    let nr = u64::from(row.nr);
    frame.rax = nr;
    [
        frame.rdi, frame.rsi, frame.rdx, frame.r10, frame.r8, frame.r9,
    ] = args;
    let result = handler(nr)(&mut Call {
        frame: &mut frame,
        thread: call.thread,
        rank: call.rank,
    });
    match Errno::from_ret(result as i64) {
        Some(errno) => Err(errno),
        None => Ok(result),
    }
}

#[inline]
fn encode(result: SysResult) -> u64 {
    match result {
        Ok(value) => value,
        Err(errno) => errno.ret() as u64,
    }
}

#[inline]
fn finish<const DEBUG: bool>(frame: &mut UserFrame, thread: &'static Thread, result: u64) {
    frame.rax = result;
    if DEBUG || thread.pending().has_work() {
        let nr = Some(frame.orig_rax_or_vector).filter(|nr| *nr != delivery::NO_CALL);
        delivery::before_return::<DEBUG>(thread, frame, nr);
    }
}

/// The same with everything that is counted and traced.
extern "C" fn entered_observed<const DEBUG: bool>(frame: &mut UserFrame) {
    let Some(thread) = thread::current() else {
        return by_pct(frame);
    };
    stats::section_starts();
    let nr = nr(frame);
    let mut call = Call {
        frame,
        thread,
        rank: thread.rank(),
    };
    let args = call.args();
    stats::count_call(nr);
    trace::enter(thread, nr, &args);
    let result = handler(nr)(&mut call);
    trace::exit(thread, nr, &args, result as i64);
    finish::<DEBUG>(frame, thread, result);
    stats::section_ends();
}
