//! The real QK behind the trait: control calls by the `syscall` instruction.
//!
//! The only unsafe code of the PCT: the entry point and that instruction. Buffers cross as address and length; the QK
//! checks them as it would any user's.
#![allow(unsafe_code)]

use core::arch::{asm, naked_asm};

use abi::Errno;
use abi::control::{Control, Event, HostOp, JobInfo, RankInfo, RegionKind};
use pct::Qk;
use pct::qk::{Range, Start, Text};

/// Where the QK starts the PCT, with an empty stack of any alignment.
// SAFETY: (1) The name is the linker's entry point and nothing else defines it; (2) the body only aligns the stack
// pointer to 16, as the System V ABI requires before a call, ends the chain of frames, and calls a function that never
// returns.
#[unsafe(no_mangle)]
#[unsafe(naked)]
extern "C" fn _start() -> ! {
    naked_asm!("xor ebp, ebp", "and rsp, -16", "call {main}", "ud2", main = sym enter)
}

extern "C" fn enter() -> ! {
    crate::main()
}

/// A control call with up to six arguments: its result, or the error it gives.
fn control<const N: usize>(nr: Control, first: [u64; N]) -> Result<u64, Errno> {
    let mut args = [0; 6];
    args[..N].copy_from_slice(&first);
    let ret: i64;
    // SAFETY: (1) The QK follows Linux's convention: number in rax, arguments in rdi, rsi, rdx, r10, r8, r9, result in
    // rax, rcx and r11 lost, everything else kept (abi::control). (2) The addresses among the arguments come from
    // references that outlive the call, with their own lengths, and what the QK writes to is borrowed mutably; it is
    // plain bytes or words, for which any value is valid. (3) Without `nomem` the compiler expects memory to change.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") nr as u64 => ret,
            in("rdi") args[0],
            in("rsi") args[1],
            in("rdx") args[2],
            in("r10") args[3],
            in("r8") args[4],
            in("r9") args[5],
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    match Errno::from_ret(ret) {
        Some(errno) => Err(errno),
        None => Ok(ret as u64),
    }
}

/// Ends the PCT by a trap, which the QK reports; there is no control call to end by, for the PCT is not meant to.
pub fn end() -> ! {
    // SAFETY: (1) The instruction touches nothing; (2) the QK ends a PCT that traps, so that nothing after it runs.
    unsafe { asm!("ud2", options(noreturn, nomem, nostack)) }
}

/// The kernel this PCT runs on.
pub struct Node;

impl Qk for Node {
    fn log(&mut self, text: &str) {
        // There is no other place to report a failed report.
        let _ = control(Control::Log, [text.as_ptr() as u64, text.len() as u64]);
    }

    fn job_info(&mut self) -> Result<JobInfo, Errno> {
        let mut words = [0u64; JobInfo::WORDS];
        control(
            Control::JobInfo,
            [words.as_mut_ptr() as u64, size_of_val(&words) as u64],
        )?;
        Ok(JobInfo::from_words(&words))
    }

    fn rank_info(&mut self, rank: u32) -> Result<RankInfo, Errno> {
        let mut words = [0u64; RankInfo::WORDS];
        let out = [
            rank.into(),
            words.as_mut_ptr() as u64,
            size_of_val(&words) as u64,
        ];
        control(Control::RankInfo, out)?;
        Ok(RankInfo::from_words(&words))
    }

    fn memory_range(&mut self, index: u64) -> Result<Option<Range>, Errno> {
        let mut words = [0u64; 2];
        let more = control(Control::MemoryRange, [index, words.as_mut_ptr() as u64])? != 0;
        let [base, len_bytes] = words;
        Ok(more.then_some(Range { base, len_bytes }))
    }

    fn wait_event(&mut self) -> Result<Option<Event>, Errno> {
        control(Control::WaitEvent, []).map(Event::decode)
    }

    fn aspace_create(&mut self, rank: u32, partition: Range) -> Result<(), Errno> {
        control(
            Control::AspaceCreate,
            [rank.into(), partition.base, partition.len_bytes],
        )
        .map(drop)
    }

    fn aspace_write(&mut self, rank: u32, to: u64, bytes: &[u8]) -> Result<(), Errno> {
        let from = bytes.as_ptr() as u64;
        control(
            Control::AspaceWrite,
            [rank.into(), to, from, bytes.len() as u64],
        )
        .map(drop)
    }

    fn aspace_read(&mut self, rank: u32, from: u64, bytes: &mut [u8]) -> Result<(), Errno> {
        let to = bytes.as_mut_ptr() as u64;
        control(
            Control::AspaceRead,
            [rank.into(), to, from, bytes.len() as u64],
        )
        .map(drop)
    }

    fn region_create(
        &mut self,
        rank: u32,
        place: Range,
        prot: u64,
        kind: RegionKind,
    ) -> Result<(), Errno> {
        let args = [rank.into(), place.base, place.len_bytes, prot, kind as u64];
        control(Control::RegionCreate, args).map(drop)
    }

    fn text_create(
        &mut self,
        rank: u32,
        place: Range,
        prot: u64,
        text: Text,
    ) -> Result<bool, Errno> {
        let Range { base, len_bytes } = place;
        let args = [rank.into(), base, len_bytes, prot, text.file, text.offset];
        match control(Control::TextCreate, args) {
            Err(Errno::EAGAIN) => Ok(false),
            result => result.map(|_| true),
        }
    }

    fn region_protect(&mut self, rank: u32, place: Range, prot: u64) -> Result<(), Errno> {
        let args = [rank.into(), place.base, place.len_bytes, prot];
        control(Control::RegionProtect, args).map(drop)
    }

    fn host_call(&mut self, rank: u32, op: HostOp, args: [u64; 3]) -> Result<u64, Errno> {
        let [a0, a1, a2] = args;
        control(Control::HostCall, [rank.into(), op as u64, a0, a1, a2])
    }

    fn rank_start(&mut self, rank: u32, start: Start) -> Result<(), Errno> {
        let Start {
            cores,
            entry,
            stack_pointer,
            heap_start,
        } = start;
        let args = [
            rank.into(),
            cores.as_ptr() as u64,
            size_of_val(&cores) as u64,
            entry,
            stack_pointer,
            heap_start,
        ];
        control(Control::RankStart, args).map(drop)
    }

    fn rank_refuse(&mut self, rank: u32, status: u8, text: &str) -> Result<(), Errno> {
        let args = [
            rank.into(),
            status.into(),
            text.as_ptr() as u64,
            text.len() as u64,
        ];
        control(Control::RankRefuse, args).map(drop)
    }

    fn rank_reap(&mut self, rank: u32) -> Result<(), Errno> {
        control(Control::RankReap, [rank.into()]).map(drop)
    }
}
