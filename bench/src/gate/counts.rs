//! What is counted. A row more: report it in bench/gate/paths.c, or add a line here; then update the baseline.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use margay_tests::tree;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::{Count, Measured};
use crate::lab::{How, Lab, Ran};
use crate::suite::{self, interrupts, quiet};
use crate::{control, plugin, process};

/// Of the partition and so of the node: what is scanned and handed out depends on it. Small enough to be dirtied quickly.
const PARTITION: &str = "96M";
/// Paths whose cost with the kernel's counters on (yod --stats) is held, too.
const COUNTED: [&str; 3] = ["getpid", "lseek_shipped", "mmap_4K"];
/// The row of bench/gate/paths.c whose count is known.
const KNOWN: &str = "loop_of_2000";
/// A program without calls for two seconds, and the same for none.
const SPIN: (&str, &[&str], &[&str]) = ("spin", &["0"], &["2"]);
/// Of two ranks that live at the same time: in any of them the host may interrupt.
const WINDOW_RUNS: usize = 5;

/// Of a rank: its regions lie around it. Low enough for a user with a hard limit.
const STACK_BYTES: u64 = 1 << 20;

/// Rows that the plugin counts.
const BY_PLUGIN: [&str; 2] = ["boot_instructions", "irqs_off_"];

/// Runs all that is counted, and the controls. Sets the stack limit of this process, which the ranks inherit.
///
/// # Errors
/// When a program fails, a control does, or something is missing.
pub fn measure(lab: &Lab) -> Result<Measured> {
    let stack = Rlimit {
        current: Some(STACK_BYTES),
        ..getrlimit(Resource::Stack)
    };
    setrlimit(Resource::Stack, stack).context("cannot set the limit on stacks")?;
    let mut counts = paths(lab)?;
    counts.push(window_per_peer(lab)?);
    control::events(lab)?;
    counts.extend(quiet_core(lab)?);
    counts.push(exchange(lab)?);
    counts.push(count("faults_demanding", demanding_faults(lab)?));
    counts.push(kernel_size(lab)?);
    if !plugin::library(lab.output()).is_file() {
        return Ok(Measured {
            counts,
            skipped: &BY_PLUGIN,
        });
    }
    let boot = suite::boot::executed(lab)?;
    let least = boot.into_iter().min().context("no run")?;
    counts.push(count("boot_instructions", least));
    control::flag(lab)?;
    for (part, off) in interrupts::demanding(lab)? {
        counts.push(count(format!("irqs_off_{part}"), off.longest));
    }
    Ok(Measured {
        counts,
        skipped: &[],
    })
}

fn count(name: impl Into<String>, value: u64) -> Count {
    Count {
        name: name.into(),
        value,
    }
}

/// Each path as it is, some also with counters on.
fn paths(lab: &Lab) -> Result<Vec<Count>> {
    let program = build_paths(lab)?;
    let file = program.to_str().context("the path is no text")?;
    let run = |stats| -> Result<Ran> {
        let how = How {
            icount: true,
            stats,
            memory: PARTITION,
            ..How::default()
        };
        lab.margay(how, "paths", &[file])
    };
    let (plain, counted) = (run(false)?, run(true)?);
    control::instructions(plain.results.one(KNOWN)? as u64)?;
    let measured = plain.results.lines().iter();
    let mut counts: Vec<Count> = measured
        .filter(|(name, _)| name != KNOWN)
        .map(|(name, ticks)| count(name.as_str(), *ticks as u64))
        .collect();
    for name in COUNTED {
        let ticks = counted.results.one(name)?;
        counts.push(count(format!("{name}_counted"), ticks as u64));
    }
    Ok(counts)
}

/// Opening the windows between a rank and one that is there already: an entry in its root table and one in that rank's. The
/// least of some runs: the host's interrupts, which come between, are no part of it.
fn window_per_peer(lab: &Lab) -> Result<Count> {
    let how = How {
        icount: true,
        stats: true,
        ranks: 2,
        memory: "16M",
        ..How::default()
    };
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for _ in 0..WINDOW_RUNS {
        let ran = lab.margay(how, "meet", &[])?;
        for rank in &ran.stats()?.ranks {
            match rank.windows {
                1 => first.push(rank.windows_ticks),
                2 => second.push(rank.windows_ticks),
                other => bail!("{other} windows of two ranks"),
            }
        }
    }
    let least = |ticks: Vec<u64>| ticks.into_iter().min();
    let alone = least(first).context("no rank was the first")?;
    let both = least(second).context("no rank found another one")?;
    Ok(count("window_per_peer", both.saturating_sub(alone)))
}

/// What the kernel sees of two ranks, on a core each, that exchange data through windows: many rounds make no more entries than
/// few.
fn exchange(lab: &Lab) -> Result<Count> {
    const PROGRAM: quiet::Program<'_> = ("exchange", &["10"], &["300"]);
    Ok(count("exchange_events", quiet::exchange(lab, PROGRAM)?))
}

/// Compiles the program of the paths. It has no C library, and a few pages of code, so that it looks the same to the kernel
/// whichever compiler made it.
fn build_paths(lab: &Lab) -> Result<PathBuf> {
    const FLAGS: [&str; 13] = [
        "-std=gnu11",
        "-Os",
        "-g0",
        "-static",
        "-nostdlib",
        "-ffreestanding",
        "-fno-stack-protector",
        "-fno-asynchronous-unwind-tables",
        "-Wl,--build-id=none,-z,separate-code",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-o",
    ];
    let source = tree::root().join("bench/gate/paths.c");
    let program = lab.program("paths");
    let mut cc = Command::new("cc");
    cc.args(FLAGS).args([&program, &source]);
    process::run(&mut cc, Duration::from_secs(60))?.good()?;
    Ok(program)
}

/// Page faults of the program that requests as much as it can.
fn demanding_faults(lab: &Lab) -> Result<u64> {
    let how = How {
        icount: true,
        stats: true,
        memory: interrupts::PARTITION,
        ..How::default()
    };
    let ran = lab.margay(how, "demanding", &["64"])?;
    Ok(ran.stats()?.total.page_faults)
}

/// Events on a core whose program requests nothing.
fn quiet_core(lab: &Lab) -> Result<[Count; 3]> {
    let more = quiet::beyond_idle(lab, &[SPIN])?;
    Ok([
        count("faults_spin", more.faults.events()),
        count("entries_spin", more.entries.events()),
        count("ticks_spin", more.ticks.events()),
    ])
}

fn kernel_size(lab: &Lab) -> Result<Count> {
    let found = suite::boot::kernel_elf(lab)?;
    let (name, size) = found.first().context("no size")?;
    Ok(count(*name, size.value as u64))
}
