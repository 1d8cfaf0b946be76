//! The local APIC: interrupts between CPUs, acknowledgement, the one-shot timer (Intel SDM vol. 3 chapter 11).
//!
//! xAPIC through its memory window, which the direct map shows uncached; x2APIC (registers as MSRs) and the TSC-deadline timer where
//! CPUID has them. QEMU's TCG has neither, KVM and current machines have both.

use crate::addr::{Phys, PhysRange};
use crate::boot::kept;
use crate::cpu::features::cpuid;
use crate::vectors::{VEC_SPURIOUS, VEC_TIMER, Vector};
use crate::{cokernel, time};
use abi::map::PAGE;
use core::sync::atomic::{AtomicU64, Ordering};
use x86_64::instructions::port::Port;
use x86_64::registers::model_specific::Msr;

const MSR_APIC_BASE: Msr = Msr::new(0x1b);
const APIC_BASE_X2: u64 = 1 << 10;
const APIC_BASE_ENABLE: u64 = 1 << 11;
const APIC_BASE_ADDRESS: u64 = 0x000f_ffff_ffff_f000;
const MSR_X2APIC: u32 = 0x800;
const MSR_TSC_DEADLINE: u32 = 0x6e0;

/// Register offsets in the xAPIC window; x2APIC's MSR is 0x800 + offset / 16.
#[derive(Clone, Copy)]
#[repr(u32)]
enum Register {
    Id = 0x20,
    TaskPriority = 0x80,
    Eoi = 0xb0,
    Spurious = 0xf0,
    Command = 0x300,
    CommandHigh = 0x310,
    LvtTimer = 0x320,
    LvtThermal = 0x330,
    LvtPerf = 0x340,
    LvtLint0 = 0x350,
    LvtLint1 = 0x360,
    LvtError = 0x370,
    TimerInitial = 0x380,
    TimerCurrent = 0x390,
    TimerDivide = 0x3e0,
}

const SOFTWARE_ENABLE: u32 = 1 << 8;
const LVT_MASKED: u32 = 1 << 16;
const LVT_NMI: u32 = 4 << 8;
const LVT_TSC_DEADLINE: u32 = 2 << 17;
const DIVIDE_BY_1: u32 = 0b1011;

/// Interrupt command register, low half (§11.6.1).
const ICR_NMI: u32 = 4 << 8;
const ICR_INIT: u32 = 5 << 8;
const ICR_STARTUP: u32 = 6 << 8;
const ICR_PENDING: u32 = 1 << 12;
const ICR_ASSERT: u32 = 1 << 14;
/// Reads of the command register to wait for it; deliveries take a few.
const ICR_SPINS: u32 = 1 << 20;

/// How registers are reached, the same on all CPUs: by MSRs, or in a window at this physical address.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Way(u64);

const OFF: Way = Way(0);
const X2APIC: Way = Way(1);
static WAY: AtomicU64 = AtomicU64::new(OFF.0);

/// Timer ticks per TSC tick as a 32.32 fraction; 0: the timer takes TSC deadlines.
static TICKS_PER_TSC: AtomicU64 = AtomicU64::new(0);

fn way() -> Way {
    Way(WAY.load(Ordering::Relaxed))
}

fn x2_msr(register: Register) -> Msr {
    Msr::new(MSR_X2APIC + (register as u32 >> 4))
}

impl Way {
    fn window(self, register: Register) -> *mut u32 {
        (Phys(self.0).direct() + register as u64) as *mut u32
    }

    fn read(self, register: Register) -> u32 {
        // SAFETY: 1. This is how this CPU's APIC is reached; all CPUs are set up alike.
        //         2. The window is mapped uncached by the direct map; reads of these registers have no side effects.
        unsafe {
            match self {
                X2APIC => x2_msr(register).read() as u32,
                _ => self.window(register).read_volatile(),
            }
        }
    }

    fn write(self, register: Register, value: u32) {
        // SAFETY: 1. As in `read`. The values written are valid for their registers, so the MSRs do not fault; what they make the
        //         CPU do (take interrupts) is what the handlers are for.
        unsafe {
            match self {
                X2APIC => x2_msr(register).write(value.into()),
                _ => self.window(register).write_volatile(value),
            }
        }
    }

    /// Sends a command to the CPU with APIC id `to`.
    fn command(self, to: u32, command: u32) {
        if self == X2APIC {
            // WRMSR to x2APIC is not ordered after earlier stores (§11.12.3): what the receiver is to see must be out.
            core::sync::atomic::fence(Ordering::SeqCst);
            // SAFETY: 1. A well-formed command. 2. The receivers have handlers for all vectors.
            unsafe {
                x2_msr(Register::Command).write(u64::from(to) << 32 | u64::from(command));
            }
            return;
        }
        // BOUND: ICR_SPINS; a command is taken within a microsecond.
        for _ in 0..ICR_SPINS {
            if self.read(Register::Command) & ICR_PENDING == 0 {
                break;
            }
            core::hint::spin_loop();
        }
        // Ids above 254 are left out where there is no x2APIC (`firmware::acpi`).
        self.write(Register::CommandHigh, to << 24);
        self.write(Register::Command, command);
    }
}

fn read(register: Register) -> u32 {
    way().read(register)
}

fn write(register: Register, value: u32) {
    way().write(register, value);
}

/// Switches this CPU's APIC on, with every local source but NMI masked. The boot CPU calls first and also silences the old PICs, where
/// there are any.
pub(crate) fn init_cpu() {
    let mut msr = MSR_APIC_BASE;
    // SAFETY: 1. Every 64-bit CPU has this MSR.
    let base = unsafe { msr.read() };
    if way() == OFF {
        if kept::acpi().legacy.pics {
            mask_pics();
        }
        // Linux, which gets this CPU back, has its own way with all of them.
        let x2 = base & APIC_BASE_X2 != 0 || has_x2apic() && !cokernel::is_here();
        let window = Way(base & APIC_BASE_ADDRESS);
        WAY.store(if x2 { X2APIC } else { window }.0, Ordering::Relaxed);
    }
    // SAFETY: 1. xAPIC first, then x2APIC: a valid transition from any state but x2APIC, which keeps both bits (§11.12.5).
    unsafe {
        msr.write(base | APIC_BASE_ENABLE);
        if way() == X2APIC {
            msr.write(base | APIC_BASE_ENABLE | APIC_BASE_X2);
        }
    }
    // First, for while the APIC is software-disabled the mask bits of all local sources stay set, whatever is written (§11.4.7.2). Until
    // they are written below, they are masked by the reset or as firmware left them, and this CPU takes no interrupts yet.
    write(
        Register::Spurious,
        SOFTWARE_ENABLE | u32::from(VEC_SPURIOUS),
    );
    for lvt in [
        Register::LvtThermal,
        Register::LvtPerf,
        Register::LvtLint0,
        Register::LvtError,
    ] {
        write(lvt, LVT_MASKED);
    }
    // The NMI pin, by convention of all PCs: hardware errors, and a debugger's button.
    write(Register::LvtLint1, LVT_NMI);
    write(Register::TaskPriority, 0);
    write(Register::TimerDivide, DIVIDE_BY_1);
    write(Register::TimerInitial, 0);
    let deadline = if has_deadline() { LVT_TSC_DEADLINE } else { 0 };
    write(Register::LvtTimer, deadline | u32::from(VEC_TIMER));
    // The mode of the timer must be in place before the first deadline (§11.5.4.1).
    core::sync::atomic::fence(Ordering::SeqCst);
}

/// The window of the registers of an xAPIC.
pub(crate) fn window_page() -> Option<PhysRange> {
    // SAFETY: 1. Every 64-bit CPU has this MSR.
    let base = unsafe { MSR_APIC_BASE.read() };
    let at = Phys(base & APIC_BASE_ADDRESS);
    (base & APIC_BASE_X2 == 0).then_some(PhysRange::new(at, PAGE))
}

/// Masks the two 8259s, which firmware may have left open.
fn mask_pics() {
    for port in [0x21, 0xa1] {
        // SAFETY: 1. The data ports of the 8259s, which no one else uses.
        unsafe { Port::<u8>::new(port).write(0xff) };
    }
}

/// Whether this CPU has x2APIC, with ids of 32 bits.
pub(crate) fn has_x2apic() -> bool {
    cpuid().get_feature_info().is_some_and(|f| f.has_x2apic())
}

fn has_deadline() -> bool {
    cpuid()
        .get_feature_info()
        .is_some_and(|f| f.has_tsc_deadline())
}

/// Acknowledges the interrupt in service. Done by the trap layer before a handler runs.
pub(crate) fn eoi() {
    write(Register::Eoi, 0);
}

/// Interrupts the CPU with APIC id `to`.
pub(crate) fn ipi(to: u32, vector: Vector) {
    way().command(to, ICR_ASSERT | u32::from(vector));
}

/// Rings bell `bell` of the Linux beside a co-kernel. False: this is none, or there is no such bell. Until this CPU's APIC is set up
/// Linux finds it when it looks by itself.
#[cold] // On every other node.
#[inline(never)]
pub(crate) fn ring_linux(bell: u16) -> bool {
    let signalled = cokernel::signal(bell);
    let way = way();
    if let Some((cpu, vector)) = signalled.filter(|_| way != OFF) {
        way.command(cpu, ICR_ASSERT | u32::from(vector));
    }
    signalled.is_some()
}

/// Resets a CPU into its wait-for-SIPI state.
pub(crate) fn send_init(to: u32) {
    way().command(to, ICR_ASSERT | ICR_INIT);
}

/// Starts a CPU in real mode at `page`, below 1 MiB.
pub(crate) fn send_startup(to: u32, page: Phys) {
    way().command(to, ICR_ASSERT | ICR_STARTUP | (page.0 >> 12) as u32 & 0xff);
}

/// Interrupts a CPU that cannot be masked.
pub(crate) fn send_nmi(to: u32) {
    way().command(to, ICR_ASSERT | ICR_NMI);
}

/// Measures the timer against the TSC (about 300 µs), unless it takes TSC deadlines.
pub(crate) fn calibrate_timer(tsc_hz: u64) {
    if has_deadline() {
        return;
    }
    write(Register::LvtTimer, LVT_MASKED | u32::from(VEC_TIMER));
    write(Register::TimerInitial, u32::MAX);
    // The first round is short and only warms up caches (under emulation: translates the code).
    let _ = timer_against_tsc(tsc_hz / 100_000);
    let (ticks, tsc_ticks) = timer_against_tsc(tsc_hz / 3_000);
    write(Register::TimerInitial, 0);
    write(Register::LvtTimer, u32::from(VEC_TIMER));
    let ratio = (u64::from(ticks) << 32) / tsc_ticks;
    TICKS_PER_TSC.store(ratio.max(1), Ordering::Relaxed);
}

/// Ticks of the running timer, and of the TSC, over a span of at least `span` TSC ticks.
fn timer_against_tsc(span: u64) -> (u32, u64) {
    let now = || time::with_tsc(|| read(Register::TimerCurrent));
    let (first, start) = now();
    // BOUND: at boot, for as long as it measures.
    while time::tsc() - start < span {
        core::hint::spin_loop();
    }
    let (last, end) = now();
    (first - last, end - start)
}

/// Arms this CPU's one-shot timer: [`VEC_TIMER`] once the TSC has reached `deadline_tsc`, or at once if it has.
///
/// It may come early (the hardware counter has 32 bits, and rounding): the handler compares the clock and arms it again.
pub fn timer_set(deadline_tsc: u64) {
    let ratio = TICKS_PER_TSC.load(Ordering::Relaxed);
    if ratio == 0 {
        // A deadline of 0 would disarm the timer.
        // SAFETY: 1. The MSR exists: without TSC-deadline support `time::init` has stored a ratio.
        unsafe { Msr::new(MSR_TSC_DEADLINE).write(deadline_tsc.max(1)) };
        return;
    }
    let distance = deadline_tsc.saturating_sub(time::tsc());
    let ticks = (u128::from(distance) * u128::from(ratio)) >> 32;
    write(
        Register::TimerInitial,
        u32::try_from(ticks).unwrap_or(u32::MAX).max(1),
    );
}

/// A full fence that also holds against host processes when QEMU runs all CPUs on one thread: it then leaves the guest's fence
/// instructions out, but takes a lock to read a device register.
pub fn device_fence() {
    core::sync::atomic::fence(Ordering::SeqCst);
    read(Register::Id);
}

/// Disarms the timer. An interrupt that is already pending still comes.
pub fn timer_off() {
    if TICKS_PER_TSC.load(Ordering::Relaxed) == 0 {
        // SAFETY: 1. As in `timer_set`; 0 disarms.
        unsafe { Msr::new(MSR_TSC_DEADLINE).write(0) };
    } else {
        write(Register::TimerInitial, 0);
    }
}
