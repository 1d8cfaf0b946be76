use std::process::Command;

use super::*;
use crate::build::captured;

#[test]
fn the_list_is_understood() {
    let one = "# comment\nmutant a b\nfile f.rs\nfrom x = 1\nto x = 2\ntest p lib name\n";
    let mutants = parse(one).expect("a mutant");
    assert_eq!(
        mutants[0].changes,
        [("x = 1".to_owned(), "x = 2".to_owned())]
    );
    assert_eq!(mutants[0].test, ["p", "lib", "name"]);
    assert!(parse(&format!("{one}\n{one}")).is_err());
    assert!(parse("mutant a\nfile f\ntest p lib n\n").is_err());
    assert!(parse("mutant a\nfile f\nfrom x\nto y\ntest p lib\n").is_err());
}

/// A mutant that changes nothing would survive, or be caught by accident.
#[test]
fn every_mutant_still_applies() {
    let text = fs::read_to_string(root().join(LIST)).expect("the list");
    let mutants = parse(&text).expect("mutants");
    assert!(mutants.len() >= 60, "{} mutants", mutants.len());
    for mutant in mutants {
        let changed = mutant.applied(&root()).expect("it applies");
        let before = fs::read_to_string(root().join(&mutant.file)).expect("a file");
        assert_ne!(changed, before, "{}", mutant.name);
    }
}

/// Each item is taken once, and what came of it keeps its place.
#[test]
fn copies_share_the_work() {
    let items = Vec::from_iter(0..100);
    assert_eq!(share(&[(), ()], &items, |(), item| *item), items);
}

/// Three of them named tests that had been renamed; the run ended before its first mutant.
#[test]
fn every_test_is_there() {
    let mutants =
        parse(&fs::read_to_string(root().join(LIST)).expect("the list")).expect("mutants");
    let tracked = captured(Command::new("git").arg("ls-files").current_dir(root())).expect("git");
    let tracked = String::from_utf8(tracked).expect("names");
    let files: Vec<(&str, String)> = tracked
        .lines()
        .filter(|path| {
            [".rs", ".tsv", "Cargo.toml"]
                .iter()
                .any(|end| path.ends_with(end))
        })
        .filter_map(|path| Some((path, fs::read_to_string(root().join(path)).ok()?)))
        .collect();
    for mutant in mutants {
        assert!(
            is_there(&mutant.test, &files) || is_made(&mutant.test, &tracked),
            "{}: there is no test {}",
            mutant.name,
            mutant.test.join(" ")
        );
    }
}

/// Whether a binary's sources, or the tables that it runs, have a test with this part of a name.
fn is_there([package, binary, name]: &[String; 3], files: &[(&str, String)]) -> bool {
    if binary == "conformance" {
        let mut tables = files.iter().filter(|(path, _)| path.ends_with(".tsv"));
        return tables.any(|(_, text)| {
            text.lines()
                .any(|row| row_name(row).is_some_and(|row| row.contains(name)))
        });
    }
    let manifest = format!("name = \"{package}\"\n");
    let is_manifest =
        |(path, text): &&(&str, String)| path.ends_with("Cargo.toml") && text.contains(&manifest);
    let Some((manifest, _)) = files.iter().find(is_manifest) else {
        return false;
    };
    let folder = manifest.trim_end_matches("Cargo.toml");
    let of_binary = |path: &str| match binary.as_str() {
        "lib" | "bin" => path.starts_with("src/"),
        _ => {
            path.trim_start_matches("tests/")
                .trim_end_matches(".rs")
                .split('/')
                .next()
                == Some(binary)
        }
    };
    let name = name.rsplit("::").next().unwrap_or(name);
    files
        .iter()
        .filter(|(path, _)| path.strip_prefix(folder).is_some_and(of_binary))
        .any(|(_, text)| {
            text.lines()
                .any(|line| test_name(line).is_some_and(|test| test.contains(name)))
        })
}

/// Whether a program that make builds has a source.
fn is_made([package, folder, name]: &[String; 3], tracked: &str) -> bool {
    let name = name.trim_start_matches("test-");
    let source = format!("{folder}/test/{name}.c");
    package == MAKE && tracked.lines().any(|path| path == source)
}

/// Of a row of a table of programs.
fn row_name(row: &str) -> Option<String> {
    let mut columns = row.split('\t');
    let (name, category) = (columns.next()?, columns.next()?);
    Some(format!("{category}/{name}"))
}

/// What a line declares: a function, or a case by its words.
fn test_name(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let function = line
        .strip_prefix("fn ")
        .and_then(|rest| rest.split(['(', '<']).next());
    function.or_else(|| line.strip_prefix("case(\"")?.split('"').next())
}
