//! The trace for `--strace`: records of a rank's calls and signals, in its ring of the area.
//!
//! Memory is copied as the table's kinds of arguments say: what a call reads before it is carried out, what it wrote
//! afterwards, so that the program cannot change it in between. How much is bounded (constants below). A copy that faults is
//! left out. Without `--strace` none of this runs: `syscall::init` chooses the entry.

use abi::syscall::operand::{Flow, Kind as What, Operand, Piece};
use abi::syscall::{Dir, by_nr, layout};
use hal::addr::User;
use qk_core::signals::SigInfo;
use wire::trace::{Kind, Pieces, Record, TraceRing};

use crate::thread::Thread;
use crate::user::{Program, string_bytes};
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
const VECTORS: usize = 8;
/// Work for a structure of pointers, in instructions.
const WORK: u32 = 100;

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
    if let Some(ring) = thread.rank().host().trace {
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
    if let Some(ring) = thread.rank().host().trace {
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
    if let Some(row) = by_nr(nr) {
        // BOUND: the arguments of a call.
        for i in 0..row.args.len() {
            copy_operand(&mut record, row.operand(i, args), args[i]);
        }
    }
    append(thread, ring, &record);
}

/// Adds a record, waiting for room: the host reads all the time, and nothing is lost. One that does not read holds up its rank, and no
/// other, and its end for [`LAST_NS`] at most.
fn append(thread: &'static Thread, ring: &TraceRing, record: &Record) {
    let append = || {
        let _one_at_a_time = thread.rank().host().tracing.lock();
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
            sched::yield_now(thread.task());
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

/// Copies what an argument leads to, but for arrays of messages: an array of vectors when the call begins, what they point to
/// when it is due.
fn copy_operand(record: &mut Record, operand: Operand, at: u64) {
    if matches!(operand, Operand::Messages(..)) {
        return;
    }
    let mut vectors = 0;
    // What was read ends somewhere in the buffers.
    let mut left_bytes = match record.kind {
        Kind::Exit => record.ret as u64,
        _ => u64::MAX,
    };
    let _ = operand.pieces(at, &Program(WORK), &mut |piece: Piece| {
        let is_vector = piece.kind == What::Vector;
        if !is_due(record, piece.dir) {
            return if is_vector {
                Flow::Break(())
            } else {
                Flow::Continue(())
            };
        }
        let most_bytes = match piece.kind {
            What::String => string_bytes(piece.at, STRING_BYTES as u64).unwrap_or(0) as usize,
            What::Counted | What::Buffer => BUFFER_BYTES,
            What::Vectors => VECTORS * layout::VECTOR_BYTES as usize,
            What::Vector => VECTOR_BYTES,
            What::Structure | What::Message | What::Messages => STRUCT_BYTES,
            What::Control => 0,
        };
        let mut bytes = piece.len_bytes;
        // Calls that fill a buffer return how far.
        let is_filled = piece.kind == What::Counted && piece.dir == Dir::Out && left_bytes > 0;
        if is_vector || is_filled {
            bytes = bytes.min(left_bytes);
            left_bytes -= bytes;
        }
        let bytes = bytes.min(most_bytes as u64) as usize;
        record.pieces.add(piece.at, bytes, memory(piece.at));
        vectors += usize::from(is_vector);
        if vectors < VECTORS {
            Flow::Continue(())
        } else {
            Flow::Break(())
        }
    });
}

/// As much as is requested: all of it or nothing.
fn memory(at: u64) -> impl FnOnce(&mut [u8]) -> Option<usize> {
    move |to| {
        let user = User::range(at, to.len() as u64)?;
        hal::user::copy_in(to, user).ok().map(|()| to.len())
    }
}
