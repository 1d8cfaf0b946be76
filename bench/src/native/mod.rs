//! What a volunteer with a real machine measures and sends (`make native-report`): programs of bench/programs on a co-kernel beside the same
//! binaries on that machine's Linux, bound to the same CPUs, in turn.
//!
//! `figures` lists the programs and what is read from each, `place` finds the CPUs and runs a program on either side, `host` says what the machine is, `report` writes it all
//! into one file. Sizes can be tiny, so that a test has all of it run in an emulated machine, whose times say nothing.

mod figures;
mod host;
mod place;
mod report;

pub use figures::{Figure, JOBS, Job, Seen, Size};
pub use host::facts;
pub use place::{Place, Side};
pub use report::{Report, Values, without_names};

use anyhow::Result;

/// Values of each figure of a job by side, in the order of its figures, or why there are none.
type Measured = Result<[Vec<Vec<f64>>; 2]>;

/// Runs a job so many times on either side in turn; every other time Linux comes first.
///
/// # Errors
/// The first that a run had, and on which side.
pub fn measure(place: &Place, job: &Job, size: Size, runs: usize) -> Measured {
    let mut values = [
        vec![Vec::new(); job.figures.len()],
        vec![Vec::new(); job.figures.len()],
    ];
    let cpus = place.cpus(job.cores)?;
    for run in 0..runs {
        let mut sides = [Side::Linux, Side::Cokernel];
        if run % 2 == 1 {
            sides.reverse();
        }
        for side in sides {
            let seen = place.run(side, &cpus, job, size)?;
            for (figure, found) in job.figures.iter().zip(&mut values[side as usize]) {
                found.push((figure.value)(&seen)?);
            }
        }
    }
    Ok(values)
}
