//! The quintessential kernel (QK): mechanism only. What is decided is decided by the PCT; files, sockets and all else that
//! is not memory, time or signals of a rank is served by its proxy on the host.
//!
//! Where things are: `main`, `ram` (order of initialisation) → `host` (the port to who serves what is not done here) → `pct`,
//! `control` (policy from ring 3) → `rank`, `thread`, `aspace` (a rank, its threads and its memory) → `syscall` (its calls) →
//! `signal`, `delivery`, `exit` (the way back to ring 3) → `fault`, `timer` (interrupts) → `sched` (tasks and cores), `shootdown`
//! (requests between cores), `windows` (SMARTMAP).
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

extern crate alloc;
extern crate qk_hal as hal;

mod aspace;
mod children;
mod clock;
mod control;
mod cpu_clock;
mod crash;
mod debug;
mod delivery;
mod dispatch;
mod events;
mod exec;
mod exit;
mod fault;
mod futex;
mod halt;
mod host;
mod last_line;
mod life;
mod one_shot;
mod pct;
mod preempt;
mod ram;
mod rank;
mod result;
mod rseq;
mod sched;
mod shared;
mod shootdown;
mod sigframe;
mod signal;
mod sleep_lock;
mod stats;
mod syscall;
mod thread;
mod timer;
mod user;
mod windows;
mod xpmem;

use abi::map::{PAGE, PAGE_2M};
use hal::addr::PhysRange;
use hal::boot::Boot;
use hal::panic::PanicReport;
use hal::traps::Handlers;
use qk_core::sched::CoreSet;
use ram::Free;
use wire::boot::{flag, heap_bytes, table_bytes, thread_memory};

hal::entry!(main);

fn main(boot: Boot) -> ! {
    let mut free = Free::of(&boot);
    let ram_bytes = free.ram_bytes();
    let pooled = host::init(&boot, &mut free);
    let config = host::config();
    let (cpus, ranks) = (hal::smp::expected(), config.ranks as u64);
    let with_shared = free.free_bytes();
    let shared_pool = (config.pool_bytes > 0).then(|| free.take_end(config.pool_bytes));
    let shared_bytes = with_shared - free.free_bytes();
    let for_threads = thread_memory(ram_bytes.saturating_sub(config.pool_bytes), ranks);
    let heap_bytes = heap_bytes(ram_bytes, cpus as u64, ranks).next_multiple_of(PAGE_2M);
    let heap = free.take((heap_bytes + for_threads).next_multiple_of(PAGE));
    hal::heap::give(heap);
    let pct_partition = free.take(pct::PARTITION_BYTES);
    let partition_bytes = match config.partition_bytes {
        // At most: all that is left, evenly divided.
        0 => free.free_bytes() / ranks,
        given => given,
    };
    let table_bytes = ranks.saturating_mul(table_bytes(partition_bytes));
    let tables = free.take(pct::TABLE_BYTES.saturating_add(table_bytes));
    // Everything else (but the image, which is not in the list) may be reached by physical address.
    hal::mem::add_to_pool(&free.ram_without([pooled, heap, tables]));
    let mut tables = hal::tables::give(tables);
    let pct_tables = PhysRange::new(tables.start, pct::TABLE_BYTES);
    tables.start = pct_tables.end;
    let kernel_bytes = ram_bytes - shared_bytes - free.free_bytes();
    shared::init(shared_pool);

    hal::time::init(host::config().known_tsc_hz());
    clock::init(hal::time::tsc_hz());
    host::find_doorbell();
    timer::init(cpus);
    host::ship::init(cpus);
    sched::init(cpus, dispatch::HOOKS);
    sched::make_room(CoreSet::of(0, cpus), 1).expect("the heap has room for the PCT");
    futex::init(cpus);
    thread::set_room(for_threads as usize / thread::heap_bytes() / ranks.max(1) as usize);
    rank::init(config);
    host::serve_alone();
    windows::init(config.ranks);
    let debugged = config.has(flag::DEBUG);
    hal::traps::set_handlers(Handlers {
        syscall: syscall::init(),
        user_trap: if debugged {
            fault::user_trap::<true>
        } else {
            fault::user_trap::<false>
        },
        interrupt: if debugged {
            fault::interrupt::<true>
        } else {
            fault::interrupt::<false>
        },
        panic,
    });
    host::publish_memory(ram_bytes, kernel_bytes);
    host::show(&free, shared_pool);
    control::set_memory(free.into_ranges(), tables, ranks);
    let zeroed = config.has(flag::RAM_ZEROED);
    let module = boot.modules.first();
    let loaded = module.ok_or("no PCT: the loader brought no module".into());
    let loaded = loaded.and_then(|pct| pct::load(*pct, pct_partition, pct_tables, zeroed));
    if let Err(why) = &loaded {
        log::error!("{why}");
        events::pct_is_lost();
    }
    preempt::up();
    hal::smp::start_aps(run_core);
    host::show_clock();
    host::up(loaded.is_ok());
    run_core()
}

/// What every core does from boot on.
fn run_core() -> ! {
    sched::adopt();
    stats::begin();
    // Proxies that attached before this core could be rung.
    events::look(hal::cpu::id());
    sched::idle()
}

/// After a panic report: says so to the host, which finds the words on the serial line.
fn panic(_: &PanicReport<'_>) {
    host::panicked();
}
