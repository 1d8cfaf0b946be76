//! Every lock of the kernel has a class in the one list of qk/hal/src/sync/class.rs, and docs/concurrency.md names them in that
//! order; it names every lock of a proxy, too.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use margay_tests::tree;

use super::{code_only, files};

/// The list: the order stands there, and nowhere else.
const LIST: &str = "qk/hal/src/sync/class.rs";

/// Types of locks, as a field or a static is declared with.
const LOCKS: &[&str] = &["Mutex<", "RwLock<", "SleepLock<", "TalcLock<"];
/// Where the part on the proxy begins.
const PROXY: &str = "# Concurrency in a proxy\n";

/// Names of fields and statics that are locks, each with its class; `code` has neither comments nor texts.
fn locks(code: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    code.lines().filter_map(|line| {
        let (before, kind) = line.split_once(": ")?;
        let name = before.rsplit(' ').next()?;
        let declares = !before.replace("pub(", "").contains('(') && !before.contains("let ");
        let kind = ["Once<", "Box<", "["]
            .iter()
            .fold(kind, |kind, outer| kind.strip_prefix(outer).unwrap_or(kind));
        let class = |kind: &'_ str| kind.find("class::").map(|at| at + "class::".len());
        let class =
            class(kind).and_then(|at| kind[at..].split(|c: char| !c.is_alphanumeric()).next());
        (declares && LOCKS.iter().any(|lock| kind.starts_with(lock))).then_some((name, class))
    })
}

/// The list's classes in their order, each with what it says of its lock.
fn classes(list: &str) -> Vec<(&str, &str)> {
    let entries = list.split_once("\norder! {\n").expect("the list").1;
    let lines: Vec<&str> = entries.lines().map(str::trim).collect();
    let pairs = lines.windows(2).filter_map(|pair| {
        let lock = pair[0].strip_prefix("/// ")?;
        Some((pair[1].strip_suffix(',')?, lock))
    });
    pairs.collect()
}

/// The first columns of the tables that list locks.
fn listed(chapter: &str) -> Vec<&str> {
    let mut is_listing = false;
    let mut rows = Vec::new();
    for line in chapter.lines() {
        match line
            .strip_prefix("| ")
            .and_then(|row| row.split(" | ").next())
        {
            Some("lock") => is_listing = true,
            Some(first) if is_listing => rows.push(first),
            Some(_) | None => is_listing &= line.starts_with('|'),
        }
    }
    rows
}

/// What stands in backquotes.
fn quoted(lock: &str) -> Option<&str> {
    lock.split('`').nth(1)
}

fn list() -> String {
    fs::read_to_string(tree::root().join(LIST)).expect("a list")
}

/// What docs/concurrency.md says of the kernel, and of a proxy.
fn parts_of_the_chapter() -> (String, String) {
    let chapter = fs::read_to_string(tree::root().join("docs/concurrency.md")).expect("a chapter");
    let (kernel, proxy) = chapter.split_once(PROXY).expect("two parts");
    (kernel.to_owned(), proxy.to_owned())
}

/// What the tables of docs/concurrency.md list of the kernel, and the list's order.
pub fn of_the_chapter() -> [Vec<String>; 2] {
    let (chapter, _) = parts_of_the_chapter();
    let order = list();
    let order = classes(&order).into_iter().map(|(_, lock)| lock.to_owned());
    [
        listed(&chapter).into_iter().map(str::to_owned).collect(),
        order.collect(),
    ]
}

/// The names of all locks by their classes: as they are declared, and as they are listed.
pub fn of_the_kernel() -> [BTreeMap<String, String>; 2] {
    let mut declared = BTreeMap::new();
    let kernel = files("rs")
        .filter(|(path, _)| path.starts_with("qk/kernel/src/") || path.starts_with("qk/hal/src/"));
    for (path, text) in kernel {
        for (name, class) in locks(&code_only(&text)) {
            // Two parts of a sleep lock: the value has the class of the whole.
            if !(path.ends_with("sleep_lock.rs") && name == "value") {
                let class = class.unwrap_or_else(|| panic!("{path}: {name} has no class"));
                let other = declared.insert(class.to_owned(), name.to_owned());
                assert_eq!(other, None, "{path}: {name} and another are {class}");
            }
        }
    }
    // Its locks are those of its buckets, in qk-core.
    declared.insert("Futexes".into(), "FUTEXES".into());
    let list = list();
    let named = classes(&list)
        .into_iter()
        .filter_map(|(class, lock)| Some((class.to_owned(), quoted(lock)?.to_owned())));
    [declared, named.collect()]
}

/// The names of a proxy's locks: as they are declared, and as the chapter lists them.
pub fn of_a_proxy() -> [BTreeSet<String>; 2] {
    let mut declared = BTreeSet::new();
    for (_, text) in files("rs").filter(|(path, _)| path.starts_with("host/proxy/src/")) {
        declared.extend(locks(&code_only(&text)).map(|(name, _)| name.to_owned()));
    }
    let (_, part) = parts_of_the_chapter();
    let named = listed(&part)
        .into_iter()
        .flat_map(|row| row.split('`').skip(1).step_by(2).map(str::to_owned));
    [declared, named.collect()]
}

#[test]
fn locks_are_found_as_they_are_declared() {
    let code = "static A: Mutex<u8, class::One> = Mutex::new(0);\n    pub b: SleepLock<(), class::B>,\n    c: Box<[SleepLock<()>]>,\n    \
                static D: Once<SleepLock<u8, class::D>> = Once::new();\n    pub(super) g: Mutex<u8, class::G>,\n    \
                fn with(lock: &Mutex<u8>) {\n    let e: Mutex<u8>;\n    f: u8,\n";
    let found = [
        ("A", Some("One")),
        ("b", Some("B")),
        ("c", None),
        ("D", Some("D")),
        ("g", Some("G")),
    ];
    assert_eq!(locks(code).collect::<Vec<_>>(), found);
    let list = "macro!\norder! {\n    /// `a` of a b\n    First,\n    /// `B`\n    Second,\n}\n";
    assert_eq!(classes(list), [("First", "`a` of a b"), ("Second", "`B`")]);
    let chapter =
        "| lock | guards |\n|---|---|\n| `a` of a b | `c` |\n\n| other |\n|---|\n| `d` |\n";
    assert_eq!(listed(chapter), ["`a` of a b"]);
}
