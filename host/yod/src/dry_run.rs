//! `--dry-run`: the plan, without carrying it out, as text or as JSON.

use std::fmt::Write;
use std::path::Path;

use machine::cokernel::{self, Cokernel, Cpus};
use machine::keeper::Launch;
use machine::machine::{Boot, Machine as _};
use machine::plan::{Bytes, Plan};
use machine::qemu::{self, Q35};
use serde::Serialize;
use wire::boot::table_bytes;

use crate::failure::Failure;
use crate::machines::Machine;
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
    #[serde(flatten)]
    made_of: MadeOf,
    kernel: String,
    pct: String,
}

/// What is each machine's own.
#[derive(Serialize)]
#[serde(untagged)]
enum MadeOf {
    Qemu {
        ram_below_4g_bytes: u64,
        accelerator: String,
        /// The machine's program and its arguments; RAM, POOL and IVSHMEM stand for descriptors.
        machine: Vec<String>,
        #[serde(skip)]
        emulated: bool,
    },
    Cokernel {
        /// The device.
        machine: [&'static str; 1],
        /// Of this host.
        cpus: Vec<u32>,
    },
}

#[derive(Serialize)]
struct Rank {
    first_core: u64,
    cores: u64,
    #[serde(skip)]
    text: String,
}

impl DryRun {
    /// Of a plan, for a job that may use these CPUs.
    ///
    /// # Errors
    /// It needs more memory than the machine can have.
    pub fn new(
        setup: &Setup,
        plan: &Plan,
        cpus: &[u32],
        launcher: Option<String>,
    ) -> Result<DryRun, Failure> {
        let launch = &setup.launch;
        let (ram_bytes, made_of) = match &launch.machine {
            Machine::Qemu(q35) => of_qemu(q35, launch, plan)?,
            Machine::Cokernel => {
                let cpus = Cpus::of_host(cpus).choose(plan.cpus);
                let made_of = MadeOf::Cokernel {
                    machine: [cokernel::PATH],
                    cpus: cpus.unwrap_or_default(),
                };
                (cokernel::bytes(plan), made_of)
            }
        };
        let ranks = (0..plan.ranks).map(|rank| {
            let cores = plan.cores(rank);
            Rank {
                first_core: cores.first,
                cores: cores.count,
                text: cores.to_string(),
            }
        });
        Ok(DryRun {
            program: setup.program.name(),
            launcher,
            ranks: ranks.collect(),
            cores: plan.cpus,
            partition_bytes: plan.partition_bytes,
            pool_bytes: plan.pool_bytes,
            tables_bytes: table_bytes(plan.partition_bytes),
            ram_bytes,
            made_of,
            kernel: text_of(&launch.kernel),
            pct: text_of(&launch.pct),
        })
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
        let all = Bytes(self.ram_bytes);
        match &self.made_of {
            MadeOf::Qemu {
                ram_below_4g_bytes,
                accelerator,
                machine,
                emulated,
            } => {
                let low = Bytes(*ram_below_4g_bytes);
                writeln!(text, "guest RAM    {all}, {low} of it below 4 GiB")?;
                let emulation = if *emulated { " (emulation)" } else { "" };
                writeln!(text, "accelerator  {accelerator}{emulation}")?;
                writeln!(text, "kernel       {}", self.kernel)?;
                writeln!(text, "PCT          {}", self.pct)?;
                write_command(machine, text)
            }
            // The kernel and the PCT are root's, and lie elsewhere.
            MadeOf::Cokernel { machine, cpus } => {
                writeln!(text, "memory       {all} of this host's, of a piece")?;
                let cpus = cokernel::list(cpus);
                writeln!(text, "CPUs         {cpus} of this host")?;
                writeln!(text, "{:<12} {}", Cokernel::NAME, machine[0])
            }
        }
    }
}

fn of_qemu(q35: &Q35, launch: &Launch<Machine>, plan: &Plan) -> Result<(u64, MadeOf), Failure> {
    let ram = qemu::ram(plan).map_err(|bad| Failure::os("start the node", bad))?;
    let boot = Boot {
        kernel: &launch.kernel,
        pct: &launch.pct,
        command_line: &plan.command_line(&ram),
    };
    let arguments = q35.arguments(plan, &ram, &boot, ["RAM", "POOL", "IVSHMEM"]);
    let arguments = arguments.iter();
    let arguments = arguments.map(|word| word.to_string_lossy().into_owned());
    let low = ram.ranges().iter().filter(|range| range.gpa < 4 << 30);
    let made_of = MadeOf::Qemu {
        ram_below_4g_bytes: low.map(|range| range.len_bytes).sum(),
        accelerator: q35.accel.to_string(),
        machine: std::iter::once(text_of(&q35.qemu.path))
            .chain(arguments)
            .collect(),
        emulated: launch.machine.emulates(),
    };
    Ok((ram.bytes(), made_of))
}

/// Of QEMU, an option to a line.
fn write_command(words: &[String], text: &mut String) -> std::fmt::Result {
    let (program, arguments) = words.split_first().ok_or(std::fmt::Error)?;
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

fn text_of(path: &Path) -> String {
    path.to_string_lossy().into_owned()
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
