//! What belongs to one CPU: the record behind GS, its descriptor tables and its exception stacks.
//!
//! Most words are used by their own CPU only, with interrupts off; they are atomics with relaxed order (plain moves on x86-64) so that the
//! record can be shared by reference without `unsafe` at every use.

use super::{features, gdt};
use crate::sync::Holds;
use core::arch::asm;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use wire::boot::MAX_CPUS;
use x86_64::VirtAddr;
use x86_64::registers::model_specific::{GsBase, KernelGsBase};

/// IST slots (1-based, as IDT gates count them). Faults that can strike at any instruction get stacks of their own.
pub(crate) const IST_NMI: u16 = 1;
pub(crate) const IST_DOUBLE_FAULT: u16 = 2;
pub(crate) const IST_MACHINE_CHECK: u16 = 3;

/// One CPU's record. The assembly in `traps::entry` uses [`offsets`].
#[repr(C)]
pub(crate) struct CpuLocal {
    /// Its own address, so that `local` is one load.
    this: AtomicPtr<CpuLocal>,
    id: AtomicU64,
    /// Where entries from ring 3 build their frame on the running task's kernel stack. Mirrors TSS.RSP0. The word at this
    /// address is the frame's last.
    pub kstack_top: AtomicU64,
    /// Scratch of the syscall entry.
    user_rsp: AtomicU64,
    /// The word counting entries from ring 3.
    pub entries: AtomicPtr<AtomicU64>,
    /// The running `task::Context`, to be compared only.
    pub current: AtomicPtr<()>,
    /// CR3.
    pub root: AtomicU64,
    /// The context whose FPU state the registers hold, to be compared only.
    pub fpu_owner: AtomicPtr<()>,
    /// Interrupts without a request.
    pub spurious: AtomicU64,
    /// Address and error code of the last page fault of `user`, until they were taken; the code is never 0.
    pub user_fault: [AtomicU64; 2],
    /// What `speed::set` did.
    pub speed: [AtomicU64; 2],
    /// What debug exceptions in ring 0 have said.
    pub debug_hits: AtomicU64,
    pub apic_id: AtomicU32,
    /// An NMI finds a handler here.
    pub takes_nmi: AtomicBool,
    /// Counts until `set_entry_counter` names another word.
    own_entries: AtomicU64,
    /// The locks that it holds.
    pub holds: Holds,
    pub tables: gdt::Tables,
}

/// Offsets for assembly.
pub(crate) mod offsets {
    use crate::cpu::local::CpuLocal;
    use core::mem::offset_of;
    pub(crate) const ID: usize = offset_of!(CpuLocal, id);
    pub(crate) const KSTACK_TOP: usize = offset_of!(CpuLocal, kstack_top);
    pub(crate) const USER_RSP: usize = offset_of!(CpuLocal, user_rsp);
    pub(crate) const ENTRIES: usize = offset_of!(CpuLocal, entries);
}

static BSP: CpuLocal = CpuLocal::new();
static CPUS: [AtomicPtr<CpuLocal>; MAX_CPUS] =
    [const { AtomicPtr::new(core::ptr::null_mut()) }; MAX_CPUS];
static COUNT: AtomicUsize = AtomicUsize::new(1);

impl CpuLocal {
    pub(crate) const fn new() -> Self {
        Self {
            this: AtomicPtr::new(core::ptr::null_mut()),
            id: AtomicU64::new(0),
            kstack_top: AtomicU64::new(0),
            user_rsp: AtomicU64::new(0),
            entries: AtomicPtr::new(core::ptr::null_mut()),
            current: AtomicPtr::new(core::ptr::null_mut()),
            root: AtomicU64::new(0),
            fpu_owner: AtomicPtr::new(core::ptr::null_mut()),
            spurious: AtomicU64::new(0),
            user_fault: [const { AtomicU64::new(0) }; 2],
            speed: [const { AtomicU64::new(0) }; 2],
            debug_hits: AtomicU64::new(0),
            apic_id: AtomicU32::new(0),
            takes_nmi: AtomicBool::new(false),
            own_entries: AtomicU64::new(0),
            holds: Holds::new(),
            tables: gdt::Tables::new(),
        }
    }

    /// Loads GDT, TSS and GS of the CPU this runs on. `self` must be no other CPU's record.
    ///
    /// # Panics
    /// When there is no such CPU; before its number can be read.
    pub(crate) fn install(&'static self, id: usize) {
        let slot = &CPUS[id];
        let this = core::ptr::from_ref(self).cast_mut();
        self.this.store(this, Ordering::Relaxed);
        self.id.store(id as u64, Ordering::Relaxed);
        self.entries.store(
            core::ptr::from_ref(&self.own_entries).cast_mut(),
            Ordering::Relaxed,
        );
        self.tables.load(id);
        GsBase::write(VirtAddr::new(this as u64));
        KernelGsBase::write(VirtAddr::zero());
        slot.store(this, Ordering::Release);
    }

    /// Points entries from ring 3 at the stack that ends at `top`.
    pub(crate) fn set_kstack(&self, top: u64) {
        self.kstack_top.store(top, Ordering::Relaxed);
        self.tables.set_rsp0(top);
    }

    pub(crate) fn id(&self) -> usize {
        self.id.load(Ordering::Relaxed) as usize
    }
}

/// This CPU's number, 0..[`count`](super::count).
#[must_use]
pub fn id() -> usize {
    let id: u64;
    // SAFETY: 1. GS points to this CPU's `CpuLocal` in the kernel (set before the first Rust code that can call this).
    //         2. Not `pure`: a task may continue on another CPU after a switch, so the load must not be reused.
    unsafe {
        asm!("mov {}, gs:[{off}]", out(reg) id, off = const offsets::ID, options(nostack, preserves_flags, readonly))
    };
    // SAFETY: 1. `CpuLocal::install`, which loads GS, takes numbers below MAX_CPUS only.
    // It spares looking into a table of all CPUs, which every entry does, a test.
    unsafe { core::hint::assert_unchecked(id < MAX_CPUS as u64) };
    id as usize
}

/// How many CPUs there will be.
pub(crate) fn set_count(count: usize) {
    COUNT.store(count, Ordering::Relaxed);
    BSP.apic_id.store(features::apic_id(), Ordering::Relaxed);
}

/// This CPU's record.
pub(crate) fn local() -> &'static CpuLocal {
    let this: *const CpuLocal;
    // SAFETY: 1. GS points to a record whose first word is its own address, from `install` on. 2. It lives for ever.
    unsafe {
        asm!("mov {}, gs:[0]", out(reg) this, options(nostack, preserves_flags, readonly));
        &*this
    }
}

/// Another CPU's record.
pub(crate) fn of(cpu: usize) -> Option<&'static CpuLocal> {
    let this = CPUS.get(cpu)?.load(Ordering::Acquire);
    // SAFETY: 1. Non-null entries point to records that live for ever.
    unsafe { this.as_ref() }
}

pub(crate) fn count() -> usize {
    COUNT.load(Ordering::Relaxed)
}

/// The boot CPU's record.
pub(crate) fn install_bsp() {
    BSP.install(0);
}
