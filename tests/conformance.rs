//! Conformance: every program of programs/programs.tsv runs on Linux and on a node, and nobody can tell the runs apart.
//!
//! Outputs, status and files of the native run are the yardstick, made in the same run. Each run on a node also shows that
//! it was one: uname(2) says so to the program, and the kernel counted entries from ring 3.
//!
//! STREAM_SIZE is the length of the streams, 1G unless set.

use libtest_mimic::{Arguments, Trial};
use margay_tests::{compare, manifest, tree};

/// The tables of programs/; each row is a case.
const TABLES: &[&str] = &["programs.tsv", "threads.tsv", "children.tsv"];

fn main() {
    let arguments = Arguments::from_args();
    let size = std::env::var("STREAM_SIZE").unwrap_or_else(|_| "1G".into());
    let tables = TABLES.iter();
    let rows = tables.flat_map(|table| manifest::read(table, &size).expect("a right manifest"));
    let kvm = tree::accel() == "kvm";
    let trials = rows.map(|row| {
        let ignored = row.extra.needs_kvm && !kvm;
        let name = format!("{}/{}", row.category, row.name);
        Trial::test(name, move || Ok(compare::row(&row)?)).with_ignored_flag(ignored)
    });
    libtest_mimic::run(&arguments, trials.collect()).exit();
}
