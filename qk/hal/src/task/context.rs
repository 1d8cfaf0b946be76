//! Contexts and the switch between them.

use super::bases::{fs_base, gs_base, write_fs_base, write_user_gs_base};
use super::fpu::FpuState;
use super::kstack::{KStack, StackTop};
use crate::addr::Phys;
use crate::aspace;
use crate::cpu::features;
use crate::cpu::local::{CpuLocal, local};
use crate::heap;
use crate::sync::{self, Holds};
use crate::traps::{self, UserFrame};
use alloc::boxed::Box;
use core::arch::naked_asm;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A root of 0: stay in the address space that happens to be active. Kernel contexts need none of their own.
const ANY_ROOT: u64 = 0;
/// No CPU's registers hold the FPU state.
const NO_CPU: u64 = u64::MAX;
/// PAUSEs to wait for a context that another CPU is leaving, a matter of some dozen instructions there. Running out means
/// that the kernel's scheduler let two CPUs run one task.
const LEAVE_SPINS: u32 = 1 << 24;

/// Called on the context's own stack when it is switched to for the first time since it began: what the kernel does after each of its
/// calls of [`switch`].
pub type Arrived = extern "C" fn();

/// A thread of execution, of a program or of the kernel.
pub struct Context {
    /// The stack pointer while not running.
    rsp: AtomicU64,
    /// Its own stack; `None` for the stack a CPU started on.
    stack: Option<KStack>,
    root: AtomicU64,
    fs_base: AtomicU64,
    gs_base: AtomicU64,
    /// A program's; kernel contexts have none.
    fpu: Option<UnsafeCell<FpuState>>,
    /// The CPU whose registers hold the FPU state, if it was the last there.
    fpu_cpu: AtomicU64,
    running: AtomicBool,
    /// The locks that it holds while not running.
    holds: Holds,
}

// SAFETY: 1. Everything but `fpu` is atomic. 2. `fpu` is touched only by the holder of `running` (rule 3), or by `&mut`.
unsafe impl Sync for Context {}

impl Context {
    fn new(stack: Option<KStack>, fpu: Option<FpuState>) -> Option<Box<Self>> {
        heap::try_box(Self {
            rsp: AtomicU64::new(0),
            stack,
            root: AtomicU64::new(ANY_ROOT),
            fs_base: AtomicU64::new(0),
            gs_base: AtomicU64::new(0),
            fpu: fpu.map(UnsafeCell::new),
            fpu_cpu: AtomicU64::new(NO_CPU),
            running: AtomicBool::new(false),
            holds: Holds::new(),
        })
    }

    /// A context for a program's threads, one after the other; `None` when there is no memory. Each begins by [`Self::begin`] or
    /// [`Self::begin_beside`].
    ///
    /// # Panics
    /// Before [`traps::set_handlers`].
    #[must_use]
    pub fn new_user() -> Option<Box<Self>> {
        assert!(
            traps::handlers().is_some(),
            "programs run only after set_handlers"
        );
        let kstack = KStack::try_new()?;
        let rsp = first_call(&kstack, never_began);
        let context = Self::new(Some(kstack), Some(FpuState::new()?))?;
        context.rsp.store(rsp, Ordering::Relaxed);
        Some(context)
    }

    /// The next switch to it calls `arrived` and goes to ring 3 at `entry` with stack pointer `stack`, all other registers zero and a
    /// clean FPU, in the address space `root` ([`aspace::new_root`]).
    ///
    /// # Panics
    /// When `root` is not an address space, or the context is a kernel thread's.
    pub fn begin(&self, entry: u64, stack: u64, root: Phys, arrived: Arrived) {
        aspace::check_root(root);
        self.prepare(&UserFrame::start(entry, stack), arrived, FpuState::clear);
        self.root.store(root.0, Ordering::Relaxed);
        self.fs_base.store(0, Ordering::Relaxed);
        self.gs_base.store(0, Ordering::Relaxed);
    }

    /// As [`Self::begin`], for a further thread of the running program: it begins with the registers in `frame`, the running
    /// thread's FPU state, GS base and address space, and `fs_base`.
    ///
    /// # Panics
    /// When this is the running context, or a kernel thread's.
    pub fn begin_beside(&self, frame: &UserFrame, fs_base: u64, arrived: Arrived) {
        self.prepare(frame, arrived, FpuState::save);
        self.root
            .store(local().root.load(Ordering::Relaxed), Ordering::Relaxed);
        self.fs_base.store(canonical(fs_base), Ordering::Relaxed);
        self.gs_base.store(gs_base(), Ordering::Relaxed);
    }

    fn prepare(&self, frame: &UserFrame, arrived: Arrived, fpu: fn(&mut FpuState)) {
        let (Some(stack), Some(state)) = (&self.stack, &self.fpu) else {
            panic!("kernel threads have no user frame")
        };
        self.acquire();
        let top = stack
            .push_frame(frame)
            .push(traps::first_return())
            .push(arrived as *const () as u64);
        self.rsp.store(push_saved(top), Ordering::Relaxed);
        // SAFETY: 1. `running` is ours (rule 3).
        fpu(unsafe { &mut *state.get() });
        self.fpu_cpu.store(NO_CPU, Ordering::Relaxed);
        self.running.store(false, Ordering::Release);
    }

    /// A thread of the kernel: the first switch to it calls `main`.
    #[must_use]
    pub fn new_kernel(main: fn() -> !) -> Box<Self> {
        let kstack = KStack::new();
        let rsp = first_call(&kstack, main);
        let context = Self::new(Some(kstack), None).expect("memory for a kernel thread");
        context.rsp.store(rsp, Ordering::Relaxed);
        context
    }

    /// Waits until no CPU runs the context, and takes it.
    fn acquire(&self) {
        // BOUND: LEAVE_SPINS; the other CPU has a few instructions to go.
        for _ in 0..LEAVE_SPINS {
            if !self.running.swap(true, Ordering::Acquire) {
                return;
            }
            core::hint::spin_loop();
        }
        panic!("a context was to run on two CPUs");
    }

    /// Copies the FPU state of the running program, whose context this is, to `to`, as XSAVE lays it out and as much as there is
    /// room for. Returns how much that is, and which state components there are (XCR0).
    ///
    /// # Panics
    /// When it is not the running one, or a kernel thread's.
    pub fn read_fpu(&self, to: &mut [u8]) -> (usize, u64) {
        let state = self.running_fpu();
        state.save();
        let image = state.bytes();
        let len_bytes = image.len().min(to.len());
        to[..len_bytes].copy_from_slice(&image[..len_bytes]);
        (len_bytes, features::xcr0())
    }

    /// Loads the FPU state of the running program, whose context this is, from `from`, as XSAVE lays it out: as far as the CPU can
    /// load it, and what is longer than `from` stays.
    ///
    /// # Panics
    /// When it is not the running one, or a kernel thread's.
    pub fn write_fpu(&self, from: &[u8]) {
        let state = self.running_fpu();
        state.save();
        let image = state.bytes();
        let len_bytes = image.len().min(from.len());
        image[..len_bytes].copy_from_slice(&from[..len_bytes]);
        state.make_loadable();
        state.restore();
    }

    /// The FPU state of the context, which runs here. For a moment: its callers call nothing that could get it once more.
    #[allow(clippy::mut_from_ref)] // The flag is the lock.
    fn running_fpu(&self) -> &mut FpuState {
        let runs_here = local().current.load(Ordering::Relaxed) == self.as_ptr();
        let (Some(state), true) = (&self.fpu, runs_here) else {
            panic!("not the running program's context")
        };
        // SAFETY: 1. The context runs here (checked), so we hold its flag (rule 3). 2. Interrupts are off (rule 1), and the two
        //            callers call no code from outside of this crate: there is no other reference.
        unsafe { &mut *state.get() }
    }

    /// To be compared only.
    fn as_ptr(&self) -> *mut () {
        core::ptr::from_ref(self).cast_mut().cast()
    }

    /// The address space, `None` for kernel threads.
    #[must_use]
    pub fn root(&self) -> Option<Phys> {
        match self.root.load(Ordering::Relaxed) {
            ANY_ROOT => None,
            root => Some(Phys(root)),
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // A CPU may still be on the last instructions of leaving it.
        self.acquire();
    }
}

/// What WRFSBASE takes: not canonical bases become 0.
const fn canonical(base: u64) -> u64 {
    if base < abi::map::WINDOW_TOP { base } else { 0 }
}

/// The stack pointer for a first switch to `main`, at the top of an unused stack.
fn first_call(stack: &KStack, main: fn() -> !) -> u64 {
    // A return address of 0 aligns the stack as a call would and ends backtraces.
    push_saved(stack.top().push(0).push(main as *const () as u64))
}

/// What a program's context runs that was not given anything to run.
fn never_began() -> ! {
    panic!("switched to a context that never began")
}

/// The six callee-saved registers that `switch_stacks` pops, all zero.
fn push_saved(top: StackTop) -> u64 {
    // BOUND: six registers.
    (0..6).fold(top, |top, _| top.push(0)).addr()
}

/// Makes the stack this CPU started on (in `kernel_main` or the function given to `start_aps`) a kernel thread, so that it can be
/// switched from and to: the CPU's idle thread.
///
/// # Panics
/// When the CPU already runs a context.
#[must_use]
pub fn adopt() -> Box<Context> {
    let context = Context::new(None, None).expect("memory for a CPU's context");
    context.acquire();
    let cpu = local();
    assert!(
        cpu.current.load(Ordering::Relaxed).is_null(),
        "CPU {} has a context already",
        cpu.id()
    );
    cpu.current.store(context.as_ptr(), Ordering::Relaxed);
    context
}

/// Leaves `from`, the running context, for `to`. Returns when something switches back to `from`, possibly on another CPU.
///
/// # Panics
/// When `from` is not the running context, or `to` runs elsewhere and does not leave.
pub fn switch(from: &Context, to: &Context) {
    if core::ptr::eq(from, to) {
        return;
    }
    let cpu = local();
    assert!(
        cpu.current.load(Ordering::Relaxed) == from.as_ptr(),
        "switch from a context that does not run here"
    );
    to.acquire();
    if let Some(fpu) = &from.fpu {
        // SAFETY: 1. `from` runs here, so we hold its flag (rule 3).
        unsafe { &mut *fpu.get() }.save();
        from.fs_base.store(fs_base(), Ordering::Relaxed);
        from.gs_base.store(gs_base(), Ordering::Relaxed);
    }
    if let Some(fpu) = &to.fpu {
        load_program(cpu, to, fpu);
    }
    if let Some(stack) = &to.stack {
        cpu.set_kstack(stack.top_addr());
    }
    cpu.current.store(to.as_ptr(), Ordering::Relaxed);
    sync::change_context(&from.holds, &to.holds);
    // SAFETY: 1. `to.rsp` is a stack made by `new_user`, `begin` or `new_kernel`, or left by an earlier switch; its flag is ours (rule 3).
    //         2. Both contexts outlive the switch: `drop` waits for the flags.
    unsafe { switch_stacks(&from.rsp, to.rsp.load(Ordering::Relaxed), &from.running) };
}

/// Loads what a program sees of the CPU besides the general registers.
fn load_program(cpu: &CpuLocal, to: &Context, fpu: &UnsafeCell<FpuState>) {
    let this = to.as_ptr();
    let id = cpu.id() as u64;
    // Back on the CPU it left last with no other program in between: the registers still hold its state.
    let still_there =
        cpu.fpu_owner.load(Ordering::Relaxed) == this && to.fpu_cpu.load(Ordering::Relaxed) == id;
    if !still_there {
        // SAFETY: 1. `switch` has taken `to`'s flag (rule 3).
        unsafe { &mut *fpu.get() }.restore();
        cpu.fpu_owner.store(this, Ordering::Relaxed);
        to.fpu_cpu.store(id, Ordering::Relaxed);
    }
    write_fs_base(to.fs_base.load(Ordering::Relaxed));
    write_user_gs_base(to.gs_base.load(Ordering::Relaxed));
    let root = to.root.load(Ordering::Relaxed);
    if root != ANY_ROOT && root != cpu.root.load(Ordering::Relaxed) {
        aspace::load(Phys(root));
    }
}

/// Saves the callee-saved registers and the stack pointer to `save`, continues on the stack `load`, and then says that the
/// old stack is unused.
///
/// # Safety
/// `load` must be a stack pointer stored by this function or built by `push_saved`.
#[unsafe(naked)]
unsafe extern "C" fn switch_stacks(save: &AtomicU64, load: u64, left: &AtomicBool) {
    naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "mov [rdi], rsp",
        "mov rsp, rsi",
        // Stores are seen in order on x86-64: a CPU that finds the flag clear finds `save` written.
        "mov byte ptr [rdx], 0",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
    )
}
