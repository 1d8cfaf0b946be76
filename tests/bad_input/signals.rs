//! Signals that are more than the program's: to the process group that yod is in, and the one by which a proxy gives up calls.

use std::fs;
use std::process::Command;

use anyhow::{Result, ensure};
use libtest_mimic::Trial;
use margay_tests::clean;
use margay_tests::process;
use margay_tests::run::{HANG, Run};
use margay_tests::scratch::Scratch;

use crate::case;

pub fn all() -> Vec<Trial> {
    vec![
        case("signals: SIGKILL to the own group", own_group),
        case("signals: 64 from outside", sixty_four),
    ]
}

/// It ends the job, as natively, and nothing of it is left: the keeper, in a group of its own, sees that its yod is gone.
fn own_group() -> Result<()> {
    let natively = Run::new([""; 0]);
    let jobs = [natively, Run::yod(&["--"]), Run::yod(&["-n", "2", "--"])];
    for run in jobs {
        let run = run.args(&["/usr/bin/perl", "-e", "kill 'KILL', 0; sleep 100"]);
        let outcome = clean::run(run)?;
        ensure!(
            outcome.status == Some(137) && outcome.stderr.text().is_empty(),
            "status {:?}: {}",
            outcome.status,
            outcome.stderr.text()
        );
    }
    Ok(())
}

/// The program, which has a handler, does not see it, and goes on.
fn sixty_four() -> Result<()> {
    const PROGRAM: &str = "
        $SIG{RTMAX} = sub { print qq(64\\n) };
        $SIG{USR1} = sub { exit 3 };
        open my $said, '>', 'new'; print $said $$; close $said;
        rename 'new', 'pid';
        sleep 1 while 1";
    let scratch = Scratch::new()?;
    let run = Run::yod(&["--"]).args(&["/usr/bin/perl", "-e", PROGRAM]);
    let started = run.start(&scratch)?;
    let file = scratch.path().join("cwd/pid");
    ensure!(
        process::wait_until(HANG, || file.exists()),
        "it has not begun"
    );
    let pid = fs::read_to_string(file)?;
    let send = format!("kill -64 {pid} && kill -USR1 {pid}");
    let sent = Command::new("/bin/sh").args(["-c", &send]).status()?;
    let outcome = started.finish(HANG)?;
    ensure!(
        sent.success() && outcome.status == Some(3) && outcome.stdout.text().is_empty(),
        "status {:?}: {}{}",
        outcome.status,
        outcome.stdout.text(),
        outcome.stderr.text()
    );
    Ok(())
}
