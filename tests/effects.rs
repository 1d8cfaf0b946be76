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

#[test]
fn every_local_call_has_its_effect_seen() {
    let rows = manifest::read("programs.tsv", "4M").expect("a right manifest");
    let mut seen = BTreeSet::new();
    for row in rows.iter().filter(|row| row.category == "effects") {
        let source = format!("tests/programs/effects/{}.c", row.program);
        let text = fs::read_to_string(tree::root().join(&source)).expect(&source);
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
