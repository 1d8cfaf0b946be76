//! report.md.

use std::fmt::Write;

use super::{ClaimEntry, Conditions, JobEntry, Report, RowEntry, SystemEntry};
use crate::compare::catalogue::{Over, PLOTS, Plot, Shape, Together};
use crate::compare::summary::{self, Cell, NOT_COUNTED, Ratio};
use crate::compare::system::Mode;
use crate::number::{number, range};

/// What can be read off the figures and what cannot; stands above them.
const READING: &str = "\
**How to read it.** All systems ran the same binaries, in turn, in the same QEMU with the same CPU model, CPUs and \
memory. An emulator executes every instruction at about the same price and has no caches or pipelines of its own, so:

- *Instruction counts* (one CPU, `-icount`) are exact and say how much a kernel does for a program. They do not say how long \
that takes on hardware: a cache miss, a TLB miss or a mode switch counts as one instruction or none.
- *Wall times* are of the emulator. Only their ratio means something, and only with its interval (95 %, percentile bootstrap \
over medians). What hardware does better or worse than the emulator, such as system call entry or page walks, is not in it.
- *Memory costs* come from a model of caches and TLBs (bench/plugin/model.h has its geometry) that sees every access of the \
program. Page walks are those of the pages that the system really gave the program: the plugin reads their sizes from the \
system's own page tables, and the share of the memory that lay in pages of 2 MiB or 1 GiB stands below. What they would be if \
all pages were of one size is for comparison. Misses are those of the program's own accesses: what a kernel cleared for it just \
before (Linux, half of each large page) is found in the cache, and what the clearing missed does not count.
- *Executed instructions* (one CPU) are counted by a plugin of QEMU from reset on, and sections with interrupts off by the flag \
itself, so they do not depend on a clock or on what a kernel says of itself.
- *Events* are what each kernel counted itself, per core (as in 1 + 2), over the whole run of the program; figures are medians.
- Claims are made against Linux tuned.
";

/// The report as text, with the plots that were drawn.
pub fn render(report: &Report, drawn: &[&Plot]) -> String {
    let mut text = String::from("# Margay and Linux, side by side\n\n");
    head(&mut text, report);
    text.push_str(READING);
    missing(&mut text, report);
    // Noise first: how long the longest detour is matters most for programs that wait for each other.
    let noisy = |job: &&JobEntry| is_noise(job.name);
    let (noise, rest): (Vec<_>, Vec<_>) = report.jobs.iter().partition(noisy);
    section(&mut text, report, "Noise", &noise, drawn);
    for mode in Mode::ALL {
        let jobs: Vec<&JobEntry> = rest
            .iter()
            .copied()
            .filter(|job| job.job.mode == mode)
            .collect();
        let title = match mode {
            Mode::Wall => "Wall time",
            Mode::Instructions => "Instructions",
            Mode::Events => "Events",
            Mode::Executed => "Executed instructions",
            Mode::Memory => "Memory costs",
        };
        section(&mut text, report, title, &jobs, drawn);
    }
    claims(&mut text, report);
    programs(&mut text, report);
    text
}

fn is_noise(job: &str) -> bool {
    PLOTS
        .iter()
        .any(|plot| matches!(plot.shape, Shape::Noise { job: shown, .. } if shown == job))
}

fn head(text: &mut String, report: &Report) {
    let facts = &report.facts;
    let mut item = |name: &str, value: &str| {
        let _ = writeln!(text, "- {name}: {value}");
    };
    item(
        "host",
        &format!(
            "{}, {} cores used, {:.0} GiB, Linux {}, TSC {:.3} GHz",
            facts.cpu,
            facts.cores,
            facts.memory_gib,
            facts.host_kernel,
            facts.tsc_hz / 1e9
        ),
    );
    item("emulator", &facts.qemu);
    for (mode, machine) in &facts.machines {
        item(&format!("machine for {mode}"), &format!("`{machine}`"));
    }
    for system in &report.systems {
        item(system.title, &system.about);
    }
    let runs = match report.runs() {
        (fewest, most) if fewest == most => most.to_string(),
        (fewest, most) => format!("{fewest} to {most}"),
    };
    item(
        "runs",
        &format!(
            "{runs} of each job on each system, in turn; {} were asked for",
            facts.runs
        ),
    );
    if let Some(Conditions {
        first_s,
        last_s,
        load,
    }) = report.conditions()
    {
        let [least, middle, most] = load.map(number);
        item(
            "measured",
            &format!("from {} to {} (UTC)", date(first_s), date(last_s)),
        );
        item(
            "load average of the host when runs began",
            &format!(
                "{least} to {most}, median {middle} (we make up to {} of it)",
                facts.cores
            ),
        );
    }
    text.push('\n');
}

/// What is not there, once and above all.
fn missing(text: &mut String, report: &Report) {
    let mut lines: Vec<String> = Vec::new();
    for system in &report.systems {
        if !system.there {
            lines.push(format!("- all of {}: see above\n", system.title));
            continue;
        }
        for job in &report.jobs {
            let reasons = job.rows.iter().filter_map(|row| reason(row, system.name));
            if let Some(reason) = reasons.into_iter().next() {
                lines.push(format!("- {} on {}: {reason}\n", job.name, system.title));
            }
        }
    }
    for (job, reason) in &report.left_out {
        lines.push(format!("- {job}: {reason}\n"));
    }
    if !lines.is_empty() {
        let _ = write!(text, "\n**Missing or incomplete:**\n\n{}", lines.concat());
    }
}

fn reason<'a>(row: &'a RowEntry, system: &str) -> Option<&'a str> {
    let (_, cell) = row.cells.iter().find(|(name, _)| *name == system)?;
    match cell {
        Ok(cell) => cell.failed.as_deref(),
        Err(reason) => Some(&**reason).filter(|reason| *reason != NOT_COUNTED),
    }
}

fn section(text: &mut String, report: &Report, title: &str, jobs: &[&JobEntry], drawn: &[&Plot]) {
    if jobs.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n## {title}\n");
    let names: Vec<&str> = report.systems.iter().map(|system| system.title).collect();
    let against = names.last().copied().unwrap_or_default();
    let _ = writeln!(
        text,
        "| | unit | {} | {} / {against} |\n|---|---|{}---:|",
        names.join(" | "),
        names[0],
        "---:|".repeat(names.len())
    );
    let last = report
        .systems
        .last()
        .map(|system| system.name)
        .unwrap_or_default();
    for job in jobs {
        for row in &job.rows {
            let cells: Vec<String> = row
                .cells
                .iter()
                .map(|(_, cell)| show(job, row, cell))
                .collect();
            let ratio = row
                .ratios
                .get(last)
                .map_or_else(|| "-".to_owned(), |ratio| show_ratio(job, ratio));
            let better = if row.lower_is_better {
                ""
            } else {
                " (more is better)"
            };
            let _ = writeln!(
                text,
                "| {}{better} `{}` | {} | {} | {ratio} |",
                row.title,
                row.name,
                row.unit,
                cells.join(" | ")
            );
        }
    }
    for plot in drawn {
        if jobs.iter().any(|job| shows(plot, job)) {
            let _ = writeln!(text, "\n![{}]({})", plot.title, plot.file());
        }
    }
}

/// Whether a plot is about a job.
fn shows(plot: &Plot, job: &JobEntry) -> bool {
    match plot.shape {
        Shape::Strips { .. } => job
            .rows
            .iter()
            .any(|entry| entry.row.plot == Some(plot.name)),
        Shape::Lines { job: shown, .. } | Shape::Noise { job: shown, .. } => shown == job.name,
    }
}

fn show(job: &JobEntry, row: &RowEntry, cell: &Result<Cell, String>) -> String {
    let cell = match cell {
        Ok(cell) => cell,
        Err(reason) if reason == NOT_COUNTED => return reason.clone(),
        Err(_) => return "missing".to_owned(),
    };
    let runs = cell.values.len();
    let mark = if cell.failed.is_some() {
        " (incomplete)"
    } else {
        ""
    };
    let shown = number(cell.value);
    let figure = match job.job.mode {
        Mode::Events => match &cell.per_core {
            Some(cores) => cores
                .iter()
                .map(|core| number(*core))
                .collect::<Vec<_>>()
                .join(" + "),
            None => shown,
        },
        // Of counts all runs are listed, of times how sure the median is.
        Mode::Instructions | Mode::Memory | Mode::Executed if cell.identical => {
            format!("{shown}, {runs} of {runs} alike")
        }
        Mode::Wall if row.row.over == Over::Median => shown + &interval(cell.interval),
        Mode::Wall | Mode::Instructions | Mode::Memory | Mode::Executed => {
            let (least, most) = (summary::least(&cell.values), summary::most(&cell.values));
            format!("{shown}, {runs} runs in {}", range([least, most]))
        }
    };
    figure + mark
}

fn show_ratio(job: &JobEntry, ratio: &Ratio) -> String {
    match job.job.mode {
        Mode::Wall => number(ratio.value) + &interval(ratio.interval),
        _ => number(ratio.value),
    }
}

fn interval(interval: Option<[f64; 2]>) -> String {
    interval.map_or_else(String::new, |interval| format!(" {}", range(interval)))
}

/// Ratios of several figures together.
fn claims(text: &mut String, report: &Report) {
    if report.claims.is_empty() {
        return;
    }
    let title = |system: Option<&SystemEntry>| system.map_or("", |system| system.title);
    let (ours, against) = (title(report.systems.first()), title(report.systems.last()));
    let _ = writeln!(
        text,
        "\n## Taken together\n\n| | {ours} / {against} | aim, at most | of |\n|---|---:|---:|---|"
    );
    for ClaimEntry { claim, value, .. } in &report.claims {
        let missed = value.is_some_and(|value| claim.is_missed(value));
        let value = value.map_or_else(|| "missing".to_owned(), number);
        let aim = match claim.most.map(number) {
            Some(most) if missed => format!("**{most}**, missed"),
            most => most.unwrap_or_default(),
        };
        let rows: Vec<String> = claim.rows.iter().map(|row| format!("`{row}`")).collect();
        let how = match claim.make {
            Together::Most if rows.len() > 1 => "the largest of ",
            Together::GeometricMean if rows.len() > 1 => "the geometric mean of ",
            Together::Most | Together::GeometricMean => "",
        };
        let _ = writeln!(
            text,
            "| {} `{}` | {value} | {aim} | {how}{} |",
            claim.title,
            claim.name,
            rows.join(", ")
        );
    }
}

fn programs(text: &mut String, report: &Report) {
    text.push_str("\n## What was run\n\n| job | program | measured | processes | what it does |\n|---|---|---|---:|---|\n");
    for job in &report.jobs {
        let _ = writeln!(
            text,
            "| {} | `{}` | {} | {} | {} |",
            job.name, job.program, job.mode, job.ranks, job.about
        );
    }
    text.push_str("\nPrograms: bench/programs. Every value of every run: report.json.\n");
}

/// `2026-11-21 13:05` of seconds since 1970 (the civil calendar from days: H. Hinnant, "chrono-Compatible Low-Level Date
/// Algorithms").
fn date(unix_s: u64) -> String {
    let (days, second) = (unix_s / 86_400 + 719_468, unix_s % 86_400);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // Years begin in March here.
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!(
        "{year}-{month:02}-{day:02} {:02}:{:02}",
        second / 3600,
        second / 60 % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01 00:00");
        assert_eq!(date(951_782_400), "2000-02-29 00:00");
        assert_eq!(date(1_795_268_700), "2026-11-21 13:45");
        assert_eq!(date(4_107_542_399), "2100-02-28 23:59");
    }
}
