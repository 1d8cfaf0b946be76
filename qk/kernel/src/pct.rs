//! The process control thread: loading it, and its end.
//!
//! The PCT is an ordinary ring 3 program from the initrd, but for two things: it alone may use the control calls, and it
//! has a small partition of the node's memory instead of a rank's. When it faults, no further rank can be started; those
//! that run go on, and the host is notified.

use abi::image::{HEAD_BYTES, Image};
use abi::map::STACK_TOP;
use alloc::format;
use alloc::string::String;
use hal::addr::{PhysRange, Va, VaRange};
use hal::sync::Once;
use hal::traps::{Trap, UserFrame};
use qk_core::aspace::Memory;
use qk_core::regions::{Kind, Prot, Region, RegionFlags};
use qk_core::sched::CoreSet;

use crate::aspace::{Aspace, Owner, PIECES};
use crate::{events, sched};

/// Memory of the PCT: its image and its stack.
pub const PARTITION_BYTES: u64 = (512 << 10) - TABLE_BYTES;
/// Bytes for its page tables.
pub const TABLE_BYTES: u64 = 64 << 10;
/// Bytes of its stack.
const STACK_BYTES: u64 = 64 << 10;
/// Regions that its image and its stack may have.
const REGIONS: usize = 16;

/// Kept for as long as the PCT runs.
static ASPACE: Once<Aspace> = Once::new();

/// Loads the PCT from the initrd into `partition` and makes it runnable on core 0.
///
/// # Errors
/// One line that says what is wrong with the image.
pub fn load(
    initrd: PhysRange,
    partition: PhysRange,
    tables: PhysRange,
    zeroed: bool,
) -> Result<(), String> {
    let mut head = [0; HEAD_BYTES];
    let head = &mut head[..HEAD_BYTES.min(initrd.len_bytes() as usize)];
    hal::mem::copy_in(head, initrd.start);
    let image = Image::parse(head, initrd.len_bytes()).map_err(|error| format!("PCT: {error}"))?;
    let memory = Memory {
        partition,
        tables,
        zeroed,
    };
    let mut aspace = Aspace::new(Owner(None), memory, REGIONS, PIECES).ok_or("PCT: no memory")?;
    // BOUND: before the first program.
    for segment in image.segments() {
        let pages = Va(segment.first_page()).until(Va(segment.end_page()));
        map(&mut aspace, pages, prot(segment.prot))?;
        let from = initrd.start + segment.file_offset;
        aspace
            .each_page(
                Va(segment.vaddr),
                segment.file_bytes,
                true,
                |pa, done, step| {
                    hal::mem::copy(pa, from + done, step);
                    Ok(())
                },
            )
            .map_err(|_| "PCT: segment not mapped")?;
    }
    map(
        &mut aspace,
        VaRange::new(Va(STACK_TOP - STACK_BYTES), STACK_BYTES),
        Prot::READ | Prot::WRITE,
    )?;
    let task = sched::pct();
    task.make_context().map_err(|_| "PCT: no memory")?;
    task.context()
        .begin(image.entry, STACK_TOP, aspace.root(), sched::ARRIVED);
    let _ = ASPACE.set(aspace); // loaded once
    sched::start(task, None, 0, CoreSet::of(0, hal::smp::expected()));
    Ok(())
}

fn prot(bits: u64) -> Prot {
    Prot::from_bits_truncate(bits as u8)
}

fn map(aspace: &mut Aspace, range: VaRange, prot: Prot) -> Result<(), String> {
    let region = Region {
        flags: RegionFlags::SMALL_PAGES,
        ..Region::new(range, prot, Kind::Image)
    };
    aspace
        .map_new(region)
        .map_err(|_| String::from("PCT: image larger than its memory"))
}

/// The PCT did what it must not: it ends, with a report in the kernel log.
pub fn fault(frame: &UserFrame, trap: Trap) -> ! {
    log::error!(
        "PCT: {} at rip {:#x}, address {:#x}, rsp {:#x}: no rank can be started any more",
        hal::traps::name(trap.vector),
        frame.rip(),
        trap.cr2,
        frame.rsp
    );
    events::pct_is_lost();
    sched::exit()
}
