//! Jobs beside Linux: yod, Margay's own kernel and PCT, and programs, in the guest.

use std::time::Duration;

use anyhow::{Result, ensure};
use margay_tests::guest::files::Wanted;
use margay_tests::guest::{self, Guest};
use margay_tests::tree;

use super::complaints;

/// Of all jobs, which take ten seconds on an idle host.
const LIMIT: Duration = Duration::from_secs(300);
/// Of one, by the guest's clock.
const JOB_LIMIT: Duration = Duration::from_secs(100);
/// A user without rights, to whom the device is given.
const USER: u32 = 1000;
/// Of whom, a command, how it ends, and what it prints.
pub type Step = (u32, &'static str, &'static str, &'static str);

const COMMANDS: [Step; 11] = [
    (
        USER,
        "/yod --machine cokernel -n 1 -m 64M /program/hello",
        "status 69",
        "/dev/margay is not this user's",
    ),
    (0, "/usr/bin/chown 1000 /dev/margay", "status 0", ""),
    (
        USER,
        "/yod -n 1 -m 64M --dry-run /program/hello",
        "status 0",
        "CPUs         1,2,3 of this host",
    ),
    (
        USER,
        "/yod -n 1 -m 64M /program/hello",
        "status 0",
        "hello from rank 0 of 1",
    ),
    (
        USER,
        "/yod -n 3 -m 64M /program/hello",
        "status 0",
        "hello from rank 2 of 3",
    ),
    (
        USER,
        "/yod -n 2 -d 1 -m 64M /program/exit_code return 42",
        "status 42",
        "",
    ),
    (
        USER,
        "/yod -n 1 -m 64M --timeout 5 /program/endless spin",
        "status 124",
        "",
    ),
    (
        USER,
        "/usr/bin/timeout -s KILL 5 /yod -n 2 -m 64M /program/endless spin",
        "signal 9",
        "",
    ),
    // A node whose yod was killed ends by itself, a moment later.
    (
        0,
        "/load /sys/devices/system/cpu/online 0-3",
        "status 0",
        "",
    ),
    (
        USER,
        "/yod -n 3 -m 64M /program/hello",
        "status 0",
        "hello from rank 2 of 3",
    ),
    (
        0,
        "/usr/bin/cat /sys/devices/system/cpu/online",
        "status 0",
        "0-3",
    ),
];
const PROGRAMS: [&str; 4] = ["hello", "exit_code", "endless", "no_such_call"];
const TOOLS: [&str; 7] = [
    "/usr/bin/cat",
    "/usr/bin/chmod",
    "/usr/bin/chown",
    "/usr/bin/cp",
    "/usr/bin/rm",
    "/usr/bin/timeout",
    "/usr/bin/setsid",
];
const fn tool(path: &'static str) -> Wanted {
    Wanted {
        path,
        package: "coreutils util-linux",
        without: &[],
        optional: false,
    }
}

/// One rank and several, one job after the other on the same CPUs, of a user without rights.
pub fn check() -> Result<()> {
    let mut guest = Guest::new()?;
    add_files(&mut guest)?;
    boot(guest, &COMMANDS, "4")
}

/// yod and what it runs.
pub fn add_files(guest: &mut Guest) -> Result<()> {
    guest.add_yod(&TOOLS.map(tool))?;
    let load = guest.folder().join("load");
    guest::compile(&["tests/cokernel/load.c"], &load, &[])?;
    guest.add("load", &load)?;
    guest.add_folder("program");
    for name in PROGRAMS {
        let file = tree::program("glibc-static", name);
        guest.add(&format!("program/{name}"), &file)?;
    }
    Ok(())
}

/// Runs the commands on so many CPUs; each ends as it must, and Linux has nothing to complain of.
pub fn boot(mut guest: Guest, commands: &[Step], cpus: &str) -> Result<()> {
    for (user, command, ..) in commands {
        guest.run(*user, JOB_LIMIT, command);
    }
    let accel = tree::accel();
    let options = ["-accel", &accel, "-cpu", "max", "-smp", cpus, "-m", "2G"];
    let outcome = guest.boot(&options, LIMIT)?;
    ensure!(outcome.ran.len() == commands.len(), "{:?}", outcome.ran);
    for (ran, (_, command, how, shown)) in outcome.ran.iter().zip(commands) {
        ensure!(
            ran.how == *how && ran.output.contains(shown),
            "{command}: {}: {}",
            ran.how,
            ran.output
        );
    }
    let complaints = complaints(&outcome.log);
    ensure!(complaints.is_empty(), "{complaints}");
    Ok(())
}
