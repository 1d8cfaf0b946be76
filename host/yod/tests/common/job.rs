//! Programs that pass their time as they are told, and jobs of them.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use super::{Process, compile, dir, has_node, wait_for, yod};

/// Passes its time as it is told, once it has said "ready".
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

/// [`PROGRAM`] in a directory of the test's own, and a yod to run it; `None` where no kernel is built.
pub fn program(test: &str) -> Option<(PathBuf, Command)> {
    has_node().then(|| {
        let program = compile(&dir(test), "program", PROGRAM);
        let mut yod = yod();
        yod.env("MARGAY_OVERSUBSCRIBE", "1").args(["-m", "64M"]);
        (program, yod)
    })
}

/// Starts a job whose output goes to a file, and waits until a rank runs.
pub fn start(program: &Path, yod: &mut Command, what: &str) -> Child {
    let out = program.with_file_name("out");
    yod.stdout(File::create(&out).expect("a file"));
    let child = yod.arg(program).arg(what).spawn().expect("yod starts");
    wait_for("a running rank", || {
        std::fs::read_to_string(&out)
            .is_ok_and(|text| text.contains("ready"))
            .then_some(())
    });
    child
}

/// A time limit for a job like one that took so long to get ready: this one is ready long before, on a slow machine, too.
pub fn limit_after(ready: Duration) -> String {
    (4 * ready + Duration::from_secs(1))
        .as_secs_f64()
        .to_string()
}

/// The process of a job with this name.
pub fn member(job: &[Process], name: &str) -> i32 {
    let found = job.iter().find(|process| process.name.starts_with(name));
    found.unwrap_or_else(|| panic!("no {name} in {job:?}")).pid
}
