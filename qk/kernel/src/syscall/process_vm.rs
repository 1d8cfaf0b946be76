//! process_vm_readv and process_vm_writev between the ranks of a node: one copy, by the caller's core, through the window on
//! the other rank. No lock of the other rank is taken, and nothing is pinned: whether memory is there, and may be accessed,
//! the page tables say, as they were when the call began or later ([`windows::freshen`]).

use abi::Errno;
use abi::map::{USER_TOP, remote};
use core::sync::atomic::Ordering;

use super::args::{MAX_VECTORS, VECTOR_BYTES, copy_between, get_words, user};
use super::others::not_permitted_on;
use super::{Call, SysResult};
use crate::rank::{self, Rank};
use crate::{preempt, windows};

/// Most bytes of one call (MAX_RW_COUNT, include/linux/fs.h).
const MAX_BYTES: u64 = 0x7fff_f000;
/// Bytes that are copied before it is looked again whether the rank is to end.
const STEP_BYTES: u64 = 1 << 20;
/// Work of reading one vector, in instructions.
const VECTOR_WORK: u32 = 50;

/// Which way the bytes go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    FromPeer,
    ToPeer,
}

pub fn process_vm_readv(call: &mut Call<'_>) -> SysResult {
    transfer(call, Way::FromPeer)
}

pub fn process_vm_writev(call: &mut Call<'_>) -> SysResult {
    transfer(call, Way::ToPeer)
}

/// What is wrong is found in the order in which Linux looks (mm/process_vm_access.c).
fn transfer(call: &Call<'_>, way: Way) -> SysResult {
    let [pid, local, locals, remote, remotes, flags] = call.args();
    if flags != 0 {
        return Err(Errno::EINVAL);
    }
    let mut local = Vectors::new(local, locals)?;
    let bytes = local.check(true)?;
    if bytes == 0 {
        return Ok(0);
    }
    let mut remote = Vectors::new(remote, remotes)?;
    if remote.check(false)? == 0 {
        return Ok(0);
    }
    let peer = target(call, pid)?;
    windows::freshen(peer);
    copy(call.rank, &mut local, &mut remote, peer, way, bytes)
}

/// Copies at most `bytes`, as far as both sides have memory.
///
/// # Errors
/// EFAULT when that is nowhere.
fn copy(
    own: &Rank,
    local: &mut Vectors,
    remote: &mut Vectors,
    peer: &Rank,
    way: Way,
    bytes: u64,
) -> SysResult {
    let mut done = 0;
    while done < bytes && !own.is_ending() {
        // What may have changed since it was checked is looked at again.
        if !local.advance()? || !remote.advance()? {
            break;
        }
        let step = (bytes - done)
            .min(STEP_BYTES)
            .min(local.left)
            .min(remote.left);
        let copied = step_of(own, local.at, remote.at, peer, way, step);
        done += copied;
        if copied < step {
            return if done == 0 {
                Err(Errno::EFAULT)
            } else {
                Ok(done)
            };
        }
        local.skip(step);
        remote.skip(step);
    }
    Ok(done)
}

/// Copies a piece; returns how much of it could be.
fn step_of(own: &Rank, local: u64, at: u64, peer: &Rank, way: Way, step: u64) -> u64 {
    // Of a range that reaches beyond the other rank's own memory what lies before the end.
    let inside = step.min(USER_TOP.saturating_sub(at));
    if inside == 0 {
        return 0;
    }
    // A rank's window on itself shows what was unmapped for longer than its memory does.
    let itself = core::ptr::eq(own, peer);
    let there = if itself { at } else { remote(peer.id, at) };
    match way {
        Way::FromPeer => copy_between(local, there, inside),
        Way::ToPeer => copy_between(there, local, inside),
    }
}

/// The rank that a process or thread id means, if the caller may access its memory (Linux: PTRACE_MODE_ATTACH_REALCREDS).
///
/// # Errors
/// ESRCH, EPERM.
fn target(call: &Call<'_>, pid: u64) -> Result<&'static Rank, Errno> {
    let own = call.rank;
    let pid = u64::from(pid as u32);
    if pid == own.identity().pid {
        return Ok(own);
    }
    if pid as i32 <= 0 {
        return Err(Errno::ESRCH);
    }
    let is_process = |rank: &&Rank| rank.identity().pid == pid;
    let has_thread = |rank: &&Rank| rank.by_tid(pid).is_ok();
    let ranks = rank::all();
    let found = ranks
        .iter()
        .find(is_process)
        .or_else(|| ranks.iter().find(has_thread));
    let Some(peer) = found else {
        return not_permitted_on(call, pid).and(Err(Errno::ESRCH));
    };
    if !peer.has_windows() {
        return Err(Errno::ESRCH);
    }
    if core::ptr::eq(peer, own) || may_access(own, peer) {
        Ok(peer)
    } else {
        Err(Errno::EPERM)
    }
}

/// As kernel/ptrace.c, __ptrace_may_access; root has the capability.
fn may_access(own: &Rank, peer: &Rank) -> bool {
    let (own, info) = (own.identity().info, peer.identity().info);
    let alike = [info.uid, info.euid].iter().all(|id| *id == own.uid)
        && [info.gid, info.egid].iter().all(|id| *id == own.gid);
    own.euid == 0 || alike && peer.dumpable.load(Ordering::Relaxed)
}

/// An array of struct iovec of the caller, and where a transfer is in it.
struct Vectors {
    /// The vectors that are left.
    next: u64,
    count: u64,
    /// What is left of the current one.
    at: u64,
    left: u64,
}

impl Vectors {
    fn new(next: u64, count: u64) -> Result<Vectors, Errno> {
        if count > MAX_VECTORS {
            return Err(Errno::EINVAL);
        }
        Ok(Vectors {
            next,
            count,
            at: 0,
            left: 0,
        })
    }

    /// Looks at all vectors: how many bytes they have, at most what one call transfers; `own`: they are memory of the caller.
    ///
    /// # Errors
    /// EFAULT when they cannot be read or are no program's memory, EINVAL for a negative length.
    fn check(&self, own: bool) -> Result<u64, Errno> {
        let mut bytes = 0u64;
        for i in 0..self.count {
            preempt::point(VECTOR_WORK);
            let [base, len_bytes] = get_words(self.next.wrapping_add(i * VECTOR_BYTES))?;
            if (len_bytes as i64) < 0 {
                return Err(Errno::EINVAL);
            }
            let len_bytes = len_bytes.min(MAX_BYTES - bytes);
            if own {
                user(base, len_bytes)?;
            }
            bytes += len_bytes;
        }
        Ok(bytes)
    }

    /// Goes on to the next vector that has bytes, if the current one has none left; `false`: there is none.
    fn advance(&mut self) -> Result<bool, Errno> {
        while self.left == 0 {
            if self.count == 0 {
                return Ok(false);
            }
            preempt::point(VECTOR_WORK);
            [self.at, self.left] = get_words(self.next)?;
            self.next = self.next.wrapping_add(VECTOR_BYTES);
            self.count -= 1;
        }
        Ok(true)
    }

    fn skip(&mut self, bytes: u64) {
        self.at = self.at.wrapping_add(bytes);
        self.left -= bytes;
    }
}
