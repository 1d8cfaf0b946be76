//! The conformance set for MPI, `programs/mpi`, under Debian's MPIs: started natively and under yod by their own launchers, with
//! default settings, ranks print the same, end alike and leave the same files.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use margay_tests::clean;
use margay_tests::compare;
use margay_tests::run::{Outcome, Run};
use margay_tests::tree;

use crate::job::Job;
use crate::mpi::{By, MPICH, Mpi, OPEN_MPI, gone};

/// Memory of a rank: a window that ranks share has more than a huge page, and MPIs have room of their own. Quiet: a yod that becomes a
/// launcher says so.
const OPTIONS: &[&str] = &["-m", "512M", "-q"];
/// After this a job counts as hung: threads that poll share a core with others.
const LIMIT: Duration = Duration::from_secs(120);

/// A program of the set, and how it is started.
#[derive(Clone, Copy)]
struct Case {
    kind: &'static str,
    program: &'static str,
    args: &'static [&'static str],
    ranks: usize,
}

impl Case {
    const fn of(kind: &'static str, program: &'static str) -> Case {
        Case {
            kind,
            program,
            args: &[],
            ranks: 2,
        }
    }

    fn path(self) -> String {
        tree::program(self.kind, self.program)
            .to_string_lossy()
            .into_owned()
    }
}

/// Runs a program, natively or under yod, in a directory of its own.
fn outcome(mpi: &Mpi, case: Case, by: By) -> Result<Outcome> {
    let job = Job::new(case.ranks)?;
    let program = case.path();
    let run = mpi
        .launch(&job, by, OPTIONS)
        .args(&[&program])
        .args(case.args)
        .env(&[("MARGAY_TEST_MARK", "../mark")]);
    let outcome = job.start(run)?.finish(LIMIT)?;
    gone(&job)?;
    Ok(outcome)
}

/// The program is right natively, and the same under yods that the launcher starts.
fn conforms(mpi: &Mpi, case: Case) -> Result<()> {
    conforms_by(mpi, case, By::Launcher)
}

fn conforms_by(mpi: &Mpi, case: Case, by: By) -> Result<()> {
    let native = outcome(mpi, case, By::Native)?;
    native.ended_well().context("natively")?;
    let margay = outcome(mpi, case, by)?;
    compare::same(&native, &margay, margay.stderr.head())?;
    let release = margay.release.unwrap_or_default();
    ensure!(
        release.contains("margay"),
        "did not run on Margay: {release:?}"
    );
    Ok(())
}

/// Under both MPIs with two ranks.
fn both_conform(program: &'static str) -> Result<()> {
    conforms(&OPEN_MPI, Case::of("openmpi", program))?;
    conforms(&MPICH, Case::of("mpich", program))
}

#[test]
fn messages() -> Result<()> {
    both_conform("messages")
}

#[test]
fn datatypes() -> Result<()> {
    both_conform("types")
}

#[test]
fn collectives() -> Result<()> {
    both_conform("collectives")
}

#[test]
fn groups_and_topologies() -> Result<()> {
    both_conform("groups")
}

#[test]
fn windows() -> Result<()> {
    both_conform("windows")
}

#[test]
fn files() -> Result<()> {
    both_conform("files")
}

#[test]
fn threads() -> Result<()> {
    both_conform("threads")
}

#[test]
fn errors() -> Result<()> {
    both_conform("errors")
}

/// The spawned process is on Linux, and PMIx hands over what it has in files that it and ranks map. MPICH 4.0.2 refuses to spawn,
/// natively, too.
#[test]
fn spawning() -> Result<()> {
    both_conform("spawn")
}

#[test]
fn spawning_without_a_launcher_typed() -> Result<()> {
    conforms_by(&OPEN_MPI, Case::of("openmpi", "spawn"), By::Yod)
}

#[test]
fn fortran() -> Result<()> {
    conforms(&OPEN_MPI, Case::of("openmpi-fortran", "fortran"))?;
    conforms(&MPICH, Case::of("mpich-fortran", "fortran"))
}

/// Programs of lib/mpi/test and their arguments: fewer cases than there, for time.
fn of_lib_mpi(
    mpi: &Mpi,
    kind: &'static str,
    programs: &[(&'static str, &'static [&'static str])],
) -> Result<()> {
    programs.iter().try_for_each(|&(program, args)| {
        let case = Case::of(kind, program);
        conforms(mpi, Case { args, ..case })
    })
}

#[test]
fn programs_of_lib_mpi_with_open_mpi() -> Result<()> {
    of_lib_mpi(
        &OPEN_MPI,
        "openmpi-lib",
        &[
            ("conform", &["8"]),
            ("types", &[]),
            ("soak", &["300", "2"]),
            ("order", &["500", "2"]),
            ("threads", &[]),
            ("places", &[]),
        ],
    )
}

#[test]
fn programs_of_lib_mpi_with_mpich() -> Result<()> {
    of_lib_mpi(
        &MPICH,
        "mpich-lib",
        &[
            ("conform", &["50"]),
            ("soak", &["100", "2"]),
            ("places", &[]),
        ],
    )
}

/// Without a launcher Open MPI starts a daemon for its rank, which handed its data over in files that both mapped shared, so
/// MPI_Init failed.
#[test]
fn a_rank_without_a_launcher_is_alone() -> Result<()> {
    for kind in ["openmpi", "mpich"] {
        let program = Case::of(kind, "alone").path();
        let native = clean::run(Run::new([&program]))?;
        let margay = clean::run(Run::yod(&["-m", "512M", "--", &program]))?;
        native.ended_well().context("natively")?;
        compare::same(&native, &margay, margay.stderr.head())?;
    }
    Ok(())
}

/// Ranks that outnumber the cores yield to each other.
#[test]
fn more_ranks_than_cores() -> Result<()> {
    let four = |kind, program| Case {
        ranks: 4,
        ..Case::of(kind, program)
    };
    conforms(&OPEN_MPI, four("openmpi", "messages"))?;
    conforms(&MPICH, four("mpich", "groups"))
}
