//! The crash report: what a rank that a fault ended was doing.
//!
//! The kernel gives signal, exception and registers ([`Crash`]). The rest is read here, where the program's memory is still
//! mapped and its file open: the instruction, who called whom, the names of all that. Nothing of it is trusted: memory is read
//! through [`RankMemory`], the file by parsers made for files that may be wrong, and text from either is printed without control
//! characters.

mod image;
mod instruction;
mod text;

use std::fmt::Write as _;

use abi::map::{PAGE, in_window};
pub use image::Image;
use instruction::Instruction;
use wire::rank::Crash;

use crate::memory::RankMemory;
use crate::regions::{Region, Regions};

/// Most regions of a crash report.
const REGIONS_SHOWN: usize = 16;
/// An access so far below the stack pointer, or a stack pointer so close to the stack's end, is what a stack that is used up
/// looks like.
const NEAR_BYTES: u64 = 64 << 10;

/// Exceptions (AMD APM vol. 2 §8.2).
mod vector {
    pub const INVALID_OPCODE: u64 = 6;
    pub const STACK: u64 = 12;
    pub const PROTECTION: u64 = 13;
    pub const PAGE: u64 = 14;
}

/// The kernel's record, copied: the rank's node may write to the original.
struct Fault {
    signo: i32,
    code: i32,
    addr: u64,
    trap: u64,
    error: u64,
    regs: [u64; Crash::REGISTERS.len()],
}

impl Fault {
    fn of(crash: &Crash) -> Fault {
        Fault {
            signo: crash.signo.load() as i32,
            code: crash.code.load() as i32,
            addr: crash.addr.load(),
            trap: crash.trap[0].load(),
            error: crash.trap[1].load(),
            regs: std::array::from_fn(|i| crash.regs[i].load()),
        }
    }

    fn register(&self, name: &str) -> u64 {
        let at = Crash::REGISTERS.iter().position(|known| *known == name);
        at.map_or(0, |at| self.regs[at])
    }

    /// What the access was to do, from the page fault's error code (AMD APM vol. 2 §8.4.2).
    fn access(&self) -> &'static str {
        const WRITE: u64 = 1 << 1;
        const FETCH: u64 = 1 << 4;
        match self.error {
            error if error & FETCH != 0 => "executed",
            error if error & WRITE != 0 => "written",
            _ => "read",
        }
    }
}

/// What is known of a fault: signal, address, cause, callers, instruction, registers, the region it hit, what was mapped.
pub fn report(
    name: &str,
    crash: &Crash,
    image: Option<&Image>,
    memory: &dyn RankMemory,
    regions: &Regions,
    stack_top: u64,
) -> String {
    let fault = Fault::of(crash);
    let instruction = Instruction::at(fault.register("rip"), memory);
    let mut text = format!("{name}: {} at address {:#x}", what(fault.signo), fault.addr);
    if let Some((rank, addr)) = in_window(fault.addr) {
        let _ = write!(text, " (rank {rank}'s {addr:#x})");
    }
    if let Some(why) = why(&fault, instruction.as_ref(), regions, stack_top) {
        let _ = write!(text, ": {why}");
    }
    text.push('\n');
    if let Some(image) = image {
        let [rip, rsp, rbp] = ["rip", "rsp", "rbp"].map(|name| fault.register(name));
        for frame in image.frames(rip, rsp, rbp, memory) {
            let _ = writeln!(text, "  {frame}");
        }
    }
    if let Some(instruction) = &instruction {
        let _ = writeln!(text, "  instruction {instruction}");
    }
    let _ = writeln!(
        text,
        "  exception {}, error code {:#x}",
        fault.trap, fault.error
    );
    for (names, values) in Crash::REGISTERS.chunks(3).zip(fault.regs.chunks(3)) {
        for (name, value) in names.iter().zip(values) {
            let _ = write!(text, "  {name:>6} {value:016x}");
        }
        text.push('\n');
    }
    add_places(&mut text, &fault, regions);
    text
}

fn add_places(text: &mut String, fault: &Fault, regions: &Regions) {
    let (rip, rsp) = (fault.register("rip"), fault.register("rsp"));
    for (what, addr) in [("the address", fault.addr), ("rip", rip), ("rsp", rsp)] {
        let _ = writeln!(text, "  {what} lies in {}", place(regions, addr));
    }
    let all = regions.iter().count();
    let nearest_only = if all > REGIONS_SHOWN {
        ", nearest:"
    } else {
        ":"
    };
    let _ = writeln!(text, "  {all} regions can be read or written{nearest_only}");
    for region in nearest(regions, fault.addr) {
        let _ = writeln!(text, "    {region}");
    }
}

/// Where an address lies.
fn place(regions: &Regions, addr: u64) -> String {
    if let Some((rank, addr)) = in_window(addr) {
        return format!("the window on rank {rank}, at that rank's {addr:#x}");
    }
    let below = || regions.iter().rfind(|region| region.end <= addr);
    match (regions.at(addr), below()) {
        (Some(region), _) => region.to_string(),
        (None, Some(below)) => format!("no region, {:#x} bytes above {below}", addr - below.end),
        (None, None) => "no region".into(),
    }
}

/// The regions around an address.
fn nearest(regions: &Regions, addr: u64) -> impl Iterator<Item = &Region> {
    let below = regions.iter().filter(|region| region.end <= addr).count();
    regions
        .iter()
        .skip(below.saturating_sub(REGIONS_SHOWN / 2))
        .take(REGIONS_SHOWN)
}

/// A signal's meaning and name.
fn what(signo: i32) -> String {
    let (meaning, name) = match signo {
        libc::SIGILL => ("illegal instruction", "SIGILL"),
        libc::SIGTRAP => ("breakpoint", "SIGTRAP"),
        libc::SIGBUS => ("bus error", "SIGBUS"),
        libc::SIGFPE => ("arithmetic error", "SIGFPE"),
        libc::SIGSEGV => ("segmentation fault", "SIGSEGV"),
        _ => return format!("signal {signo}"),
    };
    format!("{meaning} ({name})")
}

/// What si_code adds (uapi/asm-generic/siginfo.h), and the exception behind it.
fn why(
    fault: &Fault,
    instruction: Option<&Instruction>,
    regions: &Regions,
    stack_top: u64,
) -> Option<String> {
    const KERNEL: i32 = 128;
    let text = match (fault.signo, fault.code) {
        (libc::SIGSEGV, 2) if is_in_guard(fault, regions, stack_top) => format!(
            "stack overflow: {} in the guard page below a thread's stack: it needs a larger stack (ulimit -s, OMP_STACKSIZE, \
             pthread_attr_setstacksize) or less recursion",
            fault.access()
        ),
        (libc::SIGSEGV, 1 | 2) if is_stack_overflow(fault, regions, stack_top) => {
            "stack overflow: it needs a larger limit (ulimit -s) or less recursion".into()
        }
        (libc::SIGSEGV, 1) if in_window(fault.addr).is_some() => {
            format!(
                "{} where that rank has nothing mapped, or there is no such rank any more",
                fault.access()
            )
        }
        (libc::SIGSEGV, 1) => format!("{} where nothing is mapped", fault.access()),
        (libc::SIGSEGV, 2) => format!("{} where that is not permitted", fault.access()),
        (libc::SIGSEGV, KERNEL) => return Some(protection(fault, instruction)),
        (libc::SIGFPE, 1) => "integer division by zero".into(),
        (libc::SIGFPE, 2) => "integer overflow".into(),
        (libc::SIGFPE, 3) => "floating-point division by zero".into(),
        (libc::SIGFPE, 4) => "floating-point overflow".into(),
        (libc::SIGFPE, 5) => "floating-point underflow".into(),
        (libc::SIGFPE, 6) => "inexact floating-point result".into(),
        (libc::SIGFPE, 7) => "invalid floating-point operation".into(),
        (libc::SIGBUS, 1) => "misaligned access".into(),
        (libc::SIGILL, _) if fault.trap == vector::INVALID_OPCODE => {
            return instruction.and_then(Instruction::lacking);
        }
        _ => return None,
    };
    Some(text)
}

/// SIGSEGV by SI_KERNEL: a general protection or stack exception is the program's doing; without one the kernel found the
/// fault.
fn protection(fault: &Fault, instruction: Option<&Instruction>) -> String {
    if ![vector::STACK, vector::PROTECTION].contains(&fault.trap) {
        return "a signal's frame cannot be written to the stack, or not be returned from".into();
    }
    let value = |name: &str| fault.register(name);
    match instruction {
        Some(instruction) if instruction.is_privileged() => "privileged instruction".into(),
        Some(instruction) => match instruction.non_canonical(value) {
            Some(addr) => format!("{addr:#x} is no address: it is not canonical"),
            None => "the address or instruction is not allowed".into(),
        },
        None => "the address or instruction is not allowed".into(),
    }
}

/// Whether the main thread ran out of stack: it touched what lies below the stack, near the stack pointer, and that is not in
/// other memory: a thread's stack pointer may lie anywhere below.
fn is_stack_overflow(fault: &Fault, regions: &Regions, stack_top: u64) -> bool {
    let lowest = main_stack(regions, stack_top);
    let rsp = fault.register("rsp");
    fault.trap == vector::PAGE
        && lowest < stack_top
        && (rsp.saturating_sub(NEAR_BYTES)..lowest).contains(&fault.addr)
        && rsp < lowest + NEAR_BYTES
        && regions.at(rsp).is_none_or(|region| region.start >= lowest)
}

/// Whether another thread ran out of stack: it touched what is reserved, not accessible, and lies just below the memory that its
/// stack pointer is at the beginning of.
fn is_in_guard(fault: &Fault, regions: &Regions, stack_top: u64) -> bool {
    let above = regions.iter().find(|region| region.start > fault.addr);
    let rsp = fault.register("rsp");
    fault.trap == vector::PAGE
        && regions.at(fault.addr).is_none()
        && above.is_some_and(|stack| {
            stack.write
                && stack.start != main_stack(regions, stack_top)
                && stack.start - fault.addr <= NEAR_BYTES
                && stack.start.abs_diff(rsp) <= NEAR_BYTES
        })
}

/// The lowest address of the main thread's stack, which is mapped in pieces, of which the last ends at `stack_top`.
fn main_stack(regions: &Regions, stack_top: u64) -> u64 {
    let mut lowest = stack_top;
    while let Some(below) = regions.at(lowest - PAGE).filter(|region| region.write) {
        lowest = below.start;
    }
    lowest
}

#[cfg(test)]
mod tests;
