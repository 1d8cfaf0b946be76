//! Order of the tests, and the ways to die.

use crate::{machine, misuse, pages, programs};
use core::sync::atomic::{AtomicU64, Ordering};
use qk_hal::addr::{Phys, PhysRange, User};
use qk_hal::boot::Boot;
use qk_hal::panic::PanicReport;
use qk_hal::traps::{self, Handlers};
use qk_hal::{aspace, cpu, heap, mem, pci, serial, tables, time, user};

const HEAP_BYTES: u64 = 4 << 20;
const TABLE_BYTES: u64 = 256 << 10;
/// An address with nothing at it, and its neighbours below 2^47.
const NOWHERE: u64 = 0x1000;
const LAST_WORD: u64 = (1 << 47) - 8;

/// Next free pool frame, and the next that may be a page table.
static NEXT: AtomicU64 = AtomicU64::new(0);
static NEXT_TABLE: AtomicU64 = AtomicU64::new(0);

/// A zeroed pool frame.
pub fn frame() -> Phys {
    let at = Phys(NEXT.fetch_add(4096, Ordering::Relaxed));
    mem::zero(at, 4096);
    at
}

/// A frame that may become a page table.
pub fn table_frame() -> Phys {
    Phys(NEXT_TABLE.fetch_add(4096, Ordering::Relaxed))
}

/// Runs `use_them` and then frees all pool frames it took.
pub fn with_frames(use_them: impl FnOnce()) {
    let mark = NEXT.load(Ordering::Relaxed);
    use_them();
    NEXT.store(mark, Ordering::Relaxed);
}

/// Prints `ok name`, or dies.
#[track_caller]
pub fn check(name: &str, holds: bool) {
    assert!(holds, "self-test failed: {name}");
    serial::line(format_args!("ok {name}"));
}

pub fn kernel_main(boot: Boot) -> ! {
    let boot_tsc = time::tsc();
    let Some(ram) = boot
        .memory
        .iter()
        .find(|range| range.len_bytes() > 2 * HEAP_BYTES)
    else {
        panic!("little memory")
    };
    heap::give(PhysRange::new(ram.start, HEAP_BYTES));
    let for_tables = PhysRange::new(ram.start + HEAP_BYTES, TABLE_BYTES);
    let tables = tables::give(for_tables);
    let pool = PhysRange {
        start: for_tables.end,
        end: ram.end,
    };
    mem::add_to_pool(&[pool]);
    NEXT.store(pool.start.0, Ordering::Relaxed);
    NEXT_TABLE.store(tables.start.0, Ordering::Relaxed);
    traps::set_handlers(Handlers {
        syscall: programs::syscall,
        user_trap: programs::user_trap,
        interrupt: machine::interrupt,
        panic: last_words,
    });
    time::init(None);
    serial::line(format_args!(
        "boot {boot_tsc} tsc_hz {} cmdline {}",
        time::tsc_hz(),
        boot.cmdline
    ));
    die_as_told(boot.cmdline, &boot);
    misuse::die_as_told(boot.cmdline, ram.start);

    pages::audit();
    pages::tables_of_programs();
    pool_memory(pool);
    user_faults();
    machine::start();
    machine::timer();
    match boot.cmdline {
        "nmi" => programs::run_until_interrupted(50),
        "machine check" => programs::run_until_interrupted(2),
        _ => programs::run_all(),
    }
    serial::line(format_args!("PASS {} cpus", cpu::count()));
    cpu::exit_node(0)
}

fn last_words(report: &PanicReport<'_>) {
    serial::line(format_args!(
        "handler: cpu {}, {} addresses",
        report.cpu,
        report.backtrace.len()
    ));
}

/// Dies if the command line says how.
fn die_as_told(cmdline: &str, boot: &Boot) {
    let text = boot.kernel.start.direct() as *mut u8;
    // SAFETY: 1. None: these accesses must fault, and the test is that they do.
    unsafe {
        match cmdline {
            "panic" => panic!("as\ntold"),
            "overflow" => _ = overflow(1),
            "null" => _ = core::ptr::without_provenance::<u64>(8).read_volatile(),
            "text" => (kernel_main as *mut u8).write_volatile(0),
            "alias" => text.write_volatile(0),
            "execute" => {
                core::mem::transmute::<u64, fn()>(Phys(NEXT.load(Ordering::Relaxed)).direct())()
            }
            "smap" => _ = (programs::enter_memory().1 as *const u64).read_volatile(),
            "smep" => core::mem::transmute::<u64, fn()>(programs::enter_memory().0)(),
            "pool" => mem::write_u64(boot.kernel.start, 0),
            "ap" => machine::die_on_ap(),
            "show" => show(boot),
            _ => {}
        }
    }
}

/// Prints what boot has found out, and ends well.
fn show(boot: &Boot) -> ! {
    for range in boot.memory {
        serial::line(format_args!("ram {range:?}"));
    }
    for cpu in boot.cpus {
        serial::line(format_args!("cpu {:#x} node {}", cpu.apic_id, cpu.node));
    }
    // QEMU's pci-testdev, whose BAR 2 may be of any size; without it BAR 0 is in memory.
    if let Some(device) = pci::find(0x1b36, 0x0005) {
        let at = device
            .memory(2, 0, 4096)
            .or_else(|| device.memory(0, 0, 4096));
        let at = at.unwrap_or_default();
        // SAFETY: 1. Device memory that the layer has mapped.
        let word = unsafe { (at.direct() as *const u32).read_volatile() };
        serial::line(format_args!("testdev {at:?} {word:#x}"));
    }
    cpu::exit_node(0)
}

/// Runs into the guard page.
#[inline(never)]
#[allow(unconditional_recursion)] // That is the point.
fn overflow(depth: u64) -> u64 {
    let mut big = [depth; 64];
    core::hint::black_box(&mut big);
    let below = overflow(big[7] + 1);
    core::hint::black_box(&mut big);
    below + big[3]
}

fn pool_memory(pool: PhysRange) {
    let (a, b) = (frame(), frame());
    mem::write_u64(a + 8, 5);
    check("pool word", mem::read_u64(a + 8) == 5);
    (0..512).for_each(|i| mem::write_u64(a + i * 8, 3 + i * 0x1000));
    check("pool words", mem::read_u64(a + 511 * 8) == 3 + 511 * 0x1000);
    mem::copy(b + 1, a, 4095);
    let mut bytes = [0u8; 11];
    mem::copy_in(&mut bytes, b + 1);
    check("pool copy", bytes[..9] == [3, 0, 0, 0, 0, 0, 0, 0, 3]);
    mem::copy_out(b + 3, b"abc");
    mem::zero(b + 4, 1);
    mem::copy_in(&mut bytes[..4], b + 2);
    check("pool bytes", &bytes[..4] == b"\0a\0c");
    check(
        "pool bounds",
        !mem::in_pool(pool.end, 1)
            && !mem::in_pool(Phys(pool.end.0 - 8), u64::MAX)
            && mem::in_pool(pool.start, 8),
    );
    let shared: &AtomicU64 = mem::shared(a);
    check("pool record", shared.load(Ordering::Relaxed) == 3);
}

/// Every accessor meets memory that is not there.
fn user_faults() {
    aspace::activate(aspace::kernel_root());
    let mut bytes = [0u8; 24];
    for addr in [0, NOWHERE, LAST_WORD] {
        let Some(at) = User::range(addr, 8) else {
            panic!("{addr:#x} is below 2^47")
        };
        check("user copy_in", user::copy_in(&mut bytes, at).is_err());
        check("user copy_out", user::copy_out(at, &bytes[..5]).is_err());
        let pool = frame();
        check(
            "user copy and pool",
            user::copy_to_pool(pool, at, 24).is_err() && user::copy_from_pool(at, pool, 5).is_err(),
        );
        check("user zero", user::zero(at, 12).is_err());
        check(
            "user read",
            user::read_u32(at).is_err() && user::read_u64(at).is_err(),
        );
        check(
            "user write",
            user::write_u32(at, 1).is_err() && user::write_u64(at, 1).is_err(),
        );
        check(
            "user compare",
            user::compare_exchange_u32(at, 0, 1).is_err(),
        );
    }
}
