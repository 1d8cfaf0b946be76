//! docs/SPECIFICATION.md takes its figures from what measures them, by name: every name in its last column is there, what it calls
//! held is held in `make check`, and what `make compare` measures is stated as docs/report-example has it.

use std::fs;

use margay_bench::catalogue::{Aim, by_name};
use margay_bench::compare::catalogue::{CLAIMS, JOBS};
use margay_bench::gate::Baseline;
use margay_bench::native;
use margay_bench::number::number;
use margay_tests::tree;
use serde_json::Value;

fn read(path: &str) -> String {
    let path = tree::root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A promise.
struct Promise {
    /// Its first column.
    title: String,
    /// Its second.
    figure: String,
    /// Its third.
    measured: String,
    /// Names in its last column, with what stands before them: "compare", "gate", "" for `make bench`; or a test's file.
    held_by: Vec<(String, String)>,
}

fn promises() -> Vec<Promise> {
    let specification = read("docs/SPECIFICATION.md");
    let rows = specification.lines().filter_map(|line| {
        let cells: Vec<&str> = line.strip_prefix("| ")?.split(" | ").collect();
        let [title, figure, measured, _, held_by] = cells[..] else {
            panic!("not five columns: {line}");
        };
        (title != "promise").then(|| Promise {
            title: title.to_owned(),
            figure: figure.to_owned(),
            measured: measured.to_owned(),
            held_by: names(held_by.trim_end_matches(" |")),
        })
    });
    rows.collect()
}

/// What a figure says that takes too long for every check.
const IN_LONG: &str = "; in `make check-long`";

/// Of "compare: `a`, `b`; `c`; tests/d".
fn names(cell: &str) -> Vec<(String, String)> {
    let group = |group: &str| -> Vec<(String, String)> {
        let (source, names) = group.split_once(": ").unwrap_or(("", group));
        let split = names
            .split(", ")
            .map(|name| (source.to_owned(), name.to_owned()));
        split.collect()
    };
    cell.split("; ").flat_map(group).collect()
}

/// The name in a pair of backquotes; none: it is a file.
fn quoted(name: &str) -> Option<&str> {
    name.strip_prefix('`')?.strip_suffix('`')
}

fn is_there(source: &str, name: &str) -> bool {
    let rows = || JOBS.iter().flat_map(|job| job.rows);
    match (source, quoted(name)) {
        ("", Some(name)) => by_name(name).is_some(),
        ("compare", Some(name)) => {
            rows().any(|row| row.name == name) || CLAIMS.iter().any(|claim| claim.name == name)
        }
        ("native", Some(name)) => native_names().any(|figure| figure == name),
        ("gate", Some(name)) => read("bench/baseline.tsv")
            .lines()
            .any(|line| line.split('\t').next() == Some(name)),
        ("", None) => tree::root().join(name).exists(),
        _ => false,
    }
}

/// What a volunteer's machine measures.
fn native_names() -> impl Iterator<Item = &'static str> {
    let figures = native::JOBS.iter().flat_map(|job| job.figures);
    figures.map(|figure| figure.name)
}

/// No report has come yet, which is said of each; then "by hand on 20..." takes its place.
const UNVERIFIED: &str = "unverified";

#[test]
fn what_a_volunteer_measures_is_listed_and_unverified() {
    let promises = promises();
    let of_native = |promise: &&Promise| {
        let held = &promise.held_by;
        held.iter().any(|(source, _)| source == "native")
    };
    let mut listed = Vec::new();
    for promise in promises.iter().filter(of_native) {
        assert_eq!(promise.figure, "reported", "{}", promise.title);
        assert_eq!(promise.measured, UNVERIFIED, "{}", promise.title);
        listed.extend(promise.held_by.iter().filter_map(|(_, name)| quoted(name)));
    }
    listed.sort_unstable();
    let mut measured: Vec<&str> = native_names().collect();
    measured.sort_unstable();
    assert_eq!(listed, measured);
}

#[test]
fn every_promise_names_what_holds_it() {
    let promises = promises();
    assert!(promises.len() > 15);
    for Promise { title, held_by, .. } in promises {
        for (source, name) in &held_by {
            assert!(
                is_there(source, name),
                "{title}: {source} {name} is not there"
            );
        }
    }
    assert!(!is_there("compare", "`nope`") && !is_there("gate", "`nope`"));
    assert!(!is_there("", "`nope`") && !is_there("", "tests/nope.rs"));
}

impl Promise {
    /// The most that is promised; none: it is an aim, or only reported.
    fn most(&self) -> Option<f64> {
        let first = self.figure.trim_start_matches(['≤', '<', ' ']);
        let promised = first != self.figure || first.split(' ').next() == Some("0");
        let digits = first.split(' ').next()?.replace(',', "");
        promised.then(|| digits.parse().expect("a number"))
    }

    /// What `make check` or, if it says so, `make check-long` measures of it, each with its bound: the benchmarks that promise something, counts of the gate, tests.
    fn held_in_check(&self, baseline: &Baseline) -> Result<usize, String> {
        let mut held = 0;
        for (source, name) in &self.held_by {
            let quoted = quoted(name);
            match (&**source, quoted) {
                ("", None) => held += 1,
                ("", Some(name)) => {
                    let most = match by_name(name).map(|row| row.aim) {
                        Some(Aim::AtMost(most)) => most,
                        Some(Aim::AtMostInLong(most)) if self.figure.ends_with(IN_LONG) => most,
                        _ => continue,
                    };
                    if self.most() != Some(most) {
                        return Err(format!("{name} is held at {most}"));
                    }
                    held += 1;
                }
                ("gate", Some(name)) => {
                    let counted = baseline.row(name).map(|row| row.value as f64);
                    if self.most().is_some() && counted > self.most() {
                        return Err(format!("{name} is {counted:?} in the baseline"));
                    }
                    held += 1;
                }
                _ => {}
            }
        }
        Ok(held)
    }
}

/// Once the table called figures held that only a long run by hand measured.
#[test]
fn what_is_promised_is_held_in_the_check() {
    let baseline = Baseline::parse(&read("bench/baseline.tsv")).expect("a baseline");
    let (mut wrong, mut promised) = (Vec::new(), 0);
    for promise in promises() {
        let by_hand = promise.measured.starts_with("by hand on 20");
        if promise.measured == UNVERIFIED {
            continue; // see the test of that
        }
        promised += usize::from(promise.most().is_some());
        match promise.held_in_check(&baseline) {
            Err(why) => wrong.push(format!("{}: {}, but {why}", promise.title, promise.figure)),
            Ok(held) if promise.most().is_some() == by_hand || (held == 0 && !by_hand) => {
                wrong.push(format!(
                    "{}: {}, {}, {held} times in the check",
                    promise.title, promise.figure, promise.measured
                ));
            }
            Ok(_) => {}
        }
    }
    assert!(promised > 10, "only {promised} promises");
    assert!(
        wrong.is_empty(),
        "docs/SPECIFICATION.md:\n{}",
        wrong.join("\n")
    );
}

/// What `make compare` fails for is said here, and nothing else of claims.
#[test]
fn aims_of_claims_are_those_that_the_comparison_holds() {
    let aimed = CLAIMS
        .iter()
        .filter_map(|claim| Some((claim.name, claim.most?)));
    let mut aimed: Vec<(&str, f64)> = aimed.collect();
    let promises = promises();
    for promise in &promises {
        let held = promise
            .held_by
            .iter()
            .filter(|(source, _)| source == "compare");
        for name in held.filter_map(|(_, name)| quoted(name)) {
            if let Some(at) = aimed.iter().position(|(aim, _)| *aim == name) {
                let (_, most) = aimed.swap_remove(at);
                assert_eq!(
                    promise.figure,
                    format!("aim {} of tuned Linux", number(most))
                );
                assert!(promise.measured.starts_with("by hand on 20"), "{name}");
            } else {
                let is_claim = CLAIMS.iter().any(|claim| claim.name == name);
                assert!(!is_claim, "{name} is held by nothing");
            }
        }
    }
    assert!(aimed.is_empty(), "not in docs/SPECIFICATION.md: {aimed:?}");
}

/// Counts of what only the gate measures stood there as they had been weeks before.
#[test]
fn counts_of_the_gate_are_those_of_its_baseline() {
    let baseline = Baseline::parse(&read("bench/baseline.tsv")).expect("a baseline");
    let (mut wrong, mut compared) = (Vec::new(), 0);
    for promise in promises() {
        let gate = promise
            .held_by
            .iter()
            .filter(|(source, _)| source == "gate");
        let counts: Vec<u64> = gate
            .filter_map(|(_, name)| Some(baseline.row(quoted(name)?)?.value))
            .collect();
        if counts.is_empty() || promise.held_by.iter().any(|(source, _)| source.is_empty()) {
            continue; // what is benchmarked, too, has figures of its own
        }
        let measured = promise.measured.rsplit(": ").next().expect("one part");
        let digits = measured.split([' ', ';']).next().expect("one word");
        let stated: u64 = digits.replace(',', "").parse().expect("a count");
        compared += 1;
        if !counts.contains(&stated) {
            wrong.push(format!(
                "{}: {measured}, but counted {counts:?}",
                promise.title
            ));
        }
    }
    assert!(compared > 10, "only {compared} counts");
    assert!(
        wrong.is_empty(),
        "docs/SPECIFICATION.md:\n{}",
        wrong.join("\n")
    );
}

/// A report of some of the jobs has not all rows.
#[test]
fn figures_are_those_of_the_example_report() {
    let report: Value =
        serde_json::from_str(&read("docs/report-example/report.json")).expect("JSON");
    let rows = || {
        let jobs = report["jobs"].as_array().expect("jobs").iter();
        jobs.flat_map(|job| job["rows"].as_array().expect("rows"))
    };
    let mut compared = 0;
    let mut wrong = Vec::new();
    for Promise {
        title,
        measured,
        held_by,
        ..
    } in promises()
    {
        for (_, name) in held_by.iter().filter(|(source, _)| source == "compare") {
            let Some(row) = rows().find(|row| row["name"].as_str() == quoted(name)) else {
                continue;
            };
            let value = row["cells"]["margay"]["value"].as_f64();
            let figure = value.map_or_else(|| "missing".to_owned(), number);
            let mut words = measured
                .split(' ')
                .map(|word| word.trim_end_matches([',', ';']));
            compared += 1;
            if !words.any(|word| word == figure) {
                wrong.push(format!("{title}: {measured}, but {name} is {figure}"));
            }
        }
    }
    assert!(
        compared > 4,
        "only {compared} figures are in the example report"
    );
    assert!(
        wrong.is_empty(),
        "docs/SPECIFICATION.md:\n{}",
        wrong.join("\n")
    );
}
