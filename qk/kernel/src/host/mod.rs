//! The port to the host: the one room of the kernel that knows who serves what is not memory, time or signals.
//!
//! Everything that host and kernel say to each other are records of crate `wire` in the communication area, and bells. Where the
//! area lies and who answers is chosen once, when the node starts:
//!
//! * **SharedRam**: the host has laid out the area in RAM that its processes map, and says where on the command line; for a
//!   co-kernel the module does, with what else they may map. Bells are QEMU's ivshmem device, or interrupts to and from Linux. Every rank
//!   has a proxy.
//! * **None**: nothing is on the command line. The area is memory of the kernel's own, and a bell is a call of the
//!   [resident server](resident), which runs one program that the loader brought along.
//!
//! The records are the same, so that no path of a call has to know which it is: the choice is made where a bell is sent
//! ([`bell`]), and where there is a device to ring nothing else is looked at.
//!
//! Outside of this room no part of the kernel names the area: a rank has its end of the port in [`RankPort`], a thread in
//! [`ThreadPort`].

mod area;
mod bell;
mod clock;
mod rank;
mod resident;
pub mod ship;
mod thread;
pub mod trace;

pub use area::{clock_page, config, counters, lost_page, refuses};
pub use clock::{read as clock_params, show as show_clock, start as start_clock};
pub use rank::{RankPort, Stage};
pub use resident::attach as serve_alone;
pub use thread::ThreadPort;

use abi::map::PAGE;
use hal::addr::PhysRange;
use hal::boot::Boot;
use wire::boot::node;

use crate::ram::Free;

/// Sets the port up: with the area that the command line names or, where it names none, with one of the kernel's own. Returns the
/// part of it that is in the pool already; the rest of RAM is the caller's to add.
/// The node ends when host and kernel do not agree.
pub fn init(boot: &Boot, free: &mut Free) -> PhysRange {
    let named = boot.comm.map(|comm| comm.start);
    let pooled = match named.or_else(|| area::address(boot.cmdline)) {
        Some(base) => {
            // The header says how long the area is.
            let header = PhysRange::new(base, PAGE);
            hal::mem::add_to_pool(&[header]);
            header
        }
        None => resident::make_area(boot, free),
    };
    free.carve(area::set(pooled.start, boot.comm));
    pooled
}

/// Finds the doorbell's device, if there is a host to ring: what is not named is not looked for.
pub fn find_doorbell() {
    if !resident::is_here() {
        hal::doorbell::init();
    }
}

/// Bytes of RAM: all that the kernel found, and what it takes for itself.
pub fn publish_memory(ram_bytes: u64, kernel_bytes: u64) {
    let header = area::get().header();
    header.ram_bytes.put(ram_bytes);
    header.kernel_bytes.put(kernel_bytes);
}

/// What processes of the host may map besides the area, where there is a device that guards RAM: partitions, and the node pool.
pub fn show(free: &Free, pool: Option<PhysRange>) {
    let free = free.ranges().iter().copied();
    // BOUND: the ranges of RAM, at boot.
    free.chain(pool).for_each(hal::mem::show);
}

/// The node has booted, with the PCT (`true`) or without.
pub fn up(has_pct: bool) {
    let header = area::get().header();
    header.up_tsc.put(hal::time::tsc());
    header.reach(if has_pct { node::UP } else { node::PCT_LOST });
    bell::node();
}

/// The PCT ended: no rank can be started any more.
pub fn pct_is_lost() {
    area::get().header().reach(node::PCT_LOST);
    bell::node();
}

/// The kernel panics: the host finds the words on the serial line. A node without a host ends with the report.
pub fn panicked() {
    if let Some(area) = area::known() {
        area.header().reach(node::PANICKED);
    }
}
