//! The rank's words in the communication area, mapped into this process.
//!
//! Only the pages of this rank are mapped; those of other ranks stay out of reach of a mistake here.

use std::os::fd::AsFd;
use std::ptr::null_mut;

use abi::areas::Areas;
use rustix::io;
use rustix::mm::{MapFlags, ProtFlags, mmap};
use wire::layout::Layout;
use wire::ram::{Place, Ram};
use wire::rank::RankArea;
use wire::region_log::RegionLog;
use wire::thread::ThreadAreas;
use zerocopy::{FromBytes, KnownLayout};

/// A rank's records.
#[derive(Clone, Copy, Debug)]
pub struct RankWords {
    /// Its area.
    pub area: &'static RankArea,
    /// Its threads' areas.
    pub threads: &'static ThreadAreas,
    /// Its region log.
    pub log: &'static RegionLog,
    number: usize,
}

impl RankWords {
    /// Maps the records of `rank` for the rest of the process's life.
    ///
    /// # Errors
    /// EINVAL when they do not lie in RAM, or what mmap says.
    pub fn map(
        ram: impl AsFd,
        ram_layout: &Ram,
        comm_gpa: u64,
        layout: &Layout,
        rank: usize,
    ) -> io::Result<RankWords> {
        Ok(RankWords {
            area: map_shared(&ram, ram_layout, comm_gpa + layout.rank(rank) as u64)?,
            threads: map_shared(&ram, ram_layout, comm_gpa + layout.threads(rank) as u64)?,
            log: map_shared(&ram, ram_layout, comm_gpa + layout.region_log(rank) as u64)?,
            number: rank,
        })
    }

    /// Where its heap, its stack and its mmap area lie.
    pub fn areas(&self) -> Areas {
        Areas::of(self.number)
    }
}

/// Maps a structure of shared words at a page-aligned guest-physical address.
fn map_shared<T: FromBytes + KnownLayout>(
    ram: impl AsFd,
    layout: &Ram,
    gpa: u64,
) -> io::Result<&'static T> {
    let len_bytes = size_of::<T>().next_multiple_of(abi::map::PAGE as usize);
    let Some(Place::Ram(offset)) = layout.place(gpa, len_bytes as u64) else {
        return Err(io::Errno::INVAL);
    };
    // SAFETY: 1. No address is requested, so nothing that exists is replaced.
    let start = unsafe {
        mmap(
            null_mut(),
            len_bytes,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED,
            ram,
            offset,
        )?
    };
    // SAFETY: 1. The mapping is page-aligned, at least `size_of::<T>()` long and is never removed, hence 'static.
    // 2. `T: FromBytes`: whatever the memory holds is a valid `T`. 3. The wire's structures consist of atomic words, so
    // that other processes may change them under a shared reference; only those are used with this function. 4. The RAM
    // file is never shortened, so no access faults.
    Ok(unsafe { &*start.cast::<T>() })
}
