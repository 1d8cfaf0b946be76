//! Sweeps: all cases of threads.tsv, those of a program one after the other in a node, with 1, 2 and 4 cores. SWEEPS is how
//! often (1 unless set): what goes wrong once in some hundred runs is found by many.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

use anyhow::{Context, Result};
use libtest_mimic::Arguments;
use margay_tests::compare::checks_passed;
use margay_tests::manifest::{self, End, Extra};
use margay_tests::run::{HANG, Run};
use margay_tests::tree;
use margay_tests::trial::trial;

/// So often a program repeats its cases in one node.
const IN_A_NODE: u64 = 10;
/// Its cases end the process, each in its own way.
const ENDING: &str = "ends";
const CORES: [&str; 3] = ["1", "2", "4"];

/// A program, and its cases that end well; none: all do.
struct Program {
    kind: String,
    name: String,
    cases: Vec<String>,
}

fn main() {
    let arguments = Arguments::from_args();
    let sweeps = tree::number("SWEEPS", 1);
    let programs = programs().expect("a right manifest").into_iter();
    let trials = programs.map(Arc::new).flat_map(|program| {
        CORES.map(|cores| {
            let program = program.clone();
            let name = format!("{}.{}.{cores}", program.name, program.kind);
            trial(name, move || sweep(&program, cores, sweeps))
        })
    });
    libtest_mimic::run(&arguments, trials.collect()).exit();
}

/// Those of the table that take their cases by name.
fn programs() -> Result<Vec<Program>> {
    let mut all = BTreeMap::<_, Vec<String>>::new();
    for row in manifest::read("threads.tsv", "0")? {
        let (key, plain) = ((row.program, row.kind), row.extra == Extra::default());
        if let ([case], true, End::Status(0)) = (&row.args[..], plain, row.end)
            && has_cases(&key.0)
        {
            let cases = all.entry(key).or_default();
            cases.extend(Some(case.clone()).filter(|case| case != "all"));
        }
    }
    let all = all
        .into_iter()
        .map(|((name, kind), cases)| Program { kind, name, cases });
    Ok(all.collect())
}

fn has_cases(program: &str) -> bool {
    let source = tree::manifest("threads").join(format!("{program}.c"));
    let text = fs::read_to_string(source);
    program != ENDING && text.is_ok_and(|text| text.contains("RUN_CASES("))
}

fn sweep(program: &Program, cores: &str, sweeps: u64) -> Result<()> {
    let path = tree::program(&program.kind, &program.name);
    for done in (0..sweeps).step_by(IN_A_NODE as usize) {
        let count = IN_A_NODE.min(sweeps - done);
        let yod = Run::yod(&["-d", cores, "--oversubscribe", "--"]).args(&[path.to_string_lossy()]);
        let all = yod.args(&["all", &count.to_string()]).args(&program.cases);
        let outcome = all.limit(HANG * count as u32).run()?;
        checks_passed(&outcome).with_context(|| format!("after {done} sweeps"))?;
    }
    Ok(())
}
