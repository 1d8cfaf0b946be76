//! /dev/xpmem, which the node has whatever the host has: its requests are the QK's (docs/adr/0027). Here it is a path, behind
//! which there is the device of nothing, and a mark at the descriptors that were opened by it.
//!
//! A mark may be stale: then another open /dev/null may pass for the device, which gives no more rights than opening it would.

use std::ffi::CStr;
use std::os::fd::BorrowedFd;
use std::sync::OnceLock;

use abi::syscall::request::xpmem::{Request, VERSION};
use abi::syscall::{Arg, Call};
use rustix::fs::{AtFlags, CWD, FileType, fstat, makedev, stat, statat};

use super::answer::Special;
use super::open::how::is_open;
use super::path::split;
use crate::rank::Rank;

/// Its directory and its name.
const DIRECTORY: &str = "/dev";
const NAME: &[u8] = b"xpmem";
/// What it is for Linux.
pub const NOTHING: &CStr = c"/dev/null";

/// What a request of ioctl(2) comes to that only checks whether the descriptor is the device; `None`: it is another, or not.
pub fn version(rank: &Rank, call: &Call, args: &[u64; 6]) -> Option<i64> {
    let is_query = i64::from(call.nr) == libc::SYS_ioctl
        && Request::of(args[1]) == Some(Request::Version)
        && rank.descriptors().devices().has(args[0]);
    if !is_query {
        return None;
    }
    // SAFETY: 1. The number is only used for this call, and Linux says EBADF when it is not open. Only numbers that were given
    // to the rank are marked.
    let stat = fstat(unsafe { BorrowedFd::borrow_raw(args[0] as i32) }).ok()?;
    let is_device = FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice
        && stat.st_rdev == makedev(1, 3); // Documentation/admin-guide/devices.txt
    is_device.then_some(VERSION as i64)
}

/// Whether a call is about the device: opens what the path of its argument number `at` names, or only examines it.
pub fn is_named(call: &Call, args: &[u64; 6], at: usize, path: &[u8]) -> bool {
    (is_open(call.nr) || only_examines(call)) && is_device(call, args, at, path)
}

/// Marks the descriptor, if such a call has opened one.
pub fn opened(rank: &Rank, call: &Call, special: Special) -> Special {
    if let Special::Answer(fd @ 0..) = special
        && is_open(call.nr)
    {
        rank.descriptors().devices().set(fd as u64);
    }
    special
}

/// Marks another descriptor of the device.
pub fn complete(rank: &Rank, call: &Call, args: &[u64; 6], ret: i64) {
    let copies = matches!(
        i64::from(call.nr),
        libc::SYS_dup | libc::SYS_dup2 | libc::SYS_dup3 | libc::SYS_fcntl
    );
    if copies && ret >= 0 && rank.descriptors().devices().has(args[0]) {
        rank.descriptors().devices().set(ret as u64); // of fcntl also what is no descriptor: a mark may be stale
    }
}

/// Whether a call only examines what its path names.
fn only_examines(call: &Call) -> bool {
    matches!(
        i64::from(call.nr),
        libc::SYS_stat
            | libc::SYS_lstat
            | libc::SYS_newfstatat
            | libc::SYS_statx
            | libc::SYS_access
            | libc::SYS_faccessat
            | libc::SYS_faccessat2
    )
}

/// Whether a path is the device's: its name, in the directory of devices.
fn is_device(call: &Call, args: &[u64; 6], at: usize, path: &[u8]) -> bool {
    let (directory, name) = split(path);
    if name != NAME {
        return false;
    }
    static DEVICES: OnceLock<Option<(u64, u64)>> = OnceLock::new();
    let identity = |stat: rustix::fs::Stat| (stat.st_dev, stat.st_ino);
    let devices = DEVICES.get_or_init(|| stat(DIRECTORY).ok().map(identity));
    let base = match args[0] as i32 {
        // SAFETY: 1. The number is only used for this call, and Linux says EBADF when it is not open. `prepare` has made
        // sure that it is not the proxy's.
        fd @ 0.. if at > 0 && call.args[0] == Arg::DirFd => unsafe { BorrowedFd::borrow_raw(fd) },
        _ => CWD,
    };
    let found = statat(base, directory, AtFlags::empty()).ok().map(identity);
    found.is_some() && found == *devices
}
