//! The virtual CPUs of a rank run where the launcher has bound that rank; the rest of the node on the CPUs of all.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use margay_tests::process::{self, Role};
use margay_tests::report::skipped;
use rustix::process::Signal;

use crate::job::{Job, wait_for};

/// The CPUs that a thread may run on, as Linux lists them.
fn allowed(thread: &Path) -> Result<String> {
    let status = fs::read_to_string(thread.join("status"))?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    Ok(line.context("no such line")?.trim().to_owned())
}

/// QEMU would have had the binding of whichever rank came first, and all ranks would have shared that core.
#[test]
fn virtual_cpus_are_bound_as_their_ranks() -> Result<()> {
    let here = std::thread::available_parallelism()?.get();
    if here < 2 {
        skipped("one core only");
        return Ok(());
    }
    let job = Job::new(2)?;
    let yod = |rank: usize| {
        let run = job.yod(rank, &[], ("glibc-static", "endless"), &["sleep"]);
        // The other way round than QEMU numbers them.
        job.start(run.on_core(1 - rank))
    };
    let yods = vec![yod(0)?, yod(1)?];
    wait_for("a QEMU", || job.process(Role::Qemu).is_ok())?;
    let (qemu, keeper) = (job.process(Role::Qemu)?, job.process(Role::Keeper)?);
    let bound = || -> Result<BTreeSet<(String, String)>> {
        let mut found = BTreeSet::new();
        for thread in fs::read_dir(format!("/proc/{qemu}/task"))?.flatten() {
            let name = fs::read_to_string(thread.path().join("comm"))?;
            let name = name.trim().split('/').next().unwrap_or_default().to_owned();
            let name = if name.starts_with("CPU ") {
                name
            } else {
                "other".into()
            };
            found.insert((name, allowed(&thread.path())?));
        }
        Ok(found)
    };
    let wanted = [("CPU 0", "1"), ("CPU 1", "0"), ("other", "0-1")];
    let wanted: BTreeSet<_> = wanted.map(|(a, b)| (a.to_owned(), b.to_owned())).into();
    let mut last = String::new();
    let as_wanted = wait_for("bound CPUs", || {
        let found = bound();
        last = format!("{found:?}");
        found.is_ok_and(|found| found == wanted)
    });
    as_wanted.with_context(|| last.clone())?;
    ensure!(allowed(&Path::new("/proc").join(keeper.to_string()))? == "0-1");
    wait_for("two proxies", || {
        yods.iter().all(|yod| job.proxy(yod.pid()).is_ok())
    })?;
    for (rank, yod) in yods.iter().enumerate() {
        let proxy = job.proxy(yod.pid())?;
        let cpus = allowed(&Path::new("/proc").join(proxy.to_string()))?;
        ensure!(cpus == (1 - rank).to_string(), "rank {rank} on {cpus}");
    }
    for yod in &yods {
        process::signal(yod.pid(), Signal::TERM);
    }
    job.finish(yods).map(drop)
}
