//! The first instructions: the loader's 32-bit protected mode to 64-bit Rust.
//!
//! State at `start` (Xen public/arch-x86/hvm/start_info.h, "x86/HVM direct boot ABI"; Multiboot2 Specification 2.0, section 3.5): paging
//! off, flat segments, interrupts off, EBX = physical address of hvm_start_info or of the boot information, ESP undefined. The image runs at KERNEL_BASE + offset, but where it was loaded
//! is computed, not assumed: EBP holds the difference `delta` to the linked physical address (a multiple of 2 MiB, see link/kernel.ld).
//!
//! A co-kernel begins in long mode, with early tables of its loader's, at `start64`, the entry of the ELF file ([`wire::cokernel`]).
//!
//! The early tables map the low 4 GiB twice (identity, for the jump to long mode, and at DIRECT_MAP, for Rust) and 64 MiB at KERNEL_BASE,
//! all with 2 MiB pages, and one page above the 4 GiB is a window to any other address. `paging` replaces them within a few ten thousand instructions; they stay in .bss as the identity map that APs
//! need for the same jump.

use abi::map;
use core::arch::global_asm;

/// Bytes of the stack that `early_main` runs on. Not guarded: nothing is mapped with 4 KiB pages yet, and its use is bounded; the lists of
/// RAM and CPUs, which are moved twice, take most of it.
const BOOT_STACK_BYTES: usize = 32 << 10;

/// CR0: PG, AM, WP, NE, ET, MP, PE (Intel SDM vol. 3 §2.5).
pub(crate) const CR0_LONG_MODE: u32 = 0x8005_0033;
/// EFER: SCE, LME, NXE (AMD APM vol. 2 §3.1.7).
pub(crate) const EFER_LONG_MODE: u32 = 1 | 1 << 8 | 1 << 11;
/// CR4 until `features` sets the rest: PAE.
pub(crate) const CR4_LONG_MODE: u32 = 1 << 5;

/// First word of a multiboot2 header.
const MULTIBOOT2_MAGIC: i32 = 0xe852_50d6_u32 as i32;

global_asm!(
    // The ELF note a PVH loader looks for: name "Xen", type XEN_ELFNOTE_PHYS32_ENTRY (18), a 32-bit physical address.
    ".pushsection .note.Xen, \"a\", @note",
    ".balign 4",
    ".long 4, 8, 18",
    ".asciz \"Xen\"",
    ".quad start - {base}",
    ".popsection",
    ".pushsection .boot.text, \"ax\"",
    ".code32",
    ".global start",
    "start:",
    "cli",
    "cld",
    // Where are we? A call pushes the answer, but there is no stack: borrow the second word of the loader's record.
    "movl 4(%ebx), %eax",
    "leal 8(%ebx), %esp",
    "call 1f",
    "1: popl %ebp",
    "movl %eax, 4(%ebx)",
    "subl $(1b - {base}), %ebp",
    "leal (boot_stack_top - {base})(%ebp), %esp",
    "movl %ebx, %esi",
    // .bss is not promised to be zero by every loader.
    "leal (__bss_start - {base})(%ebp), %edi",
    "leal (__bss_end - {base})(%ebp), %ecx",
    "subl %edi, %ecx",
    "shrl $2, %ecx",
    "xorl %eax, %eax",
    "rep stosl",
    // 2048 entries of 2 MiB: the low 4 GiB (present, writable, page size).
    "leal (early_pd - {base})(%ebp), %edi",
    "movl $0x83, %eax",
    "movl $2048, %ecx",
    "2: movl %eax, (%edi)",
    "addl $0x200000, %eax",
    "addl $8, %edi",
    "decl %ecx",
    "jnz 2b",
    // 32 entries: 64 MiB of image at KERNEL_BASE.
    "leal (early_pd_image - {base})(%ebp), %edi",
    "leal 0x83(%ebp), %eax",
    "movl $32, %ecx",
    "3: movl %eax, (%edi)",
    "addl $0x200000, %eax",
    "addl $8, %edi",
    "decl %ecx",
    "jnz 3b",
    // Page directory pointers: four for the low 4 GiB, the last but one for the top 2 GiB.
    "leal (early_pd - {base} + 3)(%ebp), %eax",
    "leal (early_pdpt - {base})(%ebp), %edi",
    "movl %eax, (%edi)",
    "addl $0x1000, %eax",
    "movl %eax, 8(%edi)",
    "addl $0x1000, %eax",
    "movl %eax, 16(%edi)",
    "addl $0x1000, %eax",
    "movl %eax, 24(%edi)",
    // And one for the window to what lies above them (`paging::Physical`).
    "leal (early_pd_window - {base} + 3)(%ebp), %eax",
    "movl %eax, 32(%edi)",
    "leal (early_pd_image - {base} + 3)(%ebp), %eax",
    "movl %eax, (early_pdpt_image - {base} + 8 * 510)(%ebp)",
    "leal (early_pml4 - {base})(%ebp), %edi",
    "leal (early_pdpt - {base} + 3)(%ebp), %eax",
    "movl %eax, (%edi)",
    "movl %eax, 8 * {direct_slot}(%edi)",
    "leal (early_pdpt_image - {base} + 3)(%ebp), %eax",
    "movl %eax, 8 * 511(%edi)",
    // Long mode (AMD APM vol. 2 §14.6): CR4.PAE, CR3, EFER.LME, CR0.PG, then a far return to a 64-bit segment.
    "movl ${cr4}, %eax",
    "movl %eax, %cr4",
    "movl %edi, %cr3",
    "movl $0xc0000080, %ecx",
    "xorl %edx, %edx",
    "movl ${efer}, %eax",
    "wrmsr",
    "movl ${cr0}, %eax",
    "movl %eax, %cr0",
    "leal (boot_gdt - {base})(%ebp), %eax",
    "subl $8, %esp",
    "movw $23, (%esp)",
    "movl %eax, 2(%esp)",
    "lgdtl (%esp)",
    "leal (4f - {base})(%ebp), %eax",
    "pushl $8",
    "pushl %eax",
    "lretl",
    ".code64",
    "4: movabsq $5f, %rax",
    "jmpq *%rax",
    "5: movl %esi, %edi",
    "movl %ebp, %esi",
    "leaq {early_main}(%rip), %rax",
    "jmp 6f",
    ".global start64",
    "start64: cld",
    "leaq {early_cokernel}(%rip), %rax",
    "6: movl $16, %ecx",
    "movl %ecx, %ss",
    "movl %ecx, %ds",
    "movl %ecx, %es",
    "xorl %ecx, %ecx",
    "movl %ecx, %fs",
    "movl %ecx, %gs",
    "movq $boot_stack_top, %rsp",
    "xorl %ebp, %ebp",
    "call *%rax",
    "ud2",
    // Null, 64-bit code, data: only until the CPU's own GDT is loaded.
    ".balign 8",
    ".global boot_gdt",
    "boot_gdt: .quad 0, 0x00af9b000000ffff, 0x00cf93000000ffff",
    // The header that a multiboot2 loader looks for in the first 32 KiB of the file (section 3.1): magic number, architecture, length,
    // checksum, then tags of type, flags, bytes. The entry is named, for e_entry of the ELF file is no physical address.
    ".balign 8",
    "multiboot2_header:",
    ".long {mb2_magic}, 0, 10f - multiboot2_header, -({mb2_magic} + (10f - multiboot2_header))",
    // Type 3: the entry.
    ".word 3, 0",
    ".long 12, start - {base}, 0",
    // Type 6: modules begin at pages.
    ".word 6, 0",
    ".long 8",
    // Type 0: the end.
    ".word 0, 0",
    ".long 8",
    "10:",
    ".popsection",
    ".pushsection .bss.early, \"aw\", @nobits",
    ".balign 4096",
    ".global early_pml4",
    "early_pml4: .skip 4096",
    "early_pdpt: .skip 4096",
    "early_pdpt_image: .skip 4096",
    "early_pd_image: .skip 4096",
    "early_pd: .skip 4 * 4096",
    ".global early_pd_window",
    "early_pd_window: .skip 4096",
    "boot_stack: .skip {stack_bytes}",
    "boot_stack_top:",
    ".popsection",
    base = const map::KERNEL_BASE,
    mb2_magic = const MULTIBOOT2_MAGIC,
    direct_slot = const (map::DIRECT_MAP >> map::SLOT_SHIFT) & 511,
    cr0 = const CR0_LONG_MODE,
    cr4 = const CR4_LONG_MODE,
    efer = const EFER_LONG_MODE,
    stack_bytes = const BOOT_STACK_BYTES,
    early_main = sym super::early_main,
    early_cokernel = sym super::early_cokernel,
    options(att_syntax),
);

/// Leaves the current stack for good and runs `main` on the one that ends at `stack_top` (16-byte aligned, owned by this CPU).
pub(crate) fn run_on(stack_top: crate::task::kstack::StackTop, main: extern "C" fn() -> !) -> ! {
    // SAFETY: 1. A `StackTop` is the end of a mapped, unused stack owned by the caller.
    //         2. Nothing on the old stack is used again: `main` does not return.
    unsafe {
        core::arch::asm!(
            "mov rsp, {top}",
            "xor ebp, ebp",
            "call {main}",
            "ud2",
            top = in(reg) stack_top.addr(),
            main = in(reg) main,
            options(noreturn),
        )
    }
}
