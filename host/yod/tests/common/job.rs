//! Programs that pass their time as their arguments say, and jobs of them.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use super::{Process, compile, dir, has_node, has_state, wait_for, yod};

/// Passes its time as its argument says, once it has said "ready".
const PROGRAM: &str = r#"
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
static void stop_all(int signal) { (void)signal; kill(0, SIGSTOP); _exit(7); }
int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    if (strchr(what, 'i')) signal(SIGPIPE, SIG_IGN);
    if (strchr(what, 't')) signal(SIGTERM, stop_all);
    puts("ready");
    fflush(stdout);
    if (strchr(what, 's')) raise(SIGSTOP);
    if (strchr(what, 'g')) kill(0, SIGSTOP);
    if (strchr(what, 'c')) for (;;) getppid();
    if (strchr(what, 'p')) while (puts("and on and on and on") >= 0) fflush(stdout);
    if (strchr(what, 'w')) for (;;) sleep(1);
    return 0;
}
"#;

/// A yod for ranks of 64 MiB, which may be more than there are cores.
pub fn small_yod() -> Command {
    let mut yod = yod();
    yod.env("MARGAY_OVERSUBSCRIBE", "1").args(["-m", "64M"]);
    yod
}

/// [`PROGRAM`] in a directory of the test's own, and a yod to run it; `None` where no kernel is built.
pub fn program(test: &str) -> Option<(PathBuf, Command)> {
    has_node().then(|| {
        let program = compile(&dir(test), "program", PROGRAM);
        (program, small_yod())
    })
}

/// Starts a job whose output goes to a file, and waits until a rank runs.
pub fn start(program: &Path, yod: &mut Command, what: &str) -> Child {
    let child = spawn(program, yod, what);
    wait_for("a running rank", || runs(program).then_some(()));
    child
}

/// Starts a job whose output goes to a file.
pub fn spawn(program: &Path, yod: &mut Command, what: &str) -> Child {
    let out = File::create(program.with_file_name("out"));
    yod.stdout(out.expect("a file"));
    yod.arg(program).arg(what).spawn().expect("yod starts")
}

/// Whether a rank of such a job runs.
pub fn runs(program: &Path) -> bool {
    let out = std::fs::read_to_string(program.with_file_name("out"));
    out.is_ok_and(|text| text.contains("ready"))
}

/// Starts a job with a time limit of which half is left when it is ready: on a slow machine a longer one.
pub fn start_limited(
    mut spawn: impl FnMut(&mut Command) -> Child,
    ready: impl Fn(&Child) -> bool,
) -> Child {
    for limit_s in [4, 8, 16] {
        let mut yod = small_yod();
        yod.args(["--timeout", &limit_s.to_string()]);
        let begun = Instant::now();
        let mut child = spawn(&mut yod);
        let pid = child.id() as i32;
        wait_for("a job that is ready or over", || {
            (ready(&child) || has_state(pid, 'Z')).then_some(())
        });
        if begun.elapsed() < Duration::from_secs(limit_s) / 2 {
            return child;
        }
        child.kill().expect("signalled");
        child.wait().expect("a child");
    }
    panic!("this machine is too slow");
}

/// The process of a job with this name.
pub fn member(job: &[Process], name: &str) -> i32 {
    let found = job.iter().find(|process| process.name.starts_with(name));
    found.unwrap_or_else(|| panic!("no {name} in {job:?}")).pid
}
