//! docs/concurrency.md names every lock of the kernel and of a proxy, and none that is not there.

use std::collections::BTreeSet;
use std::fs;

use margay_tests::tree;

use super::{code_only, files};

/// Types of locks, as a field or a static is declared with.
const LOCKS: &[&str] = &["Mutex<", "RwLock<", "SleepLock<", "TalcLock<"];
/// Where the part on the proxy begins.
const PROXY: &str = "# Concurrency in a proxy\n";

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

/// Compares what a part of the chapter lists with what files in these folders declare, besides `hidden`.
fn compare(part: &str, folders: &[&str], hidden: Option<&'static str>) {
    let code: Vec<String> = files("rs")
        .filter(|(path, _)| folders.iter().any(|folder| path.starts_with(folder)))
        .map(|(_, text)| code_only(&text))
        .collect();
    let mut declared: BTreeSet<&str> = code.iter().flat_map(|code| locks(code)).collect();
    declared.extend(hidden);
    assert_eq!(listed(part), declared, "listed, and declared");
}

#[test]
fn the_chapter_on_concurrency_names_all_locks() {
    let chapter = fs::read_to_string(tree::root().join("docs/concurrency.md")).expect("a chapter");
    let (kernel, proxy) = chapter.split_once(PROXY).expect("two parts");
    // Those of its buckets, in qk-core.
    let futexes = Some("FUTEXES");
    compare(kernel, &["qk/kernel/src/", "qk/hal/src/"], futexes);
    compare(proxy, &["host/proxy/src/"], None);
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
