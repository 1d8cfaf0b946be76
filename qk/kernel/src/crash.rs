//! What is known of a rank that a signal with a core dump ends: for the report that its proxy prints, and for the core file
//! that it writes.
//!
//! A thread that leaves a rank which is dumped halts and shows its registers ([`crate::halt`]); the last one has the core
//! written. The memory is there for the proxy to read.

use abi::Errno;
use abi::control::HostOp;
use abi::rlimit;
use hal::addr::Va;
use hal::traps::UserFrame;
use qk_core::regions::{Region, RegionFlags};
use qk_core::signals::SigInfo;

use crate::host::ship;
use crate::rank::Rank;
use crate::thread::Thread;

/// Fills in the crash record of a fault; it is published with the rank's end.
pub fn report(thread: &Thread, f: &UserFrame, info: &SigInfo) {
    let crash = thread.rank().host().crash();
    let trap = thread.signals().trap;
    crash.signo.put(u64::from(info.signal.number()));
    crash.code.put(i64::from(info.code) as u64);
    crash.addr.put(info.fields[0]);
    crash.trap[0].put(u64::from(trap.vector));
    crash.trap[1].put(trap.error);
    let regs = [
        f.rip(),
        f.rsp,
        f.rflags(),
        f.rax,
        f.rbx,
        f.rcx,
        f.rdx,
        f.rsi,
        f.rdi,
        f.rbp,
        f.r8,
        f.r9,
        f.r10,
        f.r11,
        f.r12,
        f.r13,
        f.r14,
        f.r15,
    ];
    // BOUND: the words of a record.
    crash
        .regs
        .iter()
        .zip(regs)
        .for_each(|(to, from)| to.put(from));
    crash.valid.put(1);
}

/// Whether a core file of the rank may be written: it has not forbidden it by prctl or RLIMIT_CORE.
pub fn is_due(rank: &Rank) -> bool {
    rank.attributes().is_dumpable() && rank.limit(rlimit::CORE)[0] != 0
}

/// Notes which thread took the signal that ends the rank.
pub fn note_signal(thread: &Thread, info: &SigInfo) {
    let crash = thread.rank().host().crash();
    crash.thread.put(thread.index() as u64);
    // BOUND: the words of a record.
    for (to, from) in crash.info.iter().zip(info.to_words()) {
        to.put(from);
    }
}

/// Has the core of a rank written, of which `thread` was the last to end. Says whether there is one.
pub fn write(thread: &'static Thread) -> bool {
    let mut at = Va(0);
    // POINT: regions::list::next
    while let Ok(Some(region)) = left_out(thread.rank(), at) {
        let _ = ship::host_op(thread, HostOp::LeaveOut, [region.start.0, region.end.0]);
        at = region.end;
    }
    ship::host_op(thread, HostOp::WriteCore, []) == Ok(1)
}

/// The first region from `at` on that is to be left out.
fn left_out(rank: &Rank, at: Va) -> Result<Option<Region>, Errno> {
    let is_left_out = |region: &Region| region.flags.contains(RegionFlags::DONT_DUMP);
    let behind = at.until(Va(u64::MAX));
    // POINT: regions::list::next
    rank.with_aspace(|aspace| Ok(aspace.regions().iter_range(behind).find(is_left_out)))
}
