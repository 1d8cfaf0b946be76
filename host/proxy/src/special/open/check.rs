//! Checking what was opened, before the rank gets it.

use std::os::fd::OwnedFd;

use abi::Errno;
use rustix::fs::{FileType, fstat};

use super::how::writes;
use crate::errno::linux;
use crate::rank::Rank;
use crate::special::place::Place;
use crate::special::{content, device, sys, text};

/// Checks whether the rank may have what was opened; returns the text that the rank gets instead, if there is one.
pub fn check(rank: &Rank, file: &OwnedFd, flags: i32) -> Result<Option<OwnedFd>, Errno> {
    let stat = fstat(file).map_err(linux)?;
    let on_no_device = rustix::fs::major(stat.st_dev) == 0;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::CharacterDevice if device::is_flat(stat.st_rdev) => Ok(None),
        FileType::CharacterDevice => Err(Errno::ENXIO),
        // A file without a name may be a text.
        FileType::RegularFile if on_no_device && stat.st_nlink == 0 => {
            text::again(rank, file, flags)
        }
        // Files of a procfs lie on no device and have no size.
        FileType::RegularFile if on_no_device && stat.st_size == 0 => in_proc(rank, file, flags),
        FileType::Symlink if on_no_device => in_proc(rank, file, flags),
        FileType::Directory if on_no_device => {
            if let Some(place) = Place::of(rank, file) {
                place.may_list()?;
            }
            sys::instead(rank, file, stat.st_dev, flags)
        }
        FileType::RegularFile | FileType::Directory => sys::instead(rank, file, stat.st_dev, flags),
        _ => Ok(None),
    }
}

fn in_proc(rank: &Rank, file: &OwnedFd, flags: i32) -> Result<Option<OwnedFd>, Errno> {
    let Some(place) = Place::of(rank, file) else {
        return Ok(None);
    };
    place.may_open(writes(flags), rank.limits().first_own_fd())?;
    text_at(rank, &place, flags)
}

/// The text that the rank has at a place where Linux has a file. It is there to be read only, also for root, whom Linux lets
/// open it for writing and then write nothing.
pub fn text_at(rank: &Rank, place: &Place, flags: i32) -> Result<Option<OwnedFd>, Errno> {
    let Some(file) = content::File::at(place).filter(|_| flags & libc::O_PATH == 0) else {
        return Ok(None);
    };
    match file {
        // The machine's, for all its processes: a user that may set it may.
        content::File::PtraceScope if writes(flags) => return Ok(None),
        _ if writes(flags) => return Err(Errno::EACCES),
        _ => {}
    }
    let name = format!("{}{}", text::PROC, file.path(place.thread));
    text::create(rank, &name, flags).map(Some)
}
