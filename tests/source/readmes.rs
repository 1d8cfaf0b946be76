//! Rooms say what is in them: a README in each, and in those of our crates a word on every module.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use margay_tests::tree;

/// Folders with a README besides the crates'.
const FOLDERS: &[&str] = &[
    ".",
    "docs",
    "docs/adr",
    "host/cokernel",
    "lib",
    "lib/mpi",
    "lib/mpi/bench",
    "lib/smartmap",
    "lib/vdso",
    "lib/xpmem",
    "tests",
    "tests/apps",
    "tests/debian",
    "tests/programs",
];

/// Crates whose README lists their modules.
const CRATES: &[&str] = &[
    "abi",
    "wire",
    "qk/core",
    "qk/hal",
    "qk/kernel",
    "pct",
    "host/machine",
    "host/proxy",
    "host/yod",
    "bench",
    "xtask",
];

fn readme(folder: &str) -> String {
    let path = tree::root().join(folder).join("README.md");
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{folder}/README.md: {error}"))
}

/// Modules that a README has in backquotes: `a`, `a/b`, `a/`, `src/a.rs` and `a::b` are all the module `a`.
fn named(readme: &str) -> BTreeSet<&str> {
    let quoted = readme.split('`').skip(1).step_by(2);
    quoted
        .filter_map(|name| {
            let name = name.strip_prefix("src/").unwrap_or(name);
            name.split(['/', ':', '.']).next()
        })
        .collect()
}

/// What lies in `src/`, but for the roots of the crate and its tests.
fn modules(sources: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(sources).expect("sources").flatten();
    let names = entries.filter_map(|entry| {
        let path = entry.path();
        Some(path.file_stem()?.to_str()?.to_owned())
    });
    names
        .filter(|name| !["main", "lib", "bin", "tests"].contains(&&**name))
        .collect()
}

#[test]
fn every_folder_has_a_description() {
    for folder in FOLDERS.iter().chain(CRATES) {
        assert!(!readme(folder).is_empty());
    }
}

#[test]
fn every_module_is_named_where_its_crate_is_described() {
    let mut missing = Vec::new();
    for folder in CRATES {
        let text = readme(folder);
        let named = named(&text);
        let found = modules(&tree::root().join(folder).join("src"));
        assert!(found.len() > 2, "{folder}: {found:?}");
        let left_out = found.iter().filter(|module| !named.contains(&***module));
        missing.extend(left_out.map(|module| format!("{folder}/README.md: {module}")));
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn names_are_read_as_readmes_write_them() {
    let text = "| `a`, `b/c` | `d/` |\n`src/e.rs`, `f::g`";
    assert_eq!(named(text), BTreeSet::from(["a", "b", "d", "e", "f"]));
}
