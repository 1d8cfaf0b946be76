//! What this binary does in a guest that has the files of the host: it runs commands there, and looks whether Linux is as it was
//! before.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, exit};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use margay_tests::limit::Limit;
use margay_tests::process::shell_status;

/// The argument by which it knows that it is there.
pub const WORD: &str = "inside";
/// Linux takes its time to free what it has from a process that ended.
const SETTLES: Duration = Duration::from_secs(20);
/// Between two looks.
const MOMENT: Duration = Duration::from_millis(200);
/// What may be missing: Linux has uses of its own meanwhile.
pub const ALLOWED_KIB: i64 = 1024;

/// Does what the words say.
pub fn main(words: &[String]) -> ! {
    let done = match words {
        [what, own, command @ ..] if what == "whole" => whole(own, command),
        [what, jobs, kills, seed] if what == "cycles" => cycles([jobs, kills, seed]),
        _ => Err(anyhow::anyhow!("{words:?}: what is that?")),
    };
    match done {
        Ok(status) => exit(status),
        Err(error) => {
            println!("\nFAILED {error:#}");
            exit(99);
        }
    }
}

fn cycles(numbers: [&String; 3]) -> Result<i32> {
    let [jobs, kills, seed] = numbers.map(|number| number.parse());
    super::cycles::run(jobs?, kills?, seed?)?;
    Ok(0)
}

/// Runs a command; its status, if afterwards Linux has all that it had before, but for so many KiB that it keeps for itself.
fn whole(own: &str, command: &[String]) -> Result<i32> {
    let [program, args @ ..] = command else {
        bail!("no command");
    };
    let before = State::now()?;
    let status = Command::new(program).args(args).status();
    let status = status.with_context(|| format!("cannot run {program}"))?;
    println!("\nwhole: {}", before.settle(ALLOWED_KIB, own.parse()?)?);
    Ok(shell_status(status))
}

/// What a node takes from Linux, and has to give back.
#[derive(Debug)]
pub struct State {
    /// Online, as Linux lists them.
    cpus: String,
    /// Masks of interrupts, by number.
    interrupts: BTreeMap<String, String>,
    free_kib: i64,
    /// What Linux has for itself and cannot give back: its part of what is lost.
    kept_kib: i64,
}

impl State {
    /// As it is.
    pub fn now() -> Result<State> {
        let (free_kib, kept_kib) = memory()?;
        Ok(State {
            cpus: cpus()?,
            interrupts: interrupts()?,
            free_kib,
            kept_kib,
        })
    }

    /// Waits until it is so again, but for memory.
    pub fn settle_but_memory(&self) -> Result<()> {
        let limit = Limit::new(SETTLES);
        loop {
            let (cpus, interrupts) = (cpus()?, interrupts()?);
            if cpus == self.cpus && interrupts == self.interrupts {
                return Ok(());
            }
            ensure!(
                limit.left().is_some(),
                "before {self:?}, then CPUs {cpus}, interrupts {interrupts:?}"
            );
            std::thread::sleep(MOMENT);
        }
    }

    /// Waits until it is so again, but for so much memory, and so much that Linux keeps for itself; what there is.
    pub fn settle(&self, allowed_kib: i64, own_kib: i64) -> Result<String> {
        let limit = Limit::new(SETTLES);
        loop {
            let now = State::now()?;
            let lost = self.free_kib - now.free_kib;
            let kept = now.kept_kib - self.kept_kib;
            let same = now.cpus == self.cpus && now.interrupts == self.interrupts;
            if same && lost - kept.clamp(0, own_kib) <= allowed_kib {
                let (cpus, count) = (now.cpus.trim(), now.interrupts.len());
                return Ok(format!(
                    "CPUs {cpus}, {count} interrupts, lost {lost} KiB, {kept} of them to Linux itself"
                ));
            }
            ensure!(
                limit.left().is_some(),
                "before {self:?}, then {now:?}: lost {lost} KiB"
            );
            std::thread::sleep(MOMENT);
            // Not at once: what is read again takes its time.
            fs::write("/proc/sys/vm/drop_caches", "3").context("no caches to drop")?;
        }
    }
}

fn cpus() -> Result<String> {
    read(Path::new("/sys/devices/system/cpu/online"))
}

fn interrupts() -> Result<BTreeMap<String, String>> {
    let mut masks = BTreeMap::new();
    for entry in fs::read_dir("/proc/irq")?.flatten() {
        // Only interrupts are folders, which have one.
        if let Ok(mask) = fs::read_to_string(entry.path().join("smp_affinity")) {
            masks.insert(entry.file_name().to_string_lossy().into_owned(), mask);
        }
    }
    ensure!(!masks.is_empty(), "no interrupts in /proc/irq");
    Ok(masks)
}

/// What is free for all or would be if it were wanted, which files in memory are, and what each CPU has in lists of its own, which it
/// gives back when it goes offline; and what this process has, which keeps output of jobs. And what Linux has for itself.
fn memory() -> Result<(i64, i64)> {
    let [all, lists, own] =
        ["/proc/meminfo", "/proc/zoneinfo", "/proc/self/status"].map(|path| read(Path::new(path)));
    let (all, lists, own) = (all?, lists?, own?);
    let of_all = |names: &[&str]| names.iter().map(|name| sum(&all, name)).sum::<i64>();
    let free = of_all(&["MemFree:", "Buffers:", "Cached:", "SReclaimable:"]);
    let kept = of_all(&["SUnreclaim:", "KernelStack:", "PageTables:", "Percpu:"]);
    let others = 4 * sum(&lists, "count:") + sum(&own, "RssAnon:");
    Ok((free + others, kept))
}

/// Of the numbers behind this name.
fn sum(text: &str, name: &str) -> i64 {
    let lines = text.lines();
    let numbers = lines.filter_map(|line| line.trim().strip_prefix(name));
    let numbers = numbers.filter_map(|number| number.trim().split(' ').next()?.parse::<i64>().ok());
    numbers.sum()
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}
