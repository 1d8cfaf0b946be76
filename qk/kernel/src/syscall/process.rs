//! The process itself: its end, its thread pointer, what it says of itself.

use super::others::{not_permitted_on, ship_on, thread_of};
use super::{Call, SysResult};
use crate::user::{put_u32, put_words};
use crate::{exit, rseq as sequences};
use abi::Errno;
use abi::ident::{ADDR_NO_RANDOMIZE, NSIG, STICKY_TIMEOUTS, UNAME26};

pub fn exit_group(call: &mut Call<'_>) -> SysResult {
    exit::end(call.thread, (call.frame.rdi & 0xff) << 8)
}

pub fn exit(call: &mut Call<'_>) -> SysResult {
    exit::exit_thread(call.thread, call.frame.rdi)
}

/// What the rank has for itself is taken apart as it is: what only threads share, where there is one. Namespaces stay, and what
/// semaphores undo at its end.
pub fn unshare(call: &mut Call<'_>) -> SysResult {
    /// CLONE_VM, CLONE_SIGHAND, CLONE_THREAD; CLONE_FS, CLONE_FILES (uapi/linux/sched.h).
    const OF_THREADS: u64 = 0x100 | 0x800 | 0x1_0000;
    const OF_PROCESSES: u64 = 0x200 | 0x400;
    /// CLONE_SYSVSEM, CLONE_NEWNS and its kin.
    const NOT_TAKEN: u64 = 0x4_0000 | 0x2_0000 | 0x7e00_0080;
    let [flags, ..] = call.args();
    let is_alone = call.rank.threads().live() == 1;
    match flags {
        _ if flags & !(OF_THREADS | OF_PROCESSES | NOT_TAKEN) != 0 => Err(Errno::EINVAL),
        _ if flags & OF_THREADS != 0 && !is_alone => Err(Errno::EINVAL),
        _ if flags & NOT_TAKEN == 0 && (flags == 0 || is_alone) => Ok(0),
        _ => {
            call.rank.host().note_refused(call.nr());
            Err(Errno::EPERM)
        }
    }
}

pub fn arch_prctl(call: &mut Call<'_>) -> SysResult {
    /// arch/x86/include/uapi/asm/prctl.h
    const SET_GS: u64 = 0x1001;
    const SET_FS: u64 = 0x1002;
    const GET_FS: u64 = 0x1003;
    const GET_GS: u64 = 0x1004;
    const GET_CPUID: u64 = 0x1011;
    const SET_CPUID: u64 = 0x1012;
    let [code, value, ..] = call.args();
    match code {
        SET_FS => hal::task::set_fs_base(value)
            .map(|()| 0)
            .map_err(|_| Errno::EPERM),
        SET_GS => hal::task::set_gs_base(value)
            .map(|()| 0)
            .map_err(|_| Errno::EPERM),
        GET_FS => put_words(value, &[hal::task::fs_base()]).map(|()| 0),
        GET_GS => put_words(value, &[hal::task::gs_base()]).map(|()| 0),
        // CPUID works, and is not made to fault (arch/x86/kernel/process.c, set_cpuid_mode).
        GET_CPUID => Ok(1),
        SET_CPUID => Err(Errno::ENODEV),
        _ => Err(Errno::EINVAL),
    }
}

/// What can be answered without Linux, and what Linux is to have: the name, which /proc shows, no_new_privs, which children
/// inherit, whether orphans become children, how late timers of the thread's calls may be, and what capabilities it may have. The rest says EINVAL, as a Linux
/// without the feature does.
pub fn prctl(call: &mut Call<'_>) -> SysResult {
    /// include/uapi/linux/prctl.h
    const SET_PDEATHSIG: u64 = 1;
    const GET_PDEATHSIG: u64 = 2;
    const GET_DUMPABLE: u64 = 3;
    const SET_DUMPABLE: u64 = 4;
    const SET_NAME: u64 = 15;
    const GET_NAME: u64 = 16;
    const GET_SECCOMP: u64 = 21;
    const CAPBSET_READ: u64 = 23;
    const CAPBSET_DROP: u64 = 24;
    const GET_SECUREBITS: u64 = 27;
    const SET_SECUREBITS: u64 = 28;
    const SET_TIMERSLACK: u64 = 29;
    const GET_TIMERSLACK: u64 = 30;
    const SET_CHILD_SUBREAPER: u64 = 36;
    const GET_CHILD_SUBREAPER: u64 = 37;
    const SET_NO_NEW_PRIVS: u64 = 38;
    const GET_NO_NEW_PRIVS: u64 = 39;
    let [option, arg, ..] = call.args();
    match option {
        SET_PDEATHSIG if arg <= NSIG.into() => {
            call.rank.attributes().set_parent_death_signal(arg);
            Ok(0)
        }
        GET_PDEATHSIG => {
            let signo = call.rank.attributes().parent_death_signal();
            put_u32(arg, signo as u32).map(|()| 0)
        }
        SET_NAME | GET_NAME | SET_TIMERSLACK | GET_TIMERSLACK => ship_on(call),
        SET_CHILD_SUBREAPER | GET_CHILD_SUBREAPER | CAPBSET_READ | GET_SECUREBITS => ship_on(call),
        // Capabilities stay as they are (capset).
        CAPBSET_DROP | SET_SECUREBITS => Err(Errno::EPERM),
        GET_DUMPABLE => Ok(call.rank.attributes().is_dumpable().into()),
        SET_DUMPABLE if arg <= 1 => {
            call.rank.attributes().set_dumpable(arg == 1);
            Ok(0)
        }
        GET_SECCOMP => Ok(0),
        SET_NO_NEW_PRIVS => {
            // Linux looks at the arguments; its own flag is the proxy's, which has it from the start.
            let done = ship_on(call)?;
            call.rank.attributes().deny_new_privs();
            Ok(done)
        }
        GET_NO_NEW_PRIVS if call.args()[1..5] != [0; 4] => Err(Errno::EINVAL),
        GET_NO_NEW_PRIVS => Ok(call.rank.attributes().has_no_new_privs().into()),
        _ => Err(Errno::EINVAL),
    }
}

/// PER_LINUX, with or without ADDR_NO_RANDOMIZE, UNAME26, and STICKY_TIMEOUTS, which the proxy follows; all ones only reads it.
pub fn personality(call: &mut Call<'_>) -> SysResult {
    let wanted = u64::from(call.frame.rdi as u32);
    if wanted == u64::from(u32::MAX) {
        return Ok(call.rank.attributes().personality());
    }
    if wanted & !(ADDR_NO_RANDOMIZE | UNAME26 | STICKY_TIMEOUTS) != 0 {
        return Err(Errno::EINVAL);
    }
    if (wanted ^ call.rank.attributes().personality()) & STICKY_TIMEOUTS != 0 {
        ship_on(call)?;
    }
    Ok(call.rank.attributes().set_personality(wanted))
}

pub fn rseq(call: &mut Call<'_>) -> SysResult {
    let [at, len_bytes, flags, signature, ..] = call.args();
    sequences::register(call.thread, [at, len_bytes, flags, signature])
}

/// sizeof(struct robust_list_head)
const ROBUST_LIST_BYTES: u64 = 24;

/// What is on the list when the thread ends is given to others that wait for it ([`super::futex::thread_ends`]).
pub fn set_robust_list(call: &mut Call<'_>) -> SysResult {
    let [head, len_bytes, ..] = call.args();
    if len_bytes != ROBUST_LIST_BYTES {
        return Err(Errno::EINVAL);
    }
    call.thread.program().set_robust_list(head);
    Ok(0)
}

pub fn get_robust_list(call: &mut Call<'_>) -> SysResult {
    let [pid, head_to, len_to, ..] = call.args();
    let Some(thread) = thread_of(call, pid) else {
        return not_permitted_on(call, pid);
    };
    put_words(len_to, &[ROBUST_LIST_BYTES])?;
    put_words(head_to, &[thread.program().robust_list()]).map(|()| 0)
}
