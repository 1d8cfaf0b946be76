//! Resource limits. They are the proxy's own, which Linux enforces on files; those on memory mean the rank's memory and
//! stay here.

use abi::Errno;
use abi::ident::RLIM_NLIMITS;
use abi::syscall::by_name;

use super::args::{get_words, put_words, put_words_opt};
use super::{Call, SysResult};
use crate::{ship, timer};

/// RLIMIT_* (include/uapi/asm-generic/resource.h).
pub const RLIMIT_CPU: usize = 0;
/// See [`RLIMIT_CPU`].
pub const RLIMIT_DATA: usize = 2;
/// What the proxy may not be given: they would hit its own memory, stack, threads or time, not the rank's.
const OURS: [usize; 6] = [RLIMIT_CPU, RLIMIT_DATA, 3, 5, 8, 9];

pub fn getrlimit(call: &mut Call<'_>) -> SysResult {
    let [resource, to, ..] = call.args();
    let limit = current(call, resource)?;
    put_words(to, &limit).map(|()| 0)
}

pub fn setrlimit(call: &mut Call<'_>) -> SysResult {
    let [resource, from, ..] = call.args();
    current(call, resource)?;
    set(call, resource as usize, from)
}

pub fn prlimit64(call: &mut Call<'_>) -> SysResult {
    let [pid, resource, new, old, ..] = call.args();
    if pid != 0 && pid != call.rank.identity().pid {
        return Err(Errno::ESRCH);
    }
    let before = current(call, resource)?;
    if new != 0 {
        set(call, resource as usize, new)?;
    }
    put_words_opt(old, &before).map(|()| 0)
}

fn current(call: &Call<'_>, resource: u64) -> Result<[u64; 2], Errno> {
    // Linux takes the resource as a 32-bit number.
    let resource = resource as u32 as usize;
    if resource >= RLIM_NLIMITS {
        Err(Errno::EINVAL)
    } else {
        Ok(call.rank.limits.lock()[resource])
    }
}

/// Linux's rules (kernel/sys.c, do_prlimit): the soft limit is at most the hard one, which only the privileged may raise.
fn set(call: &Call<'_>, resource: usize, from: u64) -> SysResult {
    let [soft, hard] = get_words(from)?;
    let [_, old_hard] = call.rank.limits.lock()[resource];
    if soft > hard {
        return Err(Errno::EINVAL);
    }
    if hard > old_hard && call.rank.identity().info.euid != 0 {
        return Err(Errno::EPERM);
    }
    if !OURS.contains(&resource) {
        let nr = by_name("setrlimit").map_or(0, |row| u64::from(row.nr));
        let ret = ship::linux_call(call.rank, nr, &[resource as u64, from, 0, 0, 0, 0]);
        Errno::from_ret(ret).map_or(Ok(()), Err)?;
    }
    call.rank.limits.lock()[resource] = [soft, hard];
    if resource == RLIMIT_CPU {
        timer::follow_cpu_limit(call.rank);
    }
    Ok(0)
}
