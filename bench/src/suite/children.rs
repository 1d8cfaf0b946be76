//! Children, and files that are opened: time on Margay over time on the host's Linux, by the same program.

use anyhow::Result;

use super::Reading;
use crate::figure::Found;
use crate::lab::{How, Lab};
use crate::statistics::median;

/// Pairs of runs.
const RUNS: usize = 21;
/// A Python that has loaded nothing but what it starts with forks so often.
const PYTHON: &str = "/usr/bin/python3";
const FORKS: &str = "
import os, time
def us_of_fork():
    start = time.perf_counter()
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    assert os.waitpid(pid, 0) == (pid, 0)
    return 1e6 * (time.perf_counter() - start)
print('fork_us', sorted(us_of_fork() for _ in range(11))[5])
";

/// Forks and spawns: MiB that the program has touched, and rounds in a run.
pub fn ratios(lab: &Lab) -> Result<Vec<Reading>> {
    let figures = [("fork_10mib_ratio", "fork_us"), ("spawn_ratio", "spawn_us")];
    pairs(lab, "children", &["10", "11"], &figures)
}

/// Forks of a small Python.
pub fn python(lab: &Lab) -> Result<Vec<Reading>> {
    let args = ["-I", "-S", "-c", FORKS];
    pairs(lab, PYTHON, &args, &[("fork_python_ratio", "fork_us")])
}

/// Opens of files.
pub fn opens(lab: &Lab) -> Result<Vec<Reading>> {
    let figures = [("create_ratio", "create_us"), ("open_ratio", "open_us")];
    pairs(lab, "opens", &["1000"], &figures)
}

/// Runs a program in turn natively and on Margay; each figure is of one of its results.
fn pairs(
    lab: &Lab,
    program: &str,
    args: &[&str],
    figures: &[(&'static str, &str)],
) -> Result<Vec<Reading>> {
    let mut native = vec![Vec::new(); figures.len()];
    let mut margay = native.clone();
    for _ in 0..RUNS {
        let there = lab.native(program, args)?;
        let here = lab.margay(How::default(), program, args)?.results;
        for (i, (_, result)) in figures.iter().enumerate() {
            native[i].push(there.one(result)?);
            margay[i].push(here.one(result)?);
        }
    }
    let found = native.iter().zip(&margay).map(|(native, margay)| {
        let detail = format!(
            "medians of {RUNS}: natively {:.1} us, Margay {:.1} us",
            median(native),
            median(margay)
        );
        Found::ratio(margay, native, detail)
    });
    let names = figures.iter().map(|(name, _)| *name);
    Ok(names.zip(found).collect())
}
