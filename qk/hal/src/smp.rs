//! Starting the other CPUs (Intel SDM vol. 3 §9.4.4): a startup IPI makes them run a page below 1 MiB in real mode.
//!
//! After a reset they wait for just that, so it is tried first without INIT; only those that firmware has used meanwhile need an INIT before.
//! (QEMU counts phantom instructions when an INIT resets a CPU under `-icount`: some ten million each.) A CPU that is just slow may be
//! reset when it has begun; so what it does before the boot CPU says [`GO`] can be done again, and each attempt has a number.
//!
//! The others of a co-kernel wait for a word to jump to, in long mode ([`wire::cokernel`]).
//!
//! All start in parallel. Each finds its own record by its APIC id of 32 bits, so the trampoline carries no per-CPU word and no lock. It uses the
//! early page tables of boot, whose identity map shows the trampoline and whose image window shows `ap_start64`; from
//! there the AP moves to the kernel's tables before it has a stack.
//!
//! BOUND: at boot only.

use crate::addr::Phys;
use crate::boot::entry::{CR0_LONG_MODE, CR4_LONG_MODE, EFER_LONG_MODE};
use crate::boot::{kept, paging};
use crate::cpu::local::{self, CpuLocal};
use crate::cpu::{self, MAX_CPUS};
use crate::firmware::acpi::Cpu;
use crate::task::kstack::{self, KStack, StackTop};
use crate::{apic, aspace, cokernel, time, traps};
use alloc::boxed::Box;
use core::arch::global_asm;
use core::mem::offset_of;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering};

/// Between INIT and the startup IPI. The 10 ms of the manual were for discrete APICs; CPUs with integrated ones need none.
const INIT_WAIT_US: u64 = 10;
/// Until something else is tried for those that have not arrived.
const STARTUP_WAIT_US: u64 = 2_000;
/// All CPUs must be up by then, emulated on a loaded host too.
const READY_WAIT_US: u64 = 10_000_000;

/// What an AP needs to begin; the assembly uses the first two.
#[repr(C)]
struct ApStart {
    stack_top: u64,
    apic_id: u32,
    local: &'static CpuLocal,
    id: usize,
    /// How often it was reset and started.
    attempt: AtomicU8,
    /// The attempt in which it has begun to wait for [`GO`]; 0: in none.
    begun: AtomicU8,
}

/// No AP will be reset any more: those that have begun go on.
static GO: AtomicBool = AtomicBool::new(false);

/// By CPU number; the boot CPU has none. The assembly goes over it.
static STARTS: [AtomicPtr<ApStart>; MAX_CPUS] =
    [const { AtomicPtr::new(core::ptr::null_mut()) }; MAX_CPUS];
/// The kernel's CR3, for the assembly.
static ROOT: AtomicU64 = AtomicU64::new(0);
/// The function the APs run.
static MAIN: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());
static READY: AtomicUsize = AtomicUsize::new(1);

unsafe extern "C" {
    static ap_trampoline: u8;
    static ap_trampoline_end: u8;
    static early_pml4: u8;
    static ap_start64: u8;
    /// GDTR base word, GDT, CR3 word, far pointer word, 64-bit code.
    static ap_offsets: [u64; 5];
}

global_asm!(
    ".pushsection .rodata.trampoline, \"a\"",
    ".code16",
    ".global ap_trampoline",
    "ap_trampoline:",
    "cli",
    "cld",
    "movw %cs, %ax",
    "movw %ax, %ds",
    "lgdtl (ap_gdtr - ap_trampoline)",
    "movl ${cr4}, %eax",
    "movl %eax, %cr4",
    "movl (ap_cr3 - ap_trampoline), %eax",
    "movl %eax, %cr3",
    "movl $0xc0000080, %ecx",
    "xorl %edx, %edx",
    "movl ${efer}, %eax",
    "wrmsr",
    // Real mode to long mode in one step: PE and PG together with LME.
    "movl ${cr0}, %eax",
    "movl %eax, %cr0",
    "ljmpl *(ap_far - ap_trampoline)",
    ".code64",
    "ap_code64: movabsq $ap_start64, %rax",
    "jmpq *%rax",
    ".balign 8",
    // Null, 64-bit code.
    "ap_gdt: .quad 0, 0x00af9b000000ffff",
    // The words after a label `ap_*` are filled in by `place_trampoline`.
    "ap_gdtr: .word 15",
    ".long 0",
    "ap_cr3: .long 0",
    "ap_far: .long 0",
    ".word 8",
    ".global ap_trampoline_end",
    "ap_trampoline_end:",
    // Where those words are, from the start of the page.
    ".balign 8",
    ".global ap_offsets",
    "ap_offsets: .quad ap_gdtr + 2 - ap_trampoline, ap_gdt - ap_trampoline",
    ".quad ap_cr3 - ap_trampoline, ap_far - ap_trampoline, ap_code64 - ap_trampoline",
    ".popsection",
    ".pushsection .text.ap, \"ax\"",
    ".global ap_start64",
    "ap_start64:",
    "xorl %eax, %eax",
    "movl %eax, %ss",
    "movl %eax, %ds",
    "movl %eax, %es",
    "movl %eax, %fs",
    "movl %eax, %gs",
    "movq {root}(%rip), %rax",
    "movq %rax, %cr3",
    // The APIC id as `features::apic_id` finds it: CPUID leaf 0xb, EDX, where EBX is not 0, else leaf 1, EBX bits 31..24.
    "xorl %eax, %eax",
    "cpuid",
    "cmpl $0xb, %eax",
    "jb 3f",
    "movl $0xb, %eax",
    "xorl %ecx, %ecx",
    "cpuid",
    "testw %bx, %bx",
    "jnz 4f",
    "3: movl $1, %eax",
    "cpuid",
    "shrl $24, %ebx",
    "movl %ebx, %edx",
    // The record with that id.
    "4: leaq {starts}(%rip), %rax",
    "movl ${starts_len}, %ecx",
    "5: movq (%rax), %rdi",
    "addq $8, %rax",
    "testq %rdi, %rdi",
    "jz 6f",
    "cmpl %edx, {apic_id}(%rdi)",
    "je 7f",
    "6: decl %ecx",
    "jnz 5b",
    "jmp 2f",
    "7: movq (%rdi), %rsp",
    "xorl %ebp, %ebp",
    "call {ap_main}",
    // This CPU is not expected.
    "2: cli",
    "hlt",
    "jmp 2b",
    ".popsection",
    cr0 = const CR0_LONG_MODE,
    cr4 = const CR4_LONG_MODE,
    efer = const EFER_LONG_MODE,
    root = sym ROOT,
    starts = sym STARTS,
    starts_len = const MAX_CPUS,
    apic_id = const offset_of!(ApStart, apic_id),
    ap_main = sym ap_main,
    options(att_syntax),
);

/// The CPUs of the node: the boot CPU, then the others as ACPI lists them.
pub(crate) fn cpus() -> &'static [Cpu] {
    &kept::acpi().cpus
}

/// CPUs the node will have once [`start_aps`] is done: those ACPI names, and the boot CPU in any case.
#[must_use]
pub fn expected() -> usize {
    cpus().len()
}

/// Starts every other CPU that ACPI names; each calls `main` on its own guarded stack, with descriptor tables, exception stacks, FPU
/// and APIC set up. Returns when all are there. Once, on the boot CPU.
///
/// # Panics
/// When a CPU does not come up within 10 s, or on a second call.
pub fn start_aps(main: fn() -> !) {
    assert!(
        MAIN.swap(main as *mut (), Ordering::Relaxed).is_null(),
        "CPUs are started once"
    );
    let total = expected();
    for (id, cpu) in cpus().iter().enumerate().skip(1) {
        prepare(id, cpu.apic_id);
    }
    ROOT.store(aspace::kernel_root().0, Ordering::Relaxed);
    local::set_count(total);
    if total == 1 {
        return;
    }
    if cokernel::is_here() {
        release();
    } else {
        let page = kept::trampoline_page();
        place_trampoline(page);
        wake(page);
    }
    GO.store(true, Ordering::Release);
    let ready = time::spin_until(READY_WAIT_US, || READY.load(Ordering::Acquire) == total);
    assert!(
        ready,
        "{} of {total} CPUs came up",
        READY.load(Ordering::Relaxed)
    );
}

/// Those that have not begun `ap_main`.
fn missing() -> impl Iterator<Item = &'static ApStart> {
    records().filter(|ap| !ap.has_begun())
}

fn all_begun() -> bool {
    missing().next().is_none()
}

/// Makes all others of a co-kernel begin `ap_main`: nothing resets them.
fn release() {
    records().for_each(|ap| cokernel::send(ap.id, &raw const ap_start64 as u64));
}

/// Makes all others begin `ap_main`; none will be reset any more.
fn wake(page: Phys) {
    missing().for_each(|ap| apic::send_startup(ap.apic_id, page));
    if !time::spin_until(STARTUP_WAIT_US, all_begun) {
        missing().for_each(|ap| {
            apic::send_init(ap.apic_id);
            time::spin_until(INIT_WAIT_US, || false);
            ap.attempt.store(2, Ordering::Release);
        });
        // Twice, as the manual says; a CPU that runs already ignores it.
        let begun = [STARTUP_WAIT_US, READY_WAIT_US].into_iter().any(|wait_us| {
            missing().for_each(|ap| apic::send_startup(ap.apic_id, page));
            time::spin_until(wait_us, all_begun)
        });
        assert!(begun, "{} CPUs did not start", missing().count());
    }
}

/// What `prepare` made.
fn records() -> impl Iterator<Item = &'static ApStart> {
    STARTS.iter().filter_map(|start| {
        // SAFETY: 1. Entries that are not null were stored by `prepare` and live for ever.
        unsafe { start.load(Ordering::Acquire).as_ref() }
    })
}

impl ApStart {
    fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Acquire) == self.attempt.load(Ordering::Relaxed)
    }
}

/// Makes the record and the stacks of CPU `id`.
fn prepare(id: usize, apic_id: u32) {
    let local: &'static CpuLocal = Box::leak(Box::new(CpuLocal::new()));
    local.apic_id.store(apic_id, Ordering::Relaxed);
    kstack::install_ist(local);
    let stack_top = StackTop::addr(KStack::new().leak());
    let start = Box::leak(Box::new(ApStart {
        stack_top,
        apic_id,
        local,
        id,
        attempt: AtomicU8::new(1),
        begun: AtomicU8::new(0),
    }));
    STARTS[id].store(start, Ordering::Release);
}

/// Copies the trampoline to `page` and fills in its addresses.
fn place_trampoline(page: Phys) {
    let (start, end) = (&raw const ap_trampoline, &raw const ap_trampoline_end);
    // SAFETY: 1. `page` is RAM below 1 MiB that boot set aside for this; the direct map shows it.
    //         2. The trampoline is smaller than a page, and its offsets lie inside it.
    unsafe {
        let base = page.direct() as *mut u8;
        core::ptr::copy_nonoverlapping(start, base, end.offset_from_unsigned(start));
        let [gdtr, gdt, cr3, far, code] = ap_offsets;
        let put = |offset: u64, value: u64| {
            base.add(offset as usize)
                .cast::<u32>()
                .write_unaligned(value as u32)
        };
        put(gdtr, page.0 + gdt);
        put(cr3, paging::image_phys(&raw const early_pml4 as u64).0);
        put(far, page.0 + code);
    }
}

/// An AP's first Rust code, on its own stack and the kernel's page tables.
extern "C" fn ap_main(start: &'static ApStart) -> ! {
    while !GO.load(Ordering::Acquire) {
        // The number may change under a CPU that has survived the INIT, or whose first startup IPI arrived after it: then
        // the new one is confirmed too.
        let attempt = start.attempt.load(Ordering::Acquire);
        // An INIT that was sent before this attempt got its number strikes here at the latest: emulators look for it
        // between blocks of code.
        cpu::pause();
        start.begun.store(attempt, Ordering::Release);
    }
    start.local.install(start.id);
    aspace::load(aspace::kernel_root());
    cpu::init_this_cpu();
    traps::init_cpu();
    apic::init_cpu();
    READY.fetch_add(1, Ordering::Release);
    let main = MAIN.load(Ordering::Relaxed);
    // SAFETY: 1. `start_aps` stored a `fn() -> !` before it started this CPU.
    let main: fn() -> ! = unsafe { core::mem::transmute(main) };
    main()
}
