//! Programs in ring 3: system calls, faults, switches with FPU state, signal frames.
//!
//! Two of each run as a pair in address spaces of their own. A program ends with call EXIT and its verdict; any trap it did not announce
//! (by the address to continue at in r15) fails the test.

use crate::machine;
use crate::run::{check, frame, table_frame, with_frames};
use abi::pte::{ADDRESS, NX, P, TABLE, U, W, index};
use alloc::boxed::Box;
use core::arch::global_asm;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use qk_hal::addr::{Phys, User};
use qk_hal::tables::Table;
use qk_hal::task::{self, Context};
use qk_hal::traps::{Trap, UserFrame};
use qk_hal::{apic, aspace, cpu, mem, time};

extern crate alloc;

const CODE: u64 = 0x40_0000;
const DATA: u64 = 0x50_0000;
const STACK_TOP: u64 = DATA + 0x3000;

// Call numbers; the programs below use them.
const EXIT: u64 = 0;
const YIELD: u64 = 1;
const SAVE_FPU: u64 = 2;
const LOAD_FPU: u64 = 3;
const SET_FS: u64 = 4;
const CHANGE_RBX: u64 = 5;
const GO: u64 = 6;
const ARM_TIMER: u64 = 7;
const NOTHING: u64 = 8;

global_asm!(
    include_str!("programs.s"),
    exit = const EXIT,
    yield = const YIELD,
    save_fpu = const SAVE_FPU,
    load_fpu = const LOAD_FPU,
    set_fs = const SET_FS,
    change_rbx = const CHANGE_RBX,
    go = const GO,
    arm_timer = const ARM_TIMER,
    nothing = const NOTHING,
    code = const CODE,
    data = const DATA,
    options(att_syntax),
);

unsafe extern "C" {
    static programs: u8;
    static programs_end: u8;
    static registers: u8;
    static traps: u8;
    static switching: u8;
    static frames: u8;
    static interrupted: u8;
}

/// The pair that runs, the thread that started it, and verdicts. All on the boot CPU, so plain cells do.
struct Stage {
    idle: Option<Box<Context>>,
    pair: [Option<Box<Context>>; 2],
}

struct OnBootCpu(UnsafeCell<Stage>);
// SAFETY: 1. Only the boot CPU runs programs.
unsafe impl Sync for OnBootCpu {}

static STAGE: OnBootCpu = OnBootCpu(UnsafeCell::new(Stage {
    idle: None,
    pair: [None, None],
}));
static RUNNING: AtomicUsize = AtomicUsize::new(0);
static ALIVE: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
static PASSED: AtomicU64 = AtomicU64::new(0);
static ENTRIES: AtomicU64 = AtomicU64::new(0);
static CALLS: AtomicU64 = AtomicU64::new(0);
static ARMED: AtomicU64 = AtomicU64::new(0);

/// The stage; contexts in it do not move while the pair runs.
fn stage() -> &'static mut Stage {
    // SAFETY: 1. One CPU, no reference is held across a switch except to boxed contexts.
    unsafe { &mut *STAGE.0.get() }
}

fn context(index: usize) -> &'static Context {
    let Some(context) = &stage().pair[index] else {
        panic!("no such program")
    };
    context
}

fn idle() -> &'static Context {
    let Some(context) = &stage().idle else {
        panic!("no idle context")
    };
    context
}

pub extern "C" fn syscall(frame: &mut UserFrame) {
    CALLS.fetch_add(1, Ordering::Relaxed);
    let user = User::range(frame.rdi, 0);
    frame.rax = match (frame.rax, user) {
        (EXIT, _) => exit(frame.rdi != 0),
        (YIELD, _) => {
            hand_over();
            0
        }
        (SAVE_FPU, Some(to)) => task::save_fpu_to_user(to).map_or(14, |()| 0),
        (LOAD_FPU, Some(from)) => task::load_fpu_from_user(from).map_or(14, |()| 0),
        (SET_FS, _) => task::set_fs_base(frame.rdi).map_or(22, |()| 0),
        (CHANGE_RBX, _) => {
            frame.rbx = 0x1234;
            frame.return_fully();
            0
        }
        (GO, _) => {
            frame.set_rip(frame.rdi);
            0
        }
        (ARM_TIMER, _) => arm_timer(),
        (NOTHING, _) => 77,
        _ => panic!("call {frame:x?}"),
    };
}

/// Continues where the program said it would trap.
pub fn user_trap(frame: &mut UserFrame, trap: Trap) {
    CALLS.fetch_add(1, Ordering::Relaxed);
    assert!(
        frame.r15 >= CODE,
        "unannounced {trap:x?} in ring 3, {frame:x?}"
    );
    let after = core::mem::take(&mut frame.r15);
    frame.set_rip(after);
}

/// Arms the timer at the first call; then returns whether it has interrupted ring 3.
fn arm_timer() -> u64 {
    if ARMED.swap(1, Ordering::Relaxed) == 0 {
        apic::timer_set(time::tsc() + time::tsc_hz() / 10_000);
    }
    machine::FROM_USER.load(Ordering::Relaxed)
}

fn exit(passed: bool) -> ! {
    PASSED.fetch_add(u64::from(passed), Ordering::Relaxed);
    let index = RUNNING.load(Ordering::Relaxed);
    ALIVE[index].store(0, Ordering::Relaxed);
    task::switch(context(index), idle());
    unreachable!("an ended program runs")
}

/// To the other one, while it lives.
fn hand_over() {
    let index = RUNNING.load(Ordering::Relaxed);
    let other = 1 - index;
    if ALIVE[other].load(Ordering::Relaxed) == 1 {
        RUNNING.store(other, Ordering::Relaxed);
        task::switch(context(index), context(other));
        RUNNING.store(index, Ordering::Relaxed);
    }
}

/// Has the address space show `frame_at` at `va`, in place of what was there.
fn map(root: Phys, va: u64, frame_at: Phys, flags: u64) {
    let mut table = Table::at(root);
    for level in (2..=4).rev() {
        let slot = index(va, level);
        if table.get(slot) == 0 {
            let below = table_frame();
            let _ = Table::new(below, level - 1);
            table.set(slot, below.0 | P | W | U | TABLE);
        }
        table = Table::at(Phys(table.get(slot) & ADDRESS));
    }
    table.set(index(va, 1), frame_at.0 | flags);
}

/// The root of address space `index`, made at first use: tables stay tables.
fn root(index: u64) -> Phys {
    static ROOTS: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
    let root = &ROOTS[index as usize];
    if root.load(Ordering::Relaxed) == 0 {
        let at = table_frame();
        let _ = Table::new(at, 4);
        root.store(at.0, Ordering::Relaxed);
    }
    Phys(root.load(Ordering::Relaxed))
}

/// After a switch there is nothing to do.
extern "C" fn arrived() {}

/// An address space with the programs, data and a stack with `index` on top; starts at `entry`.
fn load(entry: *const u8, index: u64) -> Box<Context> {
    let (start, end) = (&raw const programs, &raw const programs_end);
    // SAFETY: 1. The two labels bracket the programs in .rodata.
    let image = unsafe { core::slice::from_raw_parts(start, end as usize - start as usize) };
    let (root, code) = (root(index), frame());
    mem::copy_out(code, image);
    map(root, CODE, code, P | U);
    (DATA..STACK_TOP).step_by(4096).for_each(|va| {
        let at = frame();
        mem::write_u64(at + 4088, index);
        map(root, va, at, P | W | U | NX);
    });
    let Some(context) = Context::new_user() else {
        panic!("no memory for a context")
    };
    context.begin(
        CODE + (entry as u64 - start as u64),
        STACK_TOP,
        root,
        arrived,
    );
    context
}

/// A context is to run in an address space that is none.
pub fn begin_in(root: Phys) {
    if let Some(context) = Context::new_user() {
        context.begin(CODE, STACK_TOP, root, arrived);
    }
}

/// A program's memory, active on this CPU: addresses of its code and of its data. Both are there, so it is for SMEP and SMAP to
/// keep the kernel out.
pub fn enter_memory() -> (u64, u64) {
    let root = root(0);
    map(root, CODE, frame(), P | U);
    map(root, DATA, frame(), P | W | U | NX);
    aspace::activate(root);
    (CODE, DATA)
}

/// Runs two of the program at `entry` to their ends; whether both passed.
fn run_pair(entry: *const u8) -> bool {
    PASSED.store(0, Ordering::Relaxed);
    for (index, alive) in ALIVE.iter().enumerate() {
        stage().pair[index] = Some(load(entry, index as u64));
        alive.store(1, Ordering::Relaxed);
    }
    for (index, alive) in ALIVE.iter().enumerate() {
        if alive.load(Ordering::Relaxed) == 1 {
            RUNNING.store(index, Ordering::Relaxed);
            task::switch(idle(), context(index));
        }
    }
    aspace::activate(aspace::kernel_root());
    stage().pair = [None, None];
    PASSED.load(Ordering::Relaxed) == 2
}

pub fn run_all() {
    cpu::set_entry_counter(0, &ENTRIES);
    stage().idle = Some(task::adopt());
    check(
        "programs keep their registers",
        run_pair(&raw const registers),
    );
    check("programs trap", run_pair(&raw const traps));
    check(
        "programs keep FPU state and bases over switches",
        run_pair(&raw const switching),
    );
    check("signal frame images", run_pair(&raw const frames));
    let entries = || ENTRIES.load(Ordering::Relaxed);
    // The one trap without an entry: the kernel's own verdict on a non-canonical return, once in each of the two `traps`.
    check(
        "every entry from ring 3 is counted",
        entries() + 2 == CALLS.load(Ordering::Relaxed),
    );
    check("programs are interrupted", run_pair(&raw const interrupted));
    check(
        "interrupts count as entries",
        entries() + 2 > CALLS.load(Ordering::Relaxed),
    );
}

/// Runs programs while someone outside injects NMIs or machine checks, until enough have come.
pub fn run_until_interrupted(enough: u64) {
    let before = qk_hal::traps::spurious_count();
    let mut so_far = 0;
    stage().idle = Some(task::adopt());
    qk_hal::serial::line(format_args!("running"));
    while so_far < enough {
        with_frames(|| {
            assert!(run_pair(&raw const switching));
            assert!(run_pair(&raw const traps));
        });
        let count = qk_hal::traps::spurious_count() - before;
        if count != so_far {
            qk_hal::serial::line(format_args!("interrupts: {count}"));
        }
        so_far = count;
    }
}
