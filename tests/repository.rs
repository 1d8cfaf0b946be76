//! What must hold for the source tree itself: who depends on whom, where `unsafe` may be, what must not be in a file.

mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use margay_tests::tree;
use serde_json::Value;

/// The edges of the architecture: a crate and ours that it may use, for whatever purpose. Nothing of ours may use `bench` or
/// `xtask`, and only `bench` uses `tests`, to run its programs; the host and the PCT never use the kernel.
const EDGES: &[(&str, &[&str])] = &[
    ("margay-abi", &[]),
    ("margay-wire", &["margay-abi"]),
    ("qk-core", &["margay-abi", "margay-wire"]),
    ("qk-hal", &["margay-abi", "margay-wire"]),
    (
        "margay",
        &["qk-core", "qk-hal", "margay-abi", "margay-wire"],
    ),
    ("pct", &["margay-abi", "margay-wire"]),
    ("margay-machine", &["margay-abi", "margay-wire"]),
    ("margay-proxy", &["margay-abi", "margay-wire"]),
    (
        "yod",
        &[
            "margay-machine",
            "margay-proxy",
            "margay-abi",
            "margay-wire",
        ],
    ),
    // Pure logic only, to fuzz it.
    ("margay-tests", &["margay-abi", "margay-wire"]),
    (
        "margay-bench",
        &["margay-abi", "margay-wire", "margay-tests"],
    ),
    ("xtask", &[]),
];

/// Where `unsafe` may be: the kernel's hardware layer, the system call stub of the PCT, and on the host what speaks to
/// Linux and to shared memory.
const UNSAFE: &[&str] = &[
    "qk/hal/",
    "pct/src/node.rs",
    "host/machine/src/sys.rs",
    "host/machine/src/shared.rs",
    "host/machine/src/cokernel/device.rs",
    "host/proxy/src/",
    "host/proxy/tests/",
];

/// Modules of a crate that may be in circles of imports. Only ever fewer.
const CIRCLES: &[(&str, usize)] = &[
    ("abi", 8),
    ("wire", 2),
    ("qk/core", 33),
    ("qk/hal", 9),
    ("qk/kernel", 12),
    ("pct", 0),
    ("host/machine", 6),
    ("host/proxy", 2),
    ("host/yod", 4),
];

/// Longest file of Rust or C; most are far shorter.
const MOST_LINES: usize = 400;

#[test]
fn crates_depend_on_each_other_as_designed() {
    let allowed: BTreeMap<_, _> = EDGES.iter().copied().collect();
    let metadata = metadata();
    let packages = metadata["packages"].as_array().expect("packages");
    let ours: BTreeSet<_> = packages
        .iter()
        .filter_map(|package| package["name"].as_str())
        .collect();
    assert_eq!(
        ours,
        allowed.keys().copied().collect(),
        "crates of the workspace"
    );
    for package in packages {
        let name = package["name"].as_str().expect("a name");
        let dependencies = package["dependencies"].as_array().expect("dependencies");
        for used in dependencies
            .iter()
            .filter_map(|dependency| dependency["name"].as_str())
        {
            let fine = !ours.contains(used) || allowed[name].contains(&used);
            assert!(fine, "{name} must not depend on {used}");
        }
    }
}

fn metadata() -> Value {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args([
            "metadata",
            "--format-version",
            "1",
            "--no-deps",
            "--offline",
        ])
        .current_dir(tree::root())
        .output()
        .expect("cargo runs");
    serde_json::from_slice(&output.stdout).expect("metadata")
}

#[test]
fn unsafe_is_only_where_it_is_allowed() {
    for (path, text) in source::files("rs") {
        let allowed = UNSAFE.iter().any(|place| path.starts_with(place));
        let lines = source::words(&text, "unsafe");
        assert!(
            allowed || lines.is_empty(),
            "{path}: unsafe in line {}",
            lines[0]
        );
    }
}

#[test]
fn crates_refuse_unsafe_by_themselves() {
    for (path, text) in source::files("rs") {
        let root = path.ends_with("/src/lib.rs") || path.ends_with("/src/main.rs");
        let hardware = ["qk/hal/src/lib.rs", "host/proxy/src/lib.rs"].contains(&path.as_str());
        let refuses =
            text.contains("#![forbid(unsafe_code)]") || text.contains("#![deny(unsafe_code)]");
        assert!(
            !root || hardware || refuses,
            "{path} neither forbids nor denies unsafe_code"
        );
    }
}

#[test]
fn modules_import_each_other_in_few_circles() {
    let mut tight = Vec::new();
    for (folder, most) in CIRCLES {
        let found = source::cycles::of_crate(folder);
        let count = found.len();
        if count > *most {
            tight.push(format!("{folder}: {count} modules, not {most}: {found:?}"));
        }
    }
    assert!(tight.is_empty(), "{}", tight.join("\n"));
}

/// What a rank and a thread must keep right they change by themselves, and none of it by what calls are made.
#[test]
fn ranks_and_threads_keep_their_fields_to_themselves() {
    for (path, name) in [("rank", "Rank"), ("thread", "Thread")] {
        let text = fs::read_to_string(tree::root().join(format!("qk/kernel/src/{path}.rs")));
        let text = text.expect("a file");
        let start = text.find(&format!("pub struct {name} {{\n"));
        let fields = &text[start.expect("a struct")..];
        let (fields, _) = fields.split_once("\n}").expect("an end");
        let public = fields
            .lines()
            .skip(1)
            .find(|line| line.trim().starts_with("pub"));
        assert_eq!(public, None, "of {name}");
    }
    let rooms = ["rank", "thread", "sched"].map(|room| format!("qk/kernel/src/{room}"));
    for (path, text) in source::files("rs") {
        let inside = rooms.iter().any(|room| path.starts_with(room));
        let imports = source::code_only(&text).contains("syscall::");
        assert!(!inside || !imports, "{path} imports what serves a call");
    }
}

/// Lines above a block in which its argument begins.
const ARGUMENT_LINES: usize = 8;

/// Once one argument in a file did for all of its blocks.
#[test]
fn every_unsafe_block_argues() {
    for (path, text) in source::files("rs") {
        let lines: Vec<&str> = text.lines().collect();
        for number in source::words(&text, "unsafe") {
            let line = lines[number - 1];
            if !line.contains("unsafe {") && !line.contains("unsafe impl") {
                continue; // A declaration or an attribute: the code that calls or links it argues.
            }
            let above = &lines[number.saturating_sub(ARGUMENT_LINES + 1)..number];
            assert!(
                above.iter().any(|line| line.contains("SAFETY:")),
                "{path}:{number}: no SAFETY argument above {}",
                line.trim()
            );
        }
    }
}

/// In the hardware layer the parts of an argument have numbers: half of them had none, and said less than they rested on.
#[test]
fn arguments_of_the_hardware_layer_are_numbered() {
    for (path, text) in source::files("rs").filter(|(path, _)| path.starts_with("qk/hal/")) {
        for (number, line) in text.lines().enumerate() {
            let argument = line.trim_start().strip_prefix("// SAFETY:");
            assert!(
                argument.is_none_or(|argument| argument.starts_with(" 1. ")),
                "{path}:{}: {}",
                number + 1,
                line.trim()
            );
        }
    }
}

#[test]
fn nothing_names_the_machine_it_was_written_on() {
    // Put together here, or this file would be found.
    let homes = ["/ro", "/ho", "/wo"].iter().zip(["ot/", "me/", "rk/"]);
    let homes: Vec<_> = homes.map(|(start, end)| format!("{start}{end}")).collect();
    for (path, text) in source::all_files() {
        for home in &homes {
            assert!(!text.contains(home), "{path} names {home}");
        }
    }
}

/// A checkout that was copied with its target directory built, measured and wrote in the old place.
#[test]
fn no_place_of_the_checkout_is_compiled_in() {
    for (path, text) in source::files("rs") {
        for variable in ["MANIFEST_DIR", "TARGET_TMPDIR", "BIN_EXE"] {
            let compiled_in = format!("env!(\"CARGO_{variable}");
            assert!(!text.contains(&compiled_in), "{path}: CARGO_{variable}");
        }
    }
}

/// `make help` said nothing: the Makefile's targets were to be read there.
#[test]
fn make_help_names_every_target() {
    let output = Command::new("make")
        .arg("help")
        .current_dir(tree::root())
        .output();
    let help = output.expect("make").stdout;
    let help = String::from_utf8_lossy(&help);
    let makefile = fs::read_to_string(tree::root().join("Makefile")).expect("the Makefile");
    let targets = makefile
        .lines()
        .find_map(|line| line.strip_prefix(".PHONY: "));
    for target in targets.expect("targets").split(' ') {
        let is_named = help.lines().any(|line| {
            line.contains(&format!("make {target} ")) || line.ends_with(&format!("make {target}"))
        });
        assert!(
            is_named || ["help", "linker"].contains(&target),
            "{target}:\n{help}"
        );
    }
}

#[test]
fn files_are_short() {
    for kind in ["rs", "c", "h"] {
        let files: Vec<_> = source::files(kind).collect();
        assert!(files.len() > 20, "only {} files of {kind}", files.len());
        for (path, text) in files {
            let lines = text.lines().count();
            assert!(lines <= MOST_LINES, "{path}: {lines} lines; split it");
        }
    }
}

/// The longest section with interrupts off was promised, and each new program that asked for much was longer.
#[test]
fn loops_of_the_kernel_take_the_preemption_point() {
    let (count, faults) = source::loops::of_the_kernel();
    assert!(count > 100, "{count} loops");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Words that no other kernel uses were replaced, and came back with the next change.
#[test]
fn identifiers_have_no_words_that_were_replaced() {
    let faults = source::vocabulary::faults();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Files moved, and pages went on naming the places where they had been.
#[test]
fn pages_name_files_that_are_there() {
    let (named, gone) = source::paths::of_the_pages();
    assert!(named > 200, "only {named} paths");
    assert!(gone.is_empty(), "{}", gone.join("\n"));
}

#[test]
fn the_chapter_on_concurrency_names_all_locks_in_their_order() {
    let [chapter, order] = source::locks::of_the_chapter();
    assert_eq!(chapter, order, "the chapter, and the list of classes");
}

#[test]
fn every_lock_has_a_class_of_its_own() {
    let [declared, listed] = source::locks::of_the_kernel();
    assert_eq!(declared, listed, "declared, and listed");
}

#[test]
fn the_chapter_on_concurrency_names_the_locks_of_a_proxy() {
    let [declared, listed] = source::locks::of_a_proxy();
    assert!(declared.len() > 5, "{declared:?}");
    assert_eq!(declared, listed, "declared, and listed");
}

/// libtest keeps what a test that passes prints: one that was not run did not count as skipped in the last line of the check.
#[test]
fn tests_that_cannot_run_say_so_where_it_is_seen() {
    for (path, text) in source::files("rs") {
        let mut said = text.match_indices("\"skipped: ");
        let printed = |at: usize| {
            text[..at].trim_end().ends_with("print!(")
                || text[..at].trim_end().ends_with("println!(")
        };
        let kept = text.contains("#[test]") && said.any(|(at, _)| printed(at));
        assert!(!kept, "{path}: print! of what is skipped is not shown");
    }
}

/// The promise, and the program that is measured, kept a number from before.
#[test]
fn the_limit_on_regions_is_the_one_that_is_written_down() {
    let number_behind = |path: &str, before: &str| -> usize {
        let text = std::fs::read_to_string(tree::root().join(path)).expect("a file");
        let (_, rest) = text
            .split_once(before)
            .unwrap_or_else(|| panic!("{path}: no {before:?}"));
        let number = rest.split(|c: char| !c.is_ascii_digit() && c != ',').next();
        number
            .and_then(|number| number.replace(',', "").parse().ok())
            .expect("a number")
    };
    let limit = number_behind("qk/kernel/src/aspace.rs", "const REGIONS: usize = ");
    assert_eq!(number_behind("docs/memory.md", "A rank may have "), limit);
    // The program itself has some.
    let demanded = number_behind("bench/programs/demanding.c", "PART(\"regions\", regions(");
    assert!(
        (limit - 32..limit).contains(&demanded),
        "{demanded} of {limit}"
    );
}

/// What a failed fork returns means all processes of the user to kill(2). So programs start children by `forked` of check.h,
/// which looks; a few look by themselves.
#[test]
fn test_programs_check_whether_there_is_a_child() {
    const CHECKED: &[&str] = &[
        "tests/programs/attack/busy.c",
        "tests/programs/common/check.h",
        "tests/programs/children/misused.c",
    ];
    let mut forking = Vec::new();
    for (path, text) in source::files("c").chain(source::files("h")) {
        let mut calls = text.match_indices("fork()");
        let of_word = |at: usize| text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        if path.starts_with("tests/programs/") && calls.any(|(at, _)| !of_word(at)) {
            forking.push(path);
        }
    }
    forking.retain(|path| !CHECKED.contains(&path.as_str()));
    assert!(forking.is_empty(), "not by forked(): {forking:?}");
}
