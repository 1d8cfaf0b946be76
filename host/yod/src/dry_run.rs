//! `--dry-run`: the plan, without carrying it out, as text or as JSON.

use std::fmt::Write;
use std::path::Path;

use machine::machine::{Boot, Machine};
use machine::plan::{Bytes, Plan};
use machine::qemu::Q35;
use machine::qemu::accel::Accel;
use serde::Serialize;
use wire::boot::table_bytes;
use wire::ram::Ram;

use crate::setup::Setup;

/// The plan.
#[derive(Serialize)]
pub struct DryRun {
    program: String,
    /// The command line of the launcher that yod would become.
    #[serde(skip_serializing_if = "Option::is_none")]
    launcher: Option<String>,
    ranks: Vec<Rank>,
    cores: usize,
    partition_bytes: u64,
    pool_bytes: u64,
    /// Per rank.
    tables_bytes: u64,
    ram_bytes: u64,
    ram_below_4g_bytes: u64,
    accelerator: String,
    kernel: String,
    pct: String,
    /// The machine's program and its arguments; RAM, POOL and IVSHMEM stand for descriptors.
    machine: Vec<String>,
    #[serde(skip)]
    emulated: bool,
}

#[derive(Serialize)]
struct Rank {
    first_core: u64,
    cores: u64,
    #[serde(skip)]
    text: String,
}

impl DryRun {
    /// Of a plan, and the RAM that it gets.
    pub fn new(setup: &Setup, plan: &Plan, ram: &Ram, launcher: Option<String>) -> DryRun {
        let launch = &setup.launch;
        let boot = Boot {
            kernel: &launch.kernel,
            pct: &launch.pct,
            command_line: &plan.command_line(ram),
        };
        let descriptors = ["RAM", "POOL", "IVSHMEM"];
        let arguments = launch.machine.arguments(plan, ram, &boot, descriptors);
        let arguments = arguments
            .iter()
            .map(|word| word.to_string_lossy().into_owned());
        let ranks = (0..plan.ranks).map(|rank| {
            let cores = plan.cores(rank);
            Rank {
                first_core: cores.first,
                cores: cores.count,
                text: cores.to_string(),
            }
        });
        let low = ram.ranges().iter().filter(|range| range.gpa < 4 << 30);
        let path = |path: &Path| path.to_string_lossy().into_owned();
        DryRun {
            program: setup.program.name(),
            launcher,
            ranks: ranks.collect(),
            cores: plan.cpus,
            partition_bytes: plan.partition_bytes,
            pool_bytes: plan.pool_bytes,
            tables_bytes: table_bytes(plan.partition_bytes),
            ram_bytes: ram.bytes(),
            ram_below_4g_bytes: low.map(|range| range.len_bytes).sum(),
            accelerator: launch.machine.accel.to_string(),
            kernel: path(&launch.kernel),
            pct: path(&launch.pct),
            machine: [path(&launch.machine.qemu.path)]
                .into_iter()
                .chain(arguments)
                .collect(),
            emulated: launch.machine.accel == Accel::Tcg,
        }
    }

    /// One line.
    pub fn json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        let how = match self.cores / self.ranks.len() {
            0 => "shared by the ranks".into(),
            each => format!("{each} per rank"),
        };
        writeln!(text, "program      {}", self.program)?;
        if let Some(launcher) = &self.launcher {
            writeln!(text, "launcher     {launcher}")?;
        }
        writeln!(text, "ranks        {}", self.ranks.len())?;
        writeln!(text, "cores        {} ({how})", self.cores)?;
        let partition = Bytes(self.partition_bytes);
        for (number, rank) in self.ranks.iter().enumerate() {
            writeln!(
                text,
                "  rank {number:<6} {}, {partition} of memory",
                rank.text
            )?;
        }
        let (pool, tables) = (Bytes(self.pool_bytes), Bytes(self.tables_bytes));
        writeln!(text, "shared       {pool} for mappings of all ranks")?;
        writeln!(
            text,
            "tables       {tables} per rank besides its memory, for page tables"
        )?;
        let (all, low) = (Bytes(self.ram_bytes), Bytes(self.ram_below_4g_bytes));
        writeln!(text, "guest RAM    {all}, {low} of it below 4 GiB")?;
        let emulation = if self.emulated { " (emulation)" } else { "" };
        writeln!(text, "accelerator  {}{emulation}", self.accelerator)?;
        writeln!(text, "kernel       {}", self.kernel)?;
        writeln!(text, "PCT          {}", self.pct)?;
        let (program, arguments) = self.machine.split_first().ok_or(std::fmt::Error)?;
        write!(text, "{:<12} {program}", Q35::NAME)?;
        for word in arguments {
            if word.starts_with('-') && !word.contains(',') {
                write!(text, " \\\n    {word}")?;
            } else {
                write!(text, " {}", quoted(word))?;
            }
        }
        writeln!(text)
    }
}

/// As a shell needs it.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=,./:+%@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(quoted("a=b,c/d"), "a=b,c/d");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
