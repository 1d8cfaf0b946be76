//! Calls that the proxy carries out on Linux.
//!
//! The proxy checks every pointer; here it matters only what Linux may have written: such pages count as dirty, and code in
//! them is renewed, for neither the page tables nor an emulator's translations notice another process's writes.

use abi::Errno;
use abi::map::USER_TOP;
use abi::syscall::operand::{Flow, Kind, Piece};
use abi::syscall::{Arg, Call as Row, Dir, Restart, by_nr};
use hal::addr::{Va, VaRange};
use qk_core::signals::{SigInfo, SigSet, Signal, code};

use super::bounce::{self, Bounce};
use super::{Call, RESTART, RESTART_NO_HANDLER, SysResult};
use crate::aspace::Aspace;
use crate::host::ship;
use crate::rank::Rank;
use crate::thread::Thread;
use crate::user::{Program, Unchanging, get_words, is_shown, sigset_size};
use crate::{clock, preempt, signal, stats};

/// Work for a structure of pointers that Linux may write behind, in instructions: with what is done about the buffers.
const WRITTEN_WORK: u32 = 300;
/// Work of reading where a mask is.
const MASK_WORK: u32 = 50;

pub fn ship(call: &mut Call<'_>) -> SysResult {
    let row = by_nr(call.nr()).ok_or(Errno::ENOSYS)?;
    let args = call.args();
    let Some(mask) = temporary_mask(row, &args) else {
        return match row.restart {
            Restart::OldEnd => ship_limited(call.thread, row, args),
            _ => ship_row(call.thread, row, &args),
        };
    };
    with_mask(call.thread, mask, || ship_row(call.thread, row, &args))
}

/// Makes a call that sets a signal mask for its time.
///
/// # Errors
/// The call's.
pub fn with_mask(
    thread: &'static Thread,
    mask: SigSet,
    make: impl FnOnce() -> SysResult,
) -> SysResult {
    signal::change_mask(thread, |own| own.set_saved_mask(mask));
    match make() {
        // A handler may be about to run under the temporary mask; if none does, delivery::before_return restores the old one.
        Err(errno @ (RESTART | RESTART_NO_HANDLER | Errno::EINTR)) => {
            Err(thread.interrupted(errno))
        }
        result => {
            signal::change_mask(thread, |own| own.restore_mask());
            result
        }
    }
}

/// A call whose time an argument limits: one that starts again goes on to its old end.
fn ship_limited(thread: &'static Thread, row: &Row, mut args: [u64; 6]) -> SysResult {
    const NS_PER_MS: u64 = 1_000_000;
    // BOUND: the arguments of a call.
    let limit = row.args.iter().position(|arg| *arg == Arg::Millis);
    let limit = limit.unwrap_or_default();
    let limit_ns = u64::try_from(args[limit] as i32).unwrap_or(0) * NS_PER_MS;
    if limit_ns == 0 {
        return ship_row(thread, row, &args); // it does not wait, or for ever
    }
    let kept = thread.program().take_sleep_end();
    let deadline = kept.unwrap_or_else(|| clock::deadline_after(limit_ns));
    if kept.is_some() {
        let left = deadline.saturating_sub(hal::time::tsc());
        args[limit] = clock::ticks_to_ns(left).div_ceil(NS_PER_MS);
    }
    let result = ship_row(thread, row, &args);
    if result == Err(RESTART_NO_HANDLER) {
        thread.program().keep_sleep_end(deadline);
    }
    result
}

/// The signal mask that ppoll and its kin set for the time of the call; `None` without one, or with one that Linux will
/// refuse in its own order of looking at things.
fn temporary_mask(row: &Row, args: &[u64; 6]) -> Option<SigSet> {
    let (at, len_bytes) = row.mask(args, &Program(MASK_WORK))?;
    if at == 0 || sigset_size(len_bytes).is_err() {
        return None;
    }
    get_words(at).map(|[set]| SigSet(set)).ok()
}

fn ship_row(thread: &'static Thread, row: &Row, args: &[u64; 6]) -> SysResult {
    if bounce::is_needed(row, args) {
        return ship_bounced(thread, row, *args);
    }
    match result_of(ship_plain(thread, row, args)) {
        Err(errno) => ship_again(thread, row, args, errno),
        result => result,
    }
}

/// What a call comes to that failed, made again for as long as it finds a hole where another thread maps something over its memory.
#[inline(never)]
fn ship_again(thread: &'static Thread, row: &Row, args: &[u64; 6], mut errno: Errno) -> SysResult {
    // POINT: ship::spin
    while errno == Errno::EFAULT && is_shown(thread, |aspace| is_accessible(aspace, row, args)) {
        match result_of(ship_plain(thread, row, args)) {
            Err(again) => errno = again,
            result => return result,
        }
    }
    Err(failed(thread, row, errno))
}

/// Whether the program may access all that its call names. The address space is locked.
fn is_accessible(aspace: &Aspace, row: &Row, args: &[u64; 6]) -> bool {
    let walked = row.pieces(args, &Unchanging(WRITTEN_WORK), &mut |piece: Piece| {
        // Where a string ends is Linux's to find.
        let len_bytes = if piece.kind == Kind::String {
            1
        } else {
            piece.len_bytes
        };
        let range = Va(piece.at).until(Va(piece.at.saturating_add(len_bytes)));
        match range.is_empty() || aspace.allows(range, piece.dir != Dir::In) {
            true => Flow::Continue(()),
            false => Flow::Break(()),
        }
    });
    walked.is_continue()
}

/// With buffers in other ranks' memory.
#[cold]
#[inline(never)]
fn ship_bounced(thread: &'static Thread, row: &Row, mut args: [u64; 6]) -> SysResult {
    let bounce = Bounce::begin(thread.rank(), row, &mut args)?;
    preempt::take_interrupts();
    let ret = ship_plain(thread, row, &args);
    preempt::take_interrupts();
    bounce.end(thread, ret)?;
    result_of(ret).map_err(|errno| failed(thread, row, errno))
}

/// A call's result, of what Linux returned.
fn result_of(ret: i64) -> SysResult {
    Errno::check(ret).map(|value| value as u64)
}

/// Has Linux carry out the call; returns what Linux returned.
fn ship_plain(thread: &'static Thread, row: &Row, args: &[u64; 6]) -> i64 {
    let rank = thread.rank();
    let writes = row.writes.then(|| note_written(rank, row, args));
    stats::count_shipped();
    if row.restart == Restart::Handler {
        signal::publish_takes(thread); // of all that can use a terminal
    }
    let ret = ship::linux_call(thread, u64::from(row.nr), args);
    if let Some(log_position) = writes {
        has_written(rank, row, args, log_position);
    }
    if ret == Errno::EINTR.ret() {
        signal::interrupted(thread);
    } else if rank.attributes().has_signalling_descriptors() {
        collect_caused(rank);
    }
    // Only Linux can say which calls send one: a socket of packets does not, and a pipe also after a part was written.
    if row.may_raise(ret) {
        raise(thread);
    }
    ret
}

/// What a call has caused is there when it returns.
#[cold]
#[inline(never)]
fn collect_caused(rank: &'static Rank) {
    signal::collect(rank);
}

/// How a call fails for which Linux has returned `errno`.
fn failed(thread: &'static Thread, row: &Row, errno: Errno) -> Errno {
    match row.restart {
        _ if errno != Errno::EINTR => errno,
        Restart::Never => errno,
        // At a socket with a timeout, which would begin anew.
        Restart::Handler if thread.host().more()[1] != 0 => errno,
        Restart::Handler => thread.interrupted(RESTART),
        Restart::NoHandler | Restart::OldEnd => thread.interrupted(RESTART_NO_HANDLER),
    }
}

/// Raises the signal that Linux has sent for a call, if it is one of those.
fn raise(thread: &'static Thread) {
    let signal = match Signal::new(thread.host().more()[0]) {
        Some(signal @ (Signal::PIPE | Signal::XFSZ)) => signal,
        _ => return,
    };
    let identity = thread.rank().identity();
    let info = SigInfo::sent(
        signal,
        code::USER,
        identity.pid as u32,
        identity.info.uid as u32,
        0,
    );
    // It is no real-time signal: its queue cannot be full.
    let _ = signal::send_thread(thread, info);
}

/// Counts what Linux may write as written, which the page tables do not notice, until [`has_written`]. Returns the position of
/// the region log.
fn note_written(rank: &Rank, row: &Row, args: &[u64; 6]) -> u64 {
    rank.memory().begin_writes();
    let log_position = rank.host().mappings();
    // A rank that ends meanwhile has nothing to be noted.
    let _ = rank.with_aspace(|aspace| {
        mark_dirty(aspace, row, args);
        Ok(())
    });
    log_position
}

fn mark_dirty(aspace: &mut Aspace, row: &Row, args: &[u64; 6]) {
    for_each_written(row, args, &mut |range| aspace.mark_dirty(range));
}

/// Linux does not write any more: what was mapped since [`note_written`] counts as written, too, and code is translated anew.
fn has_written(rank: &Rank, row: &Row, args: &[u64; 6], log_position: u64) {
    let _ = rank.with_aspace(|aspace| {
        if rank.host().mappings() != log_position {
            mark_dirty(aspace, row, args);
        }
        if aspace.has_writable_code() {
            for_each_written(row, args, &mut |range| aspace.renew_code(range));
        }
        Ok(())
    });
    rank.memory().end_writes();
}

/// Shows `visit` each range, below the end of user memory, that Linux may write. The address space is locked.
fn for_each_written(row: &Row, args: &[u64; 6], visit: &mut impl FnMut(VaRange)) {
    let _ = row.pieces(args, &Unchanging(WRITTEN_WORK), &mut |piece: Piece| {
        let end = piece.at.saturating_add(piece.len_bytes).min(USER_TOP);
        if piece.dir != Dir::In && piece.at < end {
            visit(Va(piece.at).until(Va(end)));
        }
        Flow::Continue(())
    });
}
