//! Files that are no programs for this node, and names that are no files.

use std::fs;

use abi::image::Image;
use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use margay_tests::clean::{self, one_line};
use margay_tests::run::{Outcome, Run};
use margay_tests::scratch::{Scratch, write_program};

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
        "a script that names no interpreter",
        |bytes| *bytes = b"#! \necho no\n".to_vec(),
        "names no interpreter",
    ),
    (
        "a script that interprets itself",
        |bytes| *bytes = b"#!./program\n".to_vec(),
        "is a script, and so on",
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
    cases.push(case("file: its interpreter is missing", || {
        bad_interpreter("/no/ld.so", NOT_FOUND, "/no/ld.so: no such file")
    }));
    cases.push(case("file: its interpreter is a directory", || {
        bad_interpreter("/usr/lib", CANNOT_RUN, "/usr/lib: is a directory")
    }));
    cases.push(case("file: its interpreter is no program", || {
        bad_interpreter("./text", CANNOT_RUN, "./text: not an ELF program")
    }));
    cases.push(case("file: its interpreter is for ARM", || {
        bad_interpreter("./arm", CANNOT_RUN, "./arm: built for 64-bit ARM")
    }));
    cases.push(case("file: its interpreter's path has no end", endless));
    cases.push(case("file: a script whose interpreter is missing", || {
        bad_script("#!/no/sh -e\n", NOT_FOUND, "/no/sh: no such file")
    }));
    cases.push(case("file: a script whose interpreter is text", || {
        bad_script("#!./text\n", CANNOT_RUN, "./program: not an ELF program")
    }));
    cases.push(case(
        "file: a script whose interpreter may not be run",
        || bad_script("#!./unfit\n", CANNOT_RUN, "./unfit: not executable"),
    ));
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
    write_program(&cwd.join("program"), bytes, mode)?;
    let outcome = clean::run_in(Run::yod(&["--", "./program"]), &scratch)?;
    one_line(&outcome, CANNOT_RUN, part)?;
    one_line(&outcome, CANNOT_RUN, "./program: ")
}

fn spoilt(spoil: Spoil, part: &str) -> Result<()> {
    let mut bytes = fs::read(fine())?;
    spoil(&mut bytes);
    refused_file(&bytes, 0o755, part)
}

/// A dynamically linked program, this test itself, that names this interpreter.
fn with_interpreter(name: &[u8]) -> Result<Vec<u8>> {
    let mut bytes = fs::read(std::env::current_exe()?)?;
    let (offset, len) = Image::parse(&bytes, bytes.len() as u64)?
        .interpreter
        .context("this test is not dynamically linked")?;
    let place = &mut bytes[offset as usize..][..len as usize];
    ensure!(name.len() <= place.len(), "the name is too long");
    place.fill(0);
    place[..name.len()].copy_from_slice(name);
    Ok(bytes)
}

/// The same as a shell says of such a program: 127 when the interpreter is not there, 126 when it cannot be run.
fn bad_interpreter(name: &str, status: i32, part: &str) -> Result<()> {
    let scratch = Scratch::new()?;
    let cwd = scratch.path().join("cwd");
    fs::create_dir(&cwd)?;
    write_program(
        &cwd.join("program"),
        &with_interpreter(name.as_bytes())?,
        0o755,
    )?;
    write_program(&cwd.join("text"), b"not a program\n", 0o755)?;
    let mut arm = fs::read(fine())?;
    arm[E_MACHINE] = 183;
    write_program(&cwd.join("arm"), &arm, 0o755)?;
    let outcome = clean::run_in(Run::yod(&["--", "./program"]), &scratch)?;
    one_line(&outcome, status, "./program: its interpreter ")?;
    one_line(&outcome, status, part)?;
    let native = natively(&scratch)?;
    ensure!(native.status == Some(status), "natively: {native:?}");
    Ok(())
}

/// A script that cannot be run. Natively a shell says 126 for whatever it finds.
fn bad_script(line: &str, status: i32, part: &str) -> Result<()> {
    let scratch = Scratch::new()?;
    let cwd = scratch.path().join("cwd");
    fs::create_dir(&cwd)?;
    write_program(&cwd.join("program"), line.as_bytes(), 0o755)?;
    write_program(&cwd.join("text"), b"not a program\n", 0o755)?;
    write_program(&cwd.join("unfit"), &fs::read(fine())?, 0o644)?;
    let outcome = clean::run_in(Run::yod(&["--", "./program"]), &scratch)?;
    one_line(&outcome, status, "./program: ")?;
    one_line(&outcome, status, part)
}

fn natively(scratch: &Scratch) -> Result<Outcome> {
    Run::new(["/bin/sh", "-c", "exec ./program"]).run_in(scratch)
}

fn endless() -> Result<()> {
    let bytes = with_interpreter(&[b'x'; 28])?;
    refused_file(&bytes, 0o755, "the path of its interpreter does not end")
}

fn not_executable() -> Result<()> {
    refused_file(&fs::read(fine())?, 0o644, "not executable")
}

/// Root can read everything, so it has to be another user.
fn not_readable() -> Result<()> {
    let scratch = Scratch::new()?;
    let cwd = scratch.path().join("cwd");
    fs::create_dir(&cwd)?;
    write_program(&cwd.join("program"), &fs::read(fine())?, 0o111)?;
    let run = Run::yod(&["--", "./program"]);
    let run = if rustix::process::geteuid().is_root() {
        run.as_nobody()
    } else {
        run
    };
    one_line(&clean::run_in(run, &scratch)?, CANNOT_RUN, "cannot be read")
}
