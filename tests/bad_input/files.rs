//! Files that are no programs for this node, and names that are no files.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::Result;
use libtest_mimic::Trial;
use margay_tests::clean::{self, one_line};
use margay_tests::run::Run;
use margay_tests::scratch::Scratch;

use crate::{case, fine};

/// Statuses as shells have them.
const CANNOT_RUN: i32 = 126;
const NOT_FOUND: i32 = 127;

/// Changes the bytes of a program that is fine.
type Spoil = fn(&mut Vec<u8>);

/// Offsets in an ELF header (elf(5)): class, machine, type, entry, the program headers' place.
const EI_CLASS: usize = 4;
const E_MACHINE: usize = 18;
const E_PHOFF: usize = 32;
const E_PHNUM: usize = 56;

const SPOILT: &[(&str, Spoil, &str)] = &[
    ("an empty file", |bytes| bytes.clear(), "not an ELF"),
    (
        "text",
        |bytes| *bytes = b"not a program\n".to_vec(),
        "not an ELF",
    ),
    (
        "a script",
        |bytes| *bytes = b"#!/bin/sh\necho no\n".to_vec(),
        "script",
    ),
    ("32-bit", |bytes| bytes[EI_CLASS] = 1, "32-bit"),
    ("for ARM", |bytes| bytes[E_MACHINE] = 183, "ARM"),
    ("for nobody", |bytes| bytes[E_MACHINE] = 250, "250"),
    ("cut in its header", |bytes| bytes.truncate(40), "truncated"),
    (
        "cut behind its header",
        |bytes| bytes.truncate(64),
        "truncated",
    ),
    (
        "cut in half",
        |bytes| bytes.truncate(bytes.len() / 2),
        "truncated",
    ),
    (
        "without segments",
        |bytes| bytes[E_PHNUM..E_PHNUM + 2].fill(0),
        "no segments",
    ),
    (
        "with headers nowhere",
        |bytes| bytes[E_PHOFF..E_PHOFF + 8].fill(0xee),
        "",
    ),
];

pub fn all() -> Vec<Trial> {
    let mut cases: Vec<_> = SPOILT
        .iter()
        .map(|&(name, spoil, part)| case(format!("file: {name}"), move || spoilt(spoil, part)))
        .collect();
    cases.push(case("file: dynamically linked", dynamic));
    cases.push(case("file: not executable", not_executable));
    cases.push(case("file: not readable", not_readable));
    cases.push(case("file: missing", || {
        refused("./missing", NOT_FOUND, "./missing: no such file")
    }));
    cases.push(case("file: not in PATH", || {
        refused("no-such-program", NOT_FOUND, "not found in PATH")
    }));
    cases.push(case("file: a directory", || {
        refused("/usr", CANNOT_RUN, "is a directory")
    }));
    cases.push(case("file: a device", || {
        refused("/dev/null", CANNOT_RUN, "not a regular file")
    }));
    cases.push(case("file: no name", || {
        refused("", NOT_FOUND, "not found")
    }));
    cases
}

fn refused(program: &str, status: i32, part: &str) -> Result<()> {
    one_line(&clean::run(Run::yod(&["--", program]))?, status, part)
}

/// Makes `program` in a fresh directory and expects it to be refused.
fn refused_file(bytes: &[u8], mode: u32, part: &str) -> Result<()> {
    let scratch = Scratch::new()?;
    let cwd = scratch.path().join("cwd");
    fs::create_dir(&cwd)?;
    write(&cwd.join("program"), bytes, mode)?;
    let outcome = clean::run_in(Run::yod(&["--", "./program"]), &scratch)?;
    one_line(&outcome, CANNOT_RUN, part)?;
    one_line(&outcome, CANNOT_RUN, "./program: ")
}

fn write(path: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    fs::write(path, bytes)?;
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(mode))?)
}

fn spoilt(spoil: Spoil, part: &str) -> Result<()> {
    let mut bytes = fs::read(fine())?;
    spoil(&mut bytes);
    refused_file(&bytes, 0o755, part)
}

fn dynamic() -> Result<()> {
    // This test itself is one.
    let bytes = fs::read(std::env::current_exe()?)?;
    refused_file(&bytes, 0o755, "dynamically linked")
}

fn not_executable() -> Result<()> {
    refused_file(&fs::read(fine())?, 0o644, "not executable")
}

/// Root can read everything, so it has to be somebody else.
fn not_readable() -> Result<()> {
    let scratch = Scratch::new()?;
    let cwd = scratch.path().join("cwd");
    fs::create_dir(&cwd)?;
    write(&cwd.join("program"), &fs::read(fine())?, 0o111)?;
    let run = Run::yod(&["--", "./program"]);
    let run = if rustix::process::geteuid().is_root() {
        run.as_nobody()
    } else {
        run
    };
    one_line(&clean::run_in(run, &scratch)?, CANNOT_RUN, "cannot be read")
}
