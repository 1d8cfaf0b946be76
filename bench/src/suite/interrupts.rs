//! The longest time that a core keeps interrupts off, over everything that is hard on the kernel: by the flag itself, which the
//! plugin of bench/plugin reads, and not by what the kernel says.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use margay_tests::manifest::{self, Row};
use margay_tests::run::Run;
use margay_tests::scratch::Scratch;

use super::Reading;
use crate::control;
use crate::figure::Found;
use crate::lab::{How, Lab, allowed_cores};
use crate::plugin::{self, Report};

/// Memory for the demanding program with mappings of 64 MiB.
pub const SHARE: &str = "256M";
/// What the demanding program has, each with a longest section of its own.
const PARTS: [&str; 10] = [
    "large",
    "odd",
    "shattered",
    "heap",
    "vectors",
    "signals",
    "messages",
    "untouched",
    "regions",
    CROWD,
];
/// The part with as many threads as there may be, and memory for them: a 32nd of it is the kernel's.
const CROWD: &str = "crowd";
const CROWDED: &str = "1600M";
/// A conformance program takes seconds where each instruction is looked at, on a machine that is busy with others minutes.
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
pub fn demanding(lab: &Lab) -> Result<Vec<(&'static str, u64)>> {
    let longest = |part| -> Result<_> {
        let how = How {
            stats: true,
            memory: if part == CROWD { CROWDED } else { SHARE },
            ..How::default()
        };
        let (ran, report) = lab.watched(how, "demanding", &["64", part])?;
        let flag = report.irqs_off()?.longest;
        control::record(ran.stats()?.total.irqs_off_max.ticks, flag)?;
        Ok((part, flag))
    };
    PARTS.into_iter().map(longest).collect()
}

/// Over the demanding program and all conformance programs with the sizes that they are tested with.
///
/// # Errors
/// The plugin or a program is missing, or a control fails.
pub fn longest_off(lab: &Lab) -> Result<Vec<Reading>> {
    control::flag(lab)?;
    let own = demanding(lab)?.into_iter();
    let own = own
        .map(|(part, longest)| (longest, format!("demanding {part}")))
        .collect();
    let (own, conformance) = (Longest::of(own), Longest::of(conformance(lab)?));
    let detail = format!("{}; {}", own.shown, conformance.shown);
    let longest = own.longest.max(conformance.longest);
    Ok(vec![(
        "irqs_off_max_instructions",
        Found::exactly(longest as f64, detail),
    )])
}

/// The longest sections of some programs.
struct Longest {
    longest: u64,
    /// In one line: the first few.
    shown: String,
}

impl Longest {
    fn of(mut found: Vec<(u64, String)>) -> Longest {
        found.sort_by(|a, b| b.cmp(a));
        let first = found.iter().take(SHOWN);
        let first: Vec<String> = first
            .map(|(longest, name)| format!("{name} {longest}"))
            .collect();
        Longest {
            longest: found.first().map_or(0, |(longest, _)| *longest),
            shown: format!("{}, of {}", first.join(", "), found.len()),
        }
    }
}

/// Every row of the tests' manifest that can run here, a few at a time.
fn conformance(lab: &Lab) -> Result<Vec<(u64, String)>> {
    let rows = manifest::read("programs.tsv", STREAM)?;
    let rows: Vec<Row> = rows
        .into_iter()
        .filter(|row| !row.extra.needs_kvm)
        .collect();
    ensure!(
        !rows.is_empty(),
        "the list of conformance programs is empty"
    );
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for core in allowed_cores().into_iter().take(MOST_WORKERS) {
            let (next, found, rows) = (&next, &found, &rows);
            scope.spawn(move || {
                while let Some(row) = rows.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let longest = of_row(lab, row, core).with_context(|| row.name.clone());
                    let mut found = found.lock().unwrap_or_else(|error| error.into_inner());
                    found.push(longest.map(|longest| (longest, row.name.clone())));
                }
            });
        }
    });
    let found = found
        .into_inner()
        .unwrap_or_else(|error| error.into_inner());
    found.into_iter().collect()
}

/// Whether a program passes is the tests' business; what counts is what the kernel did meanwhile.
fn of_row(lab: &Lab, row: &Row, core: usize) -> Result<u64> {
    let scratch = Scratch::new()?;
    let out = scratch.path().join("counts.json");
    let library = plugin::library(lab.output());
    let argument = format!(
        "{},out={},model=off,irqs=on",
        library.display(),
        out.display()
    );
    let run = Run::margay(row, &[])
        .on_core(core)
        .env(&[("MARGAY_ICOUNT", "1"), ("MARGAY_QEMU_PLUGIN", &argument)]);
    let outcome = run.limit(LIMIT).run()?;
    ensure!(
        outcome.status.is_some(),
        "not done after {} s",
        LIMIT.as_secs()
    );
    let report = Report::read(&out).with_context(|| outcome.stderr.text())?;
    Ok(report.irqs_off()?.longest)
}
