//! Jobs beside Linux: yod, Margay's own kernel and PCT, and programs, in the guest.

use std::time::Duration;

use anyhow::{Result, ensure};
use margay_tests::guest;
use margay_tests::guest::files::Wanted;
use margay_tests::tree;

use super::complaints;

/// Of all jobs, which take ten seconds on an idle host.
const LIMIT: Duration = Duration::from_secs(300);
/// Of one, by the guest's clock.
const JOB_LIMIT: Duration = Duration::from_secs(100);
/// A user without rights, to whom the device is given.
const USER: u32 = 1000;
/// A command, how it ends, and what it prints.
const COMMANDS: [(u32, &str, &str, &str); 10] = [
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
const PROGRAMS: [&str; 3] = ["hello", "exit_code", "endless"];

const fn coreutil(path: &'static str) -> Wanted {
    Wanted {
        path,
        package: "coreutils",
        without: &[],
        optional: false,
    }
}

/// One rank and several, one job after the other on the same CPUs, of a user without rights.
pub fn check() -> Result<()> {
    let tools = ["/usr/bin/cat", "/usr/bin/chown", "/usr/bin/timeout"].map(coreutil);
    let mut guest = guest::with_yod(&tools)?;
    guest.add_folder("program");
    for name in PROGRAMS {
        let file = tree::program("glibc-static", name);
        guest.add(&format!("program/{name}"), &file)?;
    }
    for (user, command, ..) in COMMANDS {
        guest.run(user, JOB_LIMIT, command);
    }
    let accel = tree::accel();
    let options = ["-accel", &accel, "-cpu", "max", "-smp", "4", "-m", "2G"];
    let outcome = guest.boot(&options, LIMIT)?;
    ensure!(outcome.ran.len() == COMMANDS.len(), "{:?}", outcome.ran);
    for (ran, (_, command, how, shown)) in outcome.ran.iter().zip(COMMANDS) {
        ensure!(
            ran.how == how && ran.output.contains(shown),
            "{command}: {}: {}",
            ran.how,
            ran.output
        );
    }
    let complaints = complaints(&outcome.log);
    ensure!(complaints.is_empty(), "{complaints}");
    Ok(())
}
