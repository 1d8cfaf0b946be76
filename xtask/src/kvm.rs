//! The report of a volunteer whose CPU has KVM: the whole check and the benchmarks, with what the machine is.
//!
//! A developer of Margay need not have such a machine, so docs/SPECIFICATION.md marks what was not seen under KVM. The
//! report holds no names of users, hosts or files outside of the target directory.

use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use anyhow::{Context, Result};

use crate::{build, unverified};

/// Runs check and benchmarks with KVM and writes the report, also when they fail.
///
/// # Errors
/// When Margay cannot be built or the report cannot be written.
pub fn run() -> Result<()> {
    build::all()?;
    let mut report = String::from("# Margay under KVM\n\n");
    for (title, command) in facts() {
        section(&mut report, title, command);
    }
    let read = |path: &str| fs::read_to_string(path).ok();
    let cpuinfo = read("/proc/cpuinfo").unwrap_or_default();
    let table = unverified::table(&cpuinfo, read);
    let _ = write!(
        report,
        "## Not verified before (docs/unverified.md)\n\n{table}\n"
    );
    for (title, task) in [("Check", "check"), ("Benchmarks", "bench")] {
        println!("{title}: this takes a while");
        let mut command = build::cargo();
        command
            .args(["run", "--quiet", "-p", "xtask", "--", task])
            .env("MARGAY_TEST_ACCEL", "kvm");
        section(&mut report, title, command);
    }
    let path = build::target().join("kvm-report.md");
    fs::write(&path, &report).with_context(|| format!("cannot write {}", path.display()))?;
    println!("the report is in {}", path.display());
    Ok(())
}

fn facts() -> Vec<(&'static str, Command)> {
    let mut cpu = Command::new("grep");
    cpu.args(["-m1", "model name", "/proc/cpuinfo"]);
    let mut linux = Command::new("uname");
    linux.arg("-srm");
    let mut revision = Command::new("git");
    revision.args(["rev-parse", "HEAD"]);
    let mut doctor = Command::new(build::yod());
    doctor.arg("--doctor");
    vec![
        ("Revision", revision),
        ("CPU", cpu),
        ("Linux", linux),
        ("yod --doctor", doctor),
    ]
}

fn section(report: &mut String, title: &str, mut command: Command) {
    let output = command.current_dir(build::root()).output();
    let (text, status) = match output {
        Ok(output) => (
            [output.stdout, output.stderr].concat(),
            output.status.to_string(),
        ),
        Err(error) => (Vec::new(), error.to_string()),
    };
    let _ = write!(
        report,
        "## {title} ({status})\n\n```\n{}\n```\n\n",
        String::from_utf8_lossy(&text).trim_end()
    );
}
