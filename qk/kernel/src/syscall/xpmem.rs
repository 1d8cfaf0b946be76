//! XPMEM: the requests of /dev/xpmem (docs/adr/0027). All that an attachment needs is there: the window on the owner. So the
//! answer to one is an address, and to detach has nothing to undo.
//!
//! The device itself is the proxy's: it opens one, and says which descriptors are. That is requested once for a descriptor, and
//! kept until one is closed that could have been this.

use core::sync::atomic::{AtomicU64, Ordering};

use abi::Errno;
use abi::map::{in_window, remote};
use abi::syscall::request::xpmem::{Request, VERSION};
use hal::sync::Mutex;
use qk_core::xpmem::{Access, Id, Numbered, Segment, Who};

use super::{Call, SysResult, shipped};
use crate::host::ship;
use crate::preempt;
use crate::rank::{self, Rank};
use crate::user::{get_u64, get_words, put_words};

/// Work of looking at one rank, in instructions.
const LOOK_WORK: u32 = 10;

/// What a rank has to do with XPMEM.
pub struct Xpmem {
    /// What it offers.
    segments: Mutex<Numbered<Segment>>,
    /// What it may attach.
    permits: Mutex<Numbered<Permit>>,
    /// In the lower half a descriptor that is known to be the device, or [`NONE`]; in the upper how often one was closed.
    device: AtomicU64,
}

/// No descriptor.
const NONE: u64 = u32::MAX as u64;

/// A permit for a segment, which may be gone.
#[derive(Clone, Copy)]
struct Permit {
    owner: &'static Rank,
    segment: u32,
    access: Access,
}

impl Xpmem {
    /// Of a rank that has not begun.
    pub fn new() -> Xpmem {
        Xpmem {
            segments: Mutex::new(Numbered::default()),
            permits: Mutex::new(Numbered::default()),
            device: AtomicU64::new(NONE),
        }
    }

    /// The program is over: takes back what it offered, and what it got.
    pub fn program_ends(&self) {
        self.segments.lock().clear();
        self.permits.lock().clear();
        self.forget_device();
    }

    fn is_device(&self, fd: u64) -> bool {
        fd as u32 as u64 == self.device.load(Ordering::Acquire) & NONE && fd as u32 as u64 != NONE
    }

    /// Descriptors have been closed: it may have been one.
    fn forget_device(&self) {
        let closed = |word: u64| Some((word | NONE).wrapping_add(1) | NONE);
        let _ = self
            .device
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, closed);
    }
}

/// ioctl(2): a request of the device is served here, any other by Linux.
pub fn ioctl(call: &mut Call<'_>) -> SysResult {
    let [fd, request, at, ..] = call.args();
    match Request::of(request) {
        Some(request) if is_device(call, fd)? => serve(call.rank, request, at),
        _ => shipped::ship(call),
    }
}

/// A shipped call that closes descriptors.
pub fn closing(call: &mut Call<'_>) -> SysResult {
    let result = shipped::ship(call);
    call.rank.xpmem.forget_device();
    result
}

/// Whether a descriptor is the device.
///
/// # Errors
/// EINTR.
fn is_device(call: &Call<'_>, fd: u64) -> Result<bool, Errno> {
    let xpmem = &call.rank.xpmem;
    if xpmem.is_device(fd) {
        return Ok(true);
    }
    let before = xpmem.device.load(Ordering::Acquire);
    let args = [fd, Request::Version.nr(), 0, 0, 0, 0];
    let is_device = ship::linux_call(call.thread, call.nr(), &args) == VERSION as i64;
    if is_device {
        // Unless one was closed meanwhile.
        let known = before & !NONE | u64::from(fd as u32);
        let _ = xpmem
            .device
            .compare_exchange(before, known, Ordering::AcqRel, Ordering::Relaxed);
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
            own.xpmem.segments.lock().remove(number).map(|_| 0)
        }
        Request::Get => get(own, at),
        Request::Release => {
            let id = get_u64(at)?;
            let number = own_id(own, id)?;
            own.xpmem.permits.lock().remove(number).map(|_| 0)
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
    let segment = Segment::new(start, len_bytes, kind as u32, mode)?;
    let number = own.xpmem.segments.lock().add(segment)?;
    let written = put_words(at.wrapping_add(4 * 8), &[id(own, number)]);
    if written.is_err() {
        let _ = own.xpmem.segments.lock().remove(number);
    }
    written.map(|()| 0)
}

/// struct xpmem_cmd_get: segid, flags (int), permit_type (int), permit_value; apid.
fn get(own: &'static Rank, at: u64) -> SysResult {
    let [segment, flags_and_kind, value, _] = get_words(at)?;
    let segment = Id::decode(segment)?;
    let access = Access::new(flags_and_kind as u32, (flags_and_kind >> 32) as u32, value)?;
    let owner = owner(segment)?;
    let offered = *owner.xpmem.segments.lock().get(segment.number)?;
    offered.admit(who(own, owner), access)?;
    let permit = Permit {
        owner,
        segment: segment.number,
        access,
    };
    let number = own.xpmem.permits.lock().add(permit)?;
    let written = put_words(at.wrapping_add(3 * 8), &[id(own, number)]);
    if written.is_err() {
        let _ = own.xpmem.permits.lock().remove(number);
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
    let permit = *own.xpmem.permits.lock().get(number)?;
    let offered = *permit.owner.xpmem.segments.lock().get(permit.segment)?;
    if !permit.access.writes {
        return Err(Errno::EACCES); // as the module has it: an attachment can be written
    }
    let there = remote(permit.owner.id, offered.part(offset, len_bytes)?);
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
        match aspace.regions().iter_range(addr, end).next() {
            Some(_) => Err(Errno::EINVAL),
            None => Ok(0),
        }
    })
}
