//! The trace for `--strace`: records of a rank's calls and signals, in its ring of the area.
//!
//! Memory is copied as the table's kinds of arguments say: what a call reads before it is carried out, what it wrote
//! afterwards, so that the program cannot change it in between. How much is bounded (constants below). A copy that faults is
//! left out. Without `--strace` none of this runs: `syscall::init` chooses the entry.

use abi::syscall::{Arg, Dir, Len, by_nr, bytes_of_bits};
use hal::addr::User;
use qk_core::signals::SigInfo;
use wire::trace::{Kind, Pieces, Record, TraceRing};

use crate::thread::Thread;
use crate::user::get_words;
use crate::{clock, preempt, sched};

/// Bytes kept of a path or another string.
const STRING_BYTES: usize = 256;
/// Bytes kept of a buffer, or of a structure whose length the program says.
const BUFFER_BYTES: usize = 128;
/// Bytes kept of a structure or an array of them.
const STRUCT_BYTES: usize = 256;
/// Bytes kept of what an iovec points to.
const VECTOR_BYTES: usize = 40;
/// Vectors kept.
const VECTORS: u64 = 8;
/// Bytes kept behind ioctl's and fcntl's third argument, which may be a pointer.
const REQUEST_BYTES: usize = 64;
/// sizeof(struct iovec), sizeof(struct user_msghdr).
const IOVEC_BYTES: u64 = 16;
const MSGHDR_BYTES: usize = 56;

/// How long the records of a thread that has to end wait for room.
const LAST_NS: u64 = 1_000_000_000;

/// A call begins.
#[inline]
pub fn enter(thread: &'static Thread, nr: u64, args: &[u64; 6]) {
    call(thread, Kind::Enter, nr, args, 0);
}

/// It returns.
#[inline]
pub fn exit(thread: &'static Thread, nr: u64, args: &[u64; 6], ret: i64) {
    call(thread, Kind::Exit, nr, args, ret);
}

/// A signal is acted on.
#[inline]
pub fn signal(thread: &'static Thread, info: &SigInfo) {
    if let Some(ring) = thread.rank.host.trace {
        append_signal(thread, ring, info);
    }
}

#[cold]
fn append_signal(thread: &'static Thread, ring: &TraceRing, info: &SigInfo) {
    let [a, b, c, d] = info.fields;
    let record = Record {
        kind: Kind::Signal,
        time_ns: clock::now_ns().1,
        nr: u64::from(info.signal.number()),
        args: [a, b, c, d, 0, 0],
        ret: i64::from(info.code),
        tid: thread.tid(),
        pieces: Pieces::default(),
    };
    append(thread, ring, &record);
}

#[inline]
fn call(thread: &'static Thread, kind: Kind, nr: u64, args: &[u64; 6], ret: i64) {
    if let Some(ring) = thread.rank.host.trace {
        append_call(thread, ring, kind, nr, args, ret);
    }
}

#[cold]
#[inline(never)] // Out of the way of calls that are only counted.
fn append_call(
    thread: &'static Thread,
    ring: &TraceRing,
    kind: Kind,
    nr: u64,
    args: &[u64; 6],
    ret: i64,
) {
    let mut record = Record {
        kind,
        time_ns: clock::now_ns().1,
        nr,
        args: *args,
        ret,
        tid: thread.tid(),
        pieces: Pieces::default(),
    };
    let kinds = by_nr(nr).map_or(&[][..], |row| row.args);
    // BOUND: the arguments of a call.
    for (arg, &value) in kinds.iter().zip(args) {
        if value != 0 {
            copy_argument(&mut record, *arg, value);
        }
    }
    append(thread, ring, &record);
}

/// Adds a record, waiting for room: the host reads all the time, and nothing is lost. One that does not read holds up its rank, and no
/// other, and its end for [`LAST_NS`] at most.
fn append(thread: &'static Thread, ring: &TraceRing, record: &Record) {
    let append = || {
        let _one_at_a_time = thread.rank.host.tracing.lock();
        ring.append(record)
    };
    let mut limit = None;
    while !append() {
        let now = hal::time::tsc();
        if thread.must_end() && now > *limit.get_or_insert(now + clock::ticks(LAST_NS)) {
            return;
        }
        preempt::take_interrupts();
        hal::cpu::pause();
        if sched::is_wanted() {
            sched::yield_now(&thread.task);
        }
    }
}

/// Whether memory that moves in this direction is of interest now.
fn is_due(record: &Record, dir: Dir) -> bool {
    match record.kind {
        Kind::Enter => dir != Dir::Out,
        _ => dir != Dir::In && record.ret >= 0,
    }
}

fn copy_argument(record: &mut Record, arg: Arg, at: u64) {
    let entering = record.kind == Kind::Enter;
    match arg {
        Arg::Path | Arg::Str if entering => record.pieces.add(at, STRING_BYTES, string(at)),
        Arg::Mem(dir, len) if is_due(record, dir) => {
            let bytes = length(record, dir, len);
            record.pieces.add(at, bytes, memory(at));
        }
        Arg::Iovec(dir, count) => copy_vectors(record, dir, at, record.args[usize::from(count)]),
        Arg::Msghdr(dir) => copy_message(record, dir, at),
        Arg::Request => record.pieces.add(at, REQUEST_BYTES, memory(at)),
        Arg::SigsetPair if entering => {
            record.pieces.add(at, 16, memory(at));
            if let Ok([set]) = get_words(at) {
                record.pieces.add(set, 8, memory(set));
            }
        }
        _ => {}
    }
}

fn length(record: &Record, dir: Dir, len: Len) -> usize {
    let (bytes, most) = match len {
        Len::Bytes(bytes) => (u64::from(bytes), STRUCT_BYTES),
        Len::Arg(i) => {
            let asked = record.args[usize::from(i)];
            match (dir, record.kind) {
                // Calls that fill a buffer return how far.
                (Dir::Out, Kind::Exit) if record.ret > 0 => {
                    (asked.min(record.ret as u64), BUFFER_BYTES)
                }
                _ => (asked, BUFFER_BYTES),
            }
        }
        Len::Times(i, bytes) => {
            let count = record.args[usize::from(i)];
            (count.saturating_mul(bytes.into()), STRUCT_BYTES)
        }
        Len::Bits(i) => (bytes_of_bits(record.args[usize::from(i)]), STRUCT_BYTES),
        Len::AtPtr(i) => {
            let at = record.args[usize::from(i)];
            let len = get_words(at).map_or(0, |[word]| u64::from(word as u32));
            (len, BUFFER_BYTES)
        }
    };
    bytes.min(most as u64) as usize
}

/// An array of vectors when the call begins; what they point to when it is due.
fn copy_vectors(record: &mut Record, dir: Dir, at: u64, count: u64) {
    let count = count.min(VECTORS);
    if record.kind == Kind::Enter {
        record
            .pieces
            .add(at, (count * IOVEC_BYTES) as usize, memory(at));
    }
    if !is_due(record, dir) {
        return;
    }
    let mut left = if dir == Dir::In {
        u64::MAX
    } else {
        record.ret as u64
    };
    // BOUND: VECTORS.
    for i in 0..count {
        let Ok([base, len]) = get_words(at.wrapping_add(i * IOVEC_BYTES)) else {
            return;
        };
        let bytes = len.min(left);
        left -= bytes;
        record
            .pieces
            .add(base, bytes.min(VECTOR_BYTES as u64) as usize, memory(base));
    }
}

/// struct user_msghdr: name, namelen (int), iov, iovlen, control, controllen, flags (int).
fn copy_message(record: &mut Record, dir: Dir, at: u64) {
    let Ok([name, name_len, iov, count]) = get_words(at) else {
        return;
    };
    record.pieces.add(at, MSGHDR_BYTES, memory(at));
    if name != 0 && is_due(record, dir) {
        let bytes = u64::from(name_len as u32).min(BUFFER_BYTES as u64);
        record.pieces.add(name, bytes as usize, memory(name));
    }
    copy_vectors(record, dir, iov, count);
}

/// As much as is requested: all of it or nothing.
fn memory(at: u64) -> impl FnOnce(&mut [u8]) -> Option<usize> {
    move |to| {
        let user = User::range(at, to.len() as u64)?;
        hal::user::copy_in(to, user).ok().map(|()| to.len())
    }
}

/// A string with its NUL, as far as there is room.
fn string(at: u64) -> impl FnOnce(&mut [u8]) -> Option<usize> {
    /// Divides a page: what begins in front of its end can be read as a whole or not at all.
    const CHUNK: u64 = 64;
    move |to| {
        let mut filled = 0;
        // BOUND: what a record has room for.
        while filled < to.len() {
            let from = at.checked_add(filled as u64)?;
            let bytes = ((CHUNK - from % CHUNK) as usize).min(to.len() - filled);
            let chunk = &mut to[filled..filled + bytes];
            hal::user::copy_in(chunk, User::range(from, bytes as u64)?).ok()?;
            // BOUND: CHUNK.
            if let Some(end) = chunk.iter().position(|byte| *byte == 0) {
                return Some(filled + end + 1);
            }
            filled += bytes;
        }
        Some(filled)
    }
}
