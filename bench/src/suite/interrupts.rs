//! The longest time the kernel keeps interrupts off, over everything that is hard on it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, ensure};

use super::Reading;
use crate::figure::Found;
use crate::lab::{How, Lab};
use crate::stats::Stats;

/// A conformance program takes a second; one that stopped itself would never end.
const LIMIT: Duration = Duration::from_secs(20);

/// Programs that are named, the longest first.
const SHOWN: usize = 3;

/// Runs our demanding program and, where they are built, all conformance programs; each by the kernel's own clock.
pub fn longest_off(lab: &Lab) -> Result<Vec<Reading>> {
    let how = How {
        icount: true,
        stats: true,
        memory: "1G",
        ..How::default()
    };
    let own = lab.margay(how, "demanding", &[])?;
    let mut longest = vec![(
        own.stats()?.total.irqs_off_max.ticks,
        "demanding".to_owned(),
    )];
    let mut without = 0;
    for program in conformance(&lab.conformance_dir())? {
        // Whether a program passes is the tests' business; what counts is what the kernel did meanwhile.
        let outcome = lab.attempt(how, &program.path, &program.args(), LIMIT);
        match outcome.and_then(|outcome| Stats::parse(&outcome.stderr)) {
            Ok(stats) => longest.push((stats.total.irqs_off_max.ticks, program.name)),
            Err(_) => without += 1,
        }
    }
    longest.sort_by(|a, b| b.cmp(a));
    let first: Vec<String> = longest
        .iter()
        .take(SHOWN)
        .map(|(ticks, name)| format!("{name} {ticks}"))
        .collect();
    let detail = format!(
        "{}; of {} programs, {without} more gave no counters",
        first.join(", "),
        longest.len()
    );
    Ok(vec![(
        "irqs_off_max_instructions",
        Found::exactly(longest[0].0 as f64, detail),
    )])
}

/// A conformance program that needs no input.
#[derive(PartialEq, Debug)]
struct Program {
    name: String,
    path: PathBuf,
    args: String,
}

impl Program {
    fn args(&self) -> Vec<&str> {
        self.args
            .split_whitespace()
            .filter(|arg| *arg != "-")
            .collect()
    }
}

/// The programs in `dir` by the list of the tests; none when they are not built.
fn conformance(dir: &Path) -> Result<Vec<Program>> {
    let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/programs/programs.tsv");
    let programs = parse(&fs::read_to_string(list)?, dir);
    ensure!(
        !programs.is_empty(),
        "the list of conformance programs is empty"
    );
    Ok(programs
        .into_iter()
        .filter(|program| program.path.is_file())
        .collect())
}

/// Columns: name, category, source, kind, arguments, standard input, status, and what else it needs. Those that need something
/// else are left out.
fn parse(list: &str, dir: &Path) -> Vec<Program> {
    let row = |line: &str| {
        let columns: Vec<&str> = line.split('\t').collect();
        let &[name, _, source, kind, args, "none", _, "-", ..] = &columns[..] else {
            return None;
        };
        Some(Program {
            name: name.to_owned(),
            path: dir.join(kind).join(Path::new(source).file_stem()?),
            args: args.to_owned(),
        })
    };
    list.lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(row)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_without_needs_are_taken_from_the_list() {
        let list = "# comment\nremap\tmemory\tmemory/remap.c\tmusl-static\ta b\tnone\t0\t-\t-\n\
                    sum\tstreams\tstreams/sum.c\tglibc-static\t-\tpipe:SIZE\t0\t-\t-\n\
                    big\tenv\tenv/big.c\tglibc-static\t-\tnone\t0\tshare=2G\t-\n";
        let programs = parse(list, Path::new("/p"));
        assert_eq!(programs.len(), 1);
        assert_eq!(programs[0].path, Path::new("/p/musl-static/remap"));
        assert_eq!(programs[0].args(), ["a", "b"]);
    }

    #[test]
    fn the_list_of_the_tests_is_understood() {
        assert_eq!(conformance(Path::new("/nowhere")).expect("a list"), []);
    }
}
