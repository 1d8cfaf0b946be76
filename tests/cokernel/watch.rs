//! In the guest: a program that measures noise, on a co-kernel beside a Linux that is busy, and what the node's kernel counts meanwhile, read from its memory, which
//! disturbs nothing. This program is the test itself, so that it knows where the counters are.

use std::env;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use abi::map::COMM_BASE;
use anyhow::{Context, Result, bail, ensure};
use margay_tests::process;
use rustix::process::Signal;
use wire::boot::{Config, Header};
use wire::layout::Layout;
use wire::stats::CpuStats;
use zerocopy::FromBytes;

/// The first argument of one that does this.
pub const WORD: &str = "watch";
/// Until a node is there, and until a stretch of its time is as it should be.
const LIMIT: Duration = Duration::from_secs(60);
/// A stretch.
const STRETCH: Duration = Duration::from_millis(1000);
const BETWEEN_POLLS: Duration = Duration::from_millis(20);
/// What threads of Linux do to each other's TLBs in a stretch when they are busy.
const FLUSHES: u64 = 50;
/// CPUs that Linux keeps: the first ones.
const LINUX_CPUS: usize = 3;

/// What a node's only core has counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Counts {
    entries: u64,
    calls: u64,
    timer: u64,
    ipis: u64,
    doorbells: u64,
    from_linux: u64,
}

/// `quiet` or `loud`, then a program and its arguments. Quiet: there is a stretch in which the kernel is not entered. Loud: one in which Linux interrupts the node.
pub fn run() -> Result<()> {
    let words: Vec<String> = env::args().skip(2).collect();
    let [wanted, program @ ..] = &words[..] else {
        bail!("quiet or loud, and a program");
    };
    let threads = LINUX_CPUS.to_string();
    let mut busy = Command::new("/busy").arg(threads).spawn()?;
    let mut yod = Command::new("/yod")
        .args(["--machine", "cokernel", "-n", "1", "-d", "1"])
        .args(["-m", "64M", "--stats", "--"])
        .args(program)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let seen = watched(&mut yod, wanted == "quiet");
    ensure!(process::signal(yod.id(), Signal::INT), "yod has ended");
    let ended = yod.wait_with_output()?;
    busy.kill()?;
    busy.wait()?;
    let said = String::from_utf8_lossy(&ended.stderr);
    let seen = seen.with_context(|| said.clone().into_owned())?;
    let (before, after, flushes) = (seen.before, seen.after, seen.flushes);
    println!("{flushes} flushes, {before:?}, {after:?}\n{said}");
    // As any program that is interrupted.
    let signal = ended.status.signal();
    ensure!(signal == Some(Signal::INT.as_raw()), "{}", ended.status);
    // It was not still starting, or it would have made calls since.
    let last = counts(&seen.node)?;
    ensure!(last.calls == after.calls, "in the end {last:?}");
    let disturbed = last.timer > 0 || last.from_linux > after.from_linux;
    ensure!(wanted == "loud" || !disturbed, "in the end {last:?}");
    let hint = "; boot Linux with no_ipi_broadcast=1";
    ensure!(
        said.contains(hint) == (wanted == "loud"),
        "interrupts from Linux"
    );
    println!("ok {wanted} {}", program.join(" "));
    Ok(())
}

/// A stretch that is as wanted.
struct Seen {
    node: Node,
    before: Counts,
    after: Counts,
    /// Of Linux's CPUs meanwhile.
    flushes: u64,
}

/// Waits for a stretch that is as wanted.
fn watched(yod: &mut Child, quiet: bool) -> Result<Seen> {
    let end = Instant::now() + LIMIT;
    let node = loop {
        if let Some(node) = node() {
            break node;
        }
        ensure!(yod.try_wait()?.is_none(), "yod has ended");
        ensure!(Instant::now() < end, "no process has a node's memory");
        std::thread::sleep(BETWEEN_POLLS);
    };
    loop {
        let (before, flushed) = (counts(&node)?, flushes()?);
        std::thread::sleep(STRETCH);
        let after = counts(&node)?;
        let flushes = flushes()? - flushed;
        let runs = before.calls > 0 && before.calls == after.calls;
        let is_so = if quiet {
            before == after
        } else {
            before.from_linux < after.from_linux
        };
        ensure!(yod.try_wait()?.is_none(), "the program has ended");
        if runs && flushes >= FLUSHES && is_so {
            return Ok(Seen {
                node,
                before,
                after,
                flushes,
            });
        }
        ensure!(
            Instant::now() < end,
            "not in {LIMIT:?}; at last: {flushes} flushes, {before:?}, {after:?}"
        );
    }
}

/// A node's memory, and where in it its records are.
struct Node {
    memory: File,
    layout: Layout,
}

/// By the name that any of its processes has for it.
fn node() -> Option<Node> {
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let descriptors = processes.filter_map(|process| fs::read_dir(process.path().join("fd")).ok());
    let of_node = descriptors.flatten().flatten().map(|entry| entry.path());
    of_node
        .filter(|path| {
            fs::read_link(path).is_ok_and(|to| to.to_string_lossy().contains("[margay]"))
        })
        .find_map(|path| {
            let memory = File::open(path).ok()?;
            let header: Header = record(&memory, 0).ok()?;
            let layout = Layout::new(&Config::read(&header).ok()?);
            Some(Node { memory, layout })
        })
}

fn counts(node: &Node) -> Result<Counts> {
    let core: CpuStats = record(&node.memory, node.layout.cpu_stats(0))?;
    Ok(Counts {
        entries: core.entries.load(),
        calls: core.local_calls.load() + core.shipped_calls.load(),
        timer: core.timer_interrupts.load(),
        ipis: core.ipis.load(),
        doorbells: core.doorbells.load(),
        from_linux: core.other_interrupts.load(),
    })
}

fn record<T: FromBytes>(memory: &File, offset: usize) -> Result<T> {
    let mut bytes = vec![0; size_of::<T>()];
    memory.read_exact_at(&mut bytes, COMM_BASE + offset as u64)?;
    T::read_from_bytes(&bytes).map_err(|_| anyhow::anyhow!("a record of another size"))
}

/// Flushes of TLBs that Linux's CPUs have done for each other, all together.
fn flushes() -> Result<u64> {
    let interrupts = fs::read_to_string("/proc/interrupts")?;
    let mut lines = interrupts.lines();
    let row = lines.find_map(|line| line.trim().strip_prefix("TLB:"));
    let row = row.context("no TLB in /proc/interrupts")?;
    let counts = row.split_whitespace().take(LINUX_CPUS);
    Ok(counts.map(str::parse::<u64>).sum::<Result<u64, _>>()?)
}
