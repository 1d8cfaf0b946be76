//! docs/concurrency.md names every lock of the kernel, and none that is not there.

use std::collections::BTreeSet;
use std::fs;

use margay_tests::tree;

use super::{code_only, files};

/// Types of locks, as a field or a static is declared with.
const LOCKS: &[&str] = &["Mutex<", "SleepLock<", "TalcLock<"];

/// Names of fields and statics that are locks; `code` has neither comments nor texts.
fn locks(code: &str) -> impl Iterator<Item = &str> {
    code.lines().filter_map(|line| {
        let (before, kind) = line.split_once(": ")?;
        let name = before.rsplit(' ').next()?;
        let declares = !before.replace("pub(", "").contains('(') && !before.contains("let ");
        let kind = ["Once<", "Box<", "["]
            .iter()
            .fold(kind, |kind, outer| kind.strip_prefix(outer).unwrap_or(kind));
        (declares && LOCKS.iter().any(|lock| kind.starts_with(lock))).then_some(name)
    })
}

/// Names in backquotes in the first column of the tables that list locks.
fn listed(chapter: &str) -> BTreeSet<&str> {
    let mut is_listing = false;
    let mut names = BTreeSet::new();
    for line in chapter.lines() {
        match line
            .strip_prefix("| ")
            .and_then(|row| row.split(" | ").next())
        {
            Some("lock") => is_listing = true,
            Some(first) if is_listing => names.extend(first.split('`').skip(1).step_by(2)),
            Some(_) | None => is_listing &= line.starts_with('|'),
        }
    }
    names
}

#[test]
fn the_chapter_on_concurrency_names_all_locks() {
    let chapter = fs::read_to_string(tree::root().join("docs/concurrency.md")).expect("a chapter");
    let kernel = files("rs")
        .filter(|(path, _)| path.starts_with("qk/kernel/src/") || path.starts_with("qk/hal/src/"));
    let code: Vec<String> = kernel.map(|(_, text)| code_only(&text)).collect();
    let mut declared: BTreeSet<&str> = code.iter().flat_map(|code| locks(code)).collect();
    // Its locks are those of its buckets, in qk-core.
    declared.insert("FUTEXES");
    assert_eq!(listed(&chapter), declared, "listed, and declared");
}

#[test]
fn locks_are_found_as_they_are_declared() {
    let code = "static A: Mutex<u8> = Mutex::new(0);\n    pub b: SleepLock<()>,\n    c: Box<[SleepLock<()>]>,\n    \
                static D: Once<SleepLock<u8>> = Once::new();\n    pub(super) g: Mutex<u8>,\n    fn with(lock: &Mutex<u8>) {\n    let e: Mutex<u8>;\n    f: u8,\n";
    assert_eq!(locks(code).collect::<Vec<_>>(), ["A", "b", "c", "D", "g"]);
    let chapter =
        "| lock | guards |\n|---|---|\n| `a` of a `b` | `c` |\n\n| other |\n|---|\n| `d` |\n";
    assert_eq!(listed(chapter), BTreeSet::from(["a", "b"]));
}
