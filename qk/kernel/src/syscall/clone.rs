//! clone(2) and clone3(2): threads, which start here, and processes, which are the module `children`'s.

use abi::Errno;
use abi::control::HostOp;
use abi::ident::NSIG;
use abi::map::{MAX_THREADS, USER_TOP};
use qk_core::signals::SigSet;
use wire::child::how;

use super::children::{self, ForkRequest};
use super::{Call, SysResult};
use crate::host::ship;
use crate::thread::Thread;
use crate::user::{get_bytes, get_words, put_u32};
use crate::{preempt, sched};

/// Flags (include/uapi/linux/sched.h).
mod flag {
    pub const EXIT_SIGNAL: u64 = 0xff;
    pub const VM: u64 = 0x100;
    pub const FS: u64 = 0x200;
    pub const FILES: u64 = 0x400;
    pub const SIGHAND: u64 = 0x800;
    pub const PIDFD: u64 = 0x1000;
    pub const PTRACE: u64 = 0x2000;
    pub const VFORK: u64 = 0x4000;
    pub const PARENT: u64 = 0x8000;
    pub const THREAD: u64 = 0x1_0000;
    pub const SYSVSEM: u64 = 0x4_0000;
    pub const SETTLS: u64 = 0x8_0000;
    pub const PARENT_SETTID: u64 = 0x10_0000;
    pub const CHILD_CLEARTID: u64 = 0x20_0000;
    pub const DETACHED: u64 = 0x40_0000;
    pub const UNTRACED: u64 = 0x80_0000;
    pub const CHILD_SETTID: u64 = 0x100_0000;
    pub const IO: u64 = 0x8000_0000;
    pub const CLEAR_SIGHAND: u64 = 0x1_0000_0000;
    /// What all threads of a rank share.
    pub const SHARED: u64 = VM | FS | FILES | SIGHAND | THREAD;
    /// What a thread may request besides. There is no tracing here, and there are no System V semaphores.
    pub const OPTIONAL: u64 = SYSVSEM
        | SETTLS
        | PARENT_SETTID
        | CHILD_CLEARTID
        | CHILD_SETTID
        | DETACHED
        | PTRACE
        | UNTRACED
        | IO
        | EXIT_SIGNAL;
    /// What may be requested of a process; [`VM`] only with [`VFORK`], for it has memory of its own.
    pub const OF_PROCESS: u64 = OPTIONAL | VM | VFORK | PIDFD | CLEAR_SIGHAND;
}

/// Fewest workers that are made when there is none for a new thread.
const WORKERS_AT_ONCE: u64 = 8;

/// What is requested.
struct Request {
    flags: u64,
    stack: u64,
    tls: u64,
    parent_tid: u64,
    child_tid: u64,
    pidfd: u64,
    exit_signal: u64,
}

pub fn clone(call: &mut Call<'_>) -> SysResult {
    let [flags, stack, parent_tid, child_tid, tls, _] = call.args();
    let request = Request {
        flags: u64::from(flags as u32),
        stack,
        tls,
        parent_tid,
        child_tid,
        pidfd: parent_tid,
        exit_signal: flags & flag::EXIT_SIGNAL,
    };
    // One pointer serves both.
    if flags & flag::PIDFD != 0 && flags & (flag::PARENT_SETTID | flag::DETACHED) != 0 {
        return Err(Errno::EINVAL);
    }
    start(call, &request)
}

pub fn clone3(call: &mut Call<'_>) -> SysResult {
    /// Bytes of struct clone_args in its first version, up to `cgroup`, in its newest, and what Linux reads at most.
    const FIRST_BYTES: u64 = 64;
    const CGROUP: u64 = 80;
    const NEWEST_BYTES: u64 = 88;
    const MOST_BYTES: u64 = 4096;
    /// Work of reading one word of it, in instructions.
    const WORD_WORK: u32 = 60;
    let [args, len_bytes, ..] = call.args();
    if len_bytes > MOST_BYTES {
        return Err(Errno::E2BIG);
    }
    if len_bytes < FIRST_BYTES {
        return Err(Errno::EINVAL);
    }
    let [
        flags,
        pidfd,
        child_tid,
        parent_tid,
        exit_signal,
        stack,
        stack_bytes,
        tls,
    ] = get_words(args)?;
    // set_tid and its size; cgroup, which means nothing without its flag; behind them nothing that is not known may be requested.
    for at in (FIRST_BYTES..len_bytes).step_by(8) {
        preempt::point(WORD_WORK);
        let mut word = [0; 8];
        let bytes = (len_bytes - at).min(8) as usize;
        get_bytes(&mut word[..bytes], args.wrapping_add(at))?;
        if at != CGROUP && u64::from_le_bytes(word) != 0 {
            return Err(if at < NEWEST_BYTES {
                Errno::EINVAL
            } else {
                Errno::E2BIG
            });
        }
    }
    let both = |one: u64, other: u64| flags & one != 0 && flags & other != 0;
    if flags & (flag::EXIT_SIGNAL | flag::DETACHED) != 0
        || both(flag::SIGHAND, flag::CLEAR_SIGHAND)
        || (both(flag::PIDFD, flag::PARENT_SETTID) && pidfd == parent_tid)
        || exit_signal > u64::from(NSIG)
        || (flags & (flag::THREAD | flag::PARENT) != 0 && exit_signal != 0)
        || (stack == 0) != (stack_bytes == 0)
        || stack
            .checked_add(stack_bytes)
            .is_none_or(|end| end > USER_TOP)
    {
        return Err(Errno::EINVAL);
    }
    let request = Request {
        flags,
        stack: stack.wrapping_add(stack_bytes),
        tls,
        parent_tid,
        child_tid,
        pidfd,
        exit_signal,
    };
    start(call, &request)
}

/// Checks the flags as Linux does (kernel/fork.c, copy_process), and starts a thread or a process.
fn start(call: &mut Call<'_>, request: &Request) -> SysResult {
    let flags = request.flags;
    let needs = |flag: u64, other: u64| flags & flag != 0 && flags & other == 0;
    if needs(flag::THREAD, flag::SIGHAND) || needs(flag::SIGHAND, flag::VM) {
        return Err(Errno::EINVAL);
    }
    if flags & flag::THREAD == 0 {
        return start_process(call, request);
    }
    if flags & (flag::VFORK | flag::PIDFD) != 0 {
        return refuse(call);
    }
    if flags & flag::SHARED != flag::SHARED || flags & !(flag::SHARED | flag::OPTIONAL) != 0 {
        return Err(Errno::EINVAL);
    }
    if flags & flag::SETTLS != 0 && request.tls >= USER_TOP {
        return Err(Errno::EPERM);
    }
    let thread = place(call)?;
    let tid = thread.host().worker_tid();
    let own = call.thread.signals().thread.blocked();
    begin(call, thread, request, tid, own);
    Ok(tid)
}

/// Lets the thread run. Nothing of it can fail.
fn begin(call: &Call<'_>, thread: &'static Thread, request: &Request, tid: u64, blocked: SigSet) {
    let asked = |flag: u64| request.flags & flag != 0;
    for (wanted, address) in [
        (flag::PARENT_SETTID, request.parent_tid),
        (flag::CHILD_SETTID, request.child_tid),
    ] {
        if asked(wanted) {
            // Linux does not mind a bad pointer.
            let _ = put_u32(address, tid as u32);
        }
    }
    let policy = call.thread.memory_policy();
    thread.begin(tid, call.thread.index(), blocked, policy);
    if asked(flag::CHILD_CLEARTID) {
        thread.program().set_clear_tid(request.child_tid);
    }
    let mut frame = *call.frame;
    frame.rax = 0;
    // What SYSCALL leaves there.
    (frame.rcx, frame.r11) = (frame.rip(), frame.rflags());
    if request.stack != 0 {
        frame.rsp = request.stack;
    }
    let fs_base = if asked(flag::SETTLS) {
        request.tls
    } else {
        hal::task::fs_base()
    };
    let context = thread.task().context();
    context.begin_beside(&frame, fs_base, sched::ARRIVED);
    call.rank.threads().born();
    if call.rank.ending().calls_back() || call.rank.stops().any() {
        thread.pending().note_work();
    }
    let near = call.thread.task().core();
    let allowed = call.thread.task().allowed();
    sched::start(thread.task(), Some(thread), near, allowed);
}

/// A thread that does not run, with a worker on the host.
fn place(call: &Call<'_>) -> Result<&'static Thread, Errno> {
    let rank = call.rank;
    let thread = rank.threads().take(rank)?;
    let workers = rank.host().workers();
    if thread.index() as u64 >= workers {
        let wanted = (workers * 2)
            .max(workers + WORKERS_AT_ONCE)
            .max(thread.index() as u64 + 1)
            .min(MAX_THREADS as u64);
        let grown = ship::host_op(call.thread, HostOp::GrowWorkers, [wanted]);
        if !grown.is_ok_and(|workers| (thread.index() as u64) < workers) {
            rank.threads().release(thread.index());
            return Err(Errno::EAGAIN);
        }
    }
    Ok(thread)
}

/// Another process, on Linux.
fn start_process(call: &mut Call<'_>, request: &Request) -> SysResult {
    let flags = request.flags;
    let asked = |flag: u64| flags & flag != 0;
    let only = |flag: u64, value: u64| if asked(flag) { value } else { 0 };
    if asked(flag::SETTLS) && request.tls >= USER_TOP {
        return Err(Errno::EPERM);
    }
    if flags & !flag::OF_PROCESS != 0 || (asked(flag::VM) && !asked(flag::VFORK)) {
        return refuse(call);
    }
    let wanted = ForkRequest {
        how: only(flag::VFORK, how::VFORK) | only(flag::CLEAR_SIGHAND, how::CLEAR_HANDLERS),
        shares_stack: asked(flag::VM),
        exit_signal: request.exit_signal,
        stack: request.stack,
        tls: asked(flag::SETTLS).then_some(request.tls),
        parent_tid_at: only(flag::PARENT_SETTID, request.parent_tid),
        pidfd_at: asked(flag::PIDFD).then_some(request.pidfd),
        set_tid_at: only(flag::CHILD_SETTID, request.child_tid),
        clear_tid_at: only(flag::CHILD_CLEARTID, request.child_tid),
    };
    children::start(call, &wanted)
}

/// What shares more with the rank than a process here can.
fn refuse(call: &Call<'_>) -> SysResult {
    call.rank.host().note_refused(call.nr());
    Err(Errno::ENOSYS)
}
