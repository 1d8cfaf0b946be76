//! Resource limits. They are the proxy's own, which Linux enforces on files; those on memory and processor time mean the
//! rank's and stay here ([`LIMITS`]), and so do the hard limits on descriptors and on file sizes. /proc and children have them from here.
//! A limit that was set holds ([`super::memory_limits`]); RLIMIT_RSS Linux does not enforce either.

use abi::Errno;
use abi::ident::RLIM_NLIMITS;
use abi::rlimit;
use abi::syscall::by_name;
use wire::child::{LIMITS, RLIMIT_FSIZE};

use super::memory_limits::follow_stack_limit;
use super::others::{not_permitted_on, ship_on, thread_of};
use super::{Call, SysResult};
use crate::host::ship;
use crate::timer;
use crate::user::{get_words, put_words, put_words_opt};

const SETRLIMIT: u16 = by_name("setrlimit").expect("a row").nr;

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
    if thread_of(call, pid).is_none() {
        return of_other(call, pid, new);
    }
    let before = current(call, resource)?;
    if new != 0 {
        set(call, resource as usize, new)?;
    }
    put_words_opt(old, &before).map(|()| 0)
}

/// Another process's limits can be read, not set: what it is allowed is not a rank's to say.
fn of_other(call: &mut Call<'_>, pid: u64, new: u64) -> SysResult {
    if new == 0 {
        ship_on(call)
    } else {
        not_permitted_on(call, pid)
    }
}

fn current(call: &Call<'_>, resource: u64) -> Result<[u64; 2], Errno> {
    // Linux takes the resource as a 32-bit number.
    let resource = resource as u32 as usize;
    if resource >= RLIM_NLIMITS {
        Err(Errno::EINVAL)
    } else {
        Ok(call.rank.limit(resource))
    }
}

/// Linux's rules (kernel/sys.c, do_prlimit): the soft limit is at most the hard one, which only the privileged may raise.
fn set(call: &Call<'_>, resource: usize, from: u64) -> SysResult {
    let [soft, hard] = get_words(from)?;
    let [_, old_hard] = call.rank.limit(resource);
    if soft > hard {
        return Err(Errno::EINVAL);
    }
    if hard > old_hard && call.rank.identity().info.euid != 0 {
        return Err(Errno::EPERM);
    }
    if resource == RLIMIT_FSIZE || !LIMITS.contains(&resource) {
        let nr = SETRLIMIT.into();
        // Not where they lie: the program may store others there meanwhile, of which nothing would be known here.
        let ret = ship::linux_call(call.thread, nr, &[resource as u64, 0, soft, hard, 0, 0]);
        Errno::check(ret)?;
    }
    call.rank
        .change_limit(resource, |limit| *limit = [soft, hard]);
    match resource {
        rlimit::STACK => {
            follow_stack_limit(call, soft)?;
        }
        rlimit::CPU => timer::follow_cpu_limit(call.rank),
        rlimit::SIGPENDING => call.rank.signals().process.limit_queue(soft),
        _ => {}
    }
    Ok(0)
}
