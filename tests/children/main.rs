//! Children of ranks, as seen from outside of the node: what is reported of them, what they may do, and what is left when they
//! or their parents are killed.

mod killed;
mod memory;
mod outside;
mod terminal;

use anyhow::{Context, Result, ensure};
use margay_tests::clean;
use margay_tests::manifest::{self, End};
use margay_tests::process;
use margay_tests::report::{Stats, Stderr, skipped};
use margay_tests::run::{HANG, Outcome, Run};
use margay_tests::scratch::Scratch;
use margay_tests::tree;

/// What runs the arguments that follow as a process of this Linux, and what runs them as a rank.
fn natively_and_on_a_node() -> [Run; 2] {
    [Run::new([""; 0]), Run::yod(&["--"])]
}

/// A shell's script as a rank; it must end with status 0.
fn script(options: &[&str], text: &str) -> Result<Outcome> {
    let run = Run::yod(options).args(&["--", "/bin/dash", "-c", text]);
    let outcome = clean::run(run)?;
    outcome.ended_well()?;
    Ok(outcome)
}

fn with_stats(text: &str) -> Result<Stats> {
    let outcome = script(&["--stats=json"], text)?;
    let stderr = Stderr::new(outcome.stderr.head());
    Ok(stderr.with_context(|| outcome.stderr.text())?.stats)
}

/// What is listed of a child: name, end, status.
fn listed(stats: &Stats, index: usize) -> Result<(&str, &str, u64)> {
    let path = |what| format!("/ranks/0/children/listed/{index}/{what}");
    let end = stats.text(&path("end"))?;
    let status = if end == "ended" {
        stats.number(&path("wait_status"))?
    } else {
        0
    };
    Ok((stats.text(&path("name"))?, end, status))
}

#[test]
fn are_listed_with_name_time_and_end() -> Result<()> {
    const BUSY: &str = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
    let stats = with_stats(&format!(
        "sort /dev/null; dash -c '{BUSY}'; (exit 7); dash -c 'kill -9 $$'; true"
    ))?;
    ensure!(stats.number("/ranks/0/children/count")? == 4);
    let all: Result<Vec<_>> = (0..4).map(|index| listed(&stats, index)).collect();
    let wanted = [
        ("sort", "ended", 0),
        ("dash", "ended", 0),
        ("dash", "ended", 7 << 8),
        ("dash", "ended", 9),
    ];
    ensure!(all.as_ref().is_ok_and(|all| *all == wanted), "{all:?}");
    let time = |index: usize| {
        let path = |what| format!("/ranks/0/children/listed/{index}/{what}");
        Ok::<u64, anyhow::Error>(
            stats.number(&path("user_us"))? + stats.number(&path("system_us"))?,
        )
    };
    ensure!(time(1)? > time(2)?, "{} and {} us", time(1)?, time(2)?);
    Ok(())
}

/// Of a child that is not waited for something is known nevertheless: a zombie's end, another's name.
#[test]
fn without_a_wait_are_listed() -> Result<()> {
    let program = tree::program("glibc-static", "kills");
    let run = Run::yod(&["--stats=json", "--"]).args(&[&program.to_string_lossy(), "unwaited"]);
    let outcome = clean::run(run)?;
    let stderr = Stderr::new(outcome.stderr.head()).with_context(|| outcome.stderr.text())?;
    let all: Result<Vec<_>> = (0..3).map(|index| listed(&stderr.stats, index)).collect();
    let wanted = [
        ("zombie", "ended", 5 << 8),
        ("", "unseen", 0),
        ("lives", "lives", 0),
    ];
    ensure!(all.as_ref().is_ok_and(|all| *all == wanted), "{all:?}");
    Ok(())
}

/// A wrapper script or a workflow's manager may be a rank itself.
#[test]
fn may_start_nodes() -> Result<()> {
    let inner = format!(
        "{} {} -m 64M --oversubscribe -- /usr/bin/uname -r",
        tree::yod().display(),
        tree::machine()
    );
    let outcome = script(
        &["-m", "64M"],
        &format!("uname -r; {inner} && {inner}; true"),
    )?;
    let text = outcome.stdout.text();
    let releases: Vec<&str> = text.lines().collect();
    ensure!(releases.len() == 3, "{text}");
    let on_node = releases.iter().map(|release| release.ends_with("-margay"));
    ensure!(on_node.eq([false, true, true]), "{text}");
    Ok(())
}

/// The conformance set is right as Linux has it, without rights that root has.
#[test]
fn are_the_same_to_a_user_without_rights() -> Result<()> {
    let rows = manifest::read("children.tsv", "1M")?;
    ensure!(rows.len() >= 80, "{} cases", rows.len());
    if !rustix::process::geteuid().is_root() {
        return Ok(()); // then conformance has shown it
    }
    for row in rows {
        let outcome = Run::native(&row)
            .as_nobody()
            .run_in(&Scratch::of_nobody()?)?;
        ensure!(
            outcome.status.map(End::Status) == Some(row.end),
            "{}: status {:?}: {}",
            row.name,
            outcome.status,
            outcome.stdout.text()
        );
    }
    Ok(())
}

/// stress-ng's stressor of exec does nothing as root, and says so. Without a limit it has 4,096 children at a time.
#[test]
fn are_executed_under_stress() -> Result<()> {
    const STRESS: &[&str] = &[
        "/usr/bin/stress-ng",
        "--exec",
        "1",
        "--exec-max",
        "8",
        "--exec-ops",
        "40",
        "--verify",
    ];
    for run in natively_and_on_a_node() {
        let run = run.args(STRESS);
        let (run, scratch) = if rustix::process::geteuid().is_root() {
            (run.as_nobody(), Scratch::of_nobody()?)
        } else {
            (run, Scratch::new()?)
        };
        let outcome = run.run_in(&scratch)?;
        let said = outcome.stdout.text() + &outcome.stderr.text();
        let did = said.contains("successful run completed") && !said.contains("skipping");
        ensure!(
            outcome.status == Some(0) && did,
            "status {:?}: {said}",
            outcome.status
        );
    }
    Ok(())
}

/// An orphan lives on when its rank has ended, as natively; what started it ends it.
#[test]
fn live_on_as_orphans() -> Result<()> {
    let scratch = Scratch::new()?;
    let run =
        Run::yod(&["--"]).args(&["/bin/dash", "-c", "sleep 1000 <&- >&- 2>&- & echo $!; true"]);
    let outcome = run.run_in(&scratch)?;
    let pid: u32 = outcome.stdout.text().trim().parse()?;
    // It may still be the shell's copy.
    let name = || std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    // Who should take note of its end may never do so.
    let lives = process::wait_until(HANG, || name() == "sleep\n") && !process::is_ending(pid);
    ensure!(process::kill(pid), "it was not there");
    ensure!(lives && outcome.status == Some(0), "{}", name());
    Ok(())
}

/// One after the other, with nothing left of any.
#[test]
fn may_be_ten_thousand_in_a_row() -> Result<()> {
    const MANY: &str = "10000";
    let program = tree::program("glibc-static", "forks");
    let program = program.to_string_lossy();
    for run in natively_and_on_a_node() {
        let run = run.args(&[&*program, "many", MANY]);
        clean::run(run.limit(HANG * 10))?.ended_well()?;
    }
    Ok(())
}

/// Linux counts processes by user: one without other processes, and another for the second run, for zombies count as well.
#[test]
fn may_be_as_many_as_the_limit_allows() -> Result<()> {
    const LONELY: u32 = 54_322;
    const PROCESSES: &str = "80";
    if !rustix::process::geteuid().is_root() {
        skipped("limits on processes need root, to run as a user that nobody else is");
        return Ok(());
    }
    let program = tree::program("glibc-static", "misused");
    let program = program.to_string_lossy();
    let (yod, machine) = (tree::yod(), tree::machine());
    let yod = [&*yod.to_string_lossy(), &machine, "-m", "64M", "--"];
    for (number, under) in (LONELY..).zip([&[][..], &yod]) {
        let user = [
            "/usr/bin/setpriv",
            &format!("--reuid={number}"),
            &format!("--regid={number}"),
            "--clear-groups",
        ];
        for case in ["at_limit", "bomb"] {
            let run = Run::new(user).args(under).args(&[&program, case]);
            let outcome = run.ulimit("-p", PROCESSES).run()?;
            let which = || format!("{under:?} {case}");
            outcome.ended_well().with_context(which)?;
        }
    }
    Ok(())
}
