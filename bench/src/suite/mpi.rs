//! Calls of ranks that exchange messages by Debian's MPIs: what --strace has between the program's marks.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::Reading;
use crate::figure::Found;
use crate::lab::{How, Lab};
use crate::launch::{Launch, Mpi};
use crate::scratch::Scratch;

/// Samples, and ping-pongs in each.
const ARGS: [&str; 2] = ["51", "1000"];
/// Marks of bench/programs/mpi/messages.c.
const MARKS: [&str; 2] = ["\"ping-pong begins\"", "\"ping-pong ends\""];
/// Time in which Open MPI may poll once.
const POLL_S: f64 = 5e-3;

/// Of the rank that has more: Open MPI's by time, MPICH's.
pub fn ping_pong_calls(lab: &Lab) -> Result<Vec<Reading>> {
    let (calls, seconds) = traced(lab, Mpi::OpenMpi)?;
    let detail = format!("{calls} in {seconds:.3} s");
    let open_mpi = Found::exactly(calls as f64 / (seconds / POLL_S), detail);
    let (calls, seconds) = traced(lab, Mpi::Mpich)?;
    let mpich = Found::exactly(calls as f64, format!("in {seconds:.3} s"));
    Ok(vec![
        ("pingpong_calls_openmpi", open_mpi),
        ("pingpong_calls_mpich", mpich),
    ])
}

/// Calls in a ping-pong of two ranks, and how long it took.
fn traced(lab: &Lab, mpi: Mpi) -> Result<(usize, f64)> {
    let program = format!("{}messages", mpi.prefix());
    let launch = Launch::Mpi(mpi);
    lab.build_mpi(launch, &program)?;
    let scratch = Scratch::new(lab.output())?;
    let trace = scratch.path().join("trace");
    let how = How {
        ranks: 2,
        launch,
        memory: "512M",
        trace: Some(&trace),
        ..How::default()
    };
    let ran = lab.margay(how, &program, &ARGS)?;
    let calls = |rank: usize| between_marks(&trace.with_extension(rank.to_string()));
    Ok((calls(0)?.max(calls(1)?), ran.results.one("marked_seconds")?))
}

/// Lines between the marks of a rank's trace: a call or a signal each.
fn between_marks(trace: &Path) -> Result<usize> {
    let text =
        fs::read_to_string(trace).with_context(|| format!("cannot read {}", trace.display()))?;
    count(&text).with_context(|| format!("{} has no marks", trace.display()))
}

fn count(text: &str) -> Option<usize> {
    let mut lines = text.lines();
    lines.find(|line| line.contains(MARKS[0]))?;
    let mut calls = 0;
    lines
        .find(|line| {
            calls += 1;
            line.contains(MARKS[1])
        })
        .map(|_| calls - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_calls_between_the_marks_count() {
        let begin = "[0] write(-1, \"ping-pong begins\", 16) = -1 EBADF (Bad file descriptor)\n";
        let end = "[0] write(-1, \"ping-pong ends\", 14) = -1 EBADF (Bad file descriptor)\n";
        let poll = "[0] poll([], 0, 0) = 0\n";
        assert_eq!(
            count(&format!("{poll}{begin}{poll}{poll}{end}{poll}")),
            Some(2)
        );
        assert_eq!(count(&format!("{begin}{end}")), Some(0));
        assert_eq!(count(&format!("{begin}{poll}")), None);
        assert_eq!(count(end), None);
    }
}
