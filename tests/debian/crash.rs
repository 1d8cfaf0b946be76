//! A database whose writer is killed in the middle of a transaction, and who finds it whole again: each natively and on a node.

use anyhow::{Result, ensure};
use margay_tests::run::Run;
use margay_tests::scratch::Scratch;

/// Has written most of a transaction into the file itself when it kills itself.
const WRITER: &str = r#"
import os, sqlite3
x = sqlite3.connect("k.db", isolation_level=None).execute
x("pragma cache_size=4")
x("create table t(a,b)")
x("insert into t values(1,'kept')")
x("begin")
for i in range(200): x("insert into t values(?,?)", (i, "lost" * 700))
x("update t set b='lost'")
os.kill(os.getpid(), 9)
"#;
const READ: &str = "pragma integrity_check; select count(*), b from t;";
/// What READ says when the transaction was taken back.
const WHOLE: &str = "ok\n1|kept\n";
/// A file that holds but the first row is smaller.
const SPILT_BYTES: u64 = 100_000;

/// Writer and reader on Linux and on a node, in all ways.
///
/// # Errors
/// Says who did what that must not be.
pub fn check() -> Result<()> {
    for (writer_here, reader_here) in [(false, true), (true, false), (true, true)] {
        let scratch = Scratch::new()?;
        let killed = run(writer_here, "python3", &["-c", WRITER]).run_in(&scratch)?;
        let said = killed.stderr.text();
        ensure!(
            killed.status == Some(137),
            "the writer (here: {writer_here}): status {:?}: {said}",
            killed.status
        );
        let file = |name: &str| std::fs::metadata(scratch.path().join("cwd").join(name));
        ensure!(
            file("k.db")?.len() > SPILT_BYTES && file("k.db-journal")?.len() > 0,
            "the writer (here: {writer_here}) was not in the middle of a transaction"
        );
        let read = run(reader_here, "sqlite3", &["k.db", READ]).run_in(&scratch)?;
        ensure!(
            read.status == Some(0) && read.stdout.text() == WHOLE,
            "written (here: {writer_here}), read (here: {reader_here}): {}{}",
            read.stdout.text(),
            read.stderr.text()
        );
        ensure!(file("k.db-journal").is_err(), "the journal is still there");
    }
    Ok(())
}

fn run(here: bool, program: &str, args: &[&str]) -> Run {
    let program = format!("/usr/bin/{program}");
    let run = if here {
        Run::yod(&["-q", "--", &program])
    } else {
        Run::new([&program])
    };
    run.args(args)
}
