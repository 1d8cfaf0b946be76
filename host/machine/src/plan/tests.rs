//! Tests of plans, and what other tests need of them.

use super::*;
use proptest::prelude::*;
use wire::ram::Place;

use abi::map::COMM_BASE;

use crate::machine::Machine;
use crate::qemu::Q35;

const GIB: u64 = 1 << 30;

fn host(cores: usize, memory_bytes: u64) -> Resources {
    Resources {
        cores,
        memory_bytes,
    }
}

fn wanted(ranks: usize, partition_bytes: Option<u64>) -> Request {
    Request {
        ranks,
        cores_per_rank: None,
        partition_bytes,
        pool_bytes: None,
        oversubscribe: false,
        flags: 0,
        tsc_hz: 0,
        node_bytes: None,
    }
}

fn plan(request: &Request, host: &Resources) -> Result<Plan, PlanError> {
    super::plan(request, host, &Q35::LIMITS)
}

/// Of two ranks with 2 MiB each and no pool: what other tests start.
pub fn two_ranks(limits: &Limits, flags: u64) -> Plan {
    let request = Request {
        pool_bytes: Some(0),
        flags,
        tsc_hz: 1,
        ..wanted(2, Some(2 << 20))
    };
    super::plan(&request, &host(8, GIB), limits).expect("fits")
}

fn ram(plan: &Plan) -> Ram {
    crate::qemu::ram(plan).expect("RAM")
}

#[test]
fn cores_are_divided_evenly() {
    let cpus = |n, cores| {
        plan(&wanted(n, None), &host(cores, 64 * GIB))
            .expect("fits")
            .cpus
    };
    assert_eq!(cpus(1, 8), 8);
    assert_eq!(cpus(3, 8), 6);
    assert_eq!(cpus(8, 8), 8);
    assert_eq!(cpus(1, 1000), 255);
    assert_eq!(cpus(2, 1000), 254);
}

#[test]
fn more_ranks_than_cores_must_be_requested() {
    let few = host(2, 64 * GIB);
    let error = plan(&wanted(16, None), &few).expect_err("too many");
    assert_eq!(
        error.to_string(),
        "-n 16: only 2 cores are available here (--oversubscribe lets ranks share cores)"
    );
    let request = Request {
        oversubscribe: true,
        ..wanted(16, None)
    };
    let plan_of_16 = plan(&request, &few).expect("fits");
    assert_eq!(plan_of_16.cpus, 2);
    assert_eq!([7, 8].map(|rank| plan_of_16.cores(rank).first), [0, 1]);
    assert_eq!(plan(&wanted(0, None), &few), Err(PlanError::NoRanks));
    assert_eq!(
        plan(&wanted(256, None), &host(512, GIB)),
        Err(PlanError::TooManyRanks(256))
    );
}

#[test]
fn cores_per_rank_are_what_was_requested() {
    let cpus = |ranks, each, cores, oversubscribe| -> Result<usize, String> {
        let request = Request {
            cores_per_rank: Some(each),
            oversubscribe,
            ..wanted(ranks, None)
        };
        let plan = plan(&request, &host(cores, 64 * GIB)).map_err(|error| error.to_string())?;
        assert_eq!(plan.cores(0).count, each as u64);
        Ok(plan.cpus)
    };
    assert_eq!(cpus(1, 1, 8, false), Ok(1));
    assert_eq!(cpus(2, 2, 8, false), Ok(4));
    assert_eq!(cpus(2, 4, 8, false), Ok(8));
    assert_eq!(cpus(2, 4, 2, true), Ok(8));
    assert_eq!(cpus(85, 3, 2, true), Ok(255));
    let refused =
        |ranks, each, oversubscribe| cpus(ranks, each, 2, oversubscribe).expect_err("not here");
    assert_eq!(
        refused(2, 2, false),
        "-n 2 -d 2: 4 cores are needed, only 2 are available here (--oversubscribe lets ranks share cores)"
    );
    assert_eq!(refused(1, 0, true), "-d 0: a rank needs at least one core");
    let most = "a node has room for at most 255 cores";
    assert_eq!(refused(64, 4, true), format!("-n 64 -d 4: {most}"));
    assert_eq!(
        refused(2, usize::MAX, false),
        format!("-n 2 -d {}: {most}", usize::MAX)
    );
}

#[test]
fn partitions_are_four_fifths_of_what_there_is() {
    let partition = |n, memory| {
        plan(&wanted(n, None), &host(16, memory))
            .expect("fits")
            .partition_bytes
    };
    assert_eq!(partition(1, 80 * GIB), 64 * GIB);
    assert_eq!(partition(4, GIB), 204 << 20);
}

#[test]
fn partitions_of_a_given_size_are_rounded_up_and_must_be_there() {
    let partition = |m| plan(&wanted(2, Some(m)), &host(2, 4 * GIB)).map(|p| p.partition_bytes);
    assert_eq!(partition(1), Ok(2 << 20));
    assert_eq!(partition((2 << 20) + 1), Ok(4 << 20));
    assert_eq!(partition(2 * GIB), Ok(2 * GIB));
    assert_eq!(partition(0), Err(PlanError::NoMemory));
    assert_eq!(
        partition(3 * GIB).expect_err("too much").to_string(),
        "2 x 3G of memory: only 4G are available here, ask for less with -m"
    );
    assert!(partition(u64::MAX).is_err());
}

/// Where the default came to nothing, the line was "255 x 0K of memory: ..., ask for less with -m".
#[test]
fn too_little_memory_for_so_many_ranks_is_said() {
    let of = |memory_bytes, partition_bytes| {
        let request = Request {
            oversubscribe: true,
            ..wanted(255, partition_bytes)
        };
        let plan = plan(&request, &host(2, memory_bytes));
        plan.map(|plan| plan.partition_bytes)
            .map_err(|error| error.to_string())
    };
    let line =
        "-n 255: a rank needs at least 2M of memory, only 100M are available here, enough for 50";
    assert_eq!(of(100 << 20, None), Err(line.into()));
    assert_eq!(of(100 << 20, Some(1)), Err(line.into()));
    assert_eq!(of(510 << 20, None), Ok(2 << 20));
    assert_eq!(of(510 << 20, Some(1)), Ok(2 << 20));
    assert_eq!(
        of(510 << 20, Some(4 << 20)),
        Err("255 x 4M of memory: only 510M are available here, ask for less with -m".into())
    );
}

#[test]
fn one_rank_costs_at_most_twelve_mib_besides_its_partition_and_room_for_threads_and_tables() {
    let beside = |partition_bytes, cores| {
        let plan = plan(&wanted(1, Some(partition_bytes)), &host(cores, 4 * GIB)).expect("fits");
        assert_eq!(plan.comm_offset, COMM_BASE);
        let besides_pool = ram(&plan).bytes() - plan.pool_file_bytes();
        let tables = table_bytes(partition_bytes);
        besides_pool - thread_memory(besides_pool, 1) - tables - partition_bytes
    };
    // Measured with MARGAY_NODE_MIB: one core takes 7 MiB, two take 9. RAM comes in pieces of 2 MiB: that rounds all of it up.
    for (partition_bytes, cores) in [(64 << 20, 2), (GIB, 1), (GIB, 2), (GIB, 4)] {
        let bytes = beside(partition_bytes, cores);
        assert!(
            (9 << 20..(12 << 20) + PAGE_2M).contains(&bytes),
            "{bytes} for {cores} cores"
        );
    }
}

/// As much as maps a partition with 4 KiB pages, and more for what lies apart; of RAM less than a sixtieth.
#[test]
fn page_tables_have_memory_of_their_own() {
    for partition_bytes in [PAGE_2M, 64 << 20, GIB, 1 << 40] {
        let tables = table_bytes(partition_bytes);
        assert!(tables.is_multiple_of(4096) && tables >= partition_bytes / 512 + (256 << 10));
        assert!(tables <= partition_bytes / 60 + (512 << 10));
    }
    assert_eq!(table_bytes(GIB), 33 << 19, "of the specification");
    let bytes = |ranks| {
        let plan = plan(&wanted(ranks, Some(GIB)), &host(4, 64 * GIB)).expect("fits");
        let config = plan.config();
        let heap = heap_bytes(ranks as u64 * GIB + plan.pool_bytes, 4, ranks as u64);
        assert_eq!(config.partition_bytes, GIB);
        ram(&plan).bytes() - plan.pool_file_bytes() - ranks as u64 * GIB - heap
    };
    assert!(bytes(4) - bytes(1) >= 3 * table_bytes(GIB));
}

#[test]
fn a_name_holds_the_plan() {
    let plan = plan(&wanted(2, Some(64 << 20)), &host(2, 4 * GIB)).expect("fits");
    assert_eq!(Plan::from_name(&plan.name()), Some((2, 64 << 20)));
    for other in ["margay", "margay:2", "x:2x3", "margay:2x"] {
        assert_eq!(Plan::from_name(other), None);
    }
}

#[test]
fn memory_besides_the_partition_can_be_set() {
    let request = Request {
        node_bytes: Some(7 << 20),
        ..wanted(1, Some(64 << 20))
    };
    let plan = plan(&request, &host(2, 4 * GIB)).expect("fits");
    assert_eq!(
        ram(&plan).bytes(),
        ((64 + 7) << 20) + plan.pool_file_bytes()
    );
}

#[test]
fn the_pool_is_an_eighth_of_the_partitions_or_as_requested() {
    let of = |ranks, partition_bytes, pool_bytes| {
        let request = Request {
            pool_bytes,
            ..wanted(ranks, Some(partition_bytes))
        };
        plan(&request, &host(4, 8 * GIB)).map(|plan| plan.pool_bytes)
    };
    assert_eq!(of(1, 2 * GIB, None), Ok(GIB / 4));
    assert_eq!(of(2, GIB, None), Ok(GIB / 4));
    assert_eq!(of(2, GIB, Some((64 << 20) + 1)), Ok(66 << 20));
    assert_eq!(of(2, GIB, Some(0)), Ok(0));
    let error = of(1, GIB, Some(9 * GIB)).expect_err("more than there is");
    assert_eq!(
        error.to_string(),
        "--shared-memory 9G: only 8G of memory are available here"
    );
    assert!(of(1, GIB, Some(u64::MAX)).is_err());
}

/// With small partitions the pool had no room for the text of Python: each rank read it into its own partition, which it filled.
#[test]
fn the_pool_of_few_small_ranks_has_room_for_text() {
    let of = |ranks, partition_bytes, memory_bytes| {
        let request = Request {
            oversubscribe: true,
            ..wanted(ranks, Some(partition_bytes))
        };
        plan(&request, &host(2, memory_bytes)).map(|plan| plan.pool_bytes)
    };
    assert_eq!(of(1, 64 << 20, 8 * GIB), Ok(160 << 20));
    assert_eq!(of(2, 64 << 20, 8 * GIB), Ok(160 << 20));
    assert_eq!(of(255, 2 << 20, 8 * GIB), Ok(160 << 20));
    assert_eq!(of(16, 128 << 20, 8 * GIB), Ok(256 << 20));
    // Not of a host that has little itself.
    assert_eq!(of(2, 64 << 20, GIB - 1), Ok(126 << 20));
    assert_eq!(of(1, 4 << 20, 64 << 20), Ok(16 << 20));
    assert_eq!(of(2, 4 << 20, 64 << 20), Ok(16 << 20));
}

#[test]
fn a_large_communication_area_goes_above_the_kernel() {
    let request = Request {
        oversubscribe: true,
        flags: flag::TRACE,
        ..wanted(255, Some(2 << 20))
    };
    let plan = plan(&request, &host(2, 64 * GIB)).expect("fits");
    let comm_bytes = Layout::new(&plan.config()).total_bytes as u64;
    assert_eq!(plan.comm_offset, Q35::LIMITS.above_kernel);
    assert!(ram(&plan).bytes() > Q35::LIMITS.above_kernel + comm_bytes + 255 * (2 << 20));
}

proptest! {
    #[test]
    fn every_partition_finds_a_place_of_its_own(
        ranks in 1usize..=MAX_RANKS,
        partition in 1u64..16 << 30,
        cores in 1usize..300,
        trace: bool,
    ) {
        let request = Request {
            oversubscribe: true,
            flags: if trace { flag::TRACE } else { 0 },
            ..wanted(ranks, Some(partition))
        };
        let plan = plan(&request, &host(cores, 1 << 50)).expect("fits");
        prop_assert!(plan.cpus >= ranks.min(cores) && plan.cpus <= cores.min(Q35::LIMITS.cores));
        prop_assert!(plan.partition_bytes >= partition && plan.partition_bytes.is_multiple_of(PAGE_2M));
        let ram = ram(&plan);
        let low_bytes: u64 = ram.ranges().iter().filter(|range| range.gpa < 4 * GIB).map(|range| range.len_bytes).sum();
        let low = (low_bytes - NODE_BYTES) / plan.partition_bytes;
        let high = (ram.bytes() - low_bytes) / plan.partition_bytes;
        prop_assert!(low + high >= ranks as u64);
        let comm_bytes = Layout::new(&plan.config()).total_bytes as u64;
        let comm = ram.place(plan.comm_base(&ram), comm_bytes);
        prop_assert_eq!(comm, Some(Place::Ram(plan.comm_offset)));
    }
}
