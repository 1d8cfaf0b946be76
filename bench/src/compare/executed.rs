//! The mode of executed instructions: what the plugin (bench/plugin) counts from reset on, and how long interrupts are off by the
//! flag itself, of every system alike.

use std::path::Path;

use anyhow::{Result, ensure};

use super::catalogue::Job;
use crate::plugin::Report;

/// The longest section with interrupts off while the program runs.
const IRQS_OFF: &str = "irqs_off";

/// QEMU's argument for it, with the file it is to write. Reading the flag takes time, and a long boot is no part of what it is read
/// for.
pub fn argument(library: &Path, file: &Path, job: &Job) -> String {
    let reads_flag = job.rows.iter().any(|row| row.result == IRQS_OFF);
    let options = if reads_flag {
        "irqs=on,scope=marks"
    } else {
        "irqs=off"
    };
    let (library, file) = (library.display(), file.display());
    format!("{library},out={file},model=off,{options}")
}

/// Values by name: instructions before `main`, which no clock that jumps is part of, and [`IRQS_OFF`]; those that were counted.
///
/// # Errors
/// When the marks were not met.
pub fn values(report: &Report) -> Result<Vec<(String, Vec<f64>)>> {
    let regions = || report.vcpus.iter().flat_map(|vcpu| &vcpu.regions);
    ensure!(regions().count() > 0, "the plugin saw no mark");
    let before: u64 = report.vcpus.iter().map(|vcpu| vcpu.before_regions).sum();
    let off = regions().filter_map(|region| region.irqs_off);
    let longest = off.map(|off| off.longest).max();
    let values = [
        ("instructions_before_main", Some(before).filter(|&n| n > 0)),
        (IRQS_OFF, longest),
    ];
    let counted = values
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), vec![value? as f64])));
    Ok(counted.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugin::{Counts, IrqsOff, Side, Vcpu};

    fn counts(longest: Option<u64>) -> Counts {
        let side = Side {
            instructions: 7,
            waited: 0,
            loads: 0,
            stores: 0,
            model: None,
        };
        Counts {
            kernel_entries: 0,
            user: side.clone(),
            kernel: side,
            in_use: None,
            irqs_off: longest.map(|longest| IrqsOff {
                longest,
                from: 0,
                to: 0,
            }),
        }
    }

    /// A CPU with as many instructions before its first mark, and of each region the longest section, if it was looked for.
    fn vcpu(before_regions: u64, sections: &[Option<u64>]) -> Vcpu {
        Vcpu {
            run: counts(Some(1_000_000)), // sections before and after the marks do not count
            before_regions,
            regions: sections.iter().copied().map(counts).collect(),
            open: false,
        }
    }

    fn found(vcpus: Vec<Vcpu>) -> Option<Vec<(String, Vec<f64>)>> {
        values(&Report { vcpus }).ok()
    }

    fn named(name: &str, value: f64) -> (String, Vec<f64>) {
        (name.to_owned(), vec![value])
    }

    /// The kernel boots on all CPUs, and one of them runs the program.
    #[test]
    fn instructions_of_all_cpus_before_the_first_mark_are_summed() {
        let one = found(vec![vcpu(900, &[None]), vcpu(30, &[])]);
        assert_eq!(one, Some(vec![named("instructions_before_main", 930.0)]));
    }

    #[test]
    fn of_sections_between_marks_the_longest_counts() {
        let some = found(vec![
            vcpu(0, &[Some(5), Some(90)]),
            vcpu(0, &[Some(40), None]),
        ]);
        assert_eq!(some, Some(vec![named(IRQS_OFF, 90.0)]));
        let both = found(vec![vcpu(1, &[Some(2)])]);
        let values = vec![named("instructions_before_main", 1.0), named(IRQS_OFF, 2.0)];
        assert_eq!(both, Some(values));
    }

    /// A figure of a run in which nothing was marked would be that of everything, or of nothing.
    #[test]
    fn without_a_mark_there_is_no_value() {
        assert_eq!(found(vec![vcpu(900, &[])]), None);
    }
}
