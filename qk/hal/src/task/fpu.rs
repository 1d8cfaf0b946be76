//! The FPU state of a program: what XSAVE keeps, and its image in a signal frame.
//!
//! The kernel itself is built without floating point, so the registers always hold some program's state. A switch saves it with plain XSAVE in the
//! standard format: the area then is byte for byte what Linux puts into a signal frame (arch/x86/include/uapi/asm/sigcontext.h), and
//! saving for a signal is one XSAVE and one copy. XSAVEOPT would save memory traffic; revisit when switches are hot (one task per core
//! hardly switches).

use crate::addr::User;
use crate::cpu::features;
use crate::user::{self, Fault};
use alloc::alloc::{Layout, alloc_zeroed, dealloc};
use core::arch::asm;
use core::arch::x86_64::__cpuid_count;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};

/// Offsets in the legacy region (Intel SDM vol. 1 §10.5.1) and the XSAVE header (§13.4.2).
const FCW: usize = 0;
const MXCSR: usize = 24;
const MXCSR_MASK: usize = 28;
const LEGACY_BYTES: usize = 512;
const XSTATE_BV: usize = 512;
const XCOMP_BV: usize = 520;
const HEADER_END: usize = 576;

/// `struct _fpx_sw_bytes`, in the 48 bytes of the legacy region that the hardware ignores.
const SW_BYTES: usize = 464;
const FP_XSTATE_MAGIC1: u32 = 0x4650_5853;
const FP_XSTATE_MAGIC2: u32 = 0x4650_5845;
const MAGIC2_BYTES: usize = 4;

/// x87 and SSE: always present in a signal frame's image.
const LEGACY_STATES: u64 = 3;
/// Power-up values (Intel SDM vol. 1 §8.1.5, §10.2.3): all exceptions masked, double extended precision, round to nearest.
const FCW_INIT: u16 = 0x37f;
const MXCSR_INIT: u32 = 0x1f80;
/// What a zero MXCSR_MASK means (Intel SDM vol. 1 §11.6.6).
const MXCSR_MASK_DEFAULT: u32 = 0xffbf;

/// XSAVE aligns to this.
const ALIGN: usize = 64;

/// Bytes of an XSAVE image of the enabled states, 0 until asked first.
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
    let Ok(layout) = Layout::from_size_align(fpu_state_size(), ALIGN) else {
        unreachable!("CPUID gives a few KiB")
    };
    layout
}

/// A state in memory: a signal frame's image, always with both magics in place.
pub(super) struct FpuState {
    image: NonNull<u8>,
}

// SAFETY: The area is owned like a Box, and its users hold the context's `running` flag (task::Context).
unsafe impl Send for FpuState {}
// SAFETY: As above: shared references alone do not reach the bytes, see `Context`.
unsafe impl Sync for FpuState {}

impl FpuState {
    /// The state of a program that just started.
    pub(super) fn new() -> Self {
        // SAFETY: The layout is not empty.
        let Some(image) = NonNull::new(unsafe { alloc_zeroed(layout()) }) else {
            alloc::alloc::handle_alloc_error(layout())
        };
        let mut state = Self { image };
        state.reset();
        state
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: The allocation has this size, was zeroed, and is borrowed as `self` is.
        unsafe { core::slice::from_raw_parts_mut(self.image.as_ptr(), fpu_state_size()) }
    }

    fn put<const N: usize>(&mut self, at: usize, value: [u8; N]) {
        self.bytes()[at..at + N].copy_from_slice(&value);
    }

    fn get_u32(&mut self, at: usize) -> u32 {
        self.bytes()[at..at + 4]
            .try_into()
            .map_or(0, u32::from_le_bytes)
    }

    fn get_u64(&mut self, at: usize) -> u64 {
        self.bytes()[at..at + 8]
            .try_into()
            .map_or(0, u64::from_le_bytes)
    }

    /// Back to the state of a fresh program. XRSTOR takes states whose XSTATE_BV bit is clear from their reset values, but MXCSR
    /// always from memory.
    pub(super) fn reset(&mut self) {
        self.bytes().fill(0);
        self.put(FCW, FCW_INIT.to_le_bytes());
        self.put(MXCSR, MXCSR_INIT.to_le_bytes());
        self.stamp();
    }

    /// Writes what tells a signal handler, and us on its return, that this is a full XSAVE image.
    fn stamp(&mut self) {
        let size = image_bytes();
        self.put(SW_BYTES, FP_XSTATE_MAGIC1.to_le_bytes());
        self.put(SW_BYTES + 4, (fpu_state_size() as u32).to_le_bytes());
        self.put(SW_BYTES + 8, features::xcr0().to_le_bytes());
        self.put(SW_BYTES + 16, (size as u32).to_le_bytes());
        self.put(SW_BYTES + 20, [0; 28]);
        self.put(size, FP_XSTATE_MAGIC2.to_le_bytes());
    }

    /// Whether the image carries the stamp of this machine.
    fn is_stamped(&mut self) -> bool {
        let size = image_bytes();
        self.get_u32(SW_BYTES) == FP_XSTATE_MAGIC1
            && self.get_u32(SW_BYTES + 4) == fpu_state_size() as u32
            && self.get_u32(SW_BYTES + 16) == size as u32
    }

    /// Registers to memory.
    pub(super) fn save(&mut self) {
        let states = features::xcr0();
        // SAFETY: The area is 64-byte aligned and as large as CPUID says for XCR0.
        unsafe {
            asm!("xsave64 [{}]", in(reg) self.image.as_ptr(), in("eax") states as u32, in("edx") (states >> 32) as u32,
                options(nostack, preserves_flags));
        }
    }

    /// Memory to registers.
    pub(super) fn restore(&mut self) {
        let states = features::xcr0();
        // SAFETY: 1. As in `save`. 2. The image is valid, so XRSTOR cannot fault: made by XSAVE, `reset` or `sanitize`.
        unsafe {
            asm!("xrstor64 [{}]", in(reg) self.image.as_ptr(), in("eax") states as u32, in("edx") (states >> 32) as u32,
                options(nostack, preserves_flags));
        }
    }

    /// A copy, for a thread that starts with its creator's state.
    pub(super) fn copy_from(&mut self, other: &mut Self) {
        self.bytes().copy_from_slice(other.bytes());
    }

    /// Saves the live registers into the program's memory at `to`, a multiple of 64.
    pub(super) fn save_to_user(&mut self, to: User) -> Result<(), Fault> {
        self.save();
        // Programs edit x87 and SSE registers in a frame without looking at XSTATE_BV; Linux marks them present, too.
        let present = self.get_u64(XSTATE_BV) | LEGACY_STATES;
        self.put(XSTATE_BV, present.to_le_bytes());
        user::copy_out(to, self.bytes())
    }

    /// Loads the live registers from an image in the program's memory, whatever it says. On a fault the registers stay as they were.
    pub(super) fn load_from_user(&mut self, from: User) -> Result<(), Fault> {
        let result = self.fetch(from);
        if result.is_ok() {
            self.sanitize();
            self.restore();
        }
        self.stamp();
        result
    }

    /// Copies the image in: all of it when it carries the stamp, else the legacy region only (a 512-byte FXSAVE image).
    fn fetch(&mut self, from: User) -> Result<(), Fault> {
        user::copy_in(&mut self.bytes()[..LEGACY_BYTES], from)?;
        if self.is_stamped() {
            // A second read: the program may have changed it meanwhile; `sanitize` judges only what we hold.
            user::copy_in(self.bytes(), from)?;
            if self.get_u32(image_bytes()) == FP_XSTATE_MAGIC2 {
                return Ok(());
            }
        }
        self.bytes()[LEGACY_BYTES..].fill(0);
        self.put(XSTATE_BV, LEGACY_STATES.to_le_bytes());
        Ok(())
    }

    /// Removes what XRSTOR would fault on: reserved bits of MXCSR, unknown states, compaction, a non-zero header.
    fn sanitize(&mut self) {
        let mask = match self.get_u32(MXCSR_MASK) & mxcsr_mask() {
            0 => mxcsr_mask(),
            mask => mask,
        };
        let mxcsr = self.get_u32(MXCSR) & mask;
        self.put(MXCSR, mxcsr.to_le_bytes());
        let present = self.get_u64(XSTATE_BV) & features::xcr0();
        self.put(XSTATE_BV, present.to_le_bytes());
        self.bytes()[XCOMP_BV..HEADER_END].fill(0);
    }
}

impl Drop for FpuState {
    fn drop(&mut self) {
        // SAFETY: Allocated in `new` with the same layout (the size never changes).
        unsafe { dealloc(self.image.as_ptr(), layout()) };
    }
}

/// The MXCSR bits this CPU has. DAZ exists on every 64-bit CPU; bit 17 (misaligned SSE) only on some AMD CPUs, and it is masked away.
const fn mxcsr_mask() -> u32 {
    0xffff & (MXCSR_MASK_DEFAULT | 1 << 6)
}
