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
            instructions: 0,
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
                from: 1,
                to: 2,
            }),
        }
    }

    /// A virtual CPU whose whole run had a longer stretch than all its regions.
    fn vcpu(before_regions: u64, regions: &[Option<u64>]) -> Vcpu {
        Vcpu {
            run: counts(Some(999_999)),
            before_regions,
            regions: regions.iter().map(|&longest| counts(longest)).collect(),
            open: false,
        }
    }

    fn of(vcpus: Vec<Vcpu>) -> Vec<(String, Vec<f64>)> {
        values(&Report { vcpus }).expect("marks")
    }

    #[test]
    fn processors_add_up_before_main_and_the_longest_stretch_is_any_ones() {
        let (before, off) = ("instructions_before_main".to_owned(), IRQS_OFF.to_owned());
        let two = vec![vcpu(1000, &[Some(5), Some(70)]), vcpu(30, &[Some(60)])];
        let expected = [(before.clone(), vec![1030.0]), (off.clone(), vec![70.0])];
        assert_eq!(of(two), expected);
        // A processor that met no mark has run as well.
        let idle = vec![vcpu(1000, &[Some(5)]), vcpu(30, &[])];
        assert_eq!(of(idle), [(before, vec![1030.0]), (off, vec![5.0])]);
    }

    /// What was not counted is no 0: a dead instrument would show the best figure.
    #[test]
    fn what_was_not_counted_is_left_out() {
        let before = ("instructions_before_main".to_owned(), vec![7.0]);
        assert_eq!(of(vec![vcpu(7, &[None])]), [before]);
        let off = (IRQS_OFF.to_owned(), vec![3.0]);
        assert_eq!(of(vec![vcpu(0, &[Some(3)])]), [off]);
        assert_eq!(of(vec![vcpu(0, &[None])]), []);
    }

    #[test]
    fn a_run_without_marks_is_an_error() {
        assert!(values(&Report { vcpus: vec![] }).is_err());
        let unmarked = vcpu(1000, &[]);
        let report = Report {
            vcpus: vec![unmarked],
        };
        assert!(values(&report).is_err());
    }
}
