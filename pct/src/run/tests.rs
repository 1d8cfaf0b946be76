//! Whole lives of a PCT.

extern crate std;

use std::collections::VecDeque;
use std::string::{String, ToString};
use std::vec::Vec;

use abi::Errno;
use proptest::prelude::*;

use super::*;
use crate::fake::{Fake, program};

fn job(ranks: u64, cpus: u64, events: &[Event]) -> Fake {
    let file = program(0x40_0100, &[(5, 0, 0x40_0000, 0x300, 0x300)], 0x300);
    let mut fake = Fake::new(file, &["a.out"], &[]);
    fake.job.ranks = ranks;
    fake.job.cpus = cpus;
    fake.events = events.iter().copied().map(Some).collect();
    fake
}

fn ended(fake: &mut Fake) -> String {
    run(fake).as_str().to_string()
}

const NO_MORE: &str = "the kernel has no more events: ESRCH";

#[test]
fn ranks_are_loaded_onto_their_cores_and_reaped() {
    let life = [0, 1]
        .map(Event::Attached)
        .into_iter()
        .chain([1, 0].map(Event::Exited));
    let mut fake = job(2, 5, &life.collect::<Vec<_>>());
    assert_eq!(ended(&mut fake), NO_MORE);
    assert_eq!(fake.log, ["2 ranks on 5 cores, 128 MiB each"]);
    for (rank, cores, base) in [(0, 0b00111, 16 << 20), (1, 0b11000, 144 << 20)] {
        let rank = &fake.ranks[&rank];
        assert_eq!(rank.started.expect("started").cores, [cores, 0, 0, 0]);
        assert_eq!(
            (rank.partition.base, rank.partition.len_bytes),
            (base, 128 << 20)
        );
        assert!(rank.reaped && rank.refused.is_none());
    }
}

/// A program that is replaced is loaded into the address space that is there, as often as it is.
#[test]
fn a_replaced_program_is_loaded_as_the_first() {
    let events = [Event::Attached(0), Event::Exec(0), Event::Exec(0)];
    let mut fake = job(1, 1, &events);
    assert_eq!(ended(&mut fake), NO_MORE);
    let rank = &fake.ranks[&0];
    assert!(rank.started.is_some() && rank.refused.is_none());
    assert_eq!(rank.spaces, 1);
}

#[test]
fn ranks_share_cores_when_there_are_fewer() {
    let mut fake = job(3, 2, &[0, 1, 2].map(Event::Attached));
    assert_eq!(ended(&mut fake), NO_MORE);
    for (rank, cores) in [(0, 0b01), (1, 0b01), (2, 0b10)] {
        let started = fake.ranks[&rank].started.expect("started");
        assert_eq!(started.cores, [cores, 0, 0, 0]);
    }
}

#[test]
fn a_rank_that_cannot_be_loaded_is_refused_alone() {
    let mut fake = job(1, 1, &[Event::Attached(0), Event::Exited(0)]);
    fake.program[..4].copy_from_slice(b"none");
    assert_eq!(ended(&mut fake), NO_MORE);
    assert_eq!(
        fake.ranks[&0].refused.as_deref(),
        Some("126 not an ELF program")
    );
    assert!(fake.ranks[&0].reaped);
}

#[test]
fn a_job_that_does_not_fit_is_refused_rank_by_rank() {
    let mut fake = job(2, 0, &[Event::Attached(1), Event::Attached(0)]);
    assert_eq!(ended(&mut fake), NO_MORE);
    let why = Some("126 2 ranks cannot share 0 cores");
    assert_eq!(fake.ranks[&0].refused.as_deref(), why);
    assert_eq!(fake.ranks[&1].refused.as_deref(), why);
    let mut fake = job(2, 2, &[Event::Attached(0)]);
    fake.job.partition_bytes = 1 << 30;
    ended(&mut fake);
    assert_eq!(
        fake.ranks[&0].refused.as_deref(),
        Some("126 2 ranks of 1024 MiB do not fit the node's memory, only 0 do")
    );
}

#[test]
fn a_kernel_that_makes_no_sense_ends_the_job_with_a_line() {
    for (events, why) in [
        (
            &[Event::Attached(2)][..],
            "the kernel sent an event of rank 2 of 2",
        ),
        (
            &[Event::Exited(u32::MAX)],
            "the kernel sent an event of rank 4294967295 of 2",
        ),
        (
            &[Event::Attached(0); 2],
            "the kernel sent Attached(0) out of turn",
        ),
        (
            &[Event::Exited(0); 2],
            "the kernel sent Exited(0) out of turn",
        ),
        (&[Event::Exec(0)], "the kernel sent Exec(0) out of turn"),
    ] {
        assert_eq!(ended(&mut job(2, 2, events)), why);
    }
    let mut fake = job(1, 1, &[]);
    fake.events = VecDeque::from([None]);
    assert_eq!(
        ended(&mut fake),
        "the kernel sent an event of an unknown kind"
    );
    fake.mishaps.insert(fake.calls, Err(Errno::EINVAL));
    assert_eq!(
        ended(&mut fake),
        "the kernel does not describe the job: EINVAL"
    );
}

#[test]
fn a_failing_reap_is_told_and_survived() {
    let mut fake = job(1, 1, &[Event::Exited(0)]);
    fake.mishaps
        .extend((3..6).map(|call| (call, Err(Errno::EBUSY))));
    let why = ended(&mut fake);
    assert!(why.starts_with("the kernel has no more events"), "{why}");
}

proptest! {
    /// Fed garbage it ends, with a line.
    #[test]
    fn any_kernel_ends_the_job(
        ranks in prop_oneof![0u64..5, any::<u64>()],
        cpus in prop_oneof![0u64..5, any::<u64>()],
        partition_bytes in prop_oneof![Just(0u64), any::<u64>()],
        memory in prop::collection::vec((any::<u64>(), any::<u64>()), 0..3),
        events in prop::collection::vec(any::<u64>().prop_map(|v| v & 0x7_0000_0007), 0..20),
        mishaps in prop::collection::hash_map(0usize..60, any::<u64>(), 0..6),
    ) {
        let mut fake = job(ranks, cpus, &[]);
        fake.job.partition_bytes = partition_bytes;
        fake.memory.extend(memory.into_iter().map(|(base, len_bytes)| Range { base, len_bytes }));
        fake.events = events.into_iter().map(Event::decode).collect();
        fake.mishaps = mishaps
            .into_iter()
            .map(|(call, v)| (call, if v % 2 == 0 { Ok(v) } else { Err(Errno::EIO) }))
            .collect();
        prop_assert!(!run(&mut fake).as_str().is_empty());
    }
}
