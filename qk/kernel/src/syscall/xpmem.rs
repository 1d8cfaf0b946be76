//! XPMEM: the requests of /dev/xpmem (docs/adr/0027). All that an attachment needs is there: the window on the owner. So the
//! answer to one is an address, and to detach has nothing to undo.
//!
//! The device itself is the proxy's: it opens one, and says which descriptors are. That is requested once for a descriptor, and
//! kept until one is closed that could have been this.

use abi::Errno;
use abi::map::{in_window, remote};
use abi::syscall::request::xpmem::{Request, VERSION};
use hal::addr::Va;
use qk_core::xpmem::{Access, Id, Segment, Who};

use super::{Call, SysResult, shipped, signals};
use crate::host::ship;
use crate::preempt;
use crate::rank::{self, Rank};
use crate::user::{get_u64, get_words, put_words};
use crate::xpmem::Permit;

/// Work of looking at one rank, in instructions.
const LOOK_WORK: u32 = 10;

/// ioctl(2): a request of the device is served here, any other by Linux.
pub fn ioctl(call: &mut Call<'_>) -> SysResult {
    let [fd, request, at, ..] = call.args();
    match Request::of(request) {
        Some(request) if is_device(call, fd)? => serve(call.rank, request, at),
        _ => {
            signals::note_later(call, "ioctl");
            shipped::ship(call)
        }
    }
}

/// A shipped call that closes descriptors.
pub fn closing(call: &mut Call<'_>) -> SysResult {
    let result = shipped::ship(call);
    call.rank.xpmem().forget_device();
    result
}

/// Whether a descriptor is the device.
///
/// # Errors
/// EINTR.
fn is_device(call: &Call<'_>, fd: u64) -> Result<bool, Errno> {
    let xpmem = call.rank.xpmem();
    if xpmem.is_device(fd) {
        return Ok(true);
    }
    let before = xpmem.devices();
    let args = [fd, Request::Version.nr(), 0, 0, 0, 0];
    let is_device = ship::linux_call(call.thread, call.nr(), &args) == VERSION as i64;
    if is_device {
        xpmem.note_device(fd, before);
    }
    Ok(is_device)
}

fn serve(own: &'static Rank, request: Request, at: u64) -> SysResult {
    match request {
        Request::Version => Ok(VERSION),
        Request::Make => make(own, at),
        Request::Remove => {
            let id = get_u64(at)?;
            let number = own_id(own, id)?;
            own.xpmem().segments.lock().remove(number).map(|_| 0)
        }
        Request::Get => get(own, at),
        Request::Release => {
            let id = get_u64(at)?;
            let number = own_id(own, id)?;
            own.xpmem().permits.lock().remove(number).map(|_| 0)
        }
        Request::Attach => attach(own, at),
        Request::Detach => {
            let addr = get_u64(at)?;
            detach(own, addr)
        }
        // Children get copies of what is the rank's own memory, and no windows: there is nothing to prepare.
        Request::ForkBegin | Request::ForkEnd => Ok(0),
    }
}

/// The number in an id that must be the caller's.
///
/// # Errors
/// EINVAL; EACCES when it is another rank's, ENOENT when no rank has it.
fn own_id(own: &Rank, id: u64) -> Result<u32, Errno> {
    let id = Id::decode(id)?;
    if u64::from(id.pid) == own.identity().pid {
        return Ok(id.number);
    }
    owner(id).and(Err(Errno::EACCES))
}

/// The rank that an id names.
///
/// # Errors
/// ENOENT.
fn owner(id: Id) -> Result<&'static Rank, Errno> {
    let is_owner = |rank: &&Rank| {
        preempt::point(LOOK_WORK);
        rank.identity().pid == u64::from(id.pid) && rank.has_windows()
    };
    // POINT: owner
    rank::all().iter().find(is_owner).ok_or(Errno::ENOENT)
}

/// The id of something of the caller's.
fn id(own: &Rank, number: u32) -> u64 {
    let pid = own.identity().pid as u32;
    Id { pid, number }.encode()
}

/// struct xpmem_cmd_make: vaddr, size, permit_type (int), permit_value; segid.
fn make(own: &Rank, at: u64) -> SysResult {
    let [start, len_bytes, kind, mode, _] = get_words(at)?;
    let segment = Segment::new(Va(start), len_bytes, kind as u32, mode)?;
    let number = own.xpmem().segments.lock().add(segment)?;
    let written = put_words(at.wrapping_add(4 * 8), &[id(own, number)]);
    if written.is_err() {
        let _ = own.xpmem().segments.lock().remove(number);
    }
    written.map(|()| 0)
}

/// struct xpmem_cmd_get: segid, flags (int), permit_type (int), permit_value; apid.
fn get(own: &'static Rank, at: u64) -> SysResult {
    let [segment, flags_and_kind, value, _] = get_words(at)?;
    let segment = Id::decode(segment)?;
    let access = Access::new(flags_and_kind as u32, (flags_and_kind >> 32) as u32, value)?;
    let owner = owner(segment)?;
    let offered = *owner.xpmem().segments.lock().get(segment.number)?;
    offered.admit(who(own, owner), access)?;
    let permit = Permit {
        owner,
        segment: segment.number,
        access,
    };
    let number = own.xpmem().permits.lock().add(permit)?;
    let written = put_words(at.wrapping_add(3 * 8), &[id(own, number)]);
    if written.is_err() {
        let _ = own.xpmem().permits.lock().remove(number);
    }
    written.map(|()| 0)
}

/// What `own` is to the owner of a segment.
fn who(own: &Rank, owner: &Rank) -> Who {
    let (own, owner) = (own.identity().info, owner.identity().info);
    match own.euid {
        0 => Who::Root,
        user if user == owner.uid => Who::User,
        _ if own.egid == owner.gid => Who::Group,
        _ => Who::Other,
    }
}

/// struct xpmem_cmd_attach: apid, offset, size; vaddr, in and out; fd and flags (int), which mean nothing.
fn attach(own: &'static Rank, at: u64) -> SysResult {
    let [permit, offset, len_bytes, wanted, _] = get_words(at)?;
    let number = own_id(own, permit)?;
    let permit = *own.xpmem().permits.lock().get(number)?;
    let offered = *permit.owner.xpmem().segments.lock().get(permit.segment)?;
    if !permit.access.writes {
        return Err(Errno::EACCES); // as the module has it: an attachment can be written
    }
    let there = remote(permit.owner.id(), offered.part(offset, len_bytes)?.0);
    if wanted != 0 && wanted != there {
        return Err(Errno::EINVAL);
    }
    put_words(at.wrapping_add(3 * 8), &[there]).map(|()| 0)
}

/// As the module: where nothing is attached there is nothing to do, but other memory cannot be detached.
fn detach(own: &Rank, addr: u64) -> SysResult {
    if in_window(addr).is_some() {
        return Ok(0);
    }
    own.with_aspace(|aspace| {
        let end = addr.saturating_add(1);
        match aspace.regions().iter_range(Va(addr).until(Va(end))).next() {
            Some(_) => Err(Errno::EINVAL),
            None => Ok(0),
        }
    })
}
