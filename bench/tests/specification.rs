//! docs/SPECIFICATION.md takes its figures from what measures them, by name: every name in its last column is there, and what
//! `make compare` measures is stated as docs/report-example has it.

use std::fs;
use std::path::Path;

use margay_bench::catalogue::by_name;
use margay_bench::compare::catalogue::JOBS;
use margay_bench::number::number;
use serde_json::Value;

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A promise.
struct Promise {
    /// Its first column.
    title: String,
    /// Its third.
    measured: String,
    /// Names in its last column, with what stands before them: "compare", "gate", "" for `make bench`; or a test's file.
    held_by: Vec<(String, String)>,
}

fn promises() -> Vec<Promise> {
    let specification = read("docs/SPECIFICATION.md");
    let rows = specification.lines().filter_map(|line| {
        let cells: Vec<&str> = line.strip_prefix("| ")?.split(" | ").collect();
        let [title, _, measured, _, held_by] = cells[..] else {
            panic!("not five columns: {line}");
        };
        (title != "promise").then(|| Promise {
            title: title.to_owned(),
            measured: measured.to_owned(),
            held_by: names(held_by.trim_end_matches(" |")),
        })
    });
    rows.collect()
}

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
        ("compare", Some(name)) => rows().any(|row| row.name == name),
        ("gate", Some(name)) => read("bench/baseline.tsv")
            .lines()
            .any(|line| line.split('\t').next() == Some(name)),
        ("", None) => Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("..")
            .join(name)
            .exists(),
        _ => false,
    }
}

#[test]
fn every_promise_names_what_holds_it() {
    let promises = promises();
    assert!(promises.len() > 15);
    for Promise { title, held_by, .. } in promises {
        for (source, name) in held_by {
            assert!(
                is_there(&source, &name),
                "{title}: {source} {name} is not there"
            );
        }
    }
    assert!(!is_there("compare", "`nope`") && !is_there("gate", "`nope`"));
    assert!(!is_there("", "`nope`") && !is_there("", "tests/nope.rs"));
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
