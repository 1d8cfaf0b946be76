//! What programs find out about the machine: each of Debian's tools sees the node, of as many cores as were asked for and not
//! of as many as the host has.

use anyhow::{Result, ensure};
use margay_tests::{run::Run, tree};

/// More cores than hosts of tests have processors.
const CORES: usize = 6;

/// What a command says as the only rank of a node of so many cores.
fn said(cores: usize, command: &[&str]) -> Result<String> {
    let cores = cores.to_string();
    let outcome = Run::yod(&["-d", &cores, "--oversubscribe", "-m", "64M", "--"])
        .args(command)
        .run()?;
    ensure!(
        outcome.status == Some(0),
        "{command:?}: status {:?}: {}",
        outcome.status,
        outcome.stderr.text()
    );
    Ok(String::from_utf8_lossy(outcome.stdout.head()).into_owned())
}

fn has(text: &str, line: &str) -> Result<()> {
    let plain = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    ensure!(
        text.lines().any(|have| plain(have) == line),
        "no line '{line}' in:\n{text}"
    );
    Ok(())
}

#[test]
fn processors_are_counted() -> Result<()> {
    let cores = CORES.to_string();
    for command in [
        &["/usr/bin/nproc"][..],
        &["/usr/bin/nproc", "--all"],
        &["/usr/bin/getconf", "_NPROCESSORS_CONF"],
        &["/usr/bin/grep", "-c", "^processor", "/proc/cpuinfo"],
        &["/usr/bin/grep", "-c", "^cpu[0-9]", "/proc/stat"],
    ] {
        let text = said(CORES, command)?;
        ensure!(text.trim() == cores, "{command:?}: {text}");
    }
    Ok(())
}

/// As sched_getaffinity has it, the node's other cores are not the rank's.
#[test]
fn a_rank_counts_the_cores_of_its_own() -> Result<()> {
    let nproc = &["/usr/bin/nproc"];
    let outcome = Run::yod(&["-n", "3", "-d", "2", "--oversubscribe", "-m", "64M", "--"])
        .args(nproc)
        .run()?;
    ensure!(outcome.status == Some(0), "{}", outcome.stderr.text());
    let stdout = String::from_utf8_lossy(outcome.stdout.head()).into_owned();
    ensure!(stdout == "2\n2\n2\n", "{stdout}");
    Ok(())
}

#[test]
fn lscpu_shows_the_node() -> Result<()> {
    let text = said(CORES, &["/usr/bin/lscpu"])?;
    let last = CORES - 1;
    for line in [
        "CPU op-mode(s): 32-bit, 64-bit".into(),
        format!("CPU(s): {CORES}"),
        format!("On-line CPU(s) list: 0-{last}"),
        "Thread(s) per core: 1".into(),
        format!("Core(s) per socket: {CORES}"),
        "Socket(s): 1".into(),
        "NUMA node(s): 1".into(),
        format!("NUMA node0 CPU(s): 0-{last}"),
    ] {
        has(&text, &line)?;
    }
    let list = said(
        CORES,
        &["/usr/bin/lscpu", "--parse=CPU,CORE,SOCKET,NODE,ONLINE"],
    )?;
    let rows: Vec<&str> = list.lines().filter(|line| !line.starts_with('#')).collect();
    let want: Vec<String> = (0..CORES)
        .map(|core| format!("{core},{core},0,0,Y"))
        .collect();
    ensure!(rows == want, "{list}");
    Ok(())
}

#[test]
fn hwloc_shows_the_node() -> Result<()> {
    let text = said(
        CORES,
        &[
            "/usr/bin/hwloc-calc",
            "--whole-system",
            "--number-of",
            "pu",
            "all",
        ],
    )?;
    ensure!(text.trim() == CORES.to_string(), "{text}");
    let text = said(
        CORES,
        &[
            "/usr/bin/hwloc-calc",
            "--whole-system",
            "--number-of",
            "core",
            "all",
        ],
    )?;
    ensure!(text.trim() == CORES.to_string(), "{text}");
    let text = said(
        1,
        &["/usr/bin/lstopo-no-graphics", "--of", "console", "--no-io"],
    )?;
    ensure!(
        text.contains("Package L#0") && text.contains("NUMANode L#0 (P#0"),
        "{text}"
    );
    Ok(())
}

/// Its own questions to CPUID and its reading of /proc give one processor. Once the file named the host's.
#[test]
fn hwloc_finds_one_processor() -> Result<()> {
    let named = |components: &str| -> Result<Vec<String>> {
        let set = format!("HWLOC_COMPONENTS={components},stop");
        let lstopo = ["/usr/bin/lstopo-no-graphics", "--of", "xml", "--no-io"];
        let text = said(1, &[&["/usr/bin/env", &set][..], &lstopo].concat())?;
        let lines = text.lines().map(str::trim);
        let mut names: Vec<_> = lines
            .filter(|line| line.contains("\"CPU"))
            .map(str::to_owned)
            .collect();
        names.sort();
        ensure!(names.len() == 5, "{names:?} in:\n{text}");
        Ok(names)
    };
    let (cpuid, file) = (named("x86")?, named("linux")?);
    ensure!(cpuid == file, "CPUID: {cpuid:?}; /proc/cpuinfo: {file:?}");
    Ok(())
}

/// A rank's memory is its partition.
#[test]
fn free_and_uptime_speak_of_the_rank() -> Result<()> {
    let text = said(1, &["/usr/bin/free", "--mebi"])?;
    let total = text.lines().find(|line| line.starts_with("Mem:"));
    let total = total.and_then(|line| line.split_whitespace().nth(1));
    ensure!(total == Some("64"), "{text}");
    let text = said(1, &["/usr/bin/uptime"])?;
    ensure!(text.contains("load average: 0.00, 0.00, 0.00"), "{text}");
    Ok(())
}

/// Once /proc/cpuinfo had no flags; then children, which run on the host, might have met fewer than it said.
#[test]
fn no_flag_is_shown_that_the_host_lacks() -> Result<()> {
    let flags = |text: &str| -> Vec<String> {
        let line = text.lines().find(|line| line.starts_with("flags"));
        let flags = line.and_then(|line| line.split_once(':'));
        flags.map_or(Vec::new(), |(_, flags)| {
            flags.split_whitespace().map(str::to_owned).collect()
        })
    };
    let node = flags(&said(1, &["/usr/bin/cat", "/proc/cpuinfo"])?);
    let host = flags(&std::fs::read_to_string("/proc/cpuinfo")?);
    ensure!(
        ["fpu", "sse2", "lm"]
            .iter()
            .all(|flag| node.iter().any(|has| has == flag)),
        "{node:?}"
    );
    ensure!(
        node.iter().all(|flag| host.contains(flag)),
        "{node:?}, not all of {host:?}"
    );
    Ok(())
}

/// Memory that a program had given back was not free until it asked for some again.
#[test]
fn memory_that_is_given_back_is_free() -> Result<()> {
    let program = tree::program("glibc-static", "given_back");
    let text = said(1, &[&program.to_string_lossy(), "free"])?;
    has(&text, "5 checks, 0 failed")
}
