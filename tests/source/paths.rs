//! Pages name files that are there: of those that moved, names stayed behind in the book.

use std::collections::BTreeSet;

use super::files;

/// How files of ours end.
const ENDS: &[&str] = &[
    ".rs", ".c", ".h", ".f90", ".ld", ".py", ".sh", ".md", ".toml", ".tsv", ".txt",
];

/// Named by pages, and not of this tree: where things are installed, and what is made.
const ELSEWHERE: &[&str] = &[
    "lib/margay",
    "qemu-plugin.h",
    "target/kvm-report.md",
    "target/native-report.md",
];

/// Words in backquotes that are paths of files or folders of ours, from the root or the end of such a path.
fn paths<'a>(page: &'a str, folders: &BTreeSet<String>) -> Vec<&'a str> {
    let quoted = page
        .lines()
        .flat_map(|line| line.split('`').skip(1).step_by(2));
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    let words =
        quoted.filter(|word| word.starts_with(|c| plain(c) && c != '/') && word.chars().all(plain));
    let words = words.map(|word| word.trim_start_matches("../").trim_end_matches('/'));
    let below = |word: &str| {
        word.split_once('/')
            .is_some_and(|(top, _)| folders.contains(top))
    };
    words
        .filter(|word| {
            below(word)
                || ENDS
                    .iter()
                    .any(|end| word.len() > end.len() && word.ends_with(end))
        })
        .collect()
}

/// All paths of the tree, folders too, each with all that it ends in: `a/b.c` is also found as `b.c`.
fn ends(files: impl IntoIterator<Item = String>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for file in files {
        let parts: Vec<&str> = file.split('/').collect();
        for last in 1..=parts.len() {
            found.extend((0..last).map(|first| parts[first..last].join("/")));
        }
    }
    found
}

/// How many paths pages name, and those that are not there.
pub fn of_the_pages() -> (usize, Vec<String>) {
    let tree: Vec<String> = super::all_files()
        .into_iter()
        .map(|(path, _)| path)
        .collect();
    let tops = tree.iter().filter_map(|path| path.split_once('/'));
    let folders = tops.map(|(top, _)| top.to_owned()).collect();
    let there = ends(tree.iter().cloned());
    let mut gone = Vec::new();
    let mut named = 0;
    for (page, text) in files("md") {
        let found = paths(&text, &folders);
        named += found.len();
        let lost = found
            .iter()
            .filter(|path| !there.contains(**path) && !ELSEWHERE.contains(path));
        gone.extend(lost.map(|path| format!("{page}: {path}")));
    }
    (named, gone)
}

#[test]
fn paths_are_found_as_pages_write_them() {
    let folders = BTreeSet::from(["qk".to_owned()]);
    let page =
        "`qk/a/` and `b.rs`, `../c/d.md`, `/proc/e.c`, `Type::f`, `coll/g`, `h.c i`, `.rs`\n`qk/j`";
    assert_eq!(paths(page, &folders), ["qk/a", "b.rs", "c/d.md", "qk/j"]);
    let there = ends(["a/b/c.rs".to_owned()]);
    assert!(
        ["a", "a/b", "b/c.rs", "c.rs"]
            .iter()
            .all(|path| there.contains(*path))
    );
    assert!(!there.contains("a/c.rs"));
}
