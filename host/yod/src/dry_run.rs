//! `--dry-run`: the plan, without carrying it out.

use std::fmt::Write;

use machine::machine::{Boot, Machine};
use machine::plan::{Bytes, Plan};
use machine::qemu::Q35;
use machine::qemu::accel::Accel;
use wire::boot::table_bytes;
use wire::ram::Ram;

use crate::setup::Setup;

/// The plan as text. `launcher`: the command line of the one that yod would become.
pub fn describe(setup: &Setup, plan: &Plan, ram: &Ram, launcher: Option<String>) -> String {
    let launch = &setup.launch;
    let how = match plan.cpus / plan.ranks {
        0 => "shared by the ranks".into(),
        each => format!("{each} per rank"),
    };
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(text, "program      {}", setup.program.name());
    if let Some(launcher) = launcher {
        let _ = writeln!(text, "launcher     {launcher}");
    }
    let _ = writeln!(text, "ranks        {}", plan.ranks);
    let _ = writeln!(text, "cores        {} ({how})", plan.cpus);
    for rank in 0..plan.ranks {
        let (cores, partition) = (plan.cores(rank), Bytes(plan.partition_bytes));
        let _ = writeln!(text, "  rank {rank:<6} {cores}, {partition} of memory");
    }
    let _ = writeln!(
        text,
        "shared       {} for mappings of all ranks",
        Bytes(plan.pool_bytes)
    );
    let low = ram.ranges().iter().filter(|range| range.gpa < 4 << 30);
    let low = Bytes(low.map(|range| range.len_bytes).sum());
    let all = Bytes(ram.bytes());
    let _ = writeln!(
        text,
        "tables       {} per rank besides its memory, for page tables",
        Bytes(table_bytes(plan.partition_bytes))
    );
    let _ = writeln!(text, "guest RAM    {all}, {low} of it below 4 GiB");
    let emulation = if launch.machine.accel == Accel::Tcg {
        " (emulation)"
    } else {
        ""
    };
    let _ = writeln!(text, "accelerator  {}{emulation}", launch.machine.accel);
    let _ = writeln!(text, "kernel       {}", launch.kernel.display());
    let _ = writeln!(text, "PCT          {}", launch.pct.display());
    let _ = write!(
        text,
        "{:<12} {}",
        Q35::NAME,
        launch.machine.qemu.path.display()
    );
    let boot = Boot {
        kernel: &launch.kernel,
        pct: &launch.pct,
        command_line: &plan.command_line(ram),
    };
    let descriptors = ["RAM", "POOL", "IVSHMEM"];
    for word in launch.machine.arguments(plan, ram, &boot, descriptors) {
        let word = word.to_string_lossy();
        let option = word.starts_with('-') && !word.contains(',');
        let _ = if option {
            write!(text, " \\\n    {word}")
        } else {
            write!(text, " {}", quoted(&word))
        };
    }
    text.push('\n');
    text
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
