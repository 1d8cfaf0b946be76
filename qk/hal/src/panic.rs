//! The end of the node: a kernel bug prints a panic report and stops everything.
//!
//! The first CPU that panics wins: it stops the others by NMI, takes the serial port from its holder, and prints lines that yod
//! symbolises. A panic while printing a panic report just stops.

use crate::task::kstack;
use crate::traps::{self, Registers};
use crate::{cpu, serial, sync};
use arrayvec::{ArrayString, ArrayVec};
use core::fmt::{self, Write};
use core::sync::atomic::{AtomicUsize, Ordering};

/// Deepest backtrace, in frames.
pub const MAX_BACKTRACE: usize = 32;
/// Longest reason kept, in bytes.
const MAX_REASON: usize = 400;
/// QEMU's exit status becomes 127: no program's status, and even the exit device's lowest bit agrees.
const EXIT_CODE: u8 = 0x7f >> 1;
/// How long the others get to stop, in PAUSEs.
const STOP_SPINS: u32 = 2000;

const NO_CPU: usize = usize::MAX;
/// The CPU that is dying.
static PANICKING_CPU: AtomicUsize = AtomicUsize::new(NO_CPU);

/// What is known about the end.
#[derive(Debug)]
pub struct PanicReport<'a> {
    /// The CPU that found the bug.
    pub cpu: usize,
    /// What happened, in one line.
    pub reason: &'a str,
    /// The registers, when an exception was the cause.
    pub registers: Option<Registers>,
    /// Return addresses, innermost first.
    pub backtrace: &'a [u64],
}

/// Whether a CPU is printing its panic report.
pub(crate) fn in_progress() -> bool {
    PANICKING_CPU.load(Ordering::SeqCst) != NO_CPU
}

/// Ends the node because of `reason`.
pub(crate) fn die(reason: fmt::Arguments<'_>, registers: Option<Registers>) -> ! {
    let cpu = cpu::id();
    if PANICKING_CPU
        .compare_exchange(NO_CPU, cpu, Ordering::SeqCst, Ordering::Relaxed)
        .is_err()
    {
        cpu::stop();
    }
    cpu::stop_others();
    sync::end_order();
    // BOUND: in a panic.
    (0..STOP_SPINS).for_each(|_| cpu::pause());
    serial::break_lock();

    let mut text = Cut(ArrayString::new());
    // A message that cannot be formatted is printed as far as it came.
    let _ = text.write_fmt(reason);
    let backtrace = match registers {
        Some(at) => backtrace(at.rip, at.general.rbp),
        None => backtrace(0, frame_pointer()),
    };
    let report = PanicReport {
        cpu,
        reason: &text.0,
        registers,
        backtrace: &backtrace,
    };
    print(&report);
    if let Some(handlers) = traps::handlers() {
        (handlers.panic)(&report);
    }
    cpu::exit_node(EXIT_CODE)
}

fn print(report: &PanicReport<'_>) {
    serial::line(format_args!("PANIC cpu {}: {}", report.cpu, report.reason));
    if let Some(all) = report.registers {
        let r = all.general;
        for names in [
            [("rip", all.rip), ("rsp", all.rsp), ("rflags", all.rflags)],
            [("rax", r.rax), ("rbx", r.rbx), ("rcx", r.rcx)],
            [("rdx", r.rdx), ("rsi", r.rsi), ("rdi", r.rdi)],
            [("rbp", r.rbp), ("r8", r.r8), ("r9", r.r9)],
            [("r10", r.r10), ("r11", r.r11), ("r12", r.r12)],
            [("r13", r.r13), ("r14", r.r14), ("r15", r.r15)],
        ] {
            let [(a, x), (b, y), (c, z)] = names;
            serial::line(format_args!(
                "  {a:>6} {x:016x} {b:>6} {y:016x} {c:>6} {z:016x}"
            ));
        }
    }
    serial::line(format_args!("BACKTRACE{}", Addresses(report.backtrace)));
}

/// ` 0x1 0x2 ...`
struct Addresses<'a>(&'a [u64]);

impl fmt::Display for Addresses<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // BOUND: MAX_BACKTRACE.
        self.0
            .iter()
            .try_for_each(|address| write!(f, " {address:#x}"))
    }
}

/// Keeps what fits and drops the rest; line breaks become spaces, so that the panic report stays one line.
struct Cut(ArrayString<MAX_REASON>);

impl Write for Cut {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // BOUND: what the text has room for, in a panic.
        for c in text.chars() {
            let c = if c == '\n' { ' ' } else { c };
            if self.0.try_push(c).is_err() {
                break;
            }
        }
        Ok(())
    }
}

/// Return addresses found by frame pointers, from `rbp` up; `rip` first when it is known.
fn backtrace(rip: u64, mut rbp: u64) -> ArrayVec<u64, MAX_BACKTRACE> {
    let mut found = ArrayVec::new();
    if rip != 0 {
        found.push(rip);
    }
    // BOUND: MAX_BACKTRACE.
    while !found.is_full() {
        let Some([next, address]) = kstack::read_pair(rbp) else {
            break;
        };
        if address == 0 {
            break;
        }
        found.push(address);
        if next <= rbp {
            break;
        }
        rbp = next;
    }
    found
}

fn frame_pointer() -> u64 {
    let rbp;
    // SAFETY: 1. Reading a register.
    unsafe {
        core::arch::asm!("mov {}, rbp", out(reg) rbp, options(nomem, nostack, preserves_flags))
    };
    rbp
}

#[panic_handler]
fn on_panic(info: &core::panic::PanicInfo<'_>) -> ! {
    match info.location() {
        Some(at) => die(
            format_args!("{} ({}:{})", info.message(), at.file(), at.line()),
            None,
        ),
        None => die(format_args!("{}", info.message()), None),
    }
}
