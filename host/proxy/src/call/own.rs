//! Calls about the process that the rank and its proxy are to the outside: its groups, its limits, its name.

use std::sync::atomic::{AtomicBool, Ordering};

use abi::Errno;
use rustix::process::{Resource, getrlimit};
use wire::signal::NEVER_LEFT;
use zerocopy::IntoBytes;

use crate::fds;
use crate::memory::{GUARD_ADDR, RankMemory, clamp};

/// NGROUPS_MAX (uapi/linux/limits.h)
const GROUPS_MAX: u32 = 65536;
/// uapi/linux/prctl.h
const SET_NAME: u64 = 15;
const GET_NAME: u64 = 16;
const CAPBSET_READ: u64 = 23;
const GET_SECUREBITS: u64 = 27;
const SET_TIMERSLACK: u64 = 29;
const GET_TIMERSLACK: u64 = 30;
const SET_CHILD_SUBREAPER: u64 = 36;
const GET_CHILD_SUBREAPER: u64 = 37;
const SET_NO_NEW_PRIVS: u64 = 38;
/// personality(2) only says what it is.
const ONLY_READ: u64 = u32::MAX as u64;

/// Whether the program has set no_new_privs: the proxy itself has it in any case.
pub static NO_NEW_PRIVS: AtomicBool = AtomicBool::new(false);
/// Whether select and its kin leave the time that they are given as it is (personality(2)).
static STICKY_TIMEOUTS: AtomicBool = AtomicBool::new(false);

/// setgroups: the proxy's groups stay as they are, so only the same ones may be set. Linux is given `copy`.
///
/// # Errors
/// EPERM when they are others.
pub fn groups(
    args: &mut [u64; 6],
    memory: &impl RankMemory,
    copy: &mut Vec<u32>,
) -> Result<(), Errno> {
    let count = args[0] as u32;
    if count > GROUPS_MAX {
        return Ok(()); // Linux refuses it before it reads them
    }
    copy.clear();
    copy.resize(count as usize, 0);
    if count > 0 && memory.read(args[1], copy.as_mut_bytes()).is_err() {
        args[1] = GUARD_ADDR;
        return Ok(());
    }
    let own = rustix::process::getgroups().map_err(|_| Errno::EPERM)?;
    let mut own: Vec<u32> = own.into_iter().map(|gid| gid.as_raw()).collect();
    own.sort_unstable();
    copy.sort_unstable();
    if *copy != own {
        return Err(Errno::EPERM);
    }
    args[1] = copy.as_ptr() as u64;
    Ok(())
}

/// What capset is given: struct __user_cap_header_struct, and two of struct __user_cap_data_struct (uapi/linux/capability.h).
#[derive(Default, Debug)]
pub struct Capabilities {
    header: [u32; 2],
    data: [[u32; 3]; 2],
}

#[cfg(test)]
impl Capabilities {
    /// Its bytes that Linux is given first.
    pub fn header(&self) -> &[u8] {
        self.header.as_bytes()
    }

    /// And second.
    pub fn data(&self) -> &[u8] {
        self.data.as_bytes()
    }
}

/// capset: the proxy's capabilities stay as they are, so only the same may be set. Linux is given `copy`; a version that it does
/// not know it answers in the program's own header.
///
/// # Errors
/// EPERM when they are others.
pub fn capabilities(
    args: &mut [u64; 6],
    memory: &impl RankMemory,
    copy: &mut Capabilities,
) -> Result<(), Errno> {
    /// _LINUX_CAPABILITY_VERSION_1, whose sets have 32 bits; _2 and _3.
    const NARROW: u32 = 0x1998_0330;
    const WIDE: [u32; 2] = [0x2007_1026, 0x2008_0522];
    *copy = Capabilities::default();
    let from = args[1];
    args[1] = GUARD_ADDR;
    if memory.read(args[0], copy.header.as_mut_bytes()).is_err() {
        return Ok(());
    }
    let parts = match copy.header[0] {
        NARROW => 1,
        version if WIDE.contains(&version) => 2,
        _ => return Ok(()),
    };
    args[0] = (&raw const copy.header) as u64;
    if memory
        .read(from, copy.data[..parts].as_mut_bytes())
        .is_err()
    {
        return Ok(());
    }
    let own = rustix::thread::capabilities(None).map_err(|_| Errno::EPERM)?;
    let sets = [own.effective, own.permitted, own.inheritable].map(|set| set.bits());
    let wanted = |i: usize| u64::from(copy.data[0][i]) | u64::from(copy.data[1][i]) << 32;
    if (0..3).any(|i| wanted(i) != sets[i]) {
        return Err(Errno::EPERM);
    }
    args[1] = (&raw const copy.data) as u64;
    Ok(())
}

/// setrlimit: the QK has read soft and hard limit, which are the third and the fourth argument: the program may have stored others
/// meanwhile. Hard limits on descriptors and on file sizes are the node's to keep, for the proxy needs room above: for
/// descriptors of its own, and for the files that stand for those of /proc ([`crate::special`]). Linux is given `copy`.
///
/// # Errors
/// EPERM for more descriptors than the rank may have: they would meet ours, even if the rank is privileged to raise its limit.
pub fn limit(args: &mut [u64; 6], first_own_fd: u32, copy: &mut [u64; 2]) -> Result<(), Errno> {
    let [resource, _, soft, hard, ..] = *args;
    let own_hard = match resource as u32 {
        libc::RLIMIT_NOFILE => hard_limit(Resource::Nofile),
        libc::RLIMIT_FSIZE => hard_limit(Resource::Fsize),
        _ => 0,
    };
    *copy = [soft, hard];
    if soft <= hard {
        if resource as u32 == libc::RLIMIT_NOFILE && hard > first_own_fd.into() {
            return Err(Errno::EPERM);
        }
        copy[1] = hard.max(own_hard);
    }
    args[1] = copy.as_ptr() as u64;
    Ok(())
}

/// The proxy's own hard limit; u64::MAX: unlimited.
pub fn hard_limit(resource: Resource) -> u64 {
    getrlimit(resource).maximum.unwrap_or(u64::MAX)
}

/// prlimit64: another process's limits are read, not changed.
///
/// # Errors
/// EPERM when they were to change.
pub const fn limits(args: &[u64; 6]) -> Result<(), Errno> {
    if args[2] == 0 {
        Ok(())
    } else {
        Err(Errno::EPERM)
    }
}

/// prctl: the name, which /proc shows, no_new_privs, which children inherit, whether orphans become children, the slack of this
/// worker's timers, and its capabilities. The rest is the QK's.
///
/// # Errors
/// EINVAL for what the QK does not relay.
pub fn process_control(args: &mut [u64; 6]) -> Result<(), Errno> {
    match args[0] {
        SET_NAME | GET_NAME | GET_CHILD_SUBREAPER => {}
        SET_TIMERSLACK | GET_TIMERSLACK | SET_CHILD_SUBREAPER | CAPBSET_READ | GET_SECUREBITS => {}
        SET_NO_NEW_PRIVS if args[1] == 1 => NO_NEW_PRIVS.store(true, Ordering::Relaxed),
        SET_NO_NEW_PRIVS => {}
        _ => return Err(Errno::EINVAL),
    }
    Ok(())
}

/// personality: all but [`STICKY_TIMEOUTS`] is the QK's. Linux would have it of this worker alone.
pub fn personality(args: &mut [u64; 6]) {
    let sticky = args[0] & abi::ident::STICKY_TIMEOUTS != 0;
    STICKY_TIMEOUTS.store(sticky, Ordering::Relaxed);
    args[0] = ONLY_READ;
}

/// select, pselect6 and ppoll: gives Linux `copy` in place of a time limit that is to stay as it is.
pub fn time_limit(limit: &mut u64, memory: &impl RankMemory, copy: &mut [u64; 2]) {
    if *limit == 0 || !STICKY_TIMEOUTS.load(Ordering::Relaxed) {
        return;
    }
    *limit = match memory.read(*limit, copy.as_mut_bytes()) {
        Ok(()) => copy.as_mut_ptr() as u64,
        Err(_) => GUARD_ADDR,
    };
}

/// kcmp: compares descriptors of the rank's.
///
/// # Errors
/// EOPNOTSUPP for KCMP_EPOLL_TFD, as of a Linux without epoll: it names descriptors in a structure.
pub fn compare(args: &mut [u64; 6], first_own_fd: u32) -> Result<(), Errno> {
    /// uapi/linux/kcmp.h
    const FILE: u32 = 0;
    const EPOLL_TFD: u32 = 7;
    match args[2] as u32 {
        FILE => {
            for fd in &mut args[3..5] {
                *fd = fds::visible(*fd, first_own_fd);
            }
            Ok(())
        }
        EPOLL_TFD => Err(Errno::EOPNOTSUPP),
        _ => Ok(()),
    }
}

/// signalfd: gives Linux `copy`, without the signals that always wait on the node. A set of another size it does not read.
pub fn received(args: &mut [u64; 6], memory: &impl RankMemory, copy: &mut u64) {
    if args[2] == size_of_val(copy) as u64 && memory.read(args[1], copy.as_mut_bytes()).is_ok() {
        *copy &= !NEVER_LEFT;
        args[1] = &raw const *copy as u64;
    }
}

/// mq_notify: gives Linux `copy`, in which a socket and what is to be sent to it (SIGEV_THREAD) are the rank's.
pub fn notification(
    args: &mut [u64; 6],
    first_own_fd: u32,
    memory: &impl RankMemory,
    copy: &mut [u64; 8],
) {
    /// uapi/asm-generic/siginfo.h
    const SIGEV_THREAD: u64 = 2;
    if args[1] == 0 {
        return;
    }
    if memory.read(args[1], copy.as_mut_bytes()).is_err() {
        args[1] = GUARD_ADDR;
        return;
    }
    // sigev_value; sigev_signo and sigev_notify
    if copy[1] >> 32 == SIGEV_THREAD {
        copy[0] = clamp(copy[0]);
        copy[1] =
            SIGEV_THREAD << 32 | fds::visible(copy[1] as u32 as u64, first_own_fd) as u32 as u64;
    }
    args[1] = copy.as_ptr() as u64;
}
