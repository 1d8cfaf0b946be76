//! Calls that the proxy carries out on Linux.
//!
//! The proxy checks every pointer; here it matters only what Linux may have written: such pages count as dirty, and code in
//! them is renewed, for neither the page tables nor an emulator's translations notice another process's writes.

use core::sync::atomic::Ordering;

use abi::Errno;
use abi::map::USER_TOP;
use abi::syscall::request::{self, Argument};
use abi::syscall::{Arg, Call as Row, Dir, Len, by_nr, bytes_of_bits};
use qk_core::signals::{SigInfo, SigSet, Signal, code};

use super::bounce::{self, Bounce};
use super::{Call, RESTART, RESTART_NO_HANDLER, SysResult};
use crate::aspace::Aspace;
use crate::host::ship;
use crate::rank::Rank;
use crate::thread::Thread;
use crate::user::{
    MAX_VECTORS, MESSAGE_BYTES, MESSAGE_WORDS, VECTOR_BYTES, get_words, sigset_size,
};
use crate::{clock, preempt, signal, stats};

/// What a request of ioctl or fcntl may write at most: the largest flat structure is well below a page.
const REQUEST_BYTES: u64 = 4096;
/// More than an ethtool structure ever holds: its length is the device's affair, and what is noted in vain does no harm.
const ETHTOOL_BYTES: u64 = 1 << 20;

pub fn ship(call: &mut Call<'_>) -> SysResult {
    let row = by_nr(call.nr()).ok_or(Errno::ENOSYS)?;
    let args = call.args();
    let Some(mask) = temporary_mask(row, &args) else {
        return if row.name == "poll" {
            ship_poll(call.thread, row, args)
        } else {
            ship_row(call.thread, row, &args)
        };
    };
    signal::change_mask(call.thread, |own| own.set_saved_mask(mask));
    let result = ship_row(call.thread, row, &args);
    match result {
        // A handler may be about to run under the temporary mask; if none does, delivery::before_return restores the old one.
        Err(errno @ (RESTART | RESTART_NO_HANDLER | Errno::EINTR)) => {
            Err(call.thread.interrupted(errno))
        }
        result => {
            signal::change_mask(call.thread, |own| own.restore_mask());
            result
        }
    }
}

/// poll(2), which has no place for what is left of its time: one that starts again goes on to its old end (Linux:
/// do_restart_poll).
fn ship_poll(thread: &'static Thread, row: &Row, mut args: [u64; 6]) -> SysResult {
    const NS_PER_MS: u64 = 1_000_000;
    let limit_ns = u64::try_from(args[2] as i32).unwrap_or(0) * NS_PER_MS;
    if limit_ns == 0 {
        return ship_row(thread, row, &args); // it does not wait, or for ever
    }
    let kept = thread.take_sleep_end();
    let deadline = kept.unwrap_or_else(|| clock::deadline_after(limit_ns));
    if kept.is_some() {
        let left = deadline.saturating_sub(hal::time::tsc());
        args[2] = clock::ticks_to_ns(left).div_ceil(NS_PER_MS);
    }
    let result = ship_row(thread, row, &args);
    if result == Err(RESTART_NO_HANDLER) {
        thread.keep_sleep_end(deadline);
    }
    result
}

/// The signal mask that ppoll and its kin set for the time of the call; `None` without one, or with one that Linux will
/// refuse in its own order of looking at things.
fn temporary_mask(row: &Row, args: &[u64; 6]) -> Option<SigSet> {
    let (at, len_bytes) = match row.name {
        "ppoll" => (args[3], args[4]),
        "epoll_pwait" | "epoll_pwait2" => (args[4], args[5]),
        // Behind the sixth argument: pointer and size.
        "pselect6" => get_words(args[5])
            .map(|[at, len_bytes]| (at, len_bytes))
            .ok()?,
        _ => return None,
    };
    if at == 0 || sigset_size(len_bytes).is_err() {
        return None;
    }
    get_words(at).map(|[set]| SigSet(set)).ok()
}

fn ship_row(thread: &'static Thread, row: &Row, args: &[u64; 6]) -> SysResult {
    if bounce::is_needed(row, args) {
        return ship_bounced(thread, row, *args);
    }
    settle(thread, row, ship_plain(thread, row, args))
}

/// With buffers in other ranks' memory.
#[cold]
#[inline(never)]
fn ship_bounced(thread: &'static Thread, row: &Row, mut args: [u64; 6]) -> SysResult {
    let bounce = Bounce::begin(thread.rank, row, &mut args)?;
    preempt::take_interrupts();
    let ret = ship_plain(thread, row, &args);
    preempt::take_interrupts();
    bounce.end(thread, ret)?;
    settle(thread, row, ret)
}

/// Has Linux carry out the call; returns what Linux returned.
fn ship_plain(thread: &'static Thread, row: &Row, args: &[u64; 6]) -> i64 {
    let rank = thread.rank;
    let writes = may_write(row).then(|| note_written(rank, row, args));
    stats::count_shipped();
    if row.restart {
        signal::publish_takes(thread); // of all that can use a terminal
    }
    let ret = ship::linux_call(thread, u64::from(row.nr), args);
    if let Some(log_position) = writes {
        has_written(rank, row, args, log_position);
    }
    if ret == Errno::EINTR.ret() {
        signal::interrupted(thread);
    }
    // Only Linux can say which calls send one: a socket of packets does not, and a pipe also after a part was written.
    if row.may_raise(ret) {
        raise(thread);
    }
    ret
}

/// What a call comes to that returned `ret`.
fn settle(thread: &'static Thread, row: &Row, ret: i64) -> SysResult {
    match Errno::from_ret(ret) {
        None => Ok(ret as u64),
        // At a socket with a timeout, which would begin anew.
        Some(Errno::EINTR) if row.restart && thread.host.more()[1] != 0 => Err(Errno::EINTR),
        Some(Errno::EINTR) if row.restart => Err(thread.interrupted(RESTART)),
        Some(Errno::EINTR) if row.blocks => Err(thread.interrupted(RESTART_NO_HANDLER)),
        Some(errno) => Err(errno),
    }
}

/// Raises the signal that Linux has sent for a call, if it is one of those.
fn raise(thread: &'static Thread) {
    let signal = match Signal::new(thread.host.more()[0]) {
        Some(signal @ (Signal::PIPE | Signal::XFSZ)) => signal,
        _ => return,
    };
    let identity = thread.rank.identity();
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

/// What Linux reads or writes at most in one call, whatever a program requests (MAX_RW_COUNT, include/linux/fs.h).
const MAX_RW_BYTES: u64 = 0x7fff_f000;

/// Counts what Linux may write as written, which the page tables do not notice, until [`has_written`]. Returns the position of
/// the region log.
fn note_written(rank: &Rank, row: &Row, args: &[u64; 6]) -> u64 {
    rank.writers.fetch_add(1, Ordering::SeqCst);
    let log_position = rank.host.mappings();
    // A rank that ends meanwhile has nothing to be noted.
    let _ = rank.with_aspace(|aspace| {
        mark_dirty(aspace, row, args);
        Ok(())
    });
    log_position
}

fn mark_dirty(aspace: &mut Aspace, row: &Row, args: &[u64; 6]) {
    for_each_written(row, args, &mut |start, end| aspace.mark_dirty(start, end));
}

/// Linux does not write any more: what was mapped since [`note_written`] counts as written, too, and code is translated anew.
fn has_written(rank: &Rank, row: &Row, args: &[u64; 6], log_position: u64) {
    let _ = rank.with_aspace(|aspace| {
        if rank.host.mappings() != log_position {
            mark_dirty(aspace, row, args);
        }
        if aspace.has_writable_code() {
            for_each_written(row, args, &mut |start, end| aspace.renew_code(start, end));
        }
        Ok(())
    });
    rank.writers.fetch_sub(1, Ordering::SeqCst);
}

/// Whether a call may write to the program's memory at all.
fn may_write(row: &Row) -> bool {
    // BOUND: the arguments of a call.
    row.args.iter().any(|arg| {
        matches!(
            arg,
            Arg::Mem(Dir::Out | Dir::InOut, _)
                | Arg::Iovec(Dir::Out | Dir::InOut, _)
                | Arg::Msghdr(Dir::Out | Dir::InOut)
                | Arg::Mmsghdr(Dir::Out | Dir::InOut, _)
                | Arg::Request
        )
    })
}

/// Shows `visit` each range, below the end of user memory, that Linux may write.
fn for_each_written(row: &Row, args: &[u64; 6], visit: &mut impl FnMut(u64, u64)) {
    let mut before = 0;
    // BOUND: the arguments of a call.
    for (arg, &value) in row.args.iter().zip(args) {
        match *arg {
            Arg::Mem(Dir::Out | Dir::InOut, len) => show(visit, value, length(len, args)),
            Arg::Iovec(Dir::Out | Dir::InOut, count) => {
                show_iovec(visit, value, args[count as usize]);
            }
            Arg::Msghdr(Dir::Out | Dir::InOut) => {
                show_msghdr(visit, value);
            }
            Arg::Mmsghdr(Dir::Out | Dir::InOut, count) => {
                let count = args[count as usize].min(MAX_VECTORS);
                show(visit, value, count * MESSAGE_BYTES);
                // Linux ends the array where it cannot be read.
                let _ =
                    // POINT: show_msghdr
                    (0..count).all(|i| show_msghdr(visit, value.wrapping_add(i * MESSAGE_BYTES)));
            }
            Arg::Request => show_request(visit, row, before, value),
            _ => {}
        }
        before = value;
    }
}

/// Shows what a request of ioctl or fcntl writes, behind the pointers inside of its structure as well.
fn show_request(visit: &mut impl FnMut(u64, u64), row: &Row, request: u64, at: u64) {
    match request::argument(row, request) {
        Some(Argument::Memory(..)) => show(visit, at, REQUEST_BYTES),
        Some(Argument::Ifconf) => {
            // struct ifconf: length (int), buffer (uapi/linux/if.h)
            show(visit, at, 16);
            if let Ok([len, buffer]) = get_words(at) {
                show(visit, buffer, u64::from(len as u32));
            }
        }
        Some(Argument::Ethtool) => {
            // struct ifreq: name (16 bytes), structure
            if let Ok([_, _, structure]) = get_words(at) {
                show(visit, structure, ETHTOOL_BYTES);
            }
        }
        Some(
            Argument::Number
            | Argument::Fd
            | Argument::Owner
            | Argument::OwnerAt
            | Argument::OwnerEx,
        )
        | None => {}
    }
}

/// Shows what Linux may write of a buffer.
fn show(visit: &mut impl FnMut(u64, u64), start: u64, len_bytes: u64) {
    let end = start
        .saturating_add(len_bytes.min(MAX_RW_BYTES))
        .min(USER_TOP);
    if start < end {
        visit(start, end);
    }
}

fn length(len: Len, args: &[u64; 6]) -> u64 {
    match len {
        Len::Bytes(bytes) => u64::from(bytes),
        Len::Arg(i) => args[i as usize],
        Len::Times(i, bytes) => args[i as usize].saturating_mul(u64::from(bytes)),
        Len::Bits(i) => bytes_of_bits(args[i as usize]),
        Len::AtPtr(i) => get_words(args[i as usize]).map_or(0, |[word]| u64::from(word as u32)),
    }
}

fn show_iovec(visit: &mut impl FnMut(u64, u64), at: u64, count: u64) {
    /// Work per element, in instructions: with what is done about the buffer.
    const WORK: u32 = 300;
    // The sum is limited, not the pieces.
    let mut left_bytes = MAX_RW_BYTES;
    for i in 0..count.min(MAX_VECTORS) {
        preempt::point(WORK);
        let Ok([base, len_bytes]) = get_words(at.wrapping_add(i * VECTOR_BYTES)) else {
            return;
        };
        show(visit, base, len_bytes.min(left_bytes));
        left_bytes = left_bytes.saturating_sub(len_bytes);
    }
}

/// A struct user_msghdr; `false`: there is none.
fn show_msghdr(visit: &mut impl FnMut(u64, u64), at: u64) -> bool {
    /// Work besides that of its vectors, in instructions.
    const WORK: u32 = 300;
    preempt::point(WORK);
    let Ok([name, name_len, iov, count, control, control_len, _]) = get_words::<MESSAGE_WORDS>(at)
    else {
        return false;
    };
    show(visit, at, 56);
    show(visit, name, u64::from(name_len as u32));
    show(visit, control, control_len);
    show_iovec(visit, iov, count);
    true
}
