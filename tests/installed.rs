//! yod as users have it: installed under a prefix, started by a user without rights, twenty at once.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use margay_tests::clean;
use margay_tests::limit::Limit;
use margay_tests::process;
use margay_tests::run::{HANG, Outcome, Run};
use margay_tests::scratch::Scratch;
use margay_tests::tree;

/// yods at once, and the longest that the last of their nodes may take to come up, on two cores that are busy with others, too.
const AT_ONCE: usize = 20;
const ALL_OF_THEM: Duration = Duration::from_secs(60);

/// `make install` of one tree at the same time.
const INSTALLATIONS: usize = 4;

/// A prefix that another user can read, away from the build tree: nothing may be found there by accident.
struct Prefix(PathBuf);

const INSTALLED: &[&str] = &[
    "bin/yod",
    "lib/margay/margay.elf",
    "lib/margay/pct",
    "lib/margay/agent.so",
    "share/man/man1/yod.1",
    "share/bash-completion/completions/yod",
    "share/zsh/site-functions/_yod",
    "share/fish/vendor_completions.d/yod.fish",
];

impl Prefix {
    fn install() -> Result<Prefix> {
        let prefix = Prefix(std::env::temp_dir().join(format!("prefix-{}", clean::new_mark())));
        prefix.make("install")?;
        fs::copy(
            tree::program("glibc-static", "hello"),
            prefix.0.join("hello"),
        )?;
        Ok(prefix)
    }

    fn make(&self, target: &str) -> Result<()> {
        let prefix = format!("PREFIX={}", self.0.display());
        let make = Command::new("make")
            .args(["--no-print-directory", target, &prefix])
            .current_dir(tree::root())
            .output()?;
        let said = String::from_utf8_lossy(&make.stderr);
        ensure!(make.status.success(), "make {target}: {said}");
        Ok(())
    }

    /// The installed yod, with the copied program.
    fn hello(&self, ranks: &str) -> Run {
        let path = |name: &str| self.0.join(name).to_string_lossy().into_owned();
        Run::new([path("bin/yod"), tree::machine()])
            .args(&["-n", ranks, "--oversubscribe", "--"])
            .args(&[path("hello")])
    }
}

impl Drop for Prefix {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn check(outcome: &Outcome, ranks: usize) -> Result<()> {
    let (stdout, stderr) = (outcome.stdout.text(), outcome.stderr.text());
    ensure!(
        outcome.status == Some(0) && stderr.is_empty(),
        "status {:?}, stderr: {stderr}",
        outcome.status
    );
    ensure!(
        stdout.matches("margay").count() == ranks,
        "stdout: {stdout}"
    );
    Ok(())
}

#[test]
fn an_installed_yod_works_for_everybody() -> Result<()> {
    let prefix = Prefix::install()?;
    for file in INSTALLED {
        ensure!(prefix.0.join(file).is_file(), "{file} was not installed");
    }
    let bytes = |path: PathBuf| fs::metadata(path).map(|meta| meta.len());
    ensure!(
        bytes(prefix.0.join("bin/yod"))? < bytes(tree::yod())? / 2,
        "yod was installed with its symbols"
    );
    check(&clean::run(prefix.hello("2"))?, 2)?;
    if rustix::process::geteuid().is_root() {
        // Who is not root here has shown it just now.
        check(&clean::run(prefix.hello("1").as_nobody())?, 1)?;
    }
    prefix.make("uninstall")?;
    for file in INSTALLED {
        ensure!(!prefix.0.join(file).exists(), "{file} is still there");
    }
    ensure!(!prefix.0.join("lib/margay").exists() && prefix.0.join("hello").exists());
    Ok(())
}

/// One tree is installed for several users at the same time: their installations do not share files on the way.
#[test]
fn installations_at_the_same_time_do_not_meet() -> Result<()> {
    let together = (0..INSTALLATIONS).map(|_| std::thread::spawn(Prefix::install));
    let together: Vec<_> = together.collect();
    for installed in together {
        let prefix = installed.join().ok().context("a thread panicked")??;
        for file in INSTALLED {
            let bytes = fs::metadata(prefix.0.join(file))?.len();
            ensure!(bytes > 0, "{file} is empty");
        }
        check(&clean::run(prefix.hello("1"))?, 1)?;
    }
    Ok(())
}

/// Whatever user runs it, /proc/PID/mem of a keeper is root's: no other process of the user traces it or reads its memory.
#[test]
fn a_keeper_is_out_of_its_users_reach() -> Result<()> {
    let prefix = Prefix::install()?;
    fs::copy(
        tree::program("glibc-static", "endless"),
        prefix.0.join("hello"),
    )?;
    let run = prefix.hello("1").args(&["sleep"]);
    let run = if rustix::process::geteuid().is_root() {
        run.as_nobody()
    } else {
        run
    };
    let scratch = Scratch::new()?;
    let run = run.start(&scratch)?;
    let limit = Limit::new(HANG);
    let keeper = loop {
        if let Some(keeper) = keeper_of(run.pid()) {
            break keeper;
        }
        ensure!(limit.left().is_some(), "there is no keeper");
    };
    let owner = fs::metadata(format!("/proc/{keeper}/mem"))?.uid();
    ensure!(process::kill(run.pid()), "it has ended by itself");
    run.finish(HANG)?;
    ensure!(owner == 0, "it is user {owner}'s");
    Ok(())
}

/// The child of a yod that has called itself so.
fn keeper_of(yod: u32) -> Option<u32> {
    let numbers = fs::read_dir("/proc").ok()?.flatten();
    let mut pids = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.find(|pid| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let rest = stat.split_once(" (margay-keeper) ");
        rest.and_then(|(_, rest)| rest.split(' ').nth(1)) == Some(&yod.to_string())
    })
}

/// A node is listed with the yod that runs it, for as long as it is there.
#[test]
fn running_nodes_are_listed() -> Result<()> {
    let program = tree::program("glibc-static", "endless");
    let scratch = Scratch::new()?;
    let run = Run::yod(&["-m", "34M", "-np", "2", "-d", "1", "--oversubscribe", "--"]);
    let run = run
        .args(&[&*program.to_string_lossy(), "sleep"])
        .start(&scratch)?;
    let pid = run.pid().to_string();
    let row = || -> Result<Option<String>> {
        let outcome = Run::bare_yod(&["--ps"]).run()?;
        outcome.ended_well()?;
        let text = outcome.stdout.text();
        let own = |line: &&str| line.split_whitespace().next() == Some(&pid);
        Ok(text.lines().find(own).map(str::to_owned))
    };
    let until = |there: bool| -> Result<Option<String>> {
        let limit = Limit::new(HANG);
        loop {
            let row = row()?;
            if row.is_some() == there {
                return Ok(row);
            }
            ensure!(limit.left().is_some(), "not {there} that it is listed");
        }
    };
    let shown = until(true)?.unwrap_or_default();
    let words: Vec<&str> = shown.split_whitespace().collect();
    ensure!(
        words[2..9] == ["2", "2", "x", "1", "2", "x", "34M"],
        "{shown}"
    );
    ensure!(shown.ends_with("endless sleep"), "{shown}");
    // It is listed before QEMU has its threads.
    let limit = Limit::new(HANG);
    loop {
        let outcome = Run::bare_yod(&["--ps=json"]).run()?;
        let nodes: serde_json::Value = serde_json::from_str(&outcome.stdout.text())?;
        let node = nodes.as_array().and_then(|nodes| {
            let mut nodes = nodes.iter();
            nodes.find(|node| node["yod"] == run.pid())
        });
        let ranks = node.and_then(|node| node["rank_cpu_s"].as_array());
        if ranks.is_some_and(|times| times.len() == 2) {
            break;
        }
        ensure!(limit.left().is_some(), "{nodes}");
    }
    let mut top = Command::new(tree::yod())
        .arg("--top")
        .stdout(Stdio::piped())
        .spawn()?;
    let mut lines = BufReader::new(top.stdout.take().context("a pipe")?).lines();
    let share = lines.by_ref().find(|line| match line {
        Ok(line) => line.trim_start().starts_with("rank 1 ") && line.ends_with('%'),
        Err(_) => true,
    });
    // Without a reader it ends.
    drop(lines);
    let ended = process::wait(&mut top, HANG)?;
    ensure!(
        matches!(share, Some(Ok(_))) && ended.is_some_and(|s| s.success()),
        "{ended:?}"
    );
    ensure!(process::kill(run.pid()), "it has ended by itself");
    run.finish(HANG)?;
    until(false).map(drop)
}

#[test]
fn twenty_at_once_simply_work() -> Result<()> {
    let program = tree::program("glibc-static", "hello")
        .to_string_lossy()
        .into_owned();
    let runs = (0..AT_ONCE).map(|_| {
        let run = Run::yod(&["-m", "64M", "--", &program]).limit(2 * ALL_OF_THEM);
        let run = run.env(&[("MARGAY_BOOT_TIMEOUT_S", ALL_OF_THEM.as_secs().to_string())]);
        std::thread::spawn(move || run.run())
    });
    for run in runs.collect::<Vec<_>>() {
        let outcome = run.join().ok().context("a thread panicked")??;
        check(&outcome, 1)?;
    }
    Ok(())
}

#[test]
fn the_doctor_knows_this_host() -> Result<()> {
    let outcome = clean::run(Run::bare_yod(&["--doctor"]))?;
    let text = outcome.stdout.text() + &outcome.stderr.text();
    for part in [
        "QEMU",
        "KVM",
        "ok    agent",
        "qboot",
        "cores",
        "memory",
        "booted under",
    ] {
        ensure!(
            text.to_lowercase().contains(&part.to_lowercase()),
            "no word of {part}:\n{text}"
        );
    }
    Ok(())
}

#[test]
fn a_dry_run_shows_the_plan() -> Result<()> {
    let program = tree::program("glibc-static", "hello")
        .to_string_lossy()
        .into_owned();
    let outcome = clean::run(Run::yod(&["--dry-run", "-m", "64M", "--", &program]))?;
    let text = outcome.stdout.text();
    outcome.ended_well()?;
    for part in ["qemu-system-x86_64", "-kernel", "64M", "core"] {
        ensure!(text.contains(part), "no {part}:\n{text}");
    }
    ensure!(!text.contains("margay x86_64"), "the program ran:\n{text}");
    Ok(())
}
