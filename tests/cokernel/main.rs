//! margay.ko (host/cokernel) in a guest: Debian's Linux in QEMU loads it, and device.c does with /dev/margay what a keeper, proxies and
//! people who mean no good do. The node's kernel is node.c, whose every step is known. What device.c has found is in its output;
//! here it is seen that all parts were run, and that the guest's Linux had nothing to complain of.

mod bad;
mod cycles;
mod inside;
mod job;
mod long;
mod noise;
mod suites;
mod watch;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Arguments;
use margay_tests::guest::{self, Guest};
use margay_tests::tree;
use margay_tests::trial::trial;

/// Of a boot with all checks, which takes half a minute on an idle host.
const LIMIT: Duration = Duration::from_secs(400);
/// Of device.c in the guest, by its clock.
const CHECKS_LIMIT: Duration = Duration::from_secs(300);
/// A user without rights.
const USER: u32 = 1000;
/// The parts of device.c.
const PARTS: [&str; 10] = [
    "life", "mappings", "bells", "returns", "numbers", "files", "rivals", "power", "races", "kills",
];
/// How node.c is compiled: as a kernel, linked as Margay's is.
const NODE_FLAGS: &str = "-std=gnu11 -O2 -Wall -Wextra -Werror -ffreestanding -fno-pic -no-pie -mcmodel=kernel -mno-red-zone \
    -mgeneral-regs-only -fno-stack-protector -fcf-protection=none -fno-asynchronous-unwind-tables -nostdlib -static \
    -Wl,--build-id=none,--no-warn-rwx-segments,-T,tests/cokernel/node.ld -Itests/cokernel -Ihost/cokernel";
/// What Linux says when something is wrong with it.
const COMPLAINTS: [&str; 11] = [
    "WARNING:",
    "BUG",
    "stall",
    "Call Trace",
    "handler for vector",
    "blocked for more",
    "lockup",
    "cut here",
    "Bad page",
    "protection fault",
    "Oops",
];
/// What the module says when device.c provokes it.
const PROVOKED: [&str; 4] = [
    "margay/margay.elf: not a kernel of Margay, or too large for this node's memory",
    "margay/pct: 2097153 bytes, more than 2097152",
    "cannot be had from Linux: -16",
    "a node runs: no suspend before it has ended",
];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [first, words @ ..] = &words[..]
        && first == inside::WORD
    {
        inside::main(words);
    }
    // In a guest this is what watches a node there.
    if words.first().is_some_and(|first| first == watch::WORD) {
        if let Err(error) = watch::run() {
            println!("{error:#}");
            std::process::exit(1);
        }
        return;
    }
    let arguments = Arguments::from_args();
    let trials = vec![
        trial("five_levels_of_tables", || check("max", "5120M")),
        trial("four_levels_of_tables", || check("max,la57=off", "1536M")),
        trial("a_job", job::check),
        trial("bad_input", bad::check),
        trial("one_cpu", bad::one_cpu),
        trial("suites", suites::check),
        trial("long_cycles", long::cycles).with_ignored_flag(true),
        trial("long_conformance", long::conformance).with_ignored_flag(true),
        trial("long_attack", long::attack).with_ignored_flag(true),
        trial("a_busy_linux_that_is_not_noticed", noise::quiet),
        trial("a_busy_linux_that_is", noise::loud),
    ];
    libtest_mimic::run(&arguments, trials).exit();
}

/// With memory above 4 GiB the node's lies there.
fn check(cpu: &str, memory: &str) -> Result<()> {
    let mut guest = Guest::new()?;
    let (device, node) = (guest.folder().join("device"), guest.folder().join("node"));
    let sources = ["device.c", "use.c", "abuse.c"].map(|name| format!("tests/cokernel/{name}"));
    guest::compile(
        &sources.each_ref().map(String::as_str),
        &device,
        &["-Itests/cokernel", "-Ihost/cokernel"],
    )?;
    compile_node(&node)?;
    guest.add("device", &device)?;
    for folder in ["lib", "lib/firmware", "lib/firmware/margay"] {
        guest.add_folder(folder);
    }
    guest.add("lib/firmware/margay/margay.elf", &node)?;
    let pct = guest.folder().join("pct");
    std::fs::write(&pct, [b'!'; 64])?;
    guest.add("lib/firmware/margay/pct", &pct)?;
    guest.run(0, CHECKS_LIMIT, "/device");
    guest.run(USER, CHECKS_LIMIT, "/device");
    guest.run(0, CHECKS_LIMIT, "/device stay");

    let accel = tree::accel();
    let options = ["-accel", &accel, "-cpu", cpu, "-smp", "4", "-m", memory];
    let outcome = guest.boot(&options, LIMIT)?;
    let [root, user, stay] = &outcome.ran[..] else {
        anyhow::bail!("{} commands ended", outcome.ran.len());
    };
    let complaints = complaints(&outcome.log);
    ensure!(
        root.how == "status 0" && complaints.is_empty(),
        "{}: {}\n{complaints}",
        root.how,
        root.output
    );
    for part in PARTS {
        let line = format!("ok {part}: ");
        ensure!(root.output.contains(&line), "no {line}");
    }
    for command in [user, stay] {
        ensure!(
            command.how == "status 0",
            "{}: {}",
            command.how,
            command.output
        );
    }
    // It runs on when the machine is switched off: its CPUs come back first.
    for words in ["Booting Node 0 Processor 3", "reboot: Power down"] {
        ensure!(outcome.end.contains(words), "no {words} in {}", outcome.end);
    }
    Ok(())
}

fn compile_node(to: &Path) -> Result<()> {
    let gcc = Command::new("gcc")
        .args(NODE_FLAGS.split_whitespace())
        .arg("-o")
        .arg(to)
        .arg("tests/cokernel/node.c")
        .current_dir(tree::root())
        .output()
        .context("cannot run gcc")?;
    let said = String::from_utf8_lossy(&gcc.stderr);
    ensure!(gcc.status.success(), "node.c: {said}");
    Ok(())
}

/// Lines of the guest's kernel that should not be there.
fn complaints(log: &str) -> String {
    let is_wrong = |line: &&str| {
        let complains = COMPLAINTS.iter().any(|word| line.contains(word));
        let of_module =
            line.contains("] margay: ") && line.starts_with(['<']) && line[1..2] <= *"4";
        let expected = PROVOKED.iter().any(|words| line.ends_with(words))
            || line.contains("taints kernel")
            || line.contains("verification failed");
        complains || of_module && !expected
    };
    let wrong: Vec<&str> = log.lines().filter(is_wrong).collect();
    wrong.join("\n")
}
