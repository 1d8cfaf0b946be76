//! The control calls, by which the PCT makes its decisions real (numbers and arguments: `abi::control`).
//!
//! The PCT is trusted to decide, not to be right: every argument is checked, and a bad one is an error number.

use abi::Errno;
use abi::control::{
    Control, CoreWords, Event, HostOp, INTERPRETER, JobInfo, PROGRAM, RankInfo, RegionKind,
};
use abi::map::{PAGE, USER_BASE, USER_TOP};
use arrayvec::ArrayVec;
use hal::addr::{Phys, PhysRange, User};
use hal::sync::Mutex;
use hal::traps::UserFrame;
use qk_core::mman::{MmapPlan, ProtectPlan};
use qk_core::regions::{Kind, Prot, Region, RegionFlags};
use qk_core::sched::cores::CoreSet;
use qk_core::signals::Signal;
use wire::boot::flag;
use wire::rank::state;

use crate::aspace::{Aspace, Owner, REGIONS};
use crate::rank::{self, Rank};
use crate::syscall::limits::RLIMIT_STACK;
use crate::{comm, events, exec, preempt, shared, ship};

/// Free memory for ranks, and what of it has been given out.
static MEMORY: Mutex<ArrayVec<PhysRange, 16>> = Mutex::new(ArrayVec::new_const());
static SHARES: Mutex<ArrayVec<(usize, PhysRange), { abi::map::MAX_RANKS }>> =
    Mutex::new(ArrayVec::new_const());

/// Tells what memory there is for ranks; ranges beyond the sixteenth are left unused.
pub fn set_memory(ranges: impl Iterator<Item = PhysRange>) {
    MEMORY.lock().extend(ranges.take(16));
}

/// Carries out the control call in `frame`.
pub fn call(frame: &mut UserFrame) -> Result<u64, Errno> {
    let args = [
        frame.rdi, frame.rsi, frame.rdx, frame.r10, frame.r8, frame.r9,
    ];
    let [a0, a1, a2, a3, a4, a5] = args;
    match Control::from_nr(frame.rax).ok_or(Errno::ENOSYS)? {
        Control::Log => log_line(a0, a1),
        Control::JobInfo => put_words(a0, a1, &job_info().to_words()),
        Control::WaitEvent => wait_event(),
        Control::AspaceCreate => aspace_create(loading(a0)?, a1, a2),
        Control::RegionCreate => region_create(loading(a0)?, a1, a2, a3, a4),
        Control::RegionProtect => region_protect(loading(a0)?, a1, a2, a3),
        Control::AspaceWrite => copy(loading(a0)?, a1, a2, a3, Way::ToRank),
        Control::AspaceRead => copy(loading(a0)?, a2, a1, a3, Way::FromRank),
        Control::HostCall => host_call(loading(a0)?, a1, [a2, a3, a4]),
        Control::RankStart => rank_start(loading(a0)?, cores(a1, a2)?, [a3, a4, a5]),
        Control::RankRefuse => rank_refuse(loading(a0)?, a1, a2, a3),
        Control::RankInfo => put_words(a1, a2, &info(attached(a0)?).to_words()),
        Control::RankReap => rank_reap(rank::get(a0)?),
        Control::MemoryRange => memory_range(a0, a1),
        Control::TextCreate => text_create(loading(a0)?, [a1, a2], a3, [a4, a5]),
    }
}

/// A rank that is being loaded, for the first time or again. Once it runs, or has ended, its memory and its ship slot are its
/// own.
fn loading(id: u64) -> Result<&'static Rank, Errno> {
    let rank = rank::get(id)?;
    if rank.area.node.state.peek() == state::LOADING || rank.reload.lock().is_some() {
        Ok(rank)
    } else {
        Err(Errno::EBUSY)
    }
}

fn attached(id: u64) -> Result<&'static Rank, Errno> {
    let rank = rank::get(id)?;
    if rank.identity.get().is_some() {
        Ok(rank)
    } else {
        Err(Errno::ESRCH)
    }
}

/// The rank and its program, with the limit on the stack as the rank has it now.
fn info(rank: &Rank) -> RankInfo {
    RankInfo {
        stack_limit: rank.limits.lock()[RLIMIT_STACK][0],
        ..rank.described()
    }
}

fn user(addr: u64, len_bytes: u64) -> Result<User, Errno> {
    User::range(addr, len_bytes).ok_or(Errno::EFAULT)
}

fn put_words<const N: usize>(to: u64, len_bytes: u64, words: &[u64; N]) -> Result<u64, Errno> {
    if len_bytes != N as u64 * 8 {
        return Err(Errno::EINVAL);
    }
    for (i, word) in words.iter().enumerate() {
        let at = user(to.wrapping_add(i as u64 * 8), 8)?;
        hal::user::write_u64(at, *word).map_err(|_| Errno::EFAULT)?;
    }
    Ok(0)
}

/// Text of at most `N` bytes from the PCT.
fn text<const N: usize>(from: u64, len_bytes: u64) -> Result<ArrayVec<u8, N>, Errno> {
    let mut bytes = [0; N];
    let len = (len_bytes as usize).min(N);
    hal::user::copy_in(&mut bytes[..len], user(from, len as u64)?).map_err(|_| Errno::EFAULT)?;
    Ok(bytes[..len].iter().copied().collect())
}

fn log_line(from: u64, len_bytes: u64) -> Result<u64, Errno> {
    let line = text::<256>(from, len_bytes)?;
    log::info!(
        "PCT: {}",
        core::str::from_utf8(&line).map_err(|_| Errno::EINVAL)?
    );
    Ok(0)
}

fn job_info() -> JobInfo {
    let config = &comm::get().config;
    let (hwcap, hwcap2) = hal::cpu::hwcaps();
    JobInfo {
        ranks: config.ranks as u64,
        cpus: config.cpus as u64,
        share_bytes: config.share_bytes,
        hwcap,
        hwcap2,
        min_sigstack_bytes: crate::sigframe::min_stack_bytes(),
        reserved: [0; 2],
    }
}

fn wait_event() -> Result<u64, Errno> {
    let event = events::wait();
    if let Event::Attached(id) = event {
        rank::get(u64::from(id))?
            .area
            .node
            .state
            .store(state::LOADING);
    }
    Ok(event.encode())
}

fn memory_range(index: u64, to: u64) -> Result<u64, Errno> {
    let range = MEMORY.lock().get(index as usize).copied();
    match range {
        Some(range) => put_words(to, 16, &[range.start.0, range.len_bytes()]).map(|_| 1),
        None => Ok(0),
    }
}

fn aspace_create(rank: &'static Rank, base: u64, len_bytes: u64) -> Result<u64, Errno> {
    if !base.is_multiple_of(PAGE)
        || !len_bytes.is_multiple_of(PAGE)
        || len_bytes == 0
        || base.checked_add(len_bytes).is_none()
    {
        return Err(Errno::EINVAL);
    }
    let share = PhysRange::new(hal::addr::Phys(base), len_bytes);
    if !MEMORY
        .lock()
        .iter()
        .any(|range| range.holds(share.start, len_bytes))
    {
        return Err(Errno::EINVAL);
    }
    let mut shares = SHARES.lock();
    if shares
        .iter()
        .any(|&(owner, other)| owner == rank.id || other.overlaps(share))
    {
        return Err(Errno::EBUSY);
    }
    let comm = comm::get();
    let zeroed = comm.config.has(flag::RAM_ZEROED);
    let aspace =
        Aspace::new(Owner(Some(rank)), base, len_bytes, zeroed, REGIONS).ok_or(Errno::ENOMEM)?;
    shares.push((rank.id, share));
    rank.area.node.share[0].put(base);
    rank.area.node.share[1].put(len_bytes);
    *rank.aspace.lock() = Some(aspace);
    Ok(0)
}

/// A page-aligned range of a rank's own memory.
fn range(start: u64, len_bytes: u64) -> Result<(u64, u64), Errno> {
    let end = start.checked_add(len_bytes).ok_or(Errno::EINVAL)?;
    let fits = start.is_multiple_of(PAGE)
        && len_bytes.is_multiple_of(PAGE)
        && len_bytes > 0
        && start >= USER_BASE
        && end <= USER_TOP;
    if fits {
        Ok((start, end))
    } else {
        Err(Errno::EINVAL)
    }
}

fn region_create(
    rank: &Rank,
    start: u64,
    len_bytes: u64,
    prot: u64,
    kind: u64,
) -> Result<u64, Errno> {
    let (start, end) = range(start, len_bytes)?;
    let prot = Prot::from_bits(prot as u8).ok_or(Errno::EINVAL)?;
    let kind = RegionKind::from_nr(kind).ok_or(Errno::EINVAL)?;
    let region_kind = match kind {
        RegionKind::Image => Kind::Image,
        RegionKind::Stack => Kind::Stack,
        RegionKind::Vdso => Kind::Vdso,
        RegionKind::Vvar | RegionKind::Info => Kind::Vvar,
    };
    let mut region = Region::new(start, end, prot, region_kind);
    if kind != RegionKind::Image {
        region.flags |= RegionFlags::SMALL_PAGES;
    }
    rank.with_aspace(|aspace| {
        if !aspace.regions().is_vacant(start, end) {
            return Err(Errno::EEXIST);
        }
        match kind {
            RegionKind::Vvar => return aspace.map_foreign(region, comm::get().clock_page().0),
            RegionKind::Info => {
                return aspace.map_foreign(region, comm::get().info_page(rank.id).0);
            }
            RegionKind::Image | RegionKind::Stack | RegionKind::Vdso => {}
        }
        aspace.map(&MmapPlan {
            region,
            replace: false,
        })?;
        if kind == RegionKind::Stack {
            aspace.set_mmap_top(start - abi::map::STACK_GAP);
        }
        Ok(())
    })
    .map(|()| 0)
}

fn text_create(
    rank: &'static Rank,
    [start, len_bytes]: [u64; 2],
    prot: u64,
    [file, offset]: [u64; 2],
) -> Result<u64, Errno> {
    let (start, end) = range(start, len_bytes)?;
    let prot = Prot::from_bits(prot as u8).ok_or(Errno::EINVAL)?;
    let in_file = offset.is_multiple_of(PAGE) && offset.checked_add(len_bytes).is_some();
    if !in_file || (file != PROGRAM && file != INTERPRETER) {
        return Err(Errno::EINVAL);
    }
    let region = Region::new(start, end, prot, Kind::Image);
    rank.with_aspace(|aspace| {
        if !aspace.regions().is_vacant(start, end) {
            return Err(Errno::EEXIST);
        }
        let shared = shared::text::map(rank.main(), aspace, [file, offset], region);
        shared.then_some(0).ok_or(Errno::EAGAIN)
    })
}

fn region_protect(rank: &Rank, start: u64, len_bytes: u64, prot: u64) -> Result<u64, Errno> {
    let (start, end) = range(start, len_bytes)?;
    let prot = Prot::from_bits(prot as u8).ok_or(Errno::EINVAL)?;
    let result = Ok(());
    rank.with_aspace(|aspace| {
        aspace.protect(&ProtectPlan {
            start,
            end,
            prot,
            result,
        })
    })
    .map(|()| 0)
}

enum Way {
    ToRank,
    FromRank,
}

/// Copies between the PCT's memory at `ours` and a rank's at `theirs`, through the direct map.
fn copy(rank: &Rank, theirs: u64, ours: u64, len_bytes: u64, way: Way) -> Result<u64, Errno> {
    let mut buffer = [0; 512];
    rank.with_aspace(|aspace| {
        let mut done = 0;
        while done < len_bytes {
            preempt::point(buffer.len() as u32);
            let at = theirs
                .checked_add(done)
                .filter(|at| *at < USER_TOP)
                .ok_or(Errno::EFAULT)?;
            let (pa, room) = aspace.translate(at).ok_or(Errno::EFAULT)?;
            let step = (len_bytes - done).min(room).min(buffer.len() as u64);
            let chunk = &mut buffer[..step as usize];
            let mine = user(ours.wrapping_add(done), step)?;
            match way {
                Way::ToRank => {
                    hal::user::copy_in(chunk, mine).map_err(|_| Errno::EFAULT)?;
                    hal::mem::copy_out(Phys(pa), chunk);
                    aspace.mark_dirty(at, at + step);
                }
                Way::FromRank => {
                    hal::mem::copy_in(chunk, Phys(pa));
                    hal::user::copy_out(mine, chunk).map_err(|_| Errno::EFAULT)?;
                }
            }
            done += step;
        }
        Ok(0)
    })
}

fn host_call(rank: &'static Rank, op: u64, args: [u64; 3]) -> Result<u64, Errno> {
    let op = HostOp::from_nr(op).ok_or(Errno::EINVAL)?;
    if let HostOp::ReadProgram | HostOp::ReadInterpreter | HostOp::WriteStrings = op {
        let end = args[0]
            .checked_add(args[1])
            .filter(|end| *end <= USER_TOP)
            .ok_or(Errno::EFAULT)?;
        rank.with_aspace(|aspace| {
            aspace.mark_dirty(args[0], end);
            Ok(())
        })?;
    }
    ship::host_op(rank.main(), op, args)
}

/// A set of cores that the PCT names.
fn cores(from: u64, len_bytes: u64) -> Result<CoreSet, Errno> {
    let mut words: CoreWords = [0; _];
    if len_bytes != size_of::<CoreWords>() as u64 {
        return Err(Errno::EINVAL);
    }
    hal::user::copy_in_words(&mut words, user(from, len_bytes)?).map_err(|_| Errno::EFAULT)?;
    let cores = CoreSet::from_words(words);
    let all = CoreSet::of(0, hal::cpu::count());
    if cores.is_empty() || !cores.is_subset(&all) {
        return Err(Errno::EINVAL);
    }
    Ok(cores)
}

fn rank_start(
    rank: &'static Rank,
    cores: CoreSet,
    [entry, stack, heap]: [u64; 3],
) -> Result<u64, Errno> {
    if entry >= USER_TOP || stack >= USER_TOP || heap >= USER_TOP {
        return Err(Errno::EINVAL);
    }
    let root = rank.with_aspace(|aspace| {
        aspace.set_heap(heap);
        Ok(Phys(aspace.root()))
    })?;
    let node = &rank.area.node;
    node.heap_start.put(heap);
    let features = hal::cpu::feature_words();
    for (word, features) in node.features.iter().zip(features) {
        word.put(features);
    }
    let reload = rank.reload.lock().take();
    if let Some(reload) = reload {
        rank.restart(reload, [entry, stack], root);
        return Ok(0);
    }
    rank.start(cores, [entry, stack], root).map(|()| 0)
}

fn rank_refuse(rank: &'static Rank, status: u64, from: u64, len_bytes: u64) -> Result<u64, Errno> {
    let line = text::<256>(from, len_bytes)?;
    rank.area.node.message.put(&line);
    let mut wait_status = (status & 0xff) << 8;
    let reload = rank.reload.lock().take();
    if reload.is_some() {
        // The old program is gone, there is none to tell an error (Linux: bprm_execve).
        exec::give_up(rank);
        wait_status = Signal::SEGV.number().into();
    }
    shared::text::end(rank);
    rank.area.node.wait_status.put(wait_status);
    rank.area.node.state.store(state::REFUSED);
    hal::doorbell::ring(rank.id as u16);
    events::post(Event::Exited(rank.id as u32));
    Ok(0)
}

/// Memory is not handed to anybody else within the job: the proxy, and peers' windows, may still show it.
fn rank_reap(rank: &Rank) -> Result<u64, Errno> {
    if rank.is_running() {
        return Err(Errno::EBUSY);
    }
    rank.aspace
        .lock()
        .take()
        .map(|_: Aspace| 0)
        .ok_or(Errno::ESRCH)
}
