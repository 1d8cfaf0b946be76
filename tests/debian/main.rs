//! Debian's own dynamically linked programs, listed in tables: each runs natively and on a node, in a directory that
//! inputs.sh has filled, and the runs cannot be distinguished by status, output and files.

mod crash;

use std::process::Command;
use std::sync::LazyLock;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Arguments;
use margay_tests::capture::Captured;
use margay_tests::compare;
use margay_tests::manifest;
use margay_tests::report::Stderr;
use margay_tests::run::{HANG, Outcome, Run};
use margay_tests::scratch::Scratch;
use margay_tests::tree;
use margay_tests::trial::trial;

/// The tables of this folder; each row is a case.
const TABLES: &[&str] = &["programs.tsv", "threads.tsv", "children.tsv"];
/// Where programs without a slash lie.
const BIN: &str = "/usr/bin/";
/// numpy is 300 files that are read and run, and its matrices are multiplied by an emulated processor.
const LIMIT: Duration = HANG.saturating_mul(5);
/// What the commands find in their directory.
static INPUTS: LazyLock<Scratch> = LazyLock::new(|| inputs().expect("inputs.sh"));

fn main() {
    let arguments = Arguments::from_args();
    let tables = TABLES.iter().map(|table| format!("tests/debian/{table}"));
    let commands = tables.flat_map(|table| manifest::commands(&table).expect("a right table"));
    let trials = commands.map(|command| {
        let name = command.name.clone();
        trial(name, move || check(&command))
    });
    let crash = trial("sqlite3.crash", crash::check);
    libtest_mimic::run(&arguments, trials.chain([crash]).collect()).exit();
}

fn inputs() -> Result<Scratch> {
    let scratch = Scratch::new()?;
    let made = Command::new("/bin/sh")
        .arg(tree::root().join("tests/debian/inputs.sh"))
        .current_dir(scratch.path())
        .status()?;
    ensure!(made.success(), "inputs.sh failed");
    Ok(scratch)
}

fn check(command: &manifest::Command) -> Result<()> {
    // One directory for both runs: some programs print its name.
    let scratch = Scratch::new()?;
    let program = if command.program.contains('/') {
        command.program.clone()
    } else {
        format!("{BIN}{}", command.program)
    };
    let mut native = run_in(&scratch, Run::new([&program]).env(&command.env), command)?;
    ensure!(
        native.status == Some(command.status),
        "natively: status {:?} instead of {}: {}",
        native.status,
        command.status,
        native.stderr.text()
    );
    let variables = command.env.iter();
    let variables = variables.map(|(name, value)| format!("--env={name}={value}"));
    let yod = Run::yod(&["--stats=json"]).args(&variables.collect::<Vec<_>>());
    let yod = yod.args(&["--", &program]);
    let mut margay = run_in(&scratch, yod, command)?;
    let stderr = Stderr::new(margay.stderr.head())
        .with_context(|| format!("no statistics on stderr: {}", margay.stderr.text()))?;
    ensure!(
        stderr.stats.rank_entries()? > 0,
        "this did not run on Margay"
    );
    let children = stderr.stats.number("/ranks/0/children/count")?;
    ensure!(
        !command.stays() || children == 0,
        "{children} children ran on Linux"
    );
    let mut rest = stderr.rest;
    if command.for_loader() {
        for outcome in [&mut native, &mut margay] {
            outcome.stdout = without_addresses(&outcome.stdout);
        }
    }
    if command.measures() {
        for outcome in [&mut native, &mut margay] {
            outcome.stdout = without_numbers(&outcome.stdout);
        }
        native.stderr = without_numbers(&native.stderr);
        rest = without_numbers(&Captured::of(&rest)).head().to_vec();
    }
    compare::same(&native, &margay, &rest)
}

/// Runs it where the inputs are.
fn run_in(scratch: &Scratch, run: Run, command: &manifest::Command) -> Result<Outcome> {
    let cwd = scratch.path().join("cwd");
    let _ = std::fs::remove_dir_all(&cwd);
    let copied = Command::new("/bin/cp")
        .arg("-a")
        .args([INPUTS.path(), &cwd])
        .status()?;
    ensure!(copied.success(), "the inputs cannot be copied");
    let mut run = run
        .args(&command.args)
        .limit(LIMIT)
        .env(&[("LC_ALL", "C.UTF-8"), ("TZ", "UTC")]);
    if let Some(file) = &command.stdin {
        run = run.stdin_from(cwd.join(file));
    }
    run.run_in(scratch)
}

/// What a measurement prints, with a sign for each number.
fn without_numbers(output: &Captured) -> Captured {
    let mut text = String::new();
    for c in output.text().chars() {
        if !c.is_ascii_digit() && c != '.' {
            text.push(c);
        } else if !text.ends_with('#') {
            text.push('#');
        }
    }
    Captured::of(text.as_bytes())
}

/// What ld.so lists says where everything lies, which Linux chooses anew each time.
fn without_addresses(output: &Captured) -> Captured {
    let text = output.text();
    let lines = text.lines().map(|line| match line.split_once(" (0x") {
        Some((before, _)) => format!("{before}\n"),
        None => format!("{line}\n"),
    });
    Captured::of(lines.collect::<String>().as_bytes())
}
