//! The control calls, by which the PCT makes its decisions real (numbers and arguments: `abi::control`).
//!
//! The PCT is trusted to decide, not to be right: every argument is checked, and a bad one is an error number.

mod memory;
mod words;

use abi::Errno;
use abi::control::{Control, CoreWords, Event, HostOp, JobInfo, RankInfo};
use abi::map::USER_TOP;
use abi::rlimit;
use arrayvec::ArrayVec;
use hal::addr::Va;
use hal::traps::UserFrame;
use qk_core::sched::CoreSet;
use qk_core::signals::Signal;

use crate::host::{self, Stage, ship};
use crate::rank::{self, Rank};
use crate::user::user;
use crate::{events, exec, life, shared};
pub use memory::set_memory;
use memory::{
    Way, aspace_create, copy, memory_range, rank_reap, region_create, region_protect, text_create,
};
use words::put_words;

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
    if rank.host().is(Stage::Loading) || rank.turns().is_reloading() {
        Ok(rank)
    } else {
        Err(Errno::EBUSY)
    }
}

fn attached(id: u64) -> Result<&'static Rank, Errno> {
    let rank = rank::get(id)?;
    if rank.is_attached() {
        Ok(rank)
    } else {
        Err(Errno::ESRCH)
    }
}

/// The rank and its program, with the limit on the stack as the rank has it now.
fn info(rank: &Rank) -> RankInfo {
    RankInfo {
        stack_limit: rank.limit(rlimit::STACK)[0],
        ..rank.host().described()
    }
}

/// Text of at most `N` bytes from the PCT.
fn text<const N: usize>(from: u64, len_bytes: u64) -> Result<ArrayVec<u8, N>, Errno> {
    let mut bytes = [0; N];
    let len = (len_bytes as usize).min(N);
    hal::user::copy_in(&mut bytes[..len], user(from, len as u64)?).map_err(|_| Errno::EFAULT)?;
    // BOUND: what a line of the PCT's has room for.
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
    let config = host::config();
    let (hwcap, hwcap2) = hal::cpu::hwcaps();
    JobInfo {
        ranks: config.ranks as u64,
        cpus: config.cpus as u64,
        partition_bytes: config.partition_bytes,
        hwcap,
        hwcap2,
        min_sigstack_bytes: crate::sigframe::min_stack_bytes(),
        reserved: [0; 2],
    }
}

fn wait_event() -> Result<u64, Errno> {
    let event = events::wait();
    if let Event::Attached(id) = event {
        rank::get(u64::from(id))?.host().loads();
    }
    Ok(event.encode())
}

fn host_call(rank: &'static Rank, op: u64, args: [u64; 3]) -> Result<u64, Errno> {
    let op = HostOp::from_nr(op).ok_or(Errno::EINVAL)?;
    if let HostOp::ReadProgram | HostOp::ReadInterpreter | HostOp::WriteStrings = op {
        let end = args[0]
            .checked_add(args[1])
            .filter(|end| *end <= USER_TOP)
            .ok_or(Errno::EFAULT)?;
        rank.with_aspace(|aspace| {
            aspace.mark_dirty(Va(args[0]).until(Va(end)));
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
        aspace.set_heap(Va(heap));
        Ok(aspace.root())
    })?;
    rank.host().publish_heap(heap);
    let (features, identity) = (hal::cpu::feature_words(), hal::cpu::identity_words());
    rank.host().publish_processors(features, identity);
    let reload = rank.turns().end_reload();
    if let Some(reload) = reload {
        life::restart(rank, reload, [entry, stack], root);
        return Ok(0);
    }
    life::start(rank, cores, [entry, stack], root).map(|()| 0)
}

fn rank_refuse(rank: &'static Rank, status: u64, from: u64, len_bytes: u64) -> Result<u64, Errno> {
    let line = text::<256>(from, len_bytes)?;
    let mut wait_status = (status & 0xff) << 8;
    let reload = rank.turns().end_reload();
    if reload.is_some() {
        // The old program is gone, there is none to return an error to (Linux: bprm_execve).
        exec::give_up(rank);
        wait_status = Signal::SEGV.number().into();
    }
    shared::text::end(rank);
    rank.leave_home();
    rank.host().refused(wait_status, &line);
    events::post(Event::Exited(rank.id() as u32));
    Ok(0)
}
