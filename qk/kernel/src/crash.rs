//! What is known of a rank that a signal with a core dump ends: for the report that its proxy prints.

use hal::traps::UserFrame;
use qk_core::signals::SigInfo;

use crate::thread::Thread;

/// Fills in the crash record; it is published with the rank's end.
pub fn report(thread: &Thread, f: &UserFrame, info: &SigInfo) {
    let crash = &thread.rank.area.node.crash;
    let trap = thread.signals.lock().trap;
    crash.signo.put(u64::from(info.signal.number()));
    crash.code.put(i64::from(info.code) as u64);
    crash.addr.put(info.fields[0]);
    crash.trap[0].put(u64::from(trap.vector));
    crash.trap[1].put(trap.error);
    let regs = [
        f.rip, f.rsp, f.rflags, f.rax, f.rbx, f.rcx, f.rdx, f.rsi, f.rdi, f.rbp, f.r8, f.r9, f.r10,
        f.r11, f.r12, f.r13, f.r14, f.r15,
    ];
    crash
        .regs
        .iter()
        .zip(regs)
        .for_each(|(to, from)| to.put(from));
    crash.valid.put(1);
}
