//! Hosts that have no memory for a child: fork fails with ENOMEM, and nothing dies.

use std::fs;

use anyhow::{Result, ensure};
use margay_tests::clean;
use margay_tests::report::skipped;
use margay_tests::run::Run;
use margay_tests::scratch::Scratch;
use rustix::process::geteuid;

/// In a mount namespace of its own, what /proc/meminfo says is in the file `meminfo`.
const HOST: [&str; 6] = [
    "/usr/bin/unshare",
    "-m",
    "/bin/sh",
    "-ec",
    "mount --make-rprivate /; mount --bind meminfo /proc/meminfo; exec \"$@\"",
    "sh",
];
/// Touches 64 MiB, and forks: on a host that has memory; on one that has none; when the memory is given back.
const PROGRAM: &str = r#"
import mmap, os
def forked():
    try:
        pid = os.fork()
    except OSError as error:
        return error.strerror
    if pid == 0:
        os._exit(3)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
memory = mmap.mmap(-1, 64 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory.write(bytes([1]) * len(memory))
print(forked())
with open("meminfo", "w") as host:
    host.write("MemAvailable: 1000 kB\n")
print(forked())
memory.close()
print(forked())
"#;

#[test]
fn are_refused_where_the_host_has_no_memory_for_them() -> Result<()> {
    if !geteuid().is_root() {
        skipped("a host without memory needs root, for a /proc/meminfo of its own");
        return Ok(());
    }
    let scratch = Scratch::new()?;
    let cwd = scratch.path().join("cwd");
    fs::create_dir_all(&cwd)?;
    fs::copy("/proc/meminfo", cwd.join("meminfo"))?;
    let run = Run::yod(&["-m", "256M", "--"]).args(&["/usr/bin/python3", "-c", PROGRAM]);
    let outcome = clean::run_in(run.under(&HOST), &scratch)?;
    outcome.ended_well()?;
    let said = outcome.stdout.text();
    ensure!(said == "3\nCannot allocate memory\n3\n", "{said}");
    Ok(())
}
