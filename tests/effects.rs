//! "No success is ever faked": the programs of programs/effects see what each local call did, by other means than its return
//! value, or that it was refused. Here: none of the table's local calls was forgotten. What the programs see is compared with Linux
//! by `conformance`.

use std::collections::BTreeSet;
use std::fs;

use abi::syscall::{ALL, Serve};
use margay_tests::manifest;
use margay_tests::tree;

/// How a program begins the checks of a call, and what follows the call's name.
const BEGIN: &str = "call(\"";
/// How it begins those of one in a table.
const LISTED: &str = "{\"";
/// One of these is in each group.
const CHECKS: [&str; 2] = ["check(", "check_fails("];
/// Calls that do not return: that the program ends as it has to is seen outside.
const ENDS: [&str; 2] = ["exit", "exit_group"];

#[test]
fn every_local_call_has_its_effect_seen() {
    let rows = manifest::read("programs.tsv", "4M").expect("a right manifest");
    let mut seen = BTreeSet::new();
    for row in rows.iter().filter(|row| row.category == "effects") {
        let text = source(&format!("tests/programs/effects/{}.c", row.program));
        let unseen = without_a_check(&text);
        assert!(unseen.is_empty(), "nothing is seen of {unseen:?}");
        for begin in [BEGIN, LISTED] {
            let names = text.split(begin).skip(1);
            seen.extend(names.filter_map(|rest| rest.split('"').next().map(String::from)));
        }
    }
    let forgotten: Vec<_> = ALL
        .iter()
        .filter(|call| call.serve == Serve::Local && !seen.contains(call.name))
        .map(|call| call.name)
        .collect();
    assert!(forgotten.is_empty(), "no effect is seen of {forgotten:?}");
}

/// A program's groups, each a call's name and the text up to the next group or the function's end.
fn groups(program: &str) -> impl Iterator<Item = (&str, &str)> {
    let groups = program.split(BEGIN).skip(1);
    groups.filter_map(|group| {
        let (name, rest) = group.split_once('"')?;
        Some((name, rest.split("\n}").next()?))
    })
}

/// The calls of a program of which nothing is seen.
fn without_a_check(program: &str) -> Vec<&str> {
    let unseen = groups(program).filter(|(name, checks)| {
        !ENDS.contains(name) && !CHECKS.iter().any(|check| checks.contains(check))
    });
    unseen.map(|(name, _)| name).collect()
}

#[test]
fn a_check_of_the_next_function_is_not_the_calls() {
    let program = "{\n    call(\"a\");\n    check(a());\n    call(\"b\");\n    b();\n}\n\n\
                   void next()\n{\n    check(c());\n    check_done();\n}\n";
    assert_eq!(without_a_check(program), ["b"]);
}

/// prctl is many calls: each option that the kernel supports has its effect seen.
#[test]
fn every_option_of_prctl_has_its_effect_seen() {
    let kernel = source("qk/kernel/src/syscall/process.rs");
    let (_, prctl) = kernel.split_once("pub fn prctl").expect("prctl");
    let (options, _) = prctl.split_once("match option").expect("its options");
    let programs = ["of_process", "of_attributes"];
    let programs = programs.map(|name| source(&format!("tests/programs/effects/{name}.c")));
    let all = programs.iter().flat_map(|program| groups(program));
    let of_prctl: String = all
        .filter(|(name, _)| *name == "prctl")
        .map(|(_, group)| group)
        .collect();
    all_are_in(&of_prctl, &constants(options, "", "u64", "PR_"));
}

/// So is madvise.
#[test]
fn every_advice_has_its_effect_seen() {
    let kernel = source("qk/core/src/mman/advice.rs");
    let (_, advice) = kernel.split_once("mod madv {").expect("advice");
    let (advice, _) = advice.split_once("\n}").expect("its end");
    let program = source("tests/programs/effects/of_memory.c");
    all_are_in(&program, &constants(advice, "", "u64", "MADV_"));
}

/// So is setrlimit.
#[test]
fn every_limit_has_its_effect_seen() {
    let kernel = source("abi/src/rlimit.rs");
    let program = source("tests/programs/effects/of_limits.c");
    all_are_in(&program, &constants(&kernel, "", "usize", "RLIMIT_"));
}

/// Names, as C has them, of the constants of a type in Rust's `text` whose names begin so.
fn constants(text: &str, begin: &str, of_type: &str, prefix: &str) -> Vec<String> {
    let lines = text.split("const ").skip(1);
    let names = lines.filter_map(|line| line.split_once(&format!(": {of_type} = ")));
    let names = names.filter(|(name, _)| name.starts_with(begin) && !name.contains('\n'));
    let names: Vec<_> = names.map(|(name, _)| format!("{prefix}{name}")).collect();
    assert!(names.len() > 5, "{names:?}");
    names
}

fn all_are_in(program: &str, names: &[String]) {
    let forgotten: Vec<_> = names
        .iter()
        .filter(|name| !program.contains(name.as_str()))
        .collect();
    assert!(forgotten.is_empty(), "no effect is seen of {forgotten:?}");
}

fn source(path: &str) -> String {
    fs::read_to_string(tree::root().join(path)).expect(path)
}
