//! Mutation: each tier-1 system call is taken away in turn, and a program of the manifest must notice.
//!
//! A conformance suite that passes without a call's implementation says nothing about that call. The node is told by its
//! boot information to treat the call as missing, so the kernel under test is the very one that is shipped. The programs
//! that notice are named in the manifest; one of them suffices.

use anyhow::{Context, Result, bail, ensure};
use libtest_mimic::Arguments;
use margay_tests::compare;
use margay_tests::manifest::{self, Row};
use margay_tests::report::Stderr;
use margay_tests::run::{HANG, Run};
use margay_tests::trial::trial;

/// The node is to refuse the calls named here.
const REFUSE: &str = "MARGAY_REFUSE";

/// Seconds after which a program hangs without the call. As long as the native run may take: on a machine that is busy with others a
/// program that is only slow must not pass for one that notices.
const HUNG_S: &str = "20";

/// What static C, Fortran, C++ and Rust programs call on Linux, by tracing them, and what signals, time and
/// files of the first promises need besides.
const TIER_1: &[&str] = &[
    // In the kernel.
    "arch_prctl",
    "brk",
    "clock_gettime",
    "clock_nanosleep",
    "exit_group",
    "getpid",
    "getppid",
    "getrandom",
    "getrusage",
    "gettid",
    "getuid",
    "kill",
    "madvise",
    "mmap",
    "mprotect",
    "mremap",
    "munmap",
    "prlimit64",
    "rseq",
    "rt_sigaction",
    "rt_sigprocmask",
    "rt_sigreturn",
    "set_robust_list",
    "set_tid_address",
    "sigaltstack",
    "tgkill",
    "uname",
    // Shipped.
    "access",
    "close",
    "dup2",
    "fcntl",
    "fstat",
    "ftruncate",
    "getcwd",
    "getdents64",
    "ioctl",
    "lseek",
    "mkdir",
    "newfstatat",
    "open",
    "openat",
    "pipe2",
    "pread64",
    "read",
    "readlink",
    "readv",
    "rename",
    "unlink",
    "write",
    "writev",
];

fn main() {
    let arguments = Arguments::from_args();
    let rows = manifest::read("programs.tsv", "1M").expect("a right manifest");
    let trials = TIER_1.iter().map(|call| {
        let noticing: Vec<Row> = rows
            .iter()
            .filter(|row| row.notices.iter().any(|name| name == call))
            .cloned()
            .collect();
        trial(*call, move || somebody_notices(call, &noticing))
    });
    libtest_mimic::run(&arguments, trials.collect()).exit();
}

fn somebody_notices(call: &str, rows: &[Row]) -> Result<()> {
    ensure!(
        !rows.is_empty(),
        "no program of the manifest claims to notice the loss of {call}"
    );
    for row in rows {
        if notices(call, row)? {
            return Ok(());
        }
    }
    let names: Vec<_> = rows.iter().map(|row| row.name.as_str()).collect();
    bail!("without {call} nothing changes for {}", names.join(", "))
}

/// Both runs have the variable, for programs may print their environment. The crippled run must have been one: a node that
/// does not start is not a program that notices.
fn notices(call: &str, row: &Row) -> Result<bool> {
    let native = Run::native(row).env(&[(REFUSE, call)]).run()?;
    let crippled = Run::margay(row, &["--stats=json", "--timeout", HUNG_S])
        .env(&[(REFUSE, call)])
        .limit(2 * HANG)
        .run()?;
    let stderr = Stderr::new(crippled.stderr.head()).with_context(|| crippled.stderr.text())?;
    ensure!(
        stderr.stats.rank_entries()? > 0,
        "{}: no entry from ring 3",
        row.name
    );
    Ok(compare::same(&native, &crippled, &stderr.rest).is_err())
}
