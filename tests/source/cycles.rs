//! Modules that import one another in a circle: none of them can be read, tested or replaced without the others.
//!
//! A module is a file. It imports what its paths name: `crate::` and `super::` wherever they stand, and in a `use` a module below it.
//! Unit tests do not count.

use std::collections::{BTreeMap, BTreeSet};

use super::{code_only, files, places};

/// Where a module is, from its crate's root.
type Name = Vec<String>;

/// How many modules of the crate at `folder` are in a circle of imports, and which.
pub fn of_crate(folder: &str) -> BTreeSet<String> {
    let start = format!("{folder}/src/");
    let modules: BTreeMap<Name, String> = files("rs")
        .filter_map(|(path, text)| Some((name(path.strip_prefix(&start)?)?, text)))
        .map(|(name, text)| (name, without_tests(&code_only(&text)).to_string()))
        .collect();
    in_circles(&modules)
}

/// The module in a file; `None` for one of unit tests.
fn name(path: &str) -> Option<Name> {
    let mut parts: Name = path
        .trim_end_matches(".rs")
        .split('/')
        .map(String::from)
        .collect();
    let is_named_by_folder = ["mod", "lib", "main"].contains(&parts.last()?.as_str());
    parts.truncate(parts.len() - usize::from(is_named_by_folder));
    (!parts.iter().any(|part| part == "tests")).then_some(parts)
}

fn without_tests(code: &str) -> &str {
    let end = code.find("#[cfg(test)]\nmod tests {");
    &code[..end.unwrap_or(code.len())]
}

/// Modules that lead back to themselves.
fn in_circles(modules: &BTreeMap<Name, String>) -> BTreeSet<String> {
    let imports: BTreeMap<&Name, BTreeSet<Name>> = modules
        .iter()
        .map(|(name, code)| (name, imports(modules, name, code)))
        .collect();
    let leads_back = |from: &Name| {
        let mut seen: BTreeSet<&Name> = BTreeSet::new();
        let mut next: Vec<&Name> = imports[from].iter().collect();
        while let Some(at) = next.pop() {
            if seen.insert(at) {
                next.extend(&imports[at]);
            }
        }
        seen.contains(from)
    };
    let names = modules.keys().filter(|name| leads_back(name));
    names.map(|name| name.join("::")).collect()
}

/// The modules that one imports.
fn imports(modules: &BTreeMap<Name, String>, from: &Name, code: &str) -> BTreeSet<Name> {
    let mut found = BTreeSet::new();
    for path in used(code) {
        let named = match path[0].as_str() {
            "crate" => path[1..].to_vec(),
            "super" => {
                let up = path.iter().take_while(|part| *part == "super").count();
                let base = &from[..from.len().saturating_sub(up)];
                [base, &path[up..]].concat()
            }
            _ => [from.as_slice(), &path].concat(),
        };
        // The last parts may be items of a module.
        let longest = (1..=named.len()).rev().map(|length| &named[..length]);
        let module = longest
            .map(<[String]>::to_vec)
            .find(|name| modules.contains_key(name));
        found.extend(module.filter(|name| name != from));
    }
    found
}

/// The paths that code names: all in a `use`, elsewhere those that begin with `crate` or `super`.
fn used(code: &str) -> Vec<Name> {
    let mut paths = Vec::new();
    let mut rest = code.to_string();
    for at in places(code, "use") {
        let Some(end) = code[at..].find(';') else {
            continue;
        };
        expand(code[at + 3..at + end].trim(), &[], &mut paths);
        rest.replace_range(at..at + end, &" ".repeat(end));
    }
    for first in ["crate", "super"] {
        for at in places(&rest, first) {
            let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
            let path = &rest[at..];
            let path = &path[..path.find(|c| !is_part(c)).unwrap_or(path.len())];
            if path.contains("::") && !rest[..at].ends_with("::") {
                paths.push(path.split("::").map(String::from).collect());
            }
        }
    }
    paths
}

/// The paths of a `use`, which may have braces.
fn expand(tree: &str, before: &[String], paths: &mut Vec<Name>) {
    let (plain, braces) = tree
        .split_once('{')
        .map_or((tree, None), |(plain, rest)| (plain, Some(rest)));
    let parts = plain
        .split("::")
        .map(|part| part.split(" as ").next().unwrap_or(part).trim());
    let parts = parts.filter(|part| !part.is_empty()).map(String::from);
    let path: Name = before.iter().cloned().chain(parts).collect();
    let Some(inside) = braces.and_then(|rest| rest.rsplit_once('}')) else {
        paths.extend((!path.is_empty()).then_some(path));
        return;
    };
    let mut depth = 0;
    for branch in inside.0.split(|c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    }) {
        if !branch.trim().is_empty() {
            expand(branch.trim(), &path, paths);
        }
    }
}

#[test]
fn circles_are_found() {
    let modules = |code: &[(&str, &str)]| -> BTreeSet<String> {
        let named = code
            .iter()
            .map(|(path, code)| (name(path).expect("a module"), code.to_string()));
        in_circles(&named.collect())
    };
    let names =
        |all: &[&str]| -> BTreeSet<String> { all.iter().copied().map(String::from).collect() };
    let two = [
        ("a.rs", "use crate::{b::{self, x}, c};"),
        ("b.rs", "fn f() { crate::a::g() }"),
        ("c.rs", ""),
    ];
    assert_eq!(modules(&two), names(&["a", "b"]));
    let three = [
        ("a/mod.rs", "pub use b::X;"),
        ("a/b.rs", "use super::c::Y;"),
        ("a/c.rs", "use super::Z;"),
    ];
    assert_eq!(modules(&three), names(&["a", "a::b", "a::c"]));
    let none = [
        ("main.rs", "use crate::a::f;"),
        ("a.rs", "use crate::b; use super::b::c;"),
        ("b.rs", "use core::a;"),
    ];
    assert_eq!(modules(&none), names(&[]));
    assert!(name("a/tests/b.rs").is_none() && name("tests.rs").is_none());
}
