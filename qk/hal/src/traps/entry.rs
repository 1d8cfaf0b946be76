//! The assembly between ring 3 (or an interrupted kernel) and Rust.
//!
//! Three kinds of entry:
//! - SYSCALL: the hot path, about 45 instructions in and out; interrupts, DF, AC and TF are masked by SFMASK.
//! - Exceptions and interrupts: a stub per vector, then one common path. CS says whether GS must be swapped.
//! - NMI, double fault, machine check: they may strike between an entry and its `swapgs`, so neither CS nor GS (programs can set any base
//!   with FSGSBASE) shows what GS holds. They run on IST stacks whose top word is the CPU's record, and restore GS as it was.
//!
//! Not handled: a debug exception on the first instruction of an entry. It takes data breakpoints on the kernel's memory, which
//! cannot be set (`cpu::debug`).

use super::frame::FRAME_BYTES;
use crate::cpu::gdt::{KERNEL_CS, SYSRET_BASE, USER_CS, USER_SS};
use crate::cpu::local::offsets;
use core::arch::global_asm;
use x86_64::VirtAddr;
use x86_64::registers::model_specific::{Efer, LStar, Msr, SFMask};
use x86_64::registers::rflags::RFlags;

/// Every stub is padded to this.
pub(super) const STUB_BYTES: usize = 16;

/// STAR: segment bases of SYSCALL and SYSRET (AMD APM vol. 2 §6.1.1). The x86_64 crate's wrapper takes types of its own GDT.
const MSR_STAR: u32 = 0xc000_0081;

unsafe extern "C" {
    static trap_stubs: u8;
    fn syscall_entry();
    fn return_to_user();
    static mut __ex_table_start: [u64; 2];
    static mut __ex_table_end: [u64; 2];
}

global_asm!(
    ".pushsection .text.entry, \"ax\"",
    // Pushes the general registers in UserFrame's order; the stack pointer then is the frame.
    ".macro PUSH_REGISTERS",
    "  pushq %rdi; pushq %rsi; pushq %rdx; pushq %rcx; pushq %rax; pushq %r8; pushq %r9; pushq %r10; pushq %r11",
    "  pushq %rbx; pushq %rbp; pushq %r12; pushq %r13; pushq %r14; pushq %r15",
    ".endm",
    // Restores them and drops vector and error.
    ".macro POP_REGISTERS",
    "  popq %r15; popq %r14; popq %r13; popq %r12; popq %rbp; popq %rbx",
    "  popq %r11; popq %r10; popq %r9; popq %r8; popq %rax; popq %rcx; popq %rdx; popq %rsi; popq %rdi",
    "  addq $16, %rsp",
    ".endm",
    ".macro COUNT_ENTRY",
    "  movq %gs:{entries}, %rax",
    "  incq (%rax)",
    ".endm",
    // A program may enter with AC set, which would switch SMAP off. Listed, to be patched out on CPUs without SMAP.
    ".macro SMAP_ON",
    "  .pushsection .smap_sites, \"a\"",
    "  .quad 771f",
    "  .popsection",
    "  771: clac",
    ".endm",
    ".balign 64",
    ".global syscall_entry",
    "syscall_entry:",
    "swapgs",
    "movq %rsp, %gs:{user_rsp}",
    "movq %gs:{kstack_top}, %rsp",
    "pushq ${user_ss}",
    "pushq %gs:{user_rsp}",
    "pushq %r11",
    "pushq ${user_cs}",
    "pushq %rcx",
    "pushq $0",
    "pushq %rax",
    "PUSH_REGISTERS",
    "COUNT_ENTRY",
    "movq %rsp, %rdi",
    "call *{syscall}(%rip)",
    "cmpq $0, {frame_bytes}(%rsp)",
    "jne return_to_user",
    // Rust preserved rbx, rbp and r12..r15; rcx and r11 are SYSRET's rip and rflags, as the program expects after SYSCALL. SYSRET cannot
    // fault on a non-canonical rip here: nothing above slot 0 is executable, so SYSCALL's return address lies below 512 GiB, and
    // another one is written by UserFrame::set_rip only.
    "movq 56(%rsp), %r10",
    "movq 64(%rsp), %r9",
    "movq 72(%rsp), %r8",
    "movq 80(%rsp), %rax",
    "movq 96(%rsp), %rdx",
    "movq 104(%rsp), %rsi",
    "movq 112(%rsp), %rdi",
    "movq 136(%rsp), %rcx",
    "movq 152(%rsp), %r11",
    "movq 160(%rsp), %rsp",
    "swapgs",
    "sysretq",
    // Full return: %rsp is the frame, at the top of the task's stack.
    ".balign 16",
    ".global return_to_user",
    "return_to_user:",
    "movq %rsp, %rdi",
    "call {make_returnable}",
    "9: POP_REGISTERS",
    "swapgs",
    "iretq",
    ".balign 16",
    "trap_common:",
    "cld",
    "SMAP_ON",
    "testb $3, 24(%rsp)",
    "jz 1f",
    "swapgs",
    "PUSH_REGISTERS",
    "COUNT_ENTRY",
    "movq %rsp, %rdi",
    "xorl %ebp, %ebp",
    "call {entered_from_user}",
    "jmp 9b",
    "1: PUSH_REGISTERS",
    "movq %rsp, %rdi",
    "call {entered_from_kernel}",
    "POP_REGISTERS",
    "iretq",
    "trap_paranoid:",
    "cld",
    "SMAP_ON",
    "PUSH_REGISTERS",
    "rdgsbase %rbx",
    "movq {frame_bytes} + 8(%rsp), %rax",
    "wrgsbase %rax",
    "movq %rsp, %rdi",
    "call {entered_paranoid}",
    "wrgsbase %rbx",
    "POP_REGISTERS",
    "iretq",
    // One stub per vector. Exceptions 8, 10-14, 17, 21, 29, 30 push an error code themselves (AMD APM vol. 2 §8.2).
    ".balign {stub_bytes}",
    ".global trap_stubs",
    "trap_stubs:",
    ".set .Lvector, 0",
    ".rept 256",
    "  .balign {stub_bytes}",
    "  .if !((.Lvector == 8) | ((.Lvector >= 10) & (.Lvector <= 14)) | (.Lvector == 17) | (.Lvector == 21) | (.Lvector == 29) | (.Lvector == 30))",
    "    pushq $0",
    "  .endif",
    "  pushq $.Lvector",
    "  .if (.Lvector == 2) | (.Lvector == 8) | (.Lvector == 18)",
    "    jmp trap_paranoid",
    "  .else",
    "    jmp trap_common",
    "  .endif",
    "  .set .Lvector, .Lvector + 1",
    ".endr",
    ".popsection",
    entries = const offsets::ENTRIES,
    user_rsp = const offsets::USER_RSP,
    kstack_top = const offsets::KSTACK_TOP,
    user_ss = const USER_SS,
    user_cs = const USER_CS,
    frame_bytes = const FRAME_BYTES,
    stub_bytes = const STUB_BYTES,
    syscall = sym super::SYSCALL,
    make_returnable = sym super::make_returnable,
    entered_from_user = sym super::entered_from_user,
    entered_from_kernel = sym super::entered_from_kernel,
    entered_paranoid = sym super::entered_paranoid,
    options(att_syntax),
);

/// Address of the first stub.
pub(super) fn stubs() -> u64 {
    &raw const trap_stubs as u64
}

/// Where a new context continues: with the stack pointer at a [`super::UserFrame`], it returns to ring 3.
pub(crate) fn first_return() -> u64 {
    return_to_user as *const () as u64
}

/// Arms SYSCALL on this CPU.
pub(crate) fn init_syscall() {
    let mask = RFlags::INTERRUPT_FLAG
        | RFlags::DIRECTION_FLAG
        | RFlags::ALIGNMENT_CHECK
        | RFlags::TRAP_FLAG
        | RFlags::NESTED_TASK
        | RFlags::RESUME_FLAG;
    // SAFETY: 1. The selectors are those of the loaded GDT, in the order SYSCALL and SYSRET require (cpu::gdt).
    //         2. `syscall_entry` switches to a kernel stack before it uses one.
    unsafe {
        Msr::new(MSR_STAR).write(u64::from(SYSRET_BASE) << 48 | u64::from(KERNEL_CS) << 32);
        LStar::write(VirtAddr::new(syscall_entry as *const () as u64));
        SFMask::write(mask);
        Efer::update(|efer| {
            efer.insert(x86_64::registers::model_specific::EferFlags::SYSTEM_CALL_EXTENSIONS)
        });
    }
}

/// Sorts the table of instructions that are allowed to fault: each place that the compiler put one of them in has an entry.
///
/// Runs while the image is still mapped writable (early tables); afterwards the table is read-only.
pub(crate) fn sort_fixups() {
    let (start, end) = (&raw mut __ex_table_start, &raw mut __ex_table_end);
    // SAFETY: 1. The linker script brackets an array of address pairs. 2. It is writable through the early tables. 3. One CPU
    //         runs, and nothing faults meanwhile, so nothing else reads it.
    let table = unsafe { core::slice::from_raw_parts_mut(start, end.offset_from_unsigned(start)) };
    // BOUND: at boot; the places that the image has.
    table.sort_unstable();
}

/// Where to continue after a fault at `rip`, when the instruction there is allowed to fault.
pub(super) fn fixup(rip: u64) -> Option<u64> {
    let (start, end) = (&raw const __ex_table_start, &raw const __ex_table_end);
    // SAFETY: 1. The linker script brackets an array of address pairs. 2. Since it was sorted it is read-only.
    let table = unsafe { core::slice::from_raw_parts(start, end.offset_from_unsigned(start)) };
    let found = table.binary_search_by_key(&rip, |entry| entry[0]);
    found.ok().map(|index| table[index][1])
}
