//! A node beside a running Linux, which gave up its CPUs and memory ([`wire::cokernel`]): the record that both share, and what goes by it
//! where other nodes have devices: the log, the bell to the host, the start of the other CPUs, the end.

use crate::addr::{Phys, PhysRange};
use crate::firmware::{Machine, cokernel};
use crate::vectors::Vector;
use core::sync::atomic::{AtomicPtr, Ordering};
use wire::cokernel::{LOG_BYTES, MAGIC, Record};

/// Null on every other node.
static RECORD: AtomicPtr<Record> = AtomicPtr::new(core::ptr::null_mut());

fn record() -> Option<&'static Record> {
    // SAFETY: 1. `open` stored a pointer to a record, which the direct map shows for good, or nothing did.
    //         2. The record is no RAM of the node's, and consists of atomics.
    unsafe { RECORD.load(Ordering::Relaxed).as_ref() }
}

/// This node is one, whose record lies at `at`. Once, by the first CPU. False: there is none.
pub(crate) fn open(at: Phys) -> bool {
    RECORD.store(at.direct() as *mut Record, Ordering::Relaxed);
    record().is_some_and(|record| record.magic.load() == MAGIC)
}

/// Reads what Linux gave up.
///
/// # Errors
/// What makes no sense.
pub(crate) fn read(at: Phys) -> Result<Machine, &'static str> {
    record().map_or(Err("no record"), |record| cokernel::read(record, at))
}

/// Whether this node is one.
pub(crate) fn is_here() -> bool {
    record().is_some()
}

/// TSC ticks per second, as Linux knows it.
pub(crate) fn tsc_hz() -> Option<u64> {
    let hz = record()?.tsc_hz.load();
    (hz != 0).then_some(hz)
}

/// Has CPU `cpu`, which waits, go on at `address`.
pub(crate) fn send(cpu: usize, address: u64) {
    if let Some(record) = record() {
        record.mailbox[cpu].store(address);
    }
}

/// Marks bell `bell` of the host as signalled; returns the APIC id and the vector that rings it. `None`: this is no co-kernel, or there
/// is no such bell.
pub(crate) fn signal(bell: u16) -> Option<(u32, Vector)> {
    let record = record()?;
    let word = record.bells.get(usize::from(bell / 64))?;
    word.as_atomic()
        .fetch_or(1 << (bell % 64), Ordering::SeqCst);
    let (cpu, vector) = (record.bell_apic_id.load(), record.bell_vector.load());
    Some((cpu as u32, vector as Vector))
}

/// Writes to the log, whose writer is the caller alone.
pub(crate) fn log(bytes: &[u8]) {
    let Some(record) = record() else {
        return;
    };
    let mut end = record.log_end.peek();
    // BOUND: a line of the log.
    for &byte in bytes {
        let (word, shift) = (&record.log[end as usize % LOG_BYTES / 8], end % 8 * 8);
        word.put(word.peek() & !(0xff << shift) | u64::from(byte) << shift);
        end += 1;
    }
    record.log_end.store(end);
}

/// Says that the node has ended.
pub(crate) fn end(code: u8) {
    if let Some(record) = record() {
        record.ended.store(u64::from(code) + 1);
    }
}

/// Lets processes of the host map `range`, too, which is pool memory.
pub(crate) fn show(range: PhysRange) {
    let Some(record) = record() else {
        return;
    };
    let count = record.shown_count.peek();
    if let Some(shown) = record.shown.get(count as usize) {
        shown.start.put(range.start.0);
        shown.len_bytes.put(range.len_bytes());
        record.shown_count.store(count + 1);
    }
}
