//! What a crash report says of the program: function, line, callers, instruction, cause.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use margay_tests::clean;
use margay_tests::run::Run;
use margay_tests::scratch::Scratch;
use margay_tests::tree;

use crate::case;

/// How crash.c crashes, the cause that the first line ends with, and the instruction.
const WAYS: &[(&str, &str, &str)] = &[
    ("null", ": written where nothing is mapped", "movb $1,(%r"),
    (
        "text",
        ": written where that is not permitted",
        "movb $1,(%r",
    ),
    ("divide", ": integer division by zero", "idiv %ecx"),
    ("hlt", ": privileged instruction", "hlt"),
    ("illegal", "", "ud2"),
    (
        "non-canonical",
        ": 0x8000000000000000 is no address: it is not canonical",
        "movb $1,(%r",
    ),
    (
        "avx512",
        ": the node has no AVX512F: compile with -march=x86-64-v3 at most",
        "vaddps",
    ),
];

pub fn all() -> Vec<Trial> {
    let kinds = ["-static", "-static-pie"].into_iter();
    let ways = kinds.flat_map(|kind| {
        WAYS.iter().map(move |&(way, why, instruction)| {
            case(format!("crash: {way} {kind}"), move || {
                names(kind, way, why, instruction)
            })
        })
    });
    ways.chain([
        case("crash: a call to nowhere", || {
            names("-static", "jump", ": executed where nothing is mapped", "")
        }),
        case("crash: the stack", stack),
        case("crash: the stack of a thread", stack_of_a_thread),
        case("crash: no symbols", stripped),
    ])
    .collect()
}

/// crash.c with its line numbers; what it does must be where it is written.
fn build(scratch: &Scratch, options: &[&str]) -> Result<String> {
    let program = scratch.path().join("crash").to_string_lossy().into_owned();
    let made = Command::new("gcc")
        .args(["-g", "-O1", "-fno-inline", "-fno-optimize-sibling-calls"])
        .args(options)
        .args(["-o", &program])
        .arg(tree::root().join("tests/programs/bad/crash.c"))
        .status()?;
    ensure!(made.success(), "gcc failed");
    Ok(program)
}

fn report(options: &[&str], way: &str) -> Result<Vec<String>> {
    let scratch = Scratch::new()?;
    let program = build(&scratch, options)?;
    let outcome = clean::run_in(Run::yod(&["-m", "64M", "--", &program, way]), &scratch)?;
    let stderr = outcome.stderr.text();
    ensure!(
        outcome.status > Some(128),
        "status {:?}: {stderr}",
        outcome.status
    );
    Ok(stderr.lines().map(str::to_owned).collect())
}

/// Only an address and registers were shown: which function that was, who had called it, and what it did there, was left to
/// addr2line and objdump.
fn names(kind: &str, way: &str, why: &str, instruction: &str) -> Result<()> {
    let lines = report(&[kind], way)?;
    let text = lines.join("\n");
    ensure!(lines[0].ends_with(why), "not {why:?}: {text}");
    let function = way.replace('-', "_");
    let source = std::fs::read_to_string(tree::root().join("tests/programs/bad/crash.c"))?;
    let begins = source
        .lines()
        .position(|line| line.starts_with(&format!("static void {function}(")));
    let begins = begins.context("no such function")? + 1;
    let frame = lines
        .iter()
        .position(|line| line.contains(&format!(" {function} (")));
    let frame = frame.with_context(|| format!("no {function}: {text}"))?;
    let line: usize = lines[frame]
        .rsplit_once("crash.c:")
        .and_then(|(_, line)| line.trim_end_matches(')').parse().ok())
        .with_context(|| format!("no line of crash.c: {text}"))?;
    ensure!(
        (begins..begins + 6).contains(&line),
        "line {line}, not near {begins}: {text}"
    );
    ensure!(
        lines[frame + 1].contains(" main ("),
        "main is not its caller: {text}"
    );
    ensure!(
        instruction.is_empty() || text.contains("  instruction ") && text.contains(instruction),
        "no {instruction}: {text}"
    );
    Ok(())
}

fn stack() -> Result<()> {
    let lines = report(&["-static"], "overflow")?;
    ensure!(lines[0].contains(": stack overflow: "), "{}", lines[0]);
    ensure!(
        lines[1].contains("overflow_by") && lines[2].contains("overflow_by"),
        "{lines:?}"
    );
    Ok(())
}

/// The report said only that something was written where that is not permitted.
fn stack_of_a_thread() -> Result<()> {
    let program = tree::program("glibc-static", "ends");
    let run = Run::yod(&[
        "-m",
        "64M",
        "--",
        &program.to_string_lossy(),
        "stack_overflow",
    ]);
    let outcome = clean::run(run)?;
    let stderr = outcome.stderr.text();
    ensure!(
        outcome.status == Some(139),
        "status {:?}: {stderr}",
        outcome.status
    );
    let first = stderr.lines().next().context("no report")?;
    ensure!(
        first.contains(": stack overflow: written in the guard page below a thread's stack: "),
        "{stderr}"
    );
    Ok(())
}

fn stripped() -> Result<()> {
    let lines = report(&["-static", "-s"], "null")?;
    ensure!(
        lines[1].starts_with("  #0  0x") && lines[1].ends_with(" in no known function"),
        "{}",
        lines[1]
    );
    ensure!(lines[2].starts_with("  #1  0x"), "no caller: {}", lines[2]);
    Ok(())
}
