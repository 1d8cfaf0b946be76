//! SMARTMAP windows: what ranks reach of each other's memory, by the programs of `programs/windows`.
//!
//! The race runs for WINDOWS_SECONDS (1 unless set) with 2, 16 and 64 ranks under both threadings of TCG; WINDOWS_SEED repeats one.

use std::fs;
use std::time::Duration;

use abi::syscall::{ALL, Arg, Serve};
use anyhow::{Context, Result, bail, ensure};
use margay_tests::compare::{checks_passed, same};
use margay_tests::random::Random;
use margay_tests::report::Stderr;
use margay_tests::run::{HANG, Run};
use margay_tests::scratch::{Scratch, write_program};
use margay_tests::tree;

/// Runs a program of `programs/windows` with these options of yod.
fn run(options: &[&str], program: &str, args: &[&str]) -> Run {
    let program = tree::program("windows", program);
    Run::yod(options)
        .args(&["-m", "32M", "--oversubscribe", "--"])
        .args(&[program.to_string_lossy()])
        .args(args)
}

#[test]
fn ranks_reach_what_the_owner_lets_them() -> Result<()> {
    checks_passed(&run(&["-n", "2"], "access", &[]).run()?)
}

/// What one rank sends another had the same address in both, and was copied ten times slower for it (docs/adr/0048).
#[test]
fn areas_of_ranks_begin_elsewhere() -> Result<()> {
    checks_passed(&run(&["-n", "2"], "areas", &[]).run()?)
}

/// The kernel looked twice, whether it is a fault still and then of which kind: memory that was mapped between the two was
/// SEGV_ACCERR.
#[test]
fn a_fault_is_what_the_owner_has_at_one_instant() -> Result<()> {
    checks_passed(&run(&["-n", "2", "-d", "2"], "appear", &["1000"]).run()?)
}

/// Rows of the table that take memory were never tried with another rank's: some were EFAULT, against docs/smartmap.md.
#[test]
fn every_call_takes_memory_of_other_ranks() -> Result<()> {
    let scratch = Scratch::new()?;
    let list = scratch.path().join("calls");
    fs::write(&list, calls_with_memory())?;
    let run = run(&["-n", "2"], "every_call", &[]).stdin_from(list);
    checks_passed(&run.limit(10 * HANG).run()?)
}

/// A line for each such row: number, name, and what its arguments are, as the program reads it.
fn calls_with_memory() -> String {
    let rows = ALL
        .iter()
        .filter(|call| !matches!(call.serve, Serve::Refused(..)));
    let lines = rows.filter_map(|call| {
        let kinds: String = match call.name {
            // Rows that do not say what these addresses are for.
            "futex" => "mnnmmn".into(),
            "execve" => "pmm".into(),
            "execveat" => "dpmmn".into(),
            "set_robust_list" => "mn".into(),
            "arch_prctl" => "nm".into(),
            _ => call.args.iter().map(letter).collect(),
        };
        let has_memory = kinds.contains(['m', 'p', 's']);
        has_memory.then(|| format!("{} {} {kinds}\n", call.nr, call.name))
    });
    lines.collect()
}

fn letter(arg: &Arg) -> char {
    match arg {
        Arg::Int | Arg::Millis | Arg::Hex => 'n',
        Arg::Fd => 'f',
        Arg::DirFd => 'd',
        Arg::Path => 'p',
        Arg::Str => 's',
        _ => 'm',
    }
}

/// The crash report names the rank whose memory it was.
#[test]
fn a_crash_in_a_window_names_its_rank() -> Result<()> {
    let stderr = touched(&["-n", "2"], "crash")?;
    let address = "0x10000001000 (rank 1's 0x1000): read where that rank has nothing mapped";
    ensure!(stderr.contains(address), "no {address}: {stderr}");
    Ok(())
}

/// `--strace` shows addresses of other ranks as rank and address.
#[test]
fn traces_name_the_rank_of_an_address() -> Result<()> {
    let stderr = touched(&["-n", "2", "--strace"], "call")?;
    let line = "mprotect(rank 1:0x1000, 4096, PROT_READ) = -1 ENOMEM (Cannot allocate memory)";
    ensure!(stderr.contains(line), "no {line}: {stderr}");
    Ok(())
}

/// What is said on stderr when rank 0 touches an address of rank 1, in one of the ways of `touch`.
fn touched(options: &[&str], way: &str) -> Result<String> {
    Ok(run(options, "touch", &[way]).run()?.stderr.text())
}

/// Started one after the other, with as many cores as ranks.
#[test]
fn each_rank_on_cores_of_its_own() -> Result<()> {
    checks_passed(&run(&["-n", "2", "-d", "2"], "access", &[]).run()?)
}

#[test]
fn calls_take_memory_of_other_ranks() -> Result<()> {
    checks_passed(&run(&["-n", "2"], "calls", &[]).run()?)
}

#[test]
fn calls_take_structures_that_lead_to_other_ranks() -> Result<()> {
    checks_passed(&run(&["-n", "2"], "nested", &[]).run()?)
}

/// process_vm_readv and writev of wrong processes, vectors and memory: natively between two processes, here between two ranks.
/// The number of local vectors was no unsigned int, what a vector has beyond all memory was cut off before it was looked at,
/// and vectors counted as they were when the copy came to them, which may have written them.
#[test]
fn vectors_are_taken_and_refused_as_linux_does() -> Result<()> {
    let native = Run::new([tree::program("windows", "vectors").to_string_lossy()]).run()?;
    checks_passed(&native).context("natively")?;
    let margay = run(&["-n", "2"], "vectors", &[]).run()?;
    same(&native, &margay, margay.stderr.head())
}

/// Before they are there their addresses are SIGSEGV, to those that come before them.
#[test]
fn ranks_that_have_not_been_started_are_not_there() -> Result<()> {
    for _ in 0..20 {
        let outcome = run(&["-n", "16"], "early", &[]).run()?;
        checks_passed(&outcome)?;
        if outcome.stdout.text().contains("seen before its start") {
            return Ok(());
        }
    }
    bail!("in no run a rank came before another")
}

/// Ranks were said to have ended a moment before their windows were closed: in the mutants' build, beside two busy loops, one in four
/// runs of `xpmem` reached one.
#[test]
fn ranks_that_have_ended_are_not_there() -> Result<()> {
    for ranks in ["2", "16"] {
        checks_passed(&run(&["-n", ranks], "late", &[]).run()?)?;
    }
    Ok(())
}

/// Children that a rank has while its peers count in its memory are made of one moment, and take nothing away.
#[test]
fn an_owner_has_children_while_its_memory_is_used() -> Result<()> {
    let run = run(&["-n", "3"], "forks", &["20"]).limit(HANG * 3);
    checks_passed(&run.run()?)
}

/// Each has a node of its own; what one has of the other leads nowhere.
#[test]
fn two_jobs_have_nothing_of_each_other() -> Result<()> {
    let scratch = Scratch::new()?;
    let started = [["a", "b"], ["b", "a"]]
        .map(|names| run(&["-n", "2"], "jobs", &names).start(&scratch))
        .into_iter()
        .collect::<Result<Vec<_>>>()?;
    for job in started {
        checks_passed(&job.finish(HANG)?)?;
    }
    Ok(())
}

/// Frames of the pool got another file's bytes while a peer's core still had a translation of them.
#[test]
fn frames_that_come_back_are_not_seen_as_they_were() -> Result<()> {
    let options = ["-n", "2", "-d", "1", "--shared-memory", "4M"];
    checks_passed(&run(&options, "objects", &[]).run()?)
}

/// What is offered and attached by requests to /dev/xpmem, by programs that forge, repeat, go and come again.
#[test]
fn memory_is_attached_by_xpmem() -> Result<()> {
    checks_passed(&run(&["-n", "2"], "xpmem", &[]).run()?)
}

#[test]
fn the_xpmem_library_attaches_memory() -> Result<()> {
    checks_passed(&run(&["-n", "2"], "xpmem_library", &[]).run()?)
}

/// Text that ranks share, and one of them tries to write: no other sees anything of it.
#[test]
fn text_is_each_ranks_own() -> Result<()> {
    let options = ["-n", "2", "--shared-memory", "64M", "--stats=json"];
    let outcome = run(&options, "text", &[]).run()?;
    checks_passed(&outcome)?;
    let stats = Stderr::new(outcome.stderr.head())?.stats;
    let file_bytes = 8 << 20;
    for rank in 0..2 {
        let used = stats.number(&format!("/ranks/{rank}/used_bytes"))?;
        ensure!(used < file_bytes, "{used} bytes: it was not shared");
    }
    Ok(())
}

#[test]
fn sixteen_ranks_pass_a_word_around() -> Result<()> {
    checks_passed(&run(&["-n", "16"], "ring", &[]).run()?)
}

/// All there can be: slots 1 to 255.
#[test]
fn as_many_ranks_as_there_can_be_pass_a_word_around() -> Result<()> {
    let program = tree::program("windows", "ring");
    let outcome = Run::yod(&["-n", "255", "-m", "4M", "--oversubscribe", "--"])
        .args(&[program.to_string_lossy()])
        .limit(HANG * 9)
        .run()?;
    checks_passed(&outcome)
}

/// How QEMU runs the node's CPUs: each by a thread of its own, or all by one in turn.
#[derive(Clone, Copy)]
enum Threads {
    Many,
    One,
}

/// A QEMU that runs all CPUs by one thread, in a folder of its own: yod looks along PATH.
const ONE_THREAD: &str = r#"#!/bin/sh
for word; do shift; [ "$word" = tcg ] && word=tcg,thread=single; set -- "$@" "$word"; done
exec /usr/bin/qemu-system-x86_64 "$@"
"#;

/// Little memory for files that ranks share, so that its frames are soon another's.
const RACE_OPTIONS: &[&str] = &[
    "-m",
    "12M",
    "--shared-memory",
    "4M",
    "--oversubscribe",
    "--",
];

fn race(ranks: u32, threads: Threads) -> Result<()> {
    let seconds = tree::number("WINDOWS_SECONDS", 1);
    let seed = Random::from_environment("WINDOWS_SEED");
    let words = [ranks.into(), 1000 * seconds, seed].map(|word: u64| word.to_string());
    let program = tree::program("windows", "race");
    let mut run = Run::yod(&["-n", &words[0]])
        .args(RACE_OPTIONS)
        .args(&[program.to_string_lossy()])
        .args(&words[1..]);
    let scratch = Scratch::new()?;
    if let Threads::One = threads {
        let wrapper = scratch.path().join("qemu-system-x86_64");
        write_program(&wrapper, ONE_THREAD.as_bytes(), 0o755)?;
        let path = format!("{}:/usr/bin:/bin", scratch.path().display());
        run = run.env(&[("PATH", path)]);
    }
    let limit = HANG * 9 + Duration::from_secs(seconds);
    checks_passed(&run.limit(limit).run()?)
        .with_context(|| format!("repeat it with WINDOWS_SEED={seed}"))
}

#[test]
fn two_ranks_race() -> Result<()> {
    race(2, Threads::Many)
}

#[test]
fn two_ranks_race_on_one_thread() -> Result<()> {
    race(2, Threads::One)
}

#[test]
fn sixteen_ranks_race() -> Result<()> {
    race(16, Threads::Many)
}

#[test]
fn sixteen_ranks_race_on_one_thread() -> Result<()> {
    race(16, Threads::One)
}

#[test]
fn sixty_four_ranks_race() -> Result<()> {
    race(64, Threads::Many)
}

#[test]
fn sixty_four_ranks_race_on_one_thread() -> Result<()> {
    race(64, Threads::One)
}
