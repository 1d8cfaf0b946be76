//! Hosts that lack something: QEMU, KVM, memory, Margay's own files.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use libtest_mimic::Trial;
use margay_tests::clean::{self, one_line};
use margay_tests::run::{Outcome, Run};
use margay_tests::scratch::{Scratch, write_program};
use margay_tests::tree;

use crate::{case, fine};

/// EX_UNAVAILABLE: something a run needs is missing or does not work.
const UNAVAILABLE: i32 = 69;
/// EX_OSERR: Linux refused something.
const OS: i32 = 71;

/// Programs that pass for QEMU, and what the line says.
const QEMUS: &[(&str, &str, &str)] = &[
    (
        "too old",
        "echo 'QEMU emulator version 5.2.0 (Debian)'; echo 'no property i8042' >&2; exit 1",
        "5.2",
    ),
    (
        "failing",
        "echo 'QEMU emulator version 8.0.0'; echo 'it rains' >&2; exit 1",
        "it rains",
    ),
    ("silent", "exit 3", "QEMU"),
    ("crashing", "kill -SEGV $$", "QEMU"),
    ("doing nothing", "exec sleep 1000", "did not come up"),
];

pub fn all() -> Vec<Trial> {
    let mut cases: Vec<_> = QEMUS
        .iter()
        .map(|&(name, script, part)| {
            case(format!("host: a QEMU {name}"), move || {
                false_qemu(script, part)
            })
        })
        .collect();
    cases.push(case("host: no QEMU", no_qemu));
    cases.push(case("host: kernel missing", || missing("MARGAY_KERNEL")));
    cases.push(case("host: PCT missing", || missing("MARGAY_PCT")));
    cases.push(case("host: agent missing", || {
        missing("MARGAY_AGENT_LIBRARY")
    }));
    cases.push(case("host: yod alone", yod_alone));
    cases.push(case("host: ulimit -v", || {
        limited("-v", "2000000", "ulimit -v")
    }));
    cases.push(case("host: ulimit -f", || {
        limited("-f", "100", "ulimit -f")
    }));
    cases.push(case("host: ulimit -n", || {
        limited("-n", "12", "open files")
    }));
    let root = rustix::process::geteuid().is_root();
    cases.push(
        case("host: /dev/kvm not ours", kvm_not_ours).with_ignored_flag(!root || !kvm_is_roots()),
    );
    cases.push(
        case("host: /dev/kvm not working", kvm_not_working)
            .with_ignored_flag(!root || !Path::new("/dev/kvm").exists()),
    );
    cases.push(case("host: no /dev/kvm", no_kvm).with_ignored_flag(!root));
    cases.push(
        case("host: no /dev/margay", no_cokernel)
            .with_ignored_flag(Path::new("/dev/margay").exists()),
    );
    cases
        .push(case("host: /dev/margay not working", cokernel_not_working).with_ignored_flag(!root));
    cases
}

fn unavailable(run: Run, part: &str) -> Result<()> {
    one_line(&clean::run(run)?, UNAVAILABLE, part)
}

fn no_qemu() -> Result<()> {
    unavailable(
        Run::yod(&["--", &fine()]).env(&[("PATH", "/nonexistent")]),
        "QEMU not found",
    )
}

fn false_qemu(script: &str, part: &str) -> Result<()> {
    let scratch = Scratch::new()?;
    let qemu = scratch.path().join("qemu-system-x86_64");
    write_program(&qemu, format!("#!/bin/sh\n{script}\n").as_bytes(), 0o755)?;
    let path = format!("{}:/usr/bin:/bin", scratch.path().display());
    let run =
        Run::yod(&["--", &fine()]).env(&[("PATH", path.as_str()), ("MARGAY_BOOT_TIMEOUT_S", "3")]);
    one_line(&clean::run_in(run, &scratch)?, UNAVAILABLE, part)
}

fn missing(variable: &str) -> Result<()> {
    unavailable(
        Run::yod(&["--", &fine()]).env(&[(variable, "/nonexistent/file")]),
        "/nonexistent/file",
    )
}

/// A yod that was copied without the rest.
fn yod_alone() -> Result<()> {
    // Not below the target directory, where it would find the rest above itself.
    let scratch = std::env::temp_dir().join(clean::new_mark());
    fs::create_dir_all(&scratch)?;
    let yod = scratch.join("alone");
    write_program(&yod, &fs::read(tree::yod())?, 0o755)?;
    let run = Run::new([yod.to_string_lossy(), "--".into(), fine().into()]);
    let checked = unavailable(run, "not found");
    fs::remove_dir_all(&scratch)?;
    checked
}

/// Linux's limits, which yod has to name: it cannot run with them.
fn limited(option: &str, value: &str, part: &str) -> Result<()> {
    let run = Run::yod(&["--", &fine()])
        .ulimit(option, value)
        .limit(Duration::from_secs(20));
    let outcome = clean::run(run)?;
    let status = outcome.status.unwrap_or_default();
    ensure!(
        [OS, UNAVAILABLE].contains(&status),
        "status {status}: {}",
        outcome.stderr.text()
    );
    one_line(&outcome, status, part)
}

/// A user who may not open the device.
fn kvm_not_ours() -> Result<()> {
    let run = Run::bare_yod(&["--accel", "kvm", "--", &fine()]).as_nobody();
    unavailable(run, "/dev/kvm")
}

/// Whether there is a device that not everybody may open.
fn kvm_is_roots() -> bool {
    fs::metadata("/dev/kvm").is_ok_and(|device| device.permissions().mode() & 0o006 == 0)
}

/// A device that opens and cannot do anything: /dev/null in its place, seen by this run only. The CPU may show that it cannot
/// work either; else QEMU says so.
fn kvm_not_working() -> Result<()> {
    let outcome = asking_for_kvm("mount --bind /dev/null /dev/kvm")?;
    let said = outcome.stderr.text();
    let part = match said.contains("the node (QEMU, KVM) ended with status") {
        true => "the node (QEMU, KVM) ended with status",
        false => "--accel kvm: this CPU shows no virtualization",
    };
    one_line(&outcome, UNAVAILABLE, part)
}

/// A host without the device, whatever its CPU has.
fn no_kvm() -> Result<()> {
    let outcome = asking_for_kvm("mount -t tmpfs none /dev && mknod -m 666 /dev/null c 1 3")?;
    let part = "--accel kvm: /dev/kvm: entity not found";
    one_line(&outcome, UNAVAILABLE, part)
}

/// What is of QEMU alone is not taken for it either.
fn no_cokernel() -> Result<()> {
    let wanted = Run::bare_yod(&["--machine", "cokernel", "--", &fine()]);
    unavailable(
        wanted,
        "--machine cokernel: /dev/margay is not there: load margay.ko",
    )?;
    let preset = Run::bare_yod(&["--", &fine()]).env(&[("MARGAY_OPTIONS", "--machine=cokernel")]);
    unavailable(preset, "/dev/margay is not there")
}

/// A device that opens and refuses everything. It is chosen by itself, unless something of QEMU's is wanted.
fn cokernel_not_working() -> Result<()> {
    let change = "mount -t tmpfs none /dev && mknod -m 666 /dev/null c 1 3 && mknod -m 666 /dev/margay c 1 3";
    let outcome = after(change, &["-m", "64M"])?;
    one_line(
        &outcome,
        OS,
        "cannot start the node: /dev/margay: reserve CPUs ",
    )?;
    let outcome = after(change, &["-m", "64M", "--accel", "tcg"])?;
    ensure!(outcome.status == Some(0), "{}", outcome.stderr.text());
    let outcome = after(change, &["-m", "64M", "--dry-run"])?;
    let plan = outcome.stdout.text();
    let lines = ["co-kernel    /dev/margay", " of this host's, of a piece"];
    ensure!(lines.iter().all(|line| plan.contains(line)), "{plan}");
    Ok(())
}

/// What `--accel kvm` says.
fn asking_for_kvm(change: &str) -> Result<Outcome> {
    after(change, &["--accel", "kvm"])
}

/// What yod does after a change to the mounts that this run alone sees. The limit on booting is longer than the test may
/// take: once yod waited for it.
fn after(change: &str, options: &[&str]) -> Result<Outcome> {
    let script = format!("{change} && exec \"$@\"");
    let yod = tree::yod();
    let run = Run::new([
        "/usr/bin/unshare",
        "--mount",
        "/bin/sh",
        "-c",
        &script,
        "sh",
    ])
    .args(&[&*yod.to_string_lossy()])
    .args(options)
    .args(&["--", &fine()]);
    clean::run(run.env(&[("MARGAY_BOOT_TIMEOUT_S", "60")]))
}
