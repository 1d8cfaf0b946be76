//! Core files: what gdb reads in them is what it reads in Linux's own, and what becomes of those that cannot be written.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use margay_tests::clean;
use margay_tests::report;
use margay_tests::run::{Outcome, Run};
use margay_tests::scratch::Scratch;
use margay_tests::trial::trial;

use crate::host::{build, functions, gdb};

/// What yod's line about a core file begins with, behind the program.
const WRITTEN: &str = ": core file written to ";

pub fn all() -> Vec<Trial> {
    let case = |name: &str, test: fn() -> Result<()>| trial(format!("core: {name}"), test);
    vec![
        case("one thread", || same_as_native(&[], &["alone", "null"])),
        case("one thread, static", || {
            same_as_native(&["-static"], &["alone", "deep"])
        }),
        case("below a library's function", || {
            same_as_native(&[], &["alone", "deep"])
        }),
        case("four threads", || {
            same_as_native(&[], &["together", "null"])
        }),
        case("four threads, abort", || {
            same_as_native(&[], &["together", "abort"])
        }),
        case("memory", memory),
        case("no limit, no file", no_file),
        case("a small limit", small_limit),
        case("where nothing can be written", no_place),
        case("a full disk", full_disk),
        case("two ranks", two_ranks),
    ]
}

struct Dumped {
    scratch: Scratch,
    program: String,
    outcome: Outcome,
}

fn dump(options: &[&str], yod: &[&str], args: &[&str], limit: &str) -> Result<Dumped> {
    let scratch = Scratch::new()?;
    let program = build(&scratch, "dies", options)?;
    let run = Run::yod(&["-m", "128M"]).args(yod).args(&["--", &program]);
    let run = run.args(args).ulimit("-c", limit);
    let outcome = clean::run_in(run, &scratch)?;
    Ok(Dumped {
        scratch,
        program,
        outcome,
    })
}

impl Dumped {
    fn cwd(&self) -> PathBuf {
        self.scratch.path().join("cwd")
    }

    /// Lines of yod's about the core.
    fn lines(&self) -> Vec<String> {
        let mut lines = report::own_lines(self.outcome.stderr.head());
        lines.retain(|line| line.contains(" core file"));
        lines
    }

    /// The core file that yod names.
    fn core(&self) -> Result<PathBuf> {
        let lines = self.lines();
        let named = lines.first().and_then(|line| line.split_once(WRITTEN));
        let (_, path) = named.with_context(|| self.outcome.stderr.text())?;
        Ok(self.cwd().join(path))
    }

    fn gdb(&self, commands: &[&str]) -> Result<String> {
        let core = self.core()?.to_string_lossy().into_owned();
        gdb(&self.cwd(), &[&self.program, &core], commands)
    }
}

/// Where this host leaves a core file of a native run, if it does so in the working directory.
fn native_core(dumped: &Dumped, args: &[&str]) -> Result<Option<PathBuf>> {
    let scratch = Scratch::new()?;
    let run = Run::new([dumped.program.as_str()]).args(args);
    run.ulimit("-c", "unlimited").run_in(&scratch)?;
    let cores = fs::read_dir(scratch.path().join("cwd"))?.flatten();
    let Some(core) = cores.map(|entry| entry.path()).next() else {
        return Ok(None);
    };
    let kept = dumped.scratch.path().join("native");
    fs::copy(core, &kept)?;
    Ok(Some(kept))
}

/// A rank that died left no core file at all. Where it differs, threads may not have got to where they wait: they get more time.
fn same_as_native(options: &[&str], args: &[&str]) -> Result<()> {
    let mut last = Ok(());
    for settle_ms in ["100", "1000", "8000"] {
        last = same_after(options, &[args, &[settle_ms]].concat());
        if last.is_ok() || args[0] == "alone" {
            break;
        }
    }
    last
}

fn same_after(options: &[&str], args: &[&str]) -> Result<()> {
    const COMMANDS: &[&str] = &["thread apply all bt"];
    let dumped = dump(options, &[], args, "unlimited")?;
    let text = dumped.gdb(COMMANDS)?;
    let ours = functions(&text);
    let threads = if args[0] == "together" { 4 } else { 1 };
    // The first is printed when the core is opened.
    ensure!(ours.len() == threads + 1, "{threads} threads:\n{text}");
    let signal = if args[1] == "abort" {
        "SIGABRT"
    } else {
        "SIGSEGV"
    };
    ensure!(
        text.contains(&format!("Program terminated with signal {signal}")),
        "{text}"
    );
    if threads == 4 {
        for (thread, function) in [(1, "locks"), (2, "waits"), (3, "computes")] {
            let found = ours[thread].iter().any(|name| name == function);
            ensure!(found, "no {function}:\n{text}");
        }
        ensure!(
            ours[3].iter().filter(|name| *name == "computes").count() == 4,
            "not 4 deep:\n{text}"
        );
    }
    ensure!(
        ours[threads].last().is_some_and(|name| name == "main"),
        "not from main on:\n{text}"
    );
    if let Some(core) = native_core(&dumped, args)? {
        let core = core.to_string_lossy();
        let native = gdb(&dumped.cwd(), &[&dumped.program, &core], COMMANDS)?;
        ensure!(
            in_any_order(functions(&native)) == in_any_order(ours),
            "natively:\n{native}\nunder yod:\n{text}"
        );
    }
    Ok(())
}

/// Threads but the one that died have no order: it is that of their ends.
fn in_any_order(mut threads: Vec<Vec<String>>) -> Vec<Vec<String>> {
    if let Some((_, others)) = threads[1..].split_last_mut() {
        others.sort();
    }
    threads
}

/// Data, thread-local data, registers, siginfo, the auxiliary vector; what MADV_DONTDUMP names is not there.
fn memory() -> Result<()> {
    let dumped = dump(&[], &[], &["together", "deep"], "unlimited")?;
    let text = dumped.gdb(&[
        "print shown",
        "print mine",
        "print hidden + 4096",
        "x/s hidden",
        "print $_siginfo._sifields._sigfault.si_addr",
        "print $_siginfo.si_signo",
        "print $xmm0.v4_int32",
        "info auxv",
        "info proc mappings",
        "print $rip == (unsigned long)$pc",
    ])?;
    for part in [
        "$1 = 4711",
        "$2 = 6",
        "\"dumped\"",
        "$4 = (void *) 0x8",
        "$5 = 11",
        "$6 = {",
        "AT_ENTRY",
        "AT_EXECFN",
        "/dies",
        "libc.so.6",
        "$7 = 1",
    ] {
        ensure!(text.contains(part), "no {part:?}:\n{text}");
    }
    ensure!(!text.contains("left out"), "it is there:\n{text}");
    // Text of libraries is not in it, and memory that was never touched takes no room.
    let core = fs::metadata(dumped.core()?)?;
    let blocks_bytes = std::os::unix::fs::MetadataExt::blocks(&core) * 512;
    ensure!(blocks_bytes < 2 << 20, "{blocks_bytes} bytes");
    Ok(())
}

fn files_of(dumped: &Dumped) -> Result<Vec<(PathBuf, u64)>> {
    let entries = fs::read_dir(dumped.cwd())?.flatten();
    entries
        .map(|entry| Ok((entry.path(), entry.metadata()?.len())))
        .collect()
}

fn no_file() -> Result<()> {
    for (way, limit) in [("null", "0"), ("forbidden", "unlimited")] {
        let dumped = dump(&[], &[], &["alone", way], limit)?;
        ensure!(dumped.outcome.status == Some(139), "{way}");
        let (files, lines) = (files_of(&dumped)?, dumped.lines());
        ensure!(files.is_empty() && lines.is_empty(), "{files:?} {lines:?}");
    }
    Ok(())
}

fn small_limit() -> Result<()> {
    // dash counts in 512 bytes.
    let dumped = dump(&[], &[], &["alone", "null"], "64")?;
    let lines = dumped.lines();
    ensure!(
        lines.len() == 1 && lines[0].contains(" ends at the limit: "),
        "{lines:?}"
    );
    let files = files_of(&dumped)?;
    ensure!(files.len() == 1 && files[0].1 > 0, "{files:?}");
    // As on Linux, less than a page is nothing.
    let dumped = dump(&[], &[], &["alone", "null"], "7")?;
    ensure!(files_of(&dumped)?.is_empty() && dumped.lines().is_empty());
    Ok(())
}

/// Runs the program in a directory of its own, which `script` has prepared and the shell is in.
fn prepared(script: &str) -> Result<Vec<String>> {
    let scratch = Scratch::new()?;
    let program = build(&scratch, "dies", &[])?;
    let yod = margay_tests::tree::yod().to_string_lossy().into_owned();
    let machine = margay_tests::tree::machine();
    let rest = [&machine, "-m", "128M", "--", &program, "alone", "null"];
    let script = format!("{script} && exec \"$0\" \"$@\"");
    let run = Run::new(["/usr/bin/unshare", "-m", "/bin/sh", "-c", &script, &yod]);
    let run = run.args(&rest).ulimit("-c", "unlimited");
    let outcome = clean::run_in(run, &scratch)?;
    let text = outcome.stderr.text();
    ensure!(outcome.status == Some(139), "{:?}: {text}", outcome.status);
    let mut lines = report::own_lines(outcome.stderr.head());
    lines.retain(|line| line.contains(" core file"));
    Ok(lines)
}

/// Whether this is root, who may mount, on a host whose cores go into the working directory.
fn can_prepare() -> Result<bool> {
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern")?;
    let may = std::process::Command::new("/usr/bin/unshare")
        .args(["-m", "true"])
        .stderr(std::process::Stdio::null())
        .status();
    Ok(!pattern.starts_with('/') && may.is_ok_and(|status| status.success()))
}

fn no_place() -> Result<()> {
    if !can_prepare()? {
        return Ok(());
    }
    let lines = prepared("cd /proc")?;
    ensure!(
        lines.len() == 1 && lines[0].contains(": no core file: cannot create core"),
        "{lines:?}"
    );
    Ok(())
}

fn full_disk() -> Result<()> {
    if !can_prepare()? {
        return Ok(());
    }
    let lines = prepared("mount -t tmpfs -o size=64k none . && cd .")?;
    ensure!(
        lines.len() == 1
            && lines[0].ends_with(" is not whole: No space left on device (os error 28)"),
        "{lines:?}"
    );
    Ok(())
}

/// Each has its own, whatever core_uses_pid says; the line says whose it is.
fn two_ranks() -> Result<()> {
    let dumped = dump(&[], &["-n", "2"], &["alone", "null"], "unlimited")?;
    let lines = dumped.lines();
    ensure!(
        !lines.is_empty() && lines.iter().all(|line| line.starts_with("yod: rank ")),
        "{lines:?}"
    );
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern")?;
    let core = dumped.core()?;
    let pid = core
        .extension()
        .and_then(|pid| pid.to_str()?.parse::<u32>().ok());
    ensure!(
        pid.is_some() || pattern.contains('%'),
        "{core:?} of {pattern}"
    );
    let text = dumped.gdb(&["bt"])?;
    ensure!(
        functions(&text).iter().flatten().any(|name| name == "dies"),
        "{text}"
    );
    Ok(())
}
