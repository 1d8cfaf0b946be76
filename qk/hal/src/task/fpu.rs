//! The FPU state of a program: what XSAVE keeps, and its image in a signal frame.
//!
//! The kernel itself is built without floating point, so the registers always hold some program's state. A switch saves it with plain
//! XSAVE in the standard format. XSAVEOPT would save memory traffic; revisit when switches are hot (one task per core hardly switches).
//!
//! A signal frame's image (arch/x86/include/uapi/asm/sigcontext.h) is written and read by the same instructions in the program's
//! own memory: what it has made of the image is checked by the CPU, and a bad one ends in a fault that is caught.

use crate::addr::User;
use crate::cpu::features;
use crate::user::image::{self, FrameStamp, MXCSR};
use crate::user::{self, Fault};
use alloc::alloc::{Layout, alloc_zeroed, dealloc};
use core::arch::asm;
use core::arch::x86_64::__cpuid_count;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};

/// Legacy region and header: the least that an image can be.
const LEAST_BYTES: usize = 576;

/// `struct _fpx_sw_bytes` begins with the one, the other lies behind the image.
const FP_XSTATE_MAGIC1: u32 = 0x4650_5853;
const FP_XSTATE_MAGIC2: u32 = 0x4650_5845;
const MAGIC2_BYTES: usize = 4;

/// x87 and SSE: always present in a signal frame's image.
const LEGACY_STATES: u64 = 3;
/// AVX: with SSE it owns MXCSR (Intel SDM vol. 1 §13.8.1).
const AVX: u64 = 4;
const SSE: u64 = 2;
/// Bits of MXCSR that some CPU has (AMD64 APM vol. 1 §4.2.2); a CPU that lacks one of them checks that by itself.
const MXCSR_BITS: u32 = 0x2_ffff;
/// Power-up value (Intel SDM vol. 1 §10.2.3): all exceptions masked, round to nearest.
const MXCSR_INIT: u32 = 0x1f80;

/// XSAVE aligns to this.
const ALIGN: usize = 64;

/// Bytes of an XSAVE image of the enabled states, 0 until first read.
static IMAGE_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Bytes of an XSAVE image (CPUID leaf 0xd, EBX: for what XCR0 enables).
fn image_bytes() -> usize {
    let mut bytes = IMAGE_BYTES.load(Ordering::Relaxed);
    if bytes == 0 {
        bytes = __cpuid_count(0xd, 0).ebx as usize;
        IMAGE_BYTES.store(bytes, Ordering::Relaxed);
    }
    bytes
}

/// Bytes of the image in a signal frame: the XSAVE area and `FP_XSTATE_MAGIC2`. To be placed at a multiple of 64.
#[must_use]
pub fn fpu_state_size() -> usize {
    image_bytes() + MAGIC2_BYTES
}

fn layout() -> Layout {
    let Ok(layout) = Layout::from_size_align(image_bytes(), ALIGN) else {
        unreachable!("CPUID gives a few KiB")
    };
    layout
}

/// An image with nothing in it.
#[repr(align(64))]
struct Fresh([u8; LEAST_BYTES]);

/// The state of a program that just started. XRSTOR takes states whose XSTATE_BV bit is clear from their reset values, but
/// MXCSR always from memory.
static FRESH: Fresh = {
    let mut bytes = [0; LEAST_BYTES];
    [bytes[MXCSR], bytes[MXCSR + 1], _, _] = MXCSR_INIT.to_le_bytes();
    Fresh(bytes)
};

/// A state in memory.
pub(super) struct FpuState {
    image: NonNull<u8>,
}

// SAFETY: 1. The area is owned like a Box. 2. Its users hold the context's `running` flag (rule 3).
unsafe impl Send for FpuState {}
// SAFETY: 1. Shared references alone do not reach the bytes: `Context` gives them to who holds its flag (rule 3).
unsafe impl Sync for FpuState {}

impl FpuState {
    /// The state of a program that just started; `None` when there is no memory.
    pub(super) fn new() -> Option<Self> {
        // SAFETY: 1. The layout is not empty.
        let image = NonNull::new(unsafe { alloc_zeroed(layout()) })?;
        let mut state = Self { image };
        state.clear();
        Some(state)
    }

    /// Back to the state of a program that just started.
    pub(super) fn clear(&mut self) {
        self.bytes()[..LEAST_BYTES].copy_from_slice(&FRESH.0);
    }

    /// The image.
    pub(super) fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: 1. The allocation has this size, was zeroed, and is borrowed as `self` is.
        unsafe { core::slice::from_raw_parts_mut(self.image.as_ptr(), image_bytes()) }
    }

    /// Clears what XRSTOR would not take: states that are not enabled, the compact format, reserved bits (Intel SDM vol. 1
    /// §13.8.1).
    pub(super) fn make_loadable(&mut self) {
        const HEADER: core::ops::Range<usize> = 512..576;
        const STATES: usize = 512;
        let enabled = features::xcr0().to_le_bytes();
        let bytes = self.bytes();
        // BOUND: eight bytes.
        for (present, enabled) in bytes[STATES..].iter_mut().zip(enabled) {
            *present &= enabled;
        }
        bytes[HEADER][8..].fill(0);
        // BOUND: four bytes.
        for (byte, mask) in bytes[MXCSR..].iter_mut().zip(MXCSR_BITS.to_le_bytes()) {
            *byte &= mask;
        }
    }

    /// Registers to memory.
    pub(super) fn save(&mut self) {
        let states = features::xcr0();
        // SAFETY: 1. The area is 64-byte aligned and as large as CPUID says for XCR0.
        unsafe {
            asm!("xsave64 [{}]", in(reg) self.image.as_ptr(), in("eax") states as u32, in("edx") (states >> 32) as u32,
                options(nostack, preserves_flags));
        }
    }

    /// Memory to registers.
    pub(super) fn restore(&mut self) {
        // SAFETY: 1. The image is valid: from `new` or `save`, and as large as CPUID says for XCR0.
        unsafe { xrstor(self.image.as_ptr(), features::xcr0()) };
    }
}

/// Memory of the kernel's to registers.
///
/// # Safety
/// A valid image, with room for those of `states` that its header has.
unsafe fn xrstor(image: *const u8, states: u64) {
    // SAFETY: 1. By the caller's promise it cannot fault.
    unsafe {
        asm!("xrstor64 [{}]", in(reg) image, in("eax") states as u32, in("edx") (states >> 32) as u32,
            options(nostack, preserves_flags, readonly));
    }
}

/// Gives the live registers of `states` their reset values.
fn reset(states: u64) {
    // SAFETY: 1. Its header has none.
    unsafe { xrstor(FRESH.0.as_ptr(), states) };
}

/// Gives the running program the FPU state of a fresh one (a signal handler, a signal frame without an image).
pub fn reset_fpu() {
    reset(features::xcr0());
}

/// Saves the running program's FPU state at `to`, a multiple of 64, as Linux lays it out in a signal frame
/// ([`fpu_state_size`] bytes).
///
/// # Errors
/// [`Fault`] when the memory is not writable or not aligned.
pub fn save_fpu_to_user(to: User) -> Result<(), Fault> {
    let (states, size) = (features::xcr0(), image_bytes() as u64);
    // Programs edit x87 and SSE registers in a frame without looking at XSTATE_BV; Linux marks them present, too.
    let magic1_size = u64::from(FP_XSTATE_MAGIC1) | (size + MAGIC2_BYTES as u64) << 32;
    let stamp = [magic1_size, states, size];
    image::xsave(to, states, LEGACY_STATES as u32, stamp, FP_XSTATE_MAGIC2)
}

/// Shows `see` the running program's FPU state as XSAVE lays it out in the standard format; `None` when there is no memory.
pub fn with_fpu_image<R>(see: impl FnOnce(&[u8]) -> R) -> Option<R> {
    let mut state = FpuState::new()?;
    state.save();
    Some(see(state.bytes()))
}

/// Loads the running program's FPU state from a signal frame, which the program may have edited in any way: all of an image that
/// carries both magics, else the legacy region only (Linux: arch/x86/kernel/fpu/signal.c, check_xstate_in_sigframe).
///
/// # Errors
/// [`Fault`] when the image is not readable or not one that XRSTOR takes; the state then is that of a fresh program.
pub fn load_fpu_from_user(from: User) -> Result<(), Fault> {
    load(from).inspect_err(|Fault| reset_fpu())
}

fn load(from: User) -> Result<(), Fault> {
    let (stamp, mxcsr) = image::read_stamp(from)?;
    let states = match stamped_states(from, stamp)? {
        Some(states) => {
            let states = states & features::xcr0();
            if states & (SSE | AVX) != 0 {
                check_mxcsr(mxcsr)?;
            }
            image::xrstor(from, states)?;
            states
        }
        None => {
            check_mxcsr(mxcsr)?;
            image::fxrstor(from)?;
            LEGACY_STATES
        }
    };
    let others = features::xcr0() & !states;
    if others != 0 {
        reset(others);
    }
    Ok(())
}

/// Refuses reserved bits, as the CPU does; QEMU's TCG takes them.
fn check_mxcsr(mxcsr: u32) -> Result<(), Fault> {
    if mxcsr & !MXCSR_BITS == 0 {
        Ok(())
    } else {
        Err(Fault)
    }
}

/// The states that a whole image claims to have; `None` without its magics.
fn stamped_states(from: User, stamp: FrameStamp) -> Result<Option<u64>, Fault> {
    let [magic1_size, states, size] = stamp;
    let (magic1, extended, size) = (
        magic1_size as u32,
        magic1_size >> 32,
        u64::from(size as u32),
    );
    let whole = magic1 == FP_XSTATE_MAGIC1
        && (LEAST_BYTES as u64..).contains(&size)
        && size <= extended.min(image_bytes() as u64)
        && user::read_u32(from.at(size))? == FP_XSTATE_MAGIC2;
    Ok(whole.then_some(states))
}

impl Drop for FpuState {
    fn drop(&mut self) {
        // SAFETY: 1. Allocated in `new` with the same layout (the size never changes).
        unsafe { dealloc(self.image.as_ptr(), layout()) };
    }
}
