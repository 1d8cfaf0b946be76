//! Sweeps: all rows about signals and threads, with 1, 2 and 4 cores. SWEEPS is how often (1 unless set): what goes wrong once in
//! some hundred runs is found by many.
//!
//! Cases of a program run one after the other in a node. What ends its program has a node of its own each time, and is compared
//! with Linux as `conformance` does it. Starting these nodes takes most of the time, so a single sweep has each once, with the
//! numbers of cores in turn.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use libtest_mimic::{Arguments, Trial};
use margay_tests::compare::{self, checks_passed};
use margay_tests::manifest::{self, End, Extra, Row};
use margay_tests::run::{HANG, Outcome, Run};
use margay_tests::tree;
use margay_tests::trial::trial;

/// Categories of the rows.
const SWEPT: [&str; 2] = ["signals", "threads"];
/// So often a program repeats its cases in one node.
const IN_A_NODE: u64 = 10;
/// Its cases end the process, each in its own way.
const ENDING: &str = "ends";
const CORES: [usize; 3] = [1, 2, 4];

/// A program, and its cases that leave it running; none: all do.
struct Program {
    kind: String,
    name: String,
    cases: BTreeSet<String>,
}

fn main() {
    let arguments = Arguments::from_args();
    let sweeps = tree::number("SWEEPS", 1);
    let (cases, others) = rows().expect("right manifests");
    let programs = programs(cases).into_iter().map(Arc::new);
    let cases = programs.flat_map(|program| {
        CORES.map(|cores| {
            let program = program.clone();
            let name = format!("{}.{}.{cores}", program.name, program.kind);
            trial(name, move || sweep(&program, cores, sweeps))
        })
    });
    let others = (0..).zip(others).flat_map(|(number, row)| {
        let cores = cores_of(&row, number, sweeps);
        cores
            .into_iter()
            .map(move |cores| repeated(row.clone(), cores, sweeps))
    });
    libtest_mimic::run(&arguments, cases.chain(others).collect()).exit();
}

/// Those that are cases of a program that goes on, and all others.
fn rows() -> Result<(Vec<Row>, Vec<Row>)> {
    let mut rows = manifest::conformance("0")?;
    rows.retain(|row| SWEPT.contains(&&*row.category) && !row.extra.once);
    Ok(rows.into_iter().partition(is_case))
}

fn is_case(row: &Row) -> bool {
    let elsewhere = Extra {
        cores: None,
        ..row.extra.clone()
    };
    let plain = row.end == End::Status(0) && elsewhere == Extra::default();
    plain && row.args.len() == 1 && has_cases(&row.program)
}

fn has_cases(program: &str) -> bool {
    let source = tree::manifest("threads").join(format!("{program}.c"));
    let text = fs::read_to_string(source);
    program != ENDING && text.is_ok_and(|text| text.contains("RUN_CASES("))
}

fn programs(cases: Vec<Row>) -> Vec<Program> {
    let mut all = BTreeMap::<_, BTreeSet<String>>::new();
    for row in cases {
        let names = all.entry((row.program, row.kind)).or_default();
        names.extend(row.args.into_iter().filter(|case| case != "all"));
    }
    all.into_iter()
        .map(|((name, kind), cases)| Program { kind, name, cases })
        .collect()
}

fn sweep(program: &Program, cores: usize, sweeps: u64) -> Result<()> {
    let (path, cores) = (
        tree::program(&program.kind, &program.name),
        cores.to_string(),
    );
    let cases: Vec<_> = program.cases.iter().collect();
    for done in (0..sweeps).step_by(IN_A_NODE as usize) {
        let count = IN_A_NODE.min(sweeps - done);
        let runs = count as u32 * cases.len() as u32;
        let outcome = Run::yod(&["-d", &cores, "--oversubscribe", "--"])
            .args(&[path.to_string_lossy()])
            .args(&["all", &count.to_string()])
            .args(&cases)
            .limit(HANG * (runs + 2))
            .run()?;
        all_ran(&outcome, count).with_context(|| format!("after {done} sweeps"))?;
    }
    Ok(())
}

/// The last case of a program once ended it, with status 0: so it passed after the first round, and there was no other.
fn all_ran(outcome: &Outcome, rounds: u64) -> Result<()> {
    checks_passed(outcome)?;
    let (said, end) = (outcome.stdout.text(), format!(", rounds: {rounds}"));
    let mut counted = said
        .lines()
        .filter(|line| line.starts_with("ok   cases that ran: "));
    ensure!(
        counted.any(|line| line.ends_with(&end)),
        "it did not come to its end:\n{said}"
    );
    Ok(())
}

/// With how many cores a row is run: as it says, or each of these; in a single sweep one of them.
fn cores_of(row: &Row, number: usize, sweeps: u64) -> Vec<usize> {
    match row.extra.cores {
        Some(own) => vec![own],
        None if sweeps == 1 => vec![CORES[number % CORES.len()]],
        None => CORES.to_vec(),
    }
}

/// A row that is run so often.
fn repeated(mut row: Row, cores: usize, sweeps: u64) -> Trial {
    row.extra.cores = Some(cores);
    let name = format!("{}/{}.{cores}", row.category, row.name);
    trial(name, move || {
        let native = compare::natively(&row)?;
        for done in 0..sweeps {
            compare::on_a_node(&row, &native).with_context(|| format!("after {done} sweeps"))?;
        }
        Ok(())
    })
}
