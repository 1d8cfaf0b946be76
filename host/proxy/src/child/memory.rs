//! The steps by which a child gets the rank's memory.

use abi::Errno;

use super::copies::Copies;
use super::lent::Lent;
use super::parent::Parent;
use super::stage::Must;
use super::steps::Steps;
use crate::fds;
use crate::memory::Memory;
use crate::ram_files::RamFiles;
use crate::regions::Region;

/// Whose memory a child begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whose {
    /// The rank's own, until it calls exec (vfork).
    Rank,
    /// A copy.
    Child,
}

/// What the steps need until there is a child: what frames of the node pool are mapped by, and the copy of the rank's memory.
pub type Needed = (Option<Box<Lent>>, Option<Copies>);

/// The rank's memory as the child has it. The child begins with nothing there but pages of files ([`Memory::keep_from_children`]).
///
/// # Errors
/// ENOMEM, EFAULT, or what Linux says of the RAM's file.
pub fn memory_steps(
    steps: &mut Steps,
    parent: &Parent<'_>,
    memory: &Memory,
    whose: Whose,
) -> Result<Needed, Errno> {
    memory.keep_from_children()?;
    let (laid, all): (Vec<&Region>, Vec<&Region>) =
        memory.regions().iter().partition(|region| region.laid);
    for region in laid.into_iter().filter(|region| region.exec) {
        let args = [region.start, region.len_bytes(), region.protection()];
        // Not of a file that is mounted so that nothing is executed.
        steps.call(libc::SYS_mprotect, &args, Must::Return);
    }
    let (lent, own): (Vec<&Region>, Vec<&Region>) =
        all.into_iter().partition(|region| region.shared);
    let lent = match lent.is_empty() {
        true => None,
        false => Some(Lent::write(steps, parent, memory.ram(), &lent)?),
    };
    let copies = match whose {
        Whose::Rank => {
            let mut own = own.into_iter();
            own.try_for_each(|region| borrowed_region(steps, memory.ram(), region))?;
            None
        }
        Whose::Child => Some(copied_regions(steps, parent, memory, &own)?),
    };
    Ok((lent, copies))
}

/// What the rank has there, but for what the child stores there itself. A child of the child does not have it: it
/// would go on with memory that the rank, awake again, changes.
fn borrowed_region(steps: &mut Steps, ram: &RamFiles, region: &Region) -> Result<(), Errno> {
    let len_bytes = region.len_bytes();
    let (file, offset) = ram.place(region.gpa, len_bytes).ok_or(Errno::EFAULT)?;
    let how = (libc::MAP_PRIVATE | libc::MAP_FIXED | libc::MAP_NORESERVE) as u64;
    let (prot, fd) = (region.protection(), fds::raw(file));
    let args = [region.start, len_bytes, prot, how, fd, offset];
    steps.call(libc::SYS_mmap, &args, Must::Be(region.start as i64));
    let args = [region.start, len_bytes, libc::MADV_DONTFORK as u64];
    steps.call(libc::SYS_madvise, &args, Must::Succeed);
    Ok(())
}

/// Copies of regions, which are moved to where those are.
fn copied_regions(
    steps: &mut Steps,
    parent: &Parent<'_>,
    memory: &Memory,
    regions: &[&Region],
) -> Result<Copies, Errno> {
    const WRITABLE: u64 = (libc::PROT_READ | libc::PROT_WRITE) as u64;
    let runs = regions.chunk_by(|before, region| region.adjoins(before));
    let runs: Vec<&[&Region]> = runs.collect();
    let (copies, moves) = Copies::make(memory, &runs, parent.room)?;
    for piece in moves {
        steps.move_to(piece.from, piece.len_bytes, piece.to);
        if piece.prot != WRITABLE {
            let args = [piece.to, piece.len_bytes, piece.prot];
            steps.call(libc::SYS_mprotect, &args, Must::Succeed);
        }
    }
    Ok(copies)
}
