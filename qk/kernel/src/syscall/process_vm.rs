//! process_vm_readv and process_vm_writev between the ranks of a node: one copy, by the caller's core, through the window on
//! the other rank. No lock of the other rank is taken, and nothing is pinned: whether memory is there, and may be accessed,
//! the page tables say, as they were when the call began or later ([`windows::flush_stale`]).

use super::others::not_permitted_on;
use super::{Call, SysResult};
use crate::rank::{self, Rank};
use crate::user::{copy_between, get_words, user};
use crate::{preempt, windows};
use abi::Errno;
use abi::map::{USER_TOP, remote};
use abi::syscall::layout::{MAX_RW_BYTES, MAX_VECTORS, VECTOR_BYTES};
use alloc::vec::Vec;

/// Bytes that are copied before it is looked again whether the rank is to end.
const STEP_BYTES: u64 = 1 << 20;
/// Work of reading one vector, and of looking at one that has been read, in instructions.
const VECTOR_WORK: u32 = 50;
const CHECK_WORK: u32 = 20;

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
    // An unsigned int (lib/iov_iter.c, import_iovec), as the other count is not.
    let mut local = Vectors::read(local, u64::from(locals as u32))?;
    local.check_own()?;
    if local.bytes == 0 {
        return Ok(0);
    }
    let mut remote = Vectors::read(remote, remotes)?;
    if remote.bytes == 0 {
        return Ok(0);
    }
    let peer = target(call, pid)?;
    windows::flush_stale(peer);
    copy(call.rank, &mut local, &mut remote, peer, way)
}

/// Copies at most as many bytes as are local, as far as both sides have memory.
///
/// # Errors
/// EFAULT when that is nowhere.
fn copy(own: &Rank, local: &mut Vectors, remote: &mut Vectors, peer: &Rank, way: Way) -> SysResult {
    let (mut done, bytes) = (0, local.bytes);
    // POINT: user::copy_directly
    while done < bytes && !own.ending().is_decided() {
        if !local.advance() || !remote.advance() {
            break;
        }
        let step = (bytes - done)
            .min(STEP_BYTES)
            .min(local.current.len_bytes)
            .min(remote.current.len_bytes);
        let (here, there) = (local.current.base, remote.current.base);
        let copied = step_of(own, here, there, peer, way, step);
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
    let there = if itself { at } else { remote(peer.id(), at) };
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
    // POINT: thread::numbers::each
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
    // BOUND: two.
    let alike = [info.uid, info.euid].iter().all(|id| *id == own.uid)
        && [info.gid, info.egid].iter().all(|id| *id == own.gid);
    own.euid == 0 || alike && peer.attributes().is_dumpable()
}

/// A struct iovec.
#[derive(Clone, Copy)]
struct Vector {
    base: u64,
    len_bytes: u64,
}

/// An array of struct iovec as it was when the call began, which may copy over it, and where a transfer is in it.
struct Vectors {
    /// What is left of the current one, at first the first. Nearly all calls have no other.
    current: Vector,
    others: Vec<Vector>,
    /// How many of these have been begun.
    begun: usize,
    /// How many bytes all of them have, at most what one call transfers.
    bytes: u64,
}

impl Vectors {
    /// Reads `count` vectors at `from`.
    ///
    /// # Errors
    /// EINVAL: too many, or a negative length. EFAULT: they cannot be read. ENOMEM.
    #[inline]
    fn read(from: u64, count: u64) -> Result<Vectors, Errno> {
        let mut vectors = Vectors {
            current: Vector {
                base: 0,
                len_bytes: 0,
            },
            others: Vec::new(),
            begun: 0,
            bytes: 0,
        };
        if count > MAX_VECTORS {
            return Err(Errno::EINVAL);
        }
        if count > 0 {
            vectors.current = Vector::read(from)?;
            vectors.bytes = vectors.current.len_bytes.min(MAX_RW_BYTES);
        }
        if count > 1 {
            vectors.read_others(from, count as usize - 1)?;
        }
        Ok(vectors)
    }

    /// Those behind the first, which is at `from`.
    #[inline(never)]
    fn read_others(&mut self, from: u64, count: usize) -> Result<(), Errno> {
        let reserved = self.others.try_reserve_exact(count);
        reserved.map_err(|_| Errno::ENOMEM)?;
        let mut at = from;
        // POINT: read
        for _ in 0..count {
            at = at.wrapping_add(VECTOR_BYTES);
            let vector = Vector::read(at)?;
            self.bytes += vector.len_bytes.min(MAX_RW_BYTES - self.bytes);
            self.others.push(vector);
        }
        Ok(())
    }

    /// Whether all can be memory of a program, windows among it.
    ///
    /// # Errors
    /// EFAULT.
    fn check_own(&self) -> Result<(), Errno> {
        if self.others.is_empty() {
            // Of a vector alone Linux looks only at what one call transfers (since 6.4; lib/iov_iter.c, __import_iovec_ubuf).
            return user(self.current.base, self.current.len_bytes.min(MAX_RW_BYTES)).map(drop);
        }
        user(self.current.base, self.current.len_bytes)?;
        self.others.iter().try_for_each(|vector| {
            preempt::point(CHECK_WORK);
            user(vector.base, vector.len_bytes).map(drop)
        })
    }

    /// Goes on to the next vector that has bytes, if the current one has none left; `false`: there is none.
    fn advance(&mut self) -> bool {
        while self.current.len_bytes == 0 {
            let Some(&next) = self.others.get(self.begun) else {
                return false;
            };
            preempt::point(VECTOR_WORK);
            self.current = next;
            self.begun += 1;
        }
        true
    }

    fn skip(&mut self, bytes: u64) {
        self.current.base = self.current.base.wrapping_add(bytes);
        self.current.len_bytes -= bytes;
    }
}

impl Vector {
    /// # Errors
    /// EFAULT: it cannot be read. EINVAL: a negative length.
    fn read(at: u64) -> Result<Vector, Errno> {
        preempt::point(VECTOR_WORK);
        let [base, len_bytes] = get_words(at)?;
        if (len_bytes as i64) < 0 {
            return Err(Errno::EINVAL);
        }
        Ok(Vector { base, len_bytes })
    }
}
