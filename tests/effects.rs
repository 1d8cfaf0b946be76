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
/// What is in each group.
const CHECK: &str = "check";
/// How it begins those of one in a table.
const LISTED: &str = "{\"";

#[test]
fn every_local_call_has_its_effect_seen() {
    let rows = manifest::read("programs.tsv", "4M").expect("a right manifest");
    let mut seen = BTreeSet::new();
    for row in rows.iter().filter(|row| row.category == "effects") {
        let text = source(&format!("tests/programs/effects/{}.c", row.program));
        for group in text.split(BEGIN).skip(1) {
            let (name, checks) = group.split_once('"').expect("a name");
            assert!(checks.contains(CHECK), "nothing is seen of {name}");
        }
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

/// prctl is many calls: each option that the kernel supports has its effect seen.
#[test]
fn every_option_of_prctl_has_its_effect_seen() {
    let kernel = source("qk/kernel/src/syscall/process.rs");
    let (_, prctl) = kernel.split_once("pub fn prctl").expect("prctl");
    let (options, _) = prctl.split_once("match option").expect("its options");
    let options = options.split("const ").skip(1);
    let options = options.filter_map(|rest| rest.split_once(": u64 = "));
    let options: Vec<_> = options.map(|(name, _)| format!("PR_{name}")).collect();
    assert!(options.len() > 5, "{options:?}");
    let program = source("tests/programs/effects/of_process.c");
    let (_, group) = program.split_once("call(\"prctl\");").expect("its group");
    let (group, _) = group.split_once("call(\"").expect("the next");
    let forgotten: Vec<_> = options
        .iter()
        .filter(|option| !group.contains(option.as_str()))
        .collect();
    assert!(forgotten.is_empty(), "no effect is seen of {forgotten:?}");
}

fn source(path: &str) -> String {
    fs::read_to_string(tree::root().join(path)).expect(path)
}
