//! Pool memory: the RAM that holds no Rust object and no page table. User pages, the areas shared with the host.
//!
//! Its contents belong to programs or to the host, either of which may change them at any moment, so it is
//! never seen through a plain reference: only through the copying accessors here, or as records made of atomics. Every access is checked
//! against the pool, so a wrong address in the kernel's logic ends in a panic report and not in a broken heap.

use crate::addr::{Phys, PhysRange};
use crate::{cokernel, ram, sync};
use abi::map::PAGE;
use arrayvec::ArrayVec;
use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering};
use zerocopy::{FromBytes, KnownLayout};

/// Ranges a pool may consist of: those of RAM, and what was added first.
pub const MAX_POOL_RANGES: usize = crate::ranges::ROOM + 1;

/// One range; empty until [`add_to_pool`].
struct Slot {
    start: AtomicU64,
    len_bytes: AtomicU64,
}

impl Slot {
    #[inline]
    fn range(&self) -> PhysRange {
        let start = Phys(self.start.load(Ordering::Relaxed));
        PhysRange::new(start, self.len_bytes.load(Ordering::Relaxed))
    }

    /// As [`PhysRange::holds`], with less to do.
    #[inline]
    fn holds(&self, at: Phys, len_bytes: u64) -> bool {
        let offset = at.0.wrapping_sub(self.start.load(Ordering::Relaxed));
        let all = self.len_bytes.load(Ordering::Relaxed);
        offset <= all && len_bytes <= all - offset
    }
}

/// Largest range first, so that nearly every check is settled by the first comparison.
static POOL: [Slot; MAX_POOL_RANGES] = [const {
    Slot {
        start: AtomicU64::new(0),
        len_bytes: AtomicU64::new(0),
    }
}; MAX_POOL_RANGES];

/// The ranges of the pool.
fn pool() -> impl Iterator<Item = PhysRange> {
    POOL.iter()
        .map(Slot::range)
        .filter(|range| !range.is_empty())
}

/// Adds the whole pages of `ranges` to the pool, before other CPUs run.
///
/// # Panics
/// On more than [`MAX_POOL_RANGES`] ranges in all, when other CPUs run already, and when a range is not free RAM of the boot
/// information, or is in use already.
pub fn add_to_pool(ranges: &[PhysRange]) {
    // BOUND: MAX_POOL_RANGES, at boot; so all below.
    let mut sorted: ArrayVec<PhysRange, MAX_POOL_RANGES> = pool().collect();
    // BOUND: MAX_POOL_RANGES, at boot.
    for range in ranges.iter().map(|range| range.whole_pages()) {
        ram::claim(range);
        assert!(!sorted.is_full(), "too many pool ranges");
        sorted.push(range);
    }
    // BOUND: MAX_POOL_RANGES, at boot.
    sorted.sort_unstable_by_key(|range| core::cmp::Reverse(range.len_bytes()));
    // BOUND: MAX_POOL_RANGES, at boot.
    for (slot, range) in POOL.iter().zip(sorted) {
        slot.start.store(range.start.0, Ordering::Relaxed);
        slot.len_bytes.store(range.len_bytes(), Ordering::Relaxed);
    }
}

/// Lets processes of the host map `range`, where a device guards RAM. During boot.
///
/// # Panics
/// When it is not pool memory: whoever maps it changes it at any moment.
pub fn show(range: PhysRange) {
    assert!(
        in_pool(range.start, range.len_bytes()),
        "{range:?} is not pool memory"
    );
    cokernel::show(range);
}

/// Whether `[at, at + len_bytes)` is pool memory, within one range.
#[inline]
#[must_use]
pub fn in_pool(at: Phys, len_bytes: u64) -> bool {
    POOL[0].holds(at, len_bytes) || in_others(at, len_bytes)
}

#[inline(never)]
fn in_others(at: Phys, len_bytes: u64) -> bool {
    // BOUND: MAX_POOL_RANGES.
    POOL[1..].iter().any(|slot| slot.holds(at, len_bytes))
}

/// Where the direct map shows `[at, at + len_bytes)`, which must be pool memory.
#[inline]
pub(crate) fn pointer(at: Phys, len_bytes: u64) -> *mut u8 {
    if !in_pool(at, len_bytes) {
        outside(at, len_bytes);
    }
    at.direct() as *mut u8
}

#[cold]
fn outside(at: Phys, len_bytes: u64) -> ! {
    panic!("{at:?} + {len_bytes:#x} is not pool memory")
}

/// The word at `at`, a multiple of 8.
#[inline]
fn word(at: Phys) -> &'static AtomicU64 {
    let pointer = pointer(at, 8);
    assert!(at.is_aligned(8), "{at:?} is not aligned");
    // SAFETY: 1. Pool memory (rule 2): mapped for ever by the direct map, no Rust object but shared records, which are atomics too.
    //         2. Aligned (asserted).
    unsafe { AtomicU64::from_ptr(pointer.cast()) }
}

/// Reads a word (relaxed). `at` must be a multiple of 8.
#[inline]
#[must_use]
pub fn read_u64(at: Phys) -> u64 {
    word(at).load(Ordering::Relaxed)
}

/// Writes a word (relaxed). `at` must be a multiple of 8.
#[inline]
pub fn write_u64(at: Phys, value: u64) {
    word(at).store(value, Ordering::Relaxed);
}

/// Zeroes `[at, at + len_bytes)`.
pub fn zero(at: Phys, len_bytes: u64) {
    // SAFETY: 1. The bytes are pool memory (checked; rule 2).
    unsafe { clear(pointer(at, len_bytes), len_bytes) };
}

/// Zeroes bytes that may be shared with others.
///
/// # Safety
/// 1. They must be mapped, and hold no Rust object but atomics.
pub(crate) unsafe fn clear(to: *mut u8, len_bytes: u64) {
    // SAFETY: 1. The caller's promise. 2. DF is clear in the kernel. 3. `rep stosq` beats `stosb` eight to one under emulation
    //            (each iteration is an instruction).
    unsafe {
        asm!(
            "rep stosq",
            "mov rcx, {tail}",
            "rep stosb",
            tail = in(reg) len_bytes & 7,
            inout("rcx") len_bytes >> 3 => _,
            inout("rdi") to => _,
            in("rax") 0,
            options(nostack, preserves_flags),
        );
    }
}

/// Zeroes `[at, at + len_bytes)`, a multiple of 8, with interrupts on, and returns with them off. However long it is, they come in
/// at once: a repeated store takes them between two of its turns (Intel SDM vol. 2, REP).
pub fn zero_interruptibly(at: Phys, len_bytes: u64) {
    sync::may_wait();
    let to = pointer(at, len_bytes);
    debug_assert!(len_bytes.is_multiple_of(8));
    // SAFETY: 1. The bytes are pool memory (checked; rule 2). 2. DF is clear in the kernel. 3. Interrupt handlers save every register they
    //         change (traps::entry) and return here, where RCX and RDI say how far it has come.
    // The `nop` is what `sti` delays interrupts by: QEMU leaves its translated code after each turn of an instruction that is,
    // and takes five times as long.
    unsafe {
        asm!(
            "sti",
            "nop",
            "rep stosq",
            "cli",
            inout("rcx") len_bytes >> 3 => _,
            inout("rdi") to => _,
            in("rax") 0,
            options(nostack),
        );
    }
}

/// Writes `[at, at + len_bytes)` over itself, multiples of 8, each word in one step: what other CPUs store meanwhile stays.
pub fn rewrite(at: Phys, len_bytes: u64) {
    assert!(at.is_aligned(8) && len_bytes.is_multiple_of(8) && len_bytes > 0);
    let start = pointer(at, len_bytes);
    // SAFETY: 1. The bytes are pool memory (checked; rule 2), and not empty. 2. Nothing changes. (Not `fetch_or`: compilers make a load of
    //         one that changes nothing.)
    unsafe {
        asm!(
            "2:",
            "lock or qword ptr [{at}], 0",
            "add {at}, 8",
            "dec {left}",
            "jnz 2b",
            at = inout(reg) start => _,
            left = inout(reg) len_bytes >> 3 => _,
            options(nostack),
        );
    }
}

/// Copies `len_bytes` within the pool, upwards: overlapping ranges are right only when `to` is below `from`.
pub fn copy(to: Phys, from: Phys, len_bytes: u64) {
    // SAFETY: 1. Both ranges are pool memory (checked), which holds no Rust object (rule 2).
    unsafe {
        copy_words(
            pointer(to, len_bytes),
            pointer(from, len_bytes),
            len_bytes as usize,
        )
    }
}

/// Copies pool memory at `from` into `to`.
pub fn copy_in(to: &mut [u8], from: Phys) {
    // SAFETY: 1. `from` is pool memory (checked), which no slice of the kernel overlaps (rule 2).
    unsafe { copy_words(to.as_mut_ptr(), pointer(from, to.len() as u64), to.len()) }
}

/// Copies `from` into pool memory at `to`.
pub fn copy_out(to: Phys, from: &[u8]) {
    // SAFETY: 1. `to` is pool memory (checked), which no slice of the kernel overlaps (rule 2).
    unsafe { copy_words(pointer(to, from.len() as u64), from.as_ptr(), from.len()) }
}

/// Copies bytes upwards, eight at a time. In assembly, because the other side may change pool memory meanwhile.
///
/// # Safety
/// Both ranges must be mapped, and `to` must be pool memory, exclusively borrowed, or reached by nothing else.
pub(crate) unsafe fn copy_words(to: *mut u8, from: *const u8, len_bytes: usize) {
    // SAFETY: 1. The caller's promise. 2. DF is clear in the kernel.
    unsafe {
        asm!(
            "rep movsq",
            "mov rcx, {tail}",
            "rep movsb",
            tail = in(reg) len_bytes & 7,
            inout("rcx") len_bytes >> 3 => _,
            inout("rdi") to => _,
            inout("rsi") from => _,
            options(nostack, preserves_flags),
        );
    }
}

/// Records that may change while they are looked at.
///
/// # Safety
/// 1. They consist of atomics only.
pub unsafe trait Shared: FromBytes + KnownLayout {}

// SAFETY: 1. It is one.
unsafe impl Shared for AtomicU64 {}
// SAFETY: 1. All records of crate `wire` consist of words, each an atomic.
unsafe impl Shared for wire::boot::Header {}
// SAFETY: 1. As above.
unsafe impl Shared for wire::clock::ClockPage {}
// SAFETY: 1. As above.
unsafe impl Shared for wire::info::InfoPage {}
// SAFETY: 1. As above.
unsafe impl Shared for wire::rank::RankArea {}
// SAFETY: 1. As above.
unsafe impl Shared for wire::region_log::RegionLog {}
// SAFETY: 1. As above.
unsafe impl Shared for wire::stats::CpuStats {}
// SAFETY: 1. As above.
unsafe impl Shared for wire::thread::ThreadAreas {}
// SAFETY: 1. As above.
unsafe impl Shared for wire::trace::TraceRing {}

/// A record in pool memory, shared with the host or another CPU.
///
/// # Panics
/// When it is not aligned or not in the pool.
#[must_use]
pub fn shared<T: Shared>(at: Phys) -> &'static T {
    let record = pointer(at, size_of::<T>() as u64).cast::<T>();
    assert!(
        record.is_aligned() && (align_of::<T>() as u64) <= PAGE,
        "{at:?} is not aligned"
    );
    // SAFETY: 1. Pool memory (rule 2): mapped for ever, in bounds (checked), aligned (asserted).
    //         2. Any bytes are a `T` (FromBytes), and a `T` of atomics may change under a shared reference (Shared).
    unsafe { &*record }
}
