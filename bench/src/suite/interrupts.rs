//! The longest time that a core keeps interrupts off, over everything that is hard on the kernel or that a test runs: by the flag itself, which the
//! plugin of bench/plugin reads, and not by what the kernel says.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use margay_tests::manifest::{self, Row};
use margay_tests::run::Run;
use margay_tests::scratch::Scratch;
use margay_tests::tree;

use super::Reading;
use crate::control;
use crate::figure::Found;
use crate::lab::{How, Lab, allowed_cores};
use crate::plugin::{self, IrqsOff, Report};

/// Memory for the demanding program with mappings of 64 MiB.
pub const PARTITION: &str = "256M";
/// What the demanding program has, each with a longest section of its own.
const PARTS: [&str; 17] = [
    "large",
    "odd",
    "shattered",
    "heap",
    "vectors",
    "signals",
    "queue",
    "messages",
    "bounced",
    "untouched",
    "regions",
    "reserved",
    "objects",
    "timers",
    "instant",
    "contended",
    "crowd",
];
/// Those of them with as many threads as there may be, and memory for them: a 32nd of it is the kernel's.
const CROWDS: [&str; 3] = ["instant", "contended", "crowd"];
const CROWDED: &str = "1600M";
/// The programs of tests/programs/windows, with as many ranks, and for the race its time in ms and a seed.
const WINDOWS: [(&str, &[&str], &[&str]); 15] = [
    ("access", &["-n", "2"], &[]),
    ("appear", &["-n", "2"], &["3"]),
    ("areas", &["-n", "2"], &[]),
    ("calls", &["-n", "2"], &[]),
    ("vectors", &["-n", "2"], &[]),
    ("early", &["-n", "4"], &[]),
    ("late", &["-n", "4"], &[]),
    ("forks", &["-n", "3"], &["2"]),
    ("touch", &["-n", "2"], &["call"]),
    ("nested", &["-n", "2"], &[]),
    ("objects", &["-n", "2", "--shared-memory", "4M"], &[]),
    ("xpmem", &["-n", "2"], &[]),
    ("xpmem_library", &["-n", "2"], &[]),
    ("ring", &["-n", "16"], &[]),
    ("race", &["-n", "4"], &["100", "1"]),
];
/// A program of the tests takes seconds where each instruction is looked at, on a machine that is busy with others minutes.
const LIMIT: Duration = Duration::from_secs(300);
/// Of the streams that some read: whole blocks come again and again.
const STREAM: &str = "4M";
/// Runs at the same time.
const MOST_WORKERS: usize = 2;
/// Programs that are named, the longest first.
const SHOWN: usize = 3;

/// The longest section of each part of the demanding program; what the kernel says of it must agree.
///
/// # Errors
/// A part fails, or the kernel's record is wrong.
pub fn demanding(lab: &Lab) -> Result<Vec<(&'static str, IrqsOff)>> {
    let longest = |core: usize, part| -> Result<_> {
        let core = core.to_string();
        let how = How {
            stats: true,
            cores: Some(&core),
            memory: if CROWDS.contains(&part) {
                CROWDED
            } else {
                PARTITION
            },
            ..How::default()
        };
        let (ran, report) = lab.watched(how, "demanding", &["64", part])?;
        let off = report.irqs_off()?;
        control::record(ran.stats()?.total.irqs_off_max.ticks, off.longest)?;
        Ok((part, off))
    };
    side_by_side(PARTS.to_vec(), longest).into_iter().collect()
}

/// Over the demanding program and those of windows.
///
/// # Errors
/// The plugin or a program is missing, or a control fails.
pub fn of_demanding(lab: &Lab) -> Result<Vec<Reading>> {
    control::flag(lab)?;
    let own = demanding(lab)?.into_iter();
    let own = own
        .map(|(part, off)| (off, format!("demanding {part}")))
        .collect();
    let (own, windows) = (Longest::of(own), Longest::of(of_all(lab, windows())?));
    let detail = format!("{}; {}", own.shown, windows.shown);
    let longest = own.longest.max(windows.longest);
    Ok(vec![(
        "irqs_off_max_instructions",
        Found::exactly(longest as f64, detail),
    )])
}

/// Over all conformance programs, with the sizes that they are tested with.
///
/// # Errors
/// The plugin or a program is missing, or a control fails.
pub fn of_programs(lab: &Lab) -> Result<Vec<Reading>> {
    control::flag(lab)?;
    let found = Longest::of(of_all(lab, conformance()?)?);
    Ok(vec![(
        "irqs_off_programs_instructions",
        Found::exactly(found.longest as f64, found.shown),
    )])
}

/// The longest sections of some programs.
struct Longest {
    longest: u64,
    /// In one line: the first few.
    shown: String,
}

impl Longest {
    fn of(mut found: Vec<(IrqsOff, String)>) -> Longest {
        found.sort_by_key(|(off, _)| std::cmp::Reverse(off.longest));
        let first = found.iter().take(SHOWN);
        let first: Vec<String> = first
            .map(|(off, name)| format!("{name} {}", off.longest))
            .collect();
        let first = first.join(", ");
        let at = found.first().map_or(String::new(), |(off, _)| {
            format!(" (the first {:#x} to {:#x})", off.from, off.to)
        });
        Longest {
            longest: found.first().map_or(0, |(off, _)| off.longest),
            shown: format!("{first}{at}, of {}", found.len()),
        }
    }
}

/// A program of the tests, by name.
type Test = (String, Run);

/// Every row of the tests' tables that can run here. Once rows with threads were left out. A program that is built with several
/// C libraries comes once, but for that the kernel maps what a dynamic one loads; what is another row, but longer, is left out.
fn conformance() -> Result<Vec<Test>> {
    let mut seen = Vec::new();
    let mut rows = manifest::conformance(STREAM)?;
    for row in &mut rows {
        // Under -icount one thread of QEMU's runs all cores, and who spins on one keeps it for 100 ms of the node's: minutes here.
        row.extra.cores = None;
        // The plugin writes to a directory of the user that runs this.
        row.extra.is_unprivileged = false;
    }
    rows.retain(|row| {
        let Row {
            program,
            args,
            stdin,
            extra,
            ..
        } = row.clone();
        let run = (program, args, stdin, extra, row.kind.contains("dynamic"));
        let is_new = !row.extra.needs_kvm && !row.extra.once && !seen.contains(&run);
        seen.push(run);
        is_new
    });
    let rows = rows.into_iter().map(|row| {
        let run = Run::margay(&row, &[]);
        (format!("{}/{}", row.category, row.name), run)
    });
    Ok(rows.collect())
}

/// The programs of windows.
fn windows() -> Vec<Test> {
    let runs = WINDOWS.into_iter().map(|(program, options, args)| {
        let path = tree::program("windows", program);
        let run = Run::yod(options)
            .args(&["-m", "32M", "--oversubscribe", "--"])
            .args(&[path.to_string_lossy()])
            .args(args);
        (format!("windows/{program}"), run)
    });
    runs.collect()
}

/// The longest section of each.
fn of_all(lab: &Lab, tests: Vec<Test>) -> Result<Vec<(IrqsOff, String)>> {
    let longest = |core, (name, run): Test| {
        let longest = of_run(lab, run, core).with_context(|| name.clone());
        longest.map(|off| (off, name))
    };
    side_by_side(tests, longest).into_iter().collect()
}

/// What `work` makes of each item on a core of this host, in the order of the items; a few at a time.
fn side_by_side<T: Send, R: Send>(items: Vec<T>, work: impl Fn(usize, T) -> R + Sync) -> Vec<R> {
    let (rest, done) = (
        Mutex::new(items.into_iter().enumerate()),
        Mutex::new(Vec::new()),
    );
    std::thread::scope(|scope| {
        for core in allowed_cores().into_iter().take(MOST_WORKERS) {
            let (rest, done, work) = (&rest, &done, &work);
            scope.spawn(move || {
                // Not in the condition: the lock would be held for as long as the work takes.
                let next = || locked(rest).next();
                while let Some((number, item)) = next() {
                    let made = work(core, item);
                    locked(done).push((number, made));
                }
            });
        }
    });
    let mut done = std::mem::take(&mut *locked(&done));
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, made)| made).collect()
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a program passes is the tests' business; what counts is what the kernel did meanwhile.
fn of_run(lab: &Lab, run: Run, core: usize) -> Result<IrqsOff> {
    let scratch = Scratch::new()?;
    let out = scratch.path().join("counts.json");
    let library = plugin::library(lab.output());
    let argument = format!(
        "{},out={},model=off,irqs=on",
        library.display(),
        out.display()
    );
    let limit = LIMIT.as_secs().to_string();
    let run = run.on_core(core).env(&[
        ("MARGAY_ICOUNT", "1"),
        ("MARGAY_QEMU_PLUGIN", &argument),
        ("MARGAY_BOOT_TIMEOUT_S", &limit),
    ]);
    let outcome = run.limit(LIMIT).run()?;
    ensure!(
        outcome.status.is_some(),
        "not done after {} s",
        LIMIT.as_secs()
    );
    let report = Report::read(&out).with_context(|| outcome.stderr.text())?;
    report.irqs_off()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The promise named all conformance programs, and those with threads and children were never looked at.
    #[test]
    fn programs_of_every_table_are_measured() {
        let tests = conformance().expect("tables");
        let names: Vec<String> = tests.into_iter().map(|test| test.0).collect();
        let measured: BTreeSet<_> = names
            .iter()
            .filter_map(|name| name.split('/').next())
            .collect();
        let rows = manifest::conformance(STREAM).expect("tables");
        for row in &rows {
            assert!(measured.contains(row.category.as_str()), "{}", row.name);
        }
        let programs: BTreeSet<_> = rows.iter().map(|row| &row.program).collect();
        assert!(names.len() > programs.len() && names.len() < rows.len());
    }

    #[test]
    fn programs_of_windows_are_measured() {
        let names: Vec<String> = windows().into_iter().map(|test| test.0).collect();
        let folder =
            std::fs::read_dir(tree::root().join("tests/programs/windows")).expect("programs");
        for file in folder.flatten() {
            let name = file.file_name().to_string_lossy().into_owned();
            // What execve does to windows is the business of tests/exec.rs; text waits until the host's clock goes on, and here
            // the node's is slower by the plugin's part; "jobs" are two nodes, each of which does what "xpmem" and "calls" do; "every_call"
            // reads which calls there are, and what a call does with memory of others is in "calls" and "vectors".
            let others = ["replaced", "text", "jobs", "every_call"];
            if let Some(program) = name
                .strip_suffix(".c")
                .filter(|name| !others.contains(name))
            {
                assert!(names.contains(&format!("windows/{program}")), "{program}");
            }
        }
    }
}
