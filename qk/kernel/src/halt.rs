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

/// Registers that a program can change freely: all but those of its place, its flags, its stack and segments.
const PLAIN: usize = 15;
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

/// The registers that a program can change freely, in the order of [`GENERAL`]; what follows there is segments, bases and what a
/// frame has checked.
fn registers(f: &mut UserFrame) -> [&mut u64; PLAIN] {
    let f = &mut **f;
    [
        &mut f.r15, &mut f.r14, &mut f.r13, &mut f.r12, &mut f.rbp, &mut f.rbx, &mut f.r11,
        &mut f.r10, &mut f.r9, &mut f.r8, &mut f.rax, &mut f.rcx, &mut f.rdx, &mut f.rsi,
        &mut f.rdi,
    ]
}

/// Copies the registers of the running thread to the rank's record.
#[inline(never)] // Its image is a quarter of the stack, as that of `load`.
fn show(thread: &Thread, f: &mut UserFrame, nr: Option<u64>) {
    let record = thread.rank().host().shown_registers();
    let (plain, others) = record.general.split_at(PLAIN);
    // BOUND: the registers.
    for (to, from) in plain.iter().zip(registers(f)) {
        to.put(*from);
    }
    let (fs_base, gs_base) = (hal::task::fs_base(), hal::task::gs_base());
    let call = nr.unwrap_or(NO_CALL);
    let (rip, rflags) = (f.rip(), f.rflags());
    // The selectors of ds, es, fs and gs are 0 in 64-bit programs.
    let last: [u64; GENERAL - PLAIN] = [
        call, rip, f.cs, rflags, f.rsp, f.ss, fs_base, gs_base, 0, 0, 0, 0,
    ];
    // BOUND: the registers.
    for (to, from) in others.iter().zip(last) {
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
    // BOUND: the registers.
    for (to, from) in registers(f).into_iter().zip(words) {
        *to = from;
    }
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
        .with_aspace(|aspace| Ok(aspace.partition().holds(Phys(at), PAGE)));
    if is_own == Ok(true) {
        hal::mem::rewrite(Phys(at), PAGE);
    }
}
