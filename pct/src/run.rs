//! The PCT's life: divide the node, then load each rank that appears, again when its program is replaced, and reap each that
//! has ended.

use abi::control::{Event, JobInfo};
use abi::map::{MAX_RAM_RANGES, MAX_RANKS};

use crate::line;
use crate::line::Line;
use crate::load::{Place, load, load_again};
use crate::policy::{self, Misfit, Partitions};
use crate::qk::{Qk, Range};

/// Exit status of a program that was found but cannot be run, as shells have it.
const CANNOT_RUN: u8 = 126;

/// Where a rank is in its life. It only moves forward.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Expected,
    Attached,
    Ended,
}

/// Serves the job. Returns only when it cannot go on, with the line that says why.
pub fn run(qk: &mut impl Qk) -> Line {
    let job = match qk.job_info() {
        Ok(job) => job,
        Err(e) => return line!("the kernel does not describe the job: {e}"),
    };
    let plan = plan(qk, &job);
    match &plan {
        Ok(partitions) => {
            let (ranks, cpus, mib) = (job.ranks, job.cpus, partitions.partition_bytes >> 20);
            qk.log(line!("{ranks} ranks on {cpus} cores, {mib} MiB each").as_str());
        }
        Err(misfit) => qk.log(line!("{misfit}").as_str()),
    }
    let mut stages = [Stage::Expected; MAX_RANKS];
    loop {
        let event = match qk.wait_event() {
            Ok(Some(event)) => event,
            Ok(None) => return line!("the kernel sent an event of an unknown kind"),
            Err(e) => return line!("the kernel has no more events: {e}"),
        };
        let (Event::Attached(rank) | Event::Exited(rank) | Event::Exec(rank)) = event;
        let stage = match stages.get_mut(rank as usize) {
            Some(stage) if u64::from(rank) < job.ranks => stage,
            _ => return line!("the kernel sent an event of rank {rank} of {}", job.ranks),
        };
        match (event, *stage) {
            (Event::Attached(_), Stage::Expected) => {
                *stage = Stage::Attached;
                let loaded = place(&job, &plan, rank).and_then(|place| load(qk, &job, place));
                refuse_if_not(qk, rank, loaded);
            }
            (Event::Exec(_), Stage::Attached) => {
                let place = place(&job, &plan, rank);
                let loaded = place.and_then(|place| load_again(qk, &job, place));
                refuse_if_not(qk, rank, loaded);
            }
            (Event::Exited(_), Stage::Expected | Stage::Attached) => {
                *stage = Stage::Ended;
                if let Err(e) = qk.rank_reap(rank) {
                    qk.log(line!("rank {rank} cannot be reaped: {e}").as_str());
                }
            }
            _ => return line!("the kernel sent {event:?} out of turn"),
        }
    }
}

/// Divides the node's memory; that there are enough cores belongs to it.
fn plan(qk: &mut impl Qk, job: &JobInfo) -> Result<Partitions, Misfit> {
    let mut ranges = [Range::default(); MAX_RAM_RANGES];
    let mut count = 0;
    while count < MAX_RAM_RANGES
        && let Ok(Some(range)) = qk.memory_range(count as u64)
    {
        ranges[count] = range;
        count += 1;
    }
    let partitions = policy::divide(&ranges[..count], job.ranks, job.partition_bytes)?;
    policy::cores(0, job.ranks, job.cpus)?;
    Ok(partitions)
}

/// Refuses a rank that could not be loaded.
fn refuse_if_not(qk: &mut impl Qk, rank: u32, loaded: Result<(), Line>) {
    let Err(why) = loaded else { return };
    qk.log(line!("rank {rank} refused: {}", why.as_str()).as_str());
    if let Err(e) = qk.rank_refuse(rank, CANNOT_RUN, why.as_str()) {
        qk.log(line!("rank {rank} cannot be refused: {e}").as_str());
    }
}

fn place(job: &JobInfo, plan: &Result<Partitions, Misfit>, rank: u32) -> Result<Place, Line> {
    let partitions = plan.as_ref().map_err(|misfit| line!("{misfit}"))?;
    let partition = partitions
        .get(rank)
        .ok_or_else(|| line!("no memory is left for rank {rank}"))?;
    let cores = policy::cores(rank, job.ranks, job.cpus).map_err(|misfit| line!("{misfit}"))?;
    Ok(Place {
        rank,
        partition,
        cores,
    })
}

#[cfg(test)]
mod tests;
