//! The measuring of `make native-report`, in a guest: Debian's Linux in QEMU with margay.ko, as an unprivileged user, with tiny sizes. That
//! all of it runs and every row has numbers is what is seen here: an emulator's times say nothing.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use margay_bench::native::JOBS;
use margay_bench::programs;
use margay_tests::guest::Guest;
use margay_tests::guest::files::{Tree, Wanted};
use margay_tests::tree;

/// A minute on an idle host.
const LIMIT: Duration = Duration::from_secs(400);
/// By the guest's clock.
const COMMAND_LIMIT: Duration = Duration::from_secs(300);
/// To whom the device is given.
const USER: u32 = 1000;
const MEASURE: &str = "/native --tiny --runs 1 --revision abc --yod /yod --programs /program --to";
/// As docs/first-run.md has it, but for where yod is.
const HELLO: &str = "/yod --machine cokernel -n 1 -d 1 -m 64M /usr/bin/echo hello";
const TOOLS: [(&str, &str); 4] = [
    ("/usr/bin/cat", "coreutils"),
    ("/usr/bin/chown", "coreutils"),
    ("/usr/bin/echo", "coreutils"),
    ("/usr/bin/taskset", "util-linux"),
];

#[test]
fn a_report_has_every_row() -> Result<()> {
    let page = std::fs::read_to_string(tree::root().join("docs/first-run.md"))?;
    let shown = HELLO.replace("/yod", "target/release/yod");
    ensure!(page.contains(&shown), "the page has not {shown}");
    let mut guest = Guest::new()?;
    add_all(&mut guest)?;
    let report = format!("{MEASURE} /tmp/report.md");
    // Before the device is his: one line, and no file.
    guest.run(USER, COMMAND_LIMIT, &format!("{MEASURE} /tmp/none.md"));
    guest.run(0, COMMAND_LIMIT, "/usr/bin/chown 1000 /dev/margay");
    guest.run(USER, COMMAND_LIMIT, HELLO);
    guest.run(USER, COMMAND_LIMIT, &report);
    guest.run(0, COMMAND_LIMIT, "/usr/bin/cat /tmp/report.md");
    guest.run(0, COMMAND_LIMIT, "/usr/bin/cat /tmp/none.md");
    let accel = tree::accel();
    let options = ["-accel", &accel, "-cpu", "max", "-smp", "4", "-m", "3G"];
    let outcome = guest.boot(&options, LIMIT)?;
    let [refused, _, hello, measured, text, none] = &outcome.ran[..] else {
        anyhow::bail!("{:?}", outcome.ran);
    };
    ensure!(
        refused.how == "status 1"
            && refused.output.lines().count() == 1
            && refused.output.contains("/dev/margay is not this user's"),
        "{refused:?}"
    );
    ensure!(
        hello.how == "status 0" && hello.output.contains("hello"),
        "{hello:?}"
    );
    ensure!(none.how == "status 1", "{none:?}");
    ensure!(measured.how == "status 0", "{measured:?}\n{}", text.output);
    check_report(&text.output).with_context(|| text.output.clone())?;
    for complaint in ["WARNING:", "BUG:", "Call Trace"] {
        ensure!(!outcome.log.contains(complaint), "{}", outcome.log);
    }
    Ok(())
}

fn add_all(guest: &mut Guest) -> Result<()> {
    let tools = TOOLS.map(|(path, package)| Wanted {
        path,
        package,
        without: &[],
        optional: false,
    });
    let native = std::env::var_os("CARGO_BIN_EXE_native").context("cargo runs the tests")?;
    let native = Path::new(&native);
    guest.add_files(&Tree::gather(&tools, native)?)?;
    guest.add_yod(&[])?;
    guest.add("native", native)?;
    guest.add_folder("program");
    let built = tree::target().join("bench/programs");
    programs::build(&built)?;
    for job in JOBS {
        guest.add(
            &format!("program/{}", job.program),
            &built.join(job.program),
        )?;
    }
    Ok(())
}

/// What the machine is, and each figure with numbers of both sides.
fn check_report(text: &str) -> Result<()> {
    for part in [
        "| revision of Margay | abc |",
        "| CPU of the node | 3 |",
        "| Linux | 6.",
        "/dev/margay opens",
        "## Counted while FWQ ran",
        "## The kernel's log",
    ] {
        ensure!(text.contains(part), "no {part}");
    }
    for figure in JOBS.iter().flat_map(|job| job.figures) {
        let begin = format!("| {} | {} | ", figure.what, figure.unit);
        let row = text.lines().find_map(|line| line.strip_prefix(&begin));
        let row = row.with_context(|| format!("no row {}", figure.what))?;
        for cell in row.split(" | ").take(2) {
            let digits = cell.split(' ').next().unwrap_or_default().replace(',', "");
            let value: f64 = digits.parse().with_context(|| row.to_owned())?;
            ensure!(value.is_finite(), "{row}");
        }
    }
    Ok(())
}
