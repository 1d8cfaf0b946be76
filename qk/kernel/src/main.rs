//! The quintessential kernel (QK): mechanism only. What is decided is decided by the PCT; files, sockets and all else that
//! is not memory, time or signals of a rank is served by its proxy on the host.
//!
//! Where things are: `main` (order of initialisation) → `comm` (what the host says) → `pct`, `control` (policy from ring 3) →
//! `rank`, `thread`, `aspace` (a rank, its threads and its memory) → `syscall`, `ship` (its calls) → `signal`, `delivery`, `exit`
//! (the way back to ring 3) → `fault`, `timer` (interrupts) → `sched` (tasks and cores), `shootdown` (requests between cores),
//! `windows` (SMARTMAP).
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

extern crate alloc;
extern crate qk_hal as hal;

mod aspace;
mod clock;
mod comm;
mod control;
mod cpu_clock;
mod crash;
mod debug;
mod delivery;
mod events;
mod exec;
mod exit;
mod fault;
mod halt;
mod pct;
mod preempt;
mod rank;
mod rseq;
mod sched;
mod shared;
mod ship;
mod shootdown;
mod sigframe;
mod signal;
mod sleep_lock;
mod stats;
mod syscall;
mod thread;
mod timer;
mod trace;
mod windows;

use abi::map::{PAGE, PAGE_2M};
use arrayvec::ArrayVec;
use hal::addr::{Phys, PhysRange};
use hal::boot::Boot;
use hal::panic::PanicReport;
use hal::traps::Handlers;
use wire::boot::{TAIL_BYTES, flag, heap_bytes, node, thread_memory};

hal::entry!(main);

/// Ranges of RAM that are worked with at boot.
type Ranges = ArrayVec<PhysRange, 32>;

fn main(boot: Boot) -> ! {
    let comm_at = comm::address(boot.cmdline)
        .expect("command line without margay.comm=0x...: not started by yod?");
    // BOUND: the ranges of RAM, at boot.
    let mut pool: Ranges = boot.memory.iter().copied().take(24).collect();
    // BOUND: the ranges of RAM, at boot.
    let ram_bytes: u64 = pool.iter().map(|range| range.len_bytes()).sum();
    // The header says how much heap there must be.
    let header = PhysRange::new(comm_at, PAGE);
    hal::mem::add_to_pool(&[header]);
    let comm = comm::init(comm_at);
    let (cpus, ranks) = (hal::cpu::expected(), comm.config.ranks as u64);
    let mut free = pool.clone();
    let initrd = boot
        .initrd
        .map_or((comm_at, 0), |i| (i.start, i.len_bytes()));
    for (start, len_bytes) in [(comm_at, comm.total_bytes()), initrd] {
        carve(
            &mut free,
            PhysRange::new(start, len_bytes.next_multiple_of(PAGE)),
        );
    }
    let pool_bytes = comm.config.pool_bytes;
    // BOUND: the ranges of RAM, at boot.
    let unused = |free: &Ranges| free.iter().map(|range| range.len_bytes()).sum::<u64>();
    let with_shared = unused(&free);
    let shared_pool = (pool_bytes > 0).then(|| take_end(&mut free, &pool, pool_bytes));
    let shared_bytes = with_shared - unused(&free);
    let for_threads = thread_memory(ram_bytes.saturating_sub(pool_bytes), ranks);
    let heap_bytes = heap_bytes(ram_bytes, cpus as u64, ranks).next_multiple_of(PAGE_2M);
    let heap = take(&mut free, (heap_bytes + for_threads).next_multiple_of(PAGE));
    hal::heap::give(heap);
    // Everything but the heap (and the image, which is not in the list) may be reached by physical address.
    carve(&mut pool, header);
    carve(&mut pool, heap);
    hal::mem::add_to_pool(&pool);
    let pct_partition = take(&mut free, pct::PARTITION_BYTES);
    let kernel_bytes = ram_bytes - shared_bytes - unused(&free);
    shared::init(shared_pool);

    hal::time::init((comm.header().tsc_hz.load() != 0).then(|| comm.header().tsc_hz.load()));
    clock::init(hal::time::tsc_hz());
    hal::doorbell::init();
    sched::init(cpus);
    syscall::futex::init(cpus);
    thread::set_room(for_threads as usize / thread::heap_bytes() / ranks.max(1) as usize);
    rank::init(comm);
    windows::init(comm.config.ranks);
    let debugged = comm.config.has(flag::DEBUG);
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
    comm.header().ram_bytes.put(ram_bytes);
    comm.header().kernel_bytes.put(kernel_bytes);
    control::set_memory(free.into_iter());
    let zeroed = comm.config.has(flag::RAM_ZEROED);
    let loaded = boot
        .initrd
        .ok_or("no PCT: the loader brought no initrd".into());
    let state = match loaded.and_then(|initrd| pct::load(initrd, pct_partition, zeroed)) {
        Ok(()) => node::UP,
        Err(why) => {
            log::error!("{why}");
            events::pct_is_lost();
            node::PCT_LOST
        }
    };
    preempt::up();
    hal::cpu::start_aps(sched::idle);
    clock::show();
    comm.header().up_tsc.put(hal::time::tsc());
    comm.header().reach(state);
    hal::doorbell::ring(comm.config.ranks as u16);
    sched::idle()
}

/// Takes `len_bytes` from the first range that has them.
fn take(free: &mut Ranges, len_bytes: u64) -> PhysRange {
    // BOUND: the ranges of RAM, at boot.
    let start = free
        .iter()
        .find(|range| range.len_bytes() >= len_bytes)
        .map(|range| range.start)
        .expect("not enough memory for the kernel");
    let taken = PhysRange::new(start, len_bytes);
    carve(free, taken);
    taken
}

/// Takes the node pool, which the host has in a file of its own: the last `len_bytes` of RAM before the tail. What a firmware or
/// the loader has put there, an initrd too, lies in the tail.
fn take_end(free: &mut Ranges, ram: &Ranges, len_bytes: u64) -> PhysRange {
    // BOUND: the ranges of RAM, at boot.
    let end = ram.iter().map(|range| range.end.0).max().unwrap_or(0);
    let apart = len_bytes + TAIL_BYTES;
    let start = end.next_multiple_of(PAGE_2M).checked_sub(apart);
    let taken = start.map(|start| PhysRange::new(Phys(start), len_bytes));
    let is_free = |taken: &PhysRange| {
        let mut ranges = free.iter();
        // BOUND: the ranges of RAM, at boot.
        ranges.any(|range| range.holds(taken.start, taken.len_bytes()))
    };
    let taken = taken
        .filter(is_free)
        .expect("the end of RAM has no room for the node pool");
    carve(free, PhysRange::new(taken.start, apart));
    taken
}

/// Takes `gone` out of the free ranges.
fn carve(free: &mut Ranges, gone: PhysRange) {
    let before = core::mem::take(free);
    // BOUND: before the first program.
    for range in before {
        if !range.overlaps(gone) {
            free.push(range);
            continue;
        }
        for (start, end) in [(range.start, gone.start), (gone.end, range.end)] {
            if start < end {
                free.push(PhysRange { start, end });
            }
        }
    }
}

/// After a panic report: says so to the host, which finds the words on the serial line.
fn panic(_: &PanicReport<'_>) {
    if comm::is_known() {
        comm::get().header().reach(node::PANICKED);
    }
}
