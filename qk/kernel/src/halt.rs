//! Threads that halt for their proxy, which reads their registers and says when they go on ([`abi::halt`]).

use abi::control::HostOp;
use abi::halt::{Halt, Order};
use abi::map::{PAGE, WINDOW_TOP};
use hal::addr::Phys;
use hal::traps::UserFrame;
use wire::registers::{FPU_BYTES, GENERAL};
use wire::word::Word;

use crate::host::ship;
use crate::thread::Thread;
use crate::{sched, shared};

/// orig_rax of a thread that is in no system call.
const NO_CALL: u64 = u64::MAX;

/// How a thread that had halted goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Go {
    /// With this signal; 0: none.
    pub signo: u8,
    /// For one instruction.
    pub step: bool,
}

/// The thread halts, which `why` and `with` say: it does what the proxy orders until it may go on. `nr` is the call that
/// `frame` returns from, if it is one.
pub fn halt(
    thread: &'static Thread,
    frame: &mut UserFrame,
    nr: Option<u64>,
    why: Halt,
    with: u64,
) -> Go {
    let mut why = why;
    // POINT: ship::wait
    while let Ok(order) = ship::host_op(thread, HostOp::Halted, [why as u64, with]) {
        match Order::decode(order) {
            Some(Order::Show) => show(thread, frame, nr),
            Some(Order::Load) => load(thread, frame),
            Some(Order::Rewrite(number)) => rewrite(thread, number),
            Some(Order::Own(number)) => shared::text::own_page(thread, number),
            Some(Order::Step(signo)) => return Go { signo, step: true },
            Some(Order::Go(signo)) => return Go { signo, step: false },
            None => break,
        }
        why = Halt::Done;
        // Orders may come without end, and no order may have to be waited for.
        if sched::is_wanted() {
            sched::yield_now(thread.task());
        }
    }
    Go {
        signo: 0,
        step: false,
    }
}

/// Copies the registers of the running thread to the rank's record.
#[inline(never)] // Its image is a quarter of the stack, as that of `load`.
fn show(thread: &Thread, f: &UserFrame, nr: Option<u64>) {
    let record = thread.rank().host().shown_registers();
    let (fs_base, gs_base) = (hal::task::fs_base(), hal::task::gs_base());
    let call = nr.unwrap_or(NO_CALL);
    // The selectors of ds, es, fs and gs are 0 in 64-bit programs.
    let general: [u64; GENERAL] = [
        f.r15,
        f.r14,
        f.r13,
        f.r12,
        f.rbp,
        f.rbx,
        f.r11,
        f.r10,
        f.r9,
        f.r8,
        f.rax,
        f.rcx,
        f.rdx,
        f.rsi,
        f.rdi,
        call,
        f.rip(),
        f.cs,
        f.rflags(),
        f.rsp,
        f.ss,
        fs_base,
        gs_base,
        0,
        0,
        0,
        0,
    ];
    // BOUND: the registers.
    for (to, from) in record.general.iter().zip(general) {
        to.put(from);
    }
    let mut image = [0; FPU_BYTES];
    let (len_bytes, states) = thread.task().context().read_fpu(&mut image);
    record.states.put(states);
    record.put_fpu(&image[..len_bytes]);
}

/// Takes the registers of the running thread from the proxy's record; segments stay, and bases that cannot be.
#[inline(never)]
fn load(thread: &Thread, f: &mut UserFrame) {
    let record = thread.rank().host().given_registers();
    let words = record.general.each_ref().map(Word::peek);
    [
        f.r15,
        f.r14,
        f.r13,
        f.r12,
        f.rbp,
        f.rbx,
        f.r11,
        f.r10,
        f.r9,
        f.r8,
        f.rax,
        f.rcx,
        f.rdx,
        f.rsi,
        f.rdi,
        ..,
    ] = words;
    let [.., rip, _, rflags, rsp, _, fs_base, gs_base, _, _, _, _] = words;
    f.set_rip(rip);
    f.set_rflags(rflags);
    f.rsp = rsp;
    // What cannot be an address cannot be a base either: it stays as it is.
    if fs_base < WINDOW_TOP && gs_base < WINDOW_TOP {
        let _ = hal::task::set_fs_base(fs_base);
        let _ = hal::task::set_gs_base(gs_base);
    }
    f.return_fully();
    let mut image = [0; FPU_BYTES];
    let len_bytes = record.get_fpu(&mut image);
    thread.task().context().write_fpu(&image[..len_bytes]);
}

/// Writes a page of the rank's memory once more.
fn rewrite(thread: &Thread, number: u64) {
    let at = number.saturating_mul(PAGE);
    let is_own = thread
        .rank()
        .with_aspace(|aspace| Ok(aspace.partition().contains(&at)));
    if is_own == Ok(true) {
        hal::mem::rewrite(Phys(at), PAGE);
    }
}
