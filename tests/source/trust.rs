//! Every sentence of docs/trust.md that says what cannot be done names the test that tries it, and that test is there.

use std::fs;

use margay_tests::tree;

use super::files;

/// The tests that docs/trust.md names behind a sentence: those in parentheses, as `module::name`, of which either part and the
/// end (a star) may be left out: one of the proxy's in serve/, or with a module another test of the system.
fn tests_of(sentence: &str) -> Vec<&str> {
    let groups = sentence.split("(`").skip(1);
    let groups = groups.filter_map(|rest| rest.split_once("`)").map(|(names, _)| names));
    groups.flat_map(|names| names.split("`, `")).collect()
}

/// The sentences of an item, which ends at an empty line, its number left out.
fn sentences(item: &str) -> Vec<String> {
    let own = item.split("\n\n").next().unwrap_or_default();
    let words: Vec<&str> = own.split_whitespace().skip(1).collect();
    let text = words.join(" ");
    text.split(". ").map(str::to_owned).collect()
}

/// Whether a sentence names a test: in parentheses, as `name` in `file`, or a file of tests.
fn names_a_test(sentence: &str) -> bool {
    let file = |word: &str| word.ends_with(".rs");
    !tests_of(sentence).is_empty() || sentence.split('`').skip(1).step_by(2).any(file)
}

/// A sentence that was added to one which has its test passed.
#[test]
fn every_sentence_of_the_trust_model_has_its_test() {
    let text = fs::read_to_string(tree::root().join("docs/trust.md")).expect("a page");
    let text = text.replace("`,\n   `", "`, `");
    let (serve, others): (Vec<_>, Vec<_>) = files("rs")
        .filter(|(path, _)| path.starts_with("tests/") || path.contains("/tests/"))
        .partition(|(path, _)| path.starts_with("host/proxy/tests/serve/"));
    let has = |text: &str, name: &str| text.contains(&format!("fn {name}"));
    let is_there = |test: &str| {
        let (module, name) = test.split_once("::").unwrap_or(("", test));
        let name = name.trim_end_matches('*');
        let (file, other) = (format!("serve/{module}"), format!("/{module}.rs"));
        let served = serve
            .iter()
            .any(|(path, text)| path.contains(&file) && has(text, name));
        served
            || others
                .iter()
                .any(|(path, text)| path.ends_with(&other) && has(text, name))
    };
    for (before, after) in text
        .match_indices("` in `")
        .map(|(at, _)| text.split_at(at))
    {
        let name = before.rsplit('`').next().unwrap_or_default();
        let path = after.split('`').nth(2).unwrap_or_default();
        let file = fs::read_to_string(tree::root().join(path));
        assert!(
            file.is_ok_and(|file| has(&file, &format!("{name}("))),
            "no test {name} in {path}"
        );
    }
    let words = text.split('`').skip(1).step_by(2);
    for path in words.filter(|word| word.ends_with(".rs")) {
        assert!(tree::root().join(path).is_file(), "no file {path}");
    }
    let after_number = |line: &str| {
        line.split_once(". ")
            .is_some_and(|(n, _)| n.parse::<u8>().is_ok())
    };
    let numbers = text.lines().filter(|line| after_number(line)).count();
    let mut named = 0;
    let mut item = String::new();
    for line in text.lines().chain(["99. end"]) {
        if !after_number(line) {
            item.push_str(line);
            item.push('\n');
            continue;
        }
        if after_number(&item) {
            let tests = tests_of(&item);
            for sentence in sentences(&item) {
                assert!(names_a_test(&sentence), "no test for: {sentence}");
            }
            named += 1;
            for test in tests {
                assert!(is_there(test), "no test {test}");
            }
        }
        item = format!("{line}\n");
    }
    assert!(
        named == numbers && named >= 10,
        "{named} of {numbers} items"
    );
}
