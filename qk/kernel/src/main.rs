//! The quintessential kernel (QK): mechanism only. What is decided is decided by the PCT; files, sockets and all else that
//! is not memory, time or signals of a rank is served by its proxy on the host.
//!
//! Where things are: `main` (order of initialisation) → `comm` (what the host says) → `pct`, `control` (policy from ring 3) →
//! `rank`, `aspace` (a rank and its memory) → `syscall`, `ship` (its calls) → `signal`, `fault`, `timer` → `sched` (cores).
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

extern crate alloc;
extern crate qk_hal as hal;

mod aspace;
mod clock;
mod comm;
mod control;
mod crash;
mod delivery;
mod events;
mod exit;
mod fault;
mod pct;
mod preempt;
mod rank;
mod rseq;
mod sched;
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

use abi::map::PAGE;
use arrayvec::ArrayVec;
use hal::addr::{Phys, PhysRange};
use hal::boot::Boot;
use hal::panic::Epitaph;
use hal::traps::Handlers;
use wire::boot::{flag, node};

hal::entry!(main);

/// Ranges of RAM that are worked with at boot.
type Ranges = ArrayVec<PhysRange, 32>;

fn main(boot: Boot) -> ! {
    let comm_at = comm::address(boot.cmdline)
        .expect("command line without margay.comm=0x...: not started by yod?");
    let mut free: Ranges = boot.memory.iter().copied().take(24).collect();
    let ram_bytes: u64 = free.iter().map(|range| range.len_bytes()).sum();
    let cpus = hal::cpu::expected();
    let for_threads = wire::boot::thread_memory(ram_bytes, cpus as u64);
    let heap = take(
        &mut free,
        heap_bytes(ram_bytes, cpus) + for_threads,
        comm_at,
    );
    hal::heap::give(heap);
    // Everything but the heap (and the image, which is not in the list) may be reached by physical address.
    hal::mem::set_pool(&free);
    let comm = comm::init(comm_at);
    carve(
        &mut free,
        PhysRange::new(comm_at, comm.total_bytes().next_multiple_of(PAGE)),
    );
    if let Some(initrd) = boot.initrd {
        carve(
            &mut free,
            PhysRange::new(initrd.start, initrd.len_bytes().next_multiple_of(PAGE)),
        );
    }
    let pct_share = take(&mut free, pct::SHARE_BYTES, comm_at);

    hal::time::init((comm.header().tsc_hz.load() != 0).then(|| comm.header().tsc_hz.load()));
    clock::init(hal::time::tsc_hz());
    hal::doorbell::init();
    sched::init(cpus);
    syscall::futex::init(cpus);
    thread::set_room(for_threads as usize / thread::heap_bytes());
    rank::init(comm);
    hal::traps::set_handlers(Handlers {
        syscall: syscall::init(),
        user_trap: fault::user_trap,
        interrupt: fault::interrupt,
        panic,
    });
    comm.header().ram_bytes.put(ram_bytes);
    comm.header()
        .kernel_bytes
        .put(ram_bytes - free.iter().map(|range| range.len_bytes()).sum::<u64>());
    control::set_memory(free.into_iter());
    let zeroed = comm.config.has(flag::RAM_ZEROED);
    let loaded = boot
        .initrd
        .ok_or("no PCT: the loader brought no initrd".into());
    let state = match loaded.and_then(|initrd| pct::load(initrd, pct_share, zeroed)) {
        Ok(()) => node::UP,
        Err(why) => {
            log::error!("{why}");
            events::pct_is_lost();
            node::PCT_LOST
        }
    };
    hal::cpu::start_aps(sched::idle);
    clock::show();
    comm.header().up_tsc.put(hal::time::tsc());
    comm.header().node_state.store(state);
    hal::doorbell::ring(comm.config.ranks as u16);
    sched::idle()
}

/// Bytes of kernel heap besides what further threads need: a fixed part, what every CPU and every rank needs, and two bits per 4 KiB frame of RAM.
fn heap_bytes(ram_bytes: u64, cpus: usize) -> u64 {
    const FIXED: u64 = 1 << 20;
    const PER_CPU: u64 = 512 << 10;
    (FIXED + PER_CPU * cpus as u64 + ram_bytes / 4096 / 2).next_multiple_of(2 << 20)
}

/// Takes `len_bytes` from the first range above the communication area that has them.
fn take(free: &mut Ranges, len_bytes: u64, above: Phys) -> PhysRange {
    let room = |range: &&PhysRange| range.start > above && range.len_bytes() >= len_bytes;
    let start = free
        .iter()
        .find(room)
        .map(|range| range.start)
        .expect("not enough memory for the kernel");
    let taken = PhysRange::new(start, len_bytes);
    carve(free, taken);
    taken
}

/// Takes `gone` out of the free ranges.
fn carve(free: &mut Ranges, gone: PhysRange) {
    let before = core::mem::take(free);
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

/// After an epitaph: says so to the host, which finds the words on the serial line.
fn panic(_: &Epitaph<'_>) {
    if comm::is_known() {
        comm::get().header().node_state.store(node::PANICKED);
    }
}
