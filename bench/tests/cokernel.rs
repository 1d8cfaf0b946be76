//! The kernel on CPUs of a running Linux executes what it executes on a QEMU node, and on the core of a program that requests nothing
//! it executes nothing. Needs the plugin of bench/plugin, margay.ko and yod: `cargo run -p xtask -- check --only cokernel-counts`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use margay_bench::plugin::{self, Counts, Report};
use margay_tests::guest::{self, Guest};
use margay_tests::tree::{self, target};

/// Of each kind, as counted.c has them.
const ROUNDS: usize = 40;
/// Of which kinds these are, and by how many percent they may differ: where frames lie decides how many page tables are written, and a bell
/// is a word and two registers of an xAPIC, not one register of a device.
const KINDS: [(&str, u64); 5] = [
    ("getpid", 0),
    ("mmap", 1),
    ("mprotect", 1),
    ("raise", 0),
    ("poll, shipped", 10),
];
/// Seconds in which the program requests nothing.
const QUIET: usize = 10;
const LIMIT: Duration = Duration::from_secs(300);

fn tmp(name: &str) -> PathBuf {
    let folder = target().join("tmp");
    std::fs::create_dir_all(&folder).expect("the target directory is writable");
    folder.join(name)
}

fn plugin_to(out: &Path) -> String {
    let library = plugin::there(&target().join("bench")).expect("xtask builds the plugin");
    let (library, out) = (library.display(), out.display());
    format!("{library},out={out},scope=marks,model=off")
}

/// On a node that is a virtual machine.
fn on_qemu(program: &Path) -> Report {
    let out = tmp("counts-qemu.json");
    let mut yod = Command::new(tree::yod());
    yod.args(["--accel", "tcg", "-n", "1", "-m", "64M"])
        .arg(program)
        .env("MARGAY_QEMU_PLUGIN", plugin_to(&out));
    let output = yod.output().expect("yod runs");
    assert!(output.status.success(), "{output:?}");
    Report::read(&out).expect("a report")
}

/// On a co-kernel beside Linux, which is told not to interrupt CPUs that it has given up.
fn on_cokernel(program: &Path) -> Report {
    let out = tmp("counts-cokernel.json");
    let mut guest = Guest::new().expect("a guest");
    guest.add_yod(&[]).expect("files of a node");
    guest.add("counted", program).expect("a program");
    guest.add_word("no_ipi_broadcast=1");
    let command = format!("/yod --machine cokernel -n 1 -d 1 -m 64M /counted {QUIET}");
    guest.run(0, LIMIT, &command);
    let plugin = plugin_to(&out);
    let machine = "-accel tcg -cpu max -smp 4 -m 1536M -plugin".split(' ');
    let options: Vec<&str> = machine.chain([&*plugin]).collect();
    let outcome = guest.boot(&options, LIMIT).expect("it ends");
    let [ran] = &outcome.ran[..] else {
        panic!("{:?}", outcome.ran);
    };
    assert!(ran.how == "status 0", "{ran:?}");
    Report::read(&out).expect("a report")
}

/// The regions of the only program that has marks.
fn regions(report: &Report, quiet: usize) -> &[Counts] {
    let marked = |vcpu: &&plugin::Vcpu| !vcpu.regions.is_empty();
    let mut vcpus = report.vcpus.iter().filter(marked);
    let (vcpu, none) = (vcpus.next().expect("a CPU"), vcpus.next());
    assert!(none.is_none() && !vcpu.open, "{report:?}");
    assert_eq!(vcpu.regions.len(), KINDS.len() * ROUNDS + quiet);
    &vcpu.regions
}

/// The least that the kernel executed for a kind of call: a doorbell that comes late, or a core that does not halt at once, can only make
/// it more.
fn least(regions: &[Counts], kind: usize) -> u64 {
    let rounds = regions[kind * ROUNDS..][..ROUNDS].iter();
    let worked = rounds.map(|counts| counts.kernel.instructions - counts.kernel.waited);
    worked.min().expect("rounds")
}

#[test]
fn the_kernel_executes_what_it_does_on_qemu_and_nothing_beside_a_program() {
    let program = tmp("counted");
    guest::compile(&["bench/cokernel/counted.c"], &program, &[]).expect("a compiler");

    let (qemu, cokernel) = (on_qemu(&program), on_cokernel(&program));
    let (qemu, cokernel) = (regions(&qemu, 0), regions(&cokernel, QUIET));
    for (kind, (name, percent)) in KINDS.into_iter().enumerate() {
        let (there, here) = (least(qemu, kind), least(cokernel, kind));
        println!("{name}: {there} instructions on QEMU, {here} on a co-kernel");
        let most = there * percent / 100;
        assert!(here.abs_diff(there) <= most, "{name}: {there}, {here}");
    }
    let quiet = &cokernel[KINDS.len() * ROUNDS..];
    let (first, quiet) = quiet.split_first().expect("seconds");
    // The last shipped call's answer may be there before its bell, which is rung when Linux runs the proxy again.
    assert!(first.kernel_entries <= 1, "{first:?}");
    for second in quiet {
        assert_eq!((second.kernel_entries, second.kernel.instructions), (0, 0));
    }
    let beside: u64 = quiet.iter().map(|second| second.user.instructions).sum();
    assert!(beside > 10_000_000, "{quiet:?}");
}
