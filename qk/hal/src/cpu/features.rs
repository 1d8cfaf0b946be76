//! What the CPU can do, and the control bits the kernel sets everywhere.

use core::arch::asm;
use core::arch::x86_64::{__cpuid_count, CpuidResult};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use raw_cpuid::{CpuId, CpuIdReaderNative};
use x86_64::registers::control::{Cr4, Cr4Flags};
use x86_64::registers::model_specific::Msr;
use x86_64::registers::xcontrol::{XCr0, XCr0Flags};

/// CPUID of this CPU, for the kernel's own questions.
#[must_use]
pub fn cpuid() -> CpuId<CpuIdReaderNative> {
    CpuId::new()
}

/// XCR0 of every CPU, for asm-free readers.
static XCR0: AtomicU64 = AtomicU64::new(0);

/// The state components the kernel keeps for user code (XCR0): x87, SSE, AVX, AVX-512 and PKRU where present.
#[must_use]
pub fn xcr0() -> u64 {
    XCR0.load(Ordering::Relaxed)
}

/// Whether the CPU has 1 GiB pages; read once, for CPUID is slow in a virtual machine.
static GIANT_PAGES: AtomicBool = AtomicBool::new(false);

/// Whether the CPU has 1 GiB pages.
#[must_use]
pub fn giant_pages() -> bool {
    GIANT_PAGES.load(Ordering::Relaxed)
}

/// AT_HWCAP and AT_HWCAP2 of Linux on x86-64: CPUID 1 EDX, and bit 1 for FSGSBASE in user mode
/// (arch/x86/include/uapi/asm/hwcap2.h).
#[must_use]
pub fn hwcaps() -> (u64, u64) {
    const HWCAP2_FSGSBASE: u64 = 1 << 1;
    let edx = core::arch::x86_64::__cpuid(1).edx;
    let fsgsbase = cpuid()
        .get_extended_feature_info()
        .is_some_and(|leaf7| leaf7.has_fsgsbase());
    (edx.into(), if fsgsbase { HWCAP2_FSGSBASE } else { 0 })
}

/// This CPU's APIC id, as it was at reset: leaf 0xb, EDX, which has all bits of it, else leaf 1, EBX (Intel SDM vol. 3 §10.4.6).
/// The other CPUs find theirs in the same way (`smp`).
pub(crate) fn apic_id() -> u32 {
    if __cpuid_count(0, 0).eax >= 0xb {
        let level = __cpuid_count(0xb, 0);
        if level.ebx & 0xffff != 0 {
            return level.edx;
        }
    }
    __cpuid_count(1, 0).ebx >> 24
}

/// Bits of a physical address (leaf 0x80000008, EAX).
pub(crate) fn physical_address_bits() -> u8 {
    let capacity = cpuid().get_processor_capacity_feature_info();
    capacity.map_or(36, |capacity| capacity.physical_address_bits())
}

const NO_LEAF: CpuidResult = CpuidResult {
    eax: 0,
    ebx: 0,
    ecx: 0,
    edx: 0,
};

/// A leaf that this CPU may lack: then 0.
fn leaf(leaf: u32, sub: u32) -> CpuidResult {
    match __cpuid_count(leaf & 0x8000_0000, 0).eax >= leaf {
        true => __cpuid_count(leaf, sub),
        false => NO_LEAF,
    }
}

fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// Which processor this is, for /proc/cpuinfo: the registers of [`wire::rank::FromNode::identity`] (AMD APM vol. 3, appendix E).
#[must_use]
pub fn identity_words() -> [u64; 8] {
    let (vendor, basic) = (leaf(0, 0), leaf(1, 0));
    let name = [0x8000_0002, 0x8000_0003, 0x8000_0004].map(|part| leaf(part, 0));
    let [a, b, c] = name.map(|part| [pair(part.eax, part.ebx), pair(part.ecx, part.edx)]);
    [
        pair(vendor.ebx, vendor.edx),
        pair(vendor.ecx, basic.eax),
        a[0],
        a[1],
        b[0],
        b[1],
        c[0],
        c[1],
    ]
}

/// What the CPU can, for /proc/cpuinfo: the registers of [`wire::rank::FromNode::features`]. Leaves that it does not have are 0
/// (AMD APM vol. 3, appendix E).
#[must_use]
pub fn feature_words() -> [u64; 5] {
    let (basic, extended) = (leaf(1, 0), leaf(0x8000_0001, 0));
    let seven = leaf(7, 0);
    let seven_one = if seven.eax >= 1 { leaf(7, 1) } else { NO_LEAF };
    [
        pair(basic.edx, basic.ecx),
        pair(seven.ebx, seven.ecx),
        pair(seven.edx, seven_one.eax),
        pair(extended.edx, extended.ecx),
        pair(leaf(0xd, 1).eax, leaf(0x8000_0008, 0).ebx),
    ]
}

/// Sets CR4 and XCR0 on this CPU.
pub(crate) fn enable() {
    let id = cpuid();
    let extended = id.get_extended_processor_and_feature_identifiers();
    GIANT_PAGES.store(
        extended.is_some_and(|ext| ext.has_1gib_pages()),
        Ordering::Relaxed,
    );
    let mut cr4 =
        Cr4Flags::PHYSICAL_ADDRESS_EXTENSION | Cr4Flags::OSFXSR | Cr4Flags::OSXMMEXCPT_ENABLE;
    let leaf7 = id.get_extended_feature_info();
    let mut want = |flag, has: bool| cr4.set(flag, has);
    want(
        Cr4Flags::MACHINE_CHECK_EXCEPTION,
        id.get_feature_info().is_some_and(|f| f.has_mce()),
    );
    want(
        Cr4Flags::OSXSAVE,
        id.get_feature_info().is_some_and(|f| f.has_xsave()),
    );
    if let Some(leaf7) = &leaf7 {
        want(Cr4Flags::FSGSBASE, leaf7.has_fsgsbase());
        want(
            Cr4Flags::SUPERVISOR_MODE_EXECUTION_PROTECTION,
            leaf7.has_smep(),
        );
        want(
            Cr4Flags::SUPERVISOR_MODE_ACCESS_PREVENTION,
            leaf7.has_smap(),
        );
        want(Cr4Flags::USER_MODE_INSTRUCTION_PREVENTION, leaf7.has_umip());
    }
    // SAFETY: 1. Each bit is set only when CPUID has the feature.
    //         2. SMAP and SMEP hold for kernel code: user memory is reached only through `user`, which uses stac/clac.
    unsafe { Cr4::write(cr4) };
    if cr4.contains(Cr4Flags::OSXSAVE) {
        enable_states();
    }
}

/// Enables the state components of user code. Protection keys themselves stay off (CR4.PKE), for there are no calls for them;
/// their state makes images as large as they are on hosts with AVX-512, where children of programs run.
fn enable_states() {
    let supported = core::arch::x86_64::__cpuid_count(0xd, 0);
    let supported = u64::from(supported.edx) << 32 | u64::from(supported.eax);
    let mut states = XCr0Flags::X87 | XCr0Flags::SSE;
    let avx512 = XCr0Flags::OPMASK | XCr0Flags::ZMM_HI256 | XCr0Flags::HI16_ZMM;
    // The three AVX-512 parts only come together, and only on top of AVX (Intel SDM vol. 1 §13.3).
    for part in [XCr0Flags::AVX, avx512, XCr0Flags::MPK] {
        if supported & part.bits() == part.bits() {
            states |= part;
        }
    }
    // SAFETY: 1. CR4.OSXSAVE is set and every bit is supported, in a valid combination.
    unsafe { XCr0::write(states) };
    XCR0.store(states.bits(), Ordering::Relaxed);
}

/// What RDTSCP and RDPID answer, where the CPU has them: the vDSO's getcpu.
pub(crate) fn set_tsc_aux(value: u64) {
    const IA32_TSC_AUX: u32 = 0xc000_0103;
    let id = cpuid();
    let rdtscp = id
        .get_extended_processor_and_feature_identifiers()
        .is_some_and(|ext| ext.has_rdtscp());
    if rdtscp
        || id
            .get_extended_feature_info()
            .is_some_and(|f| f.has_rdpid())
    {
        // SAFETY: 1. The MSR exists with either instruction, and only programs read it.
        unsafe { Msr::new(IA32_TSC_AUX).write(value) };
    }
}

/// Ends boot with a clear line on a CPU that lacks something the kernel builds on.
pub(crate) fn check() {
    let id = cpuid();
    let leaf7 = id.get_extended_feature_info();
    let ext = id.get_extended_processor_and_feature_identifiers();
    let needs = [
        ("NX", ext.is_some_and(|e| e.has_execute_disable())),
        (
            "XSAVE",
            id.get_feature_info().is_some_and(|f| f.has_xsave()),
        ),
        ("FSGSBASE", leaf7.is_some_and(|f| f.has_fsgsbase())),
    ];
    // BOUND: three, at boot.
    for (name, present) in needs {
        assert!(present, "this CPU lacks {name}, which Margay needs");
    }
}

unsafe extern "C" {
    static __smap_sites_start: u64;
    static __smap_sites_end: u64;
}

/// Turns every `stac` and `clac` into a 3-byte NOP on a CPU without SMAP, where they are undefined.
///
/// Runs while the image is still mapped writable (early tables); afterwards .text is read-only everywhere.
pub(crate) fn patch_smap_sites() {
    if cpuid()
        .get_extended_feature_info()
        .is_some_and(|f| f.has_smap())
    {
        return;
    }
    let (mut site, end) = (&raw const __smap_sites_start, &raw const __smap_sites_end);
    // BOUND: at boot; the places that the image has.
    while site < end {
        // SAFETY: 1. The linker script brackets the list; each word is the address of a 3-byte stac or clac in .text.
        //         2. .text is writable through the early tables, and one CPU runs, not in these bytes.
        unsafe {
            (site.read() as *mut [u8; 3]).write([0x0f, 0x1f, 0x00]);
            site = site.add(1);
        }
    }
    // SAFETY: 1. CPUID serialises, so the new bytes are what is executed (Intel SDM vol. 3 §8.1.3).
    unsafe {
        asm!("push rbx", "cpuid", "pop rbx", inout("eax") 0 => _, out("ecx") _, out("edx") _)
    };
}
