//! The book is tried as it is written: the commands that its pages show are typed, and print what the pages say.
//!
//! All pages are read in one directory, one after the other, as a reader would: the program of the README is there for the next.
//! `cat FILE` of a file that is not there is how a page shows one to be written. The pages are of a host with two cores.

mod page;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use margay_tests::report::skipped;
use margay_tests::run::{HANG, Run};
use margay_tests::scratch::Scratch;
use margay_tests::tree;
use page::Example;

/// In the order in which they are read.
const PAGES: &[&str] = &[
    "README.md",
    "docs/using-yod.md",
    "docs/execve.md",
    "docs/debugging.md",
    "docs/mpi.md",
];

/// Beginnings of commands that cannot be typed here.
const ELSEWHERE: &[&str] = &[
    // tests/launchers/slurm.rs sets Slurm up.
    "srun ",
    // Two terminals; tests/gdb.
    "yod --gdb",
    "gdb ./crash -ex 'set sysroot /'",
    // Of jobs that run; tests/installed.rs, tests/gdb/late.rs.
    "yod --ps",
    "yod --stack",
    // Waits for a gdb for ever, which is the next.
    "PATH=$PWD/gdb",
    "gdb target/margay",
];

/// As on the pages.
const CORES: usize = 2;

#[test]
fn pages_are_true() -> Result<()> {
    if std::thread::available_parallelism()?.get() < CORES {
        skipped("the book's host has two cores");
        return Ok(());
    }
    let scratch = Scratch::new()?;
    let directory = scratch.path().join("cwd");
    fs::create_dir_all(&directory)?;
    let mut wrong = String::new();
    let mut left = ELSEWHERE.to_vec();
    for name in PAGES {
        let text = fs::read_to_string(tree::root().join(name))?;
        let examples = page::examples(&text);
        ensure!(!examples.is_empty(), "{name} has no examples");
        for example in examples {
            let begins = |begin: &&str| example.command.starts_with(*begin);
            if ELSEWHERE.iter().any(begins) {
                left.retain(|begin| !begins(begin));
                continue;
            }
            if let Some(difference) = try_it(&example, &scratch, &directory)? {
                wrong += &format!(
                    "{name}:{}: $ {}\n{difference}",
                    example.line, example.command
                );
            }
        }
    }
    ensure!(left.is_empty(), "no page has these any more: {left:?}");
    ensure!(wrong.is_empty(), "the book is not true:\n{wrong}");
    Ok(())
}

/// What is different from the page, if anything.
fn try_it(example: &Example, scratch: &Scratch, directory: &Path) -> Result<Option<String>> {
    let shown_file = example.command.strip_prefix("cat ");
    let shown_file = shown_file.map(|name| directory.join(name));
    if let Some(file) = shown_file.filter(|file| !file.exists()) {
        return write(&file, &example.shown).map(|()| None);
    }
    let outcome = typed(&example.command)?.run_in(scratch)?;
    let context = || format!("no end of: {}", example.command);
    outcome.status.with_context(context)?;
    let printed = outcome.stdout.text();
    let printed: Vec<&str> = printed.lines().collect();
    let shown: Vec<&str> = example.shown.iter().map(String::as_str).collect();
    Ok((!page::same(&shown, &printed)).then(|| {
        let list = |lines: &[&str]| -> String {
            lines.iter().map(|line| format!("    {line}\n")).collect()
        };
        format!("  shown:\n{}  printed:\n{}", list(&shown), list(&printed))
    }))
}

fn write(file: &Path, lines: &[String]) -> Result<()> {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    fs::write(file, &text).with_context(|| format!("cannot write {}", file.display()))?;
    if text.starts_with("#!") {
        fs::set_permissions(file, Permissions::from_mode(0o755))?;
    }
    Ok(())
}

/// A command in a shell that finds yod in PATH, on two cores; root may start Open MPI's launcher.
fn typed(command: &str) -> Result<Run> {
    let yod = tree::yod();
    let bin = yod.parent().context("yod is in a directory")?.display();
    let variables = [
        ("PATH", &*format!("{bin}:/usr/local/bin:/usr/bin:/bin")),
        ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
        ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
    ];
    let script = format!("exec 2>&1; {command}");
    let run = Run::new(["/bin/bash", "-c", &script]).env(&variables);
    Ok(run.limit(3 * HANG))
}
