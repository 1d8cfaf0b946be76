//! Files that two ranks map and share: what one stores the other sees, in memory and in the file; locks, condition variables,
//! barriers, semaphores and futexes in such memory work between them.
//!
//! The program (`programs/ranks/shared.c`) runs as two processes of Linux first: the two runs say the same and leave the same
//! files.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use margay_tests::clean;
use margay_tests::compare::checks_passed;
use margay_tests::process::{signal, wait_until};
use margay_tests::report::{Stderr, skipped};
use margay_tests::run::{HANG, Outcome, Run};
use margay_tests::scratch::Scratch;
use margay_tests::tree;
use rustix::process::Signal;

fn program() -> String {
    let path = tree::program("glibc-static", "shared");
    path.to_string_lossy().into_owned()
}

/// Named semaphores are known in the whole system: each run has names of its own.
fn name(of: &str) -> [(String, String); 1] {
    [("SHARED_NAME".into(), format!("{}-{of}", std::process::id()))]
}

/// As two processes of Linux: what the first one says, and what they leave.
fn natively() -> Result<Outcome> {
    let scratch = Scratch::new()?;
    let rank = |rank: &str| {
        let run = Run::new([program()]).env(&name("native"));
        run.env(&[("MARGAY_RANK", rank)]).start(&scratch)
    };
    let (first, second) = (rank("0")?, rank("1")?);
    let ended = second.finish(HANG)?;
    ensure!(ended.status == Some(0), "{}", ended.stdout.text());
    first.finish(HANG)
}

#[test]
fn two_ranks_share_files_as_two_processes_do() -> Result<()> {
    let native = natively()?;
    let on_node = clean::run(
        Run::yod(&["-n", "2", "-m", "64M", "--oversubscribe", "--"])
            .args(&[program()])
            .env(&name("node")),
    )?;
    on_node.ended_well()?;
    ensure!(
        on_node.stdout.text() == native.stdout.text(),
        "{}",
        on_node.stdout.text()
    );
    // The board holds process ids.
    for file in ["data", "left"] {
        let of = |outcome: &Outcome| outcome.files.get(Path::new(file)).cloned();
        let (here, there) = (of(&on_node).context(file)?, of(&native).context(file)?);
        ensure!(here == there, "{file}: {here:?} instead of {there:?}");
    }
    let left = |of: &str| {
        let name = format!("margay-test-{}-{of}", std::process::id());
        let entries = fs::read_dir("/dev/shm").into_iter().flatten().flatten();
        entries
            .filter(|entry| entry.file_name().to_string_lossy().contains(&name))
            .count()
    };
    ensure!(left("native") + left("node") == 0, "semaphores are left");
    Ok(())
}

/// A pool that is too small is said, with what to do; a program that goes on without is not bothered.
#[test]
fn a_pool_without_room_is_said() -> Result<()> {
    let outcome = Run::yod(&["-n", "2", "-m", "64M", "--oversubscribe"])
        .args(&["--shared-memory", "2M", "--", &program()])
        .env(&name("small"))
        .run()?;
    ensure!(outcome.status == Some(99), "status {:?}", outcome.status);
    let said = outcome.stderr.text();
    ensure!(
        outcome.stdout.text().contains("mmap (errno 12)")
            && said.contains("2M of shared memory")
            && said.contains("--shared-memory"),
        "{}{said}",
        outcome.stdout.text()
    );
    Ok(())
}

/// Frames that a child of a rank still maps are not given out, and come back when it ends.
#[test]
fn a_child_keeps_what_its_parent_unmaps() -> Result<()> {
    let program = tree::program("glibc-static", "kept");
    let outcome = Run::yod(&["-m", "64M", "--shared-memory", "16M", "--"])
        .args(&[program.to_string_lossy()])
        .run()?;
    let said = outcome.stdout.text();
    ensure!(
        outcome.status == Some(0) && said.contains("3 checks, 0 failed"),
        "status {:?}: {said}{}",
        outcome.status,
        outcome.stderr.text()
    );
    Ok(())
}

/// A rank that waited for such a lock was held for as long as the other's end took, whatever signal it got.
#[test]
fn a_wait_for_a_lock_whose_owner_hangs_at_its_end_is_interrupted() -> Result<()> {
    let scratch = Scratch::new()?;
    let program = tree::program("glibc-static", "owner_hangs");
    let yod = Run::yod(&["-n", "2", "-m", "64M", "--oversubscribe", "--"]);
    let job = yod.args(&[program.to_string_lossy()]).start(&scratch)?;
    let file = |name: &str| scratch.path().join("cwd").join(name);
    let owner = || fs::read_to_string(file("owner")).ok()?.trim().parse().ok();
    wait_until(HANG, || owner().is_some());
    let owner: u32 = owner().context("no owner")?;
    ensure!(signal(owner, Signal::STOP), "the owner is gone");
    fs::write(file("go"), "")?;
    let interrupted = wait_until(HANG, || file("interrupted").exists());
    signal(owner, Signal::CONT);
    let outcome = job.finish(HANG)?;
    ensure!(interrupted, "{}", outcome.stdout.text());
    outcome.ended_well()
}

/// The pool has the size that was asked for, and says so in the plan.
#[test]
fn the_plan_names_the_pool() -> Result<()> {
    let outcome = Run::yod(&["-m", "64M", "--shared-memory", "33M", "--dry-run", "--"])
        .args(&[program()])
        .run()?;
    let plan = outcome.stdout.text();
    ensure!(plan.contains("shared       34M"), "{plan}");
    Ok(())
}

/// What a rank of `ranks` used at most of its own memory, running a dynamic program; these are yod's options besides.
fn used_by_each(ranks: usize, options: &[&str]) -> Result<Vec<u64>> {
    let program = tree::program("glibc-dynamic", "linked");
    let count = ranks.to_string();
    let outcome = Run::yod(&["-n", &count, "-m", "32M", "--oversubscribe", "--stats=json"])
        .args(options)
        .args(&["--", &program.to_string_lossy()])
        .run()?;
    let said = outcome.stderr.text();
    ensure!(
        outcome.status == Some(0),
        "status {:?}: {said}",
        outcome.status
    );
    let stats = Stderr::new(outcome.stderr.head())?.stats;
    let used = |rank| stats.number(&format!("/ranks/{rank}/peak_bytes"));
    (0..ranks).map(used).collect()
}

/// Libraries lie once in the node, not once in each rank, nor in one that is alone; where the pool has no room for them they do.
#[test]
fn text_lies_once_in_the_node() -> Result<()> {
    const LIBC: u64 = 1 << 20; // of its text
    let own = used_by_each(1, &["--shared-memory", "0"])?[0];
    for ranks in [1, 4] {
        for used in used_by_each(ranks, &[])? {
            ensure!(
                used + LIBC < own,
                "{ranks} ranks: {used} bytes instead of {own}"
            );
        }
    }
    for ranks in [1, 2] {
        for used in used_by_each(ranks, &["--shared-memory", "2M"])? {
            ensure!(
                used + LIBC > own,
                "{ranks} ranks: {used} bytes without room in the pool"
            );
        }
    }
    Ok(())
}

/// A program passes its checks where the pool has room for the text of one file.
fn passes_with_a_small_pool(name: &str, args: &[&str]) -> Result<()> {
    let program = tree::program("glibc-static", name);
    let yod = Run::yod(&["-m", "64M", "--shared-memory", "8M", "--"]);
    let run = yod.args(&[program.to_string_lossy()]).args(args);
    checks_passed(&clean::run(run)?)
}

/// A rank that becomes another program lets go of the last one's text: the pool has room for one.
#[test]
fn programs_in_turn_have_their_text_in_the_pool() -> Result<()> {
    passes_with_a_small_pool("text_turns", &[])
}

/// Children mapped no text, but had copies: what no rank mapped any more was free at once.
#[test]
fn a_child_keeps_its_text_when_the_pool_is_short() -> Result<()> {
    passes_with_a_small_pool("text_of_child", &[])
}

/// An emulator keeps code that it has translated, and does not see that other pages of a file lie there.
#[test]
fn code_is_what_its_file_has() -> Result<()> {
    passes_with_a_small_pool("text_code", &[])
}

/// Frames of a shared file that was executed were laid anew under code that an emulator had made of it.
#[test]
fn shared_code_is_what_its_file_has() -> Result<()> {
    passes_with_a_small_pool("text_code", &["shared"])?;
    passes_with_a_small_pool("text_code", &["later"])
}

/// What another node maps of a file is the same memory.
#[test]
fn two_nodes_map_one_file() -> Result<()> {
    let (program, yod) = (tree::program("glibc-static", "outside"), tree::yod());
    let (program, yod) = (program.to_string_lossy(), yod.to_string_lossy());
    for case in ["programs", "woken", "wakes", "longer", "cut", "text"] {
        let run = Run::yod(&["-m", "64M", "--"]).args(&[&program, case]);
        let outcome = clean::run(run.env(&[("OTHER_NODE", &yod)]))?;
        checks_passed(&outcome).context(case)?;
    }
    Ok(())
}

/// Nobody executes what a file system has that is mounted so; the same natively.
#[test]
fn nothing_of_a_noexec_file_system_is_executed() -> Result<()> {
    passes_beside_mounts("mount -t tmpfs -o noexec none /mnt", "noexec /mnt/f")
}

/// What ranks map is in use, and what is not mapped any more is not; the same natively.
#[test]
fn a_file_system_is_busy_while_its_files_are_mapped() -> Result<()> {
    const STRANGER: &str = "mkfifo ask answer && {
        while read -r line; do $line 2> /dev/null; echo $?; done < ask > answer & }";
    passes_beside_mounts(STRANGER, "unmounted")
}

/// A program passes its checks in a mount namespace of its own, where `first` was done, natively and as a rank. Process 1 there ends
/// what was started.
fn passes_beside_mounts(first: &str, program: &str) -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        skipped("only root mounts file systems");
        return Ok(());
    }
    let (program, yod) = (tree::program("glibc-static", program), tree::yod());
    let (program, yod) = (program.display(), yod.display());
    let yod = format!("{yod} {} --quiet --", tree::machine());
    for by in ["", &yod] {
        let script = format!("{first} && {by} {program}; exit $?");
        let run = Run::new(["unshare", "--mount", "--pid", "--fork", "--mount-proc"]);
        let outcome = run.args(&["sh", "-c", &script]).run()?;
        checks_passed(&outcome).context(script)?;
    }
    Ok(())
}
