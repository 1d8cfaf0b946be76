//! The plugin of bench/plugin, on programs whose counts are known beforehand. Needs it and yod built:
//! `cargo run -p xtask -- check --only plugin`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use margay_bench::control;
use margay_bench::lab::allowed_cores;
use margay_bench::plugin::{Counts, Report, Side};
use margay_tests::tree::{root, target};

const PAGES: u64 = 64 << 8;
/// Pages of a file that it loads from.
const FILE_PAGES: u64 = 16;

/// A file that tests write.
fn tmp(name: &str) -> PathBuf {
    let folder = target().join("tmp");
    fs::create_dir_all(&folder).expect("the target directory is writable");
    folder.join(name)
}

fn compile(sources: &[&str], name: &str) -> PathBuf {
    let program = tmp(name);
    let status = Command::new("cc")
        .args([
            "-std=gnu11",
            "-O2",
            "-static",
            "-Wall",
            "-Wextra",
            "-Werror",
        ])
        .args(
            sources
                .iter()
                .map(|source| root().join("bench/plugin").join(source)),
        )
        .arg("-o")
        .arg(&program)
        .status();
    assert!(status.expect("a compiler").success(), "{name}");
    program
}

/// yod with the plugin and these arguments for it, one core for each rank: rank r runs on virtual CPU r.
fn yod(arguments: &str) -> Command {
    let mut command = yod_with(arguments, "128M");
    command.args(["-d", "1"]);
    command
}

/// As [`yod`], with so much memory for each rank, and the cores that the host has shared among them.
fn yod_with(arguments: &str, memory: &str) -> Command {
    let library = target().join("plugin/margay-count.so");
    let beside = target().join("release/yod");
    let yod = std::env::var_os("MARGAY_YOD").map_or(beside, PathBuf::from);
    let plugin = format!("{},{arguments}", library.display());
    let mut command = Command::new(yod);
    command
        .args(["--accel", "tcg", "-m", memory, "--oversubscribe"])
        .env("MARGAY_QEMU_PLUGIN", plugin);
    command
}

/// The report of a run that ends well, and what it printed.
fn counted(mut command: Command, out: &Path) -> (Report, String) {
    let output = command.output().expect("yod runs");
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}", said(&output.stderr));
    (Report::read(out).expect("a report"), said(&output.stdout))
}

fn user(counts: &Counts) -> (u64, u64, u64) {
    assert_eq!((counts.kernel_entries, counts.kernel.instructions), (0, 0));
    let Side {
        instructions,
        loads,
        stores,
        ..
    } = counts.user;
    (instructions, loads, stores)
}

/// Of the TLB for pages of a size: misses of the first level, of both, references.
fn tlb(counts: &Counts, size: &str) -> [u64; 3] {
    let tlb = counts.user.model.as_ref().expect("a model").tlb[size];
    [tlb.l1_misses, tlb.walks, tlb.walk_references]
}

#[test]
fn known_regions_have_the_counts_they_must_have() {
    let probe = compile(&["test/probe.c"], "plugin-probe");
    let out = tmp("plugin-known.json");
    let run = || {
        let mut command = yod(&format!("out={},irqs=on", out.display()));
        command.env("MARGAY_ICOUNT", "1").arg(&probe).arg("1234");
        counted(command, &out).0
    };
    let report = run();
    let [counting, first, again, still, call, _, wait] = &report.vcpus[0].regions[..] else {
        panic!("{report:?}");
    };
    assert!(!report.vcpus[0].open);
    assert_eq!(user(counting), (2 * 1234, 0, 0));
    for region in [first, again, still] {
        assert_eq!(user(region), (4 * PAGES, PAGES, 0));
    }
    // No two pages share a line or a page of 4 KiB; 64 MiB are 32 pages of 2 MiB, or 33 when they begin within one.
    for region in [first, again] {
        let model = region.user.model.as_ref().expect("a model");
        assert_eq!(
            (model.l1d_misses, model.l2_misses, model.unresolved),
            (PAGES, PAGES, 0)
        );
        assert_eq!(tlb(region, "4K"), [PAGES, PAGES, 4 * PAGES]);
    }
    let [misses, walks, references] = tlb(first, "2M");
    assert!((32..=33).contains(&walks) && misses == walks && references == 3 * walks);
    assert!(tlb(first, "1G")[1] <= 2);
    // The second level has room for all of them, and nothing else used it.
    assert_eq!(tlb(again, "2M")[1..], [0, 0]);
    let model = still.user.model.as_ref().expect("a model");
    assert!(model.l1d_misses <= 1 && tlb(still, "4K")[1] <= 1);
    pages_are_as_margay_gives_them(first, again);
    assert_eq!((call.kernel_entries, call.user.instructions), (1, 2));
    // The pause before its first turn is far away.
    assert_eq!(user(wait), (3 * 1234, 0, 0));
    assert_eq!((counting.user.waited, wait.user.waited), (0, 3 * 1233));
    // Interrupts are off from SYSCALL to SYSRET, and nowhere in a program.
    let off = |region: &Counts| region.irqs_off.expect("irqs=on").longest;
    assert_eq!(off(call), call.kernel.instructions);
    assert!(
        [counting, first, again, still]
            .map(off)
            .iter()
            .all(|&off| off == 0)
    );
    assert!(call.kernel.instructions > 20 && call.kernel.loads > 5 && call.kernel.stores > 5);

    for _ in 1..5 {
        assert_eq!(run().vcpus[0].regions, report.vcpus[0].regions);
    }
}

/// 64 MiB of whole pages of 2 MiB, and the rest on either side in small ones: too many for the second level, and all of them
/// touched in the first of the two regions.
fn pages_are_as_margay_gives_them(first: &Counts, again: &Counts) {
    let [first, again] = [first, again].map(|region| region.in_use.as_ref().expect("a model"));
    let (small, large) = (first.pages["4K"], first.pages["2M"]);
    assert!((31..=32).contains(&large.walks), "{first:?}");
    assert_eq!(large.touched_bytes, large.walks << 21);
    assert_eq!(small.touched_bytes, small.walks << 12);
    assert!(
        (PAGES << 12..=(PAGES + 2) << 12).contains(&(small.touched_bytes + large.touched_bytes))
    );
    for region in [first, again] {
        let walks = |size: &str| region.pages[size].walks;
        assert_eq!((region.unknown, walks("1G")), (0, 0));
        assert_eq!(region.walk_references, 4 * walks("4K") + 3 * walks("2M"));
    }
    assert!(again.pages.values().all(|pages| pages.touched_bytes == 0));
}

/// The largest memfd was taken for the node's RAM, and no page was known where the pool of shared files was larger. Then none
/// that lies in the pool, as what is mapped of a file does.
#[test]
fn memory_is_found_beside_a_larger_pool() {
    let probe = compile(&["test/probe.c"], "plugin-probe-pool");
    let out = tmp("plugin-pool.json");
    let mut command = yod(&format!("out={}", out.display()));
    command.args(["--shared-memory", "512M"]);
    command.env("MARGAY_ICOUNT", "1").arg(&probe).arg("1");
    let report = counted(command, &out).0;
    let [_, first, again, _, _, file, _] = &report.vcpus[0].regions[..] else {
        panic!("{report:?}");
    };
    pages_are_as_margay_gives_them(first, again);
    let file = file.in_use.as_ref().expect("a model");
    assert_eq!((file.pages["4K"].walks, file.unknown), (FILE_PAGES, 0));
}

/// Two ranks at once, on threads of their own, each with another number of rounds.
#[test]
fn each_cpu_has_its_own_counts() {
    let probe = compile(&["test/probe.c"], "plugin-probe-2");
    let out = tmp("plugin-two.json");
    let watched = tmp("plugin-two.watched");
    let mut command = yod(&format!(
        "out={},watch={},model=off",
        out.display(),
        watched.display()
    ));
    command.args(["-n", "2", "--label"]).arg(&probe);
    let (report, said) = counted(command, &out);
    assert!(report.vcpus.len() >= 2);
    let watched = std::fs::read(watched).expect("what could be watched");
    let watched: Vec<u64> = watched
        .chunks(8)
        .map(|bytes| u64::from_ne_bytes(bytes.try_into().expect("a word")))
        .collect();
    for (rank, vcpu) in report.vcpus.iter().take(2).enumerate() {
        let run = &vcpu.run;
        let counts = [
            run.user.instructions,
            run.kernel.instructions,
            run.kernel_entries,
        ];
        assert_eq!(watched[8 * rank..][..3], counts);
        let rounds = said
            .lines()
            .find_map(|line| line.strip_prefix(&format!("[{rank}] ")))
            .expect("each rank says its rounds");
        let rounds: u64 = rounds.parse().expect("a number");
        assert_eq!(vcpu.regions.len(), 7);
        assert_eq!(user(&vcpu.regions[0]), (2 * rounds, 0, 0));
        assert_eq!(user(&vcpu.regions[1]), (4 * PAGES, PAGES, 0));
        assert_eq!(vcpu.regions[0].user.model, None);
    }
}

/// From reset to the end of the last of `ranks` ranks that do nothing, on one core: executed instructions, but those that wait
/// for the host, which are more the busier it is.
fn executed(nothing: &Path, ranks: u64) -> u64 {
    let out = tmp(&format!("plugin-{ranks}-ranks.json"));
    let yod = {
        let mut yod = yod_with(&format!("out={},model=off", out.display()), "4M");
        yod.args(["-n", &ranks.to_string(), "--"]).arg(nothing);
        yod
    };
    let mut on_one_core = Command::new("taskset");
    on_one_core
        .args(["--cpu-list", &allowed_cores()[0].to_string()])
        .arg(yod.get_program())
        .args(yod.get_args())
        .envs(
            yod.get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .env("MARGAY_ICOUNT", "1");
    let (report, _) = counted(on_one_core, &out);
    report.worked()
}

/// Starting and ending cost as much for each of 64 ranks as for each of 16, within a fifth: what a core does when its doorbell
/// rings, and the PCT for an event, must not grow with the ranks. Waiting for the host can only make a count
/// larger: the least counts.
#[test]
fn starting_costs_as_much_for_each_rank_of_many() {
    const RUNS: usize = 5;
    let nothing = compile(&["test/nothing.c"], "plugin-nothing");
    let [one, few, many] = [1, 16, 64].map(|ranks| {
        let runs = (0..RUNS).map(|_| executed(&nothing, ranks));
        runs.min().expect("a run")
    });
    let each_of_few = (few - one) / 15;
    let each_of_many = (many - few) / 48;
    assert!(
        each_of_many * 5 <= each_of_few * 6,
        "instructions of each rank: {each_of_few} of 16, {each_of_many} of 64"
    );
}

/// Booting is most of what a kernel does for a short program.
#[test]
fn what_comes_before_the_first_mark_can_be_left_out() {
    let probe = compile(&["test/probe.c"], "plugin-probe-3");
    let run = |scope: &str| {
        let out = tmp(&format!("plugin-{scope}.json"));
        let mut command = yod(&format!("out={},scope={scope},model=off", out.display()));
        command.arg(&probe).arg("10");
        counted(command, &out).0.vcpus[0].clone()
    };
    let (all, marked) = (run("run"), run("marks"));
    assert_eq!(all.regions, marked.regions);
    assert!(all.before_regions > 500_000 && marked.before_regions == 0);
    assert!(marked.run.kernel.instructions < all.run.kernel.instructions / 2);
    assert!(marked.run.user.instructions >= 12 * PAGES);
}

/// The flag itself is read: what is longest does not depend on what a kernel says of itself.
#[test]
fn sections_with_interrupts_off_have_the_lengths_they_must_have() {
    let library = target().join("plugin/margay-count.so");
    let guest = tmp("plugin-sections");
    let found = control::known_sections(&library, &guest).expect("a guest that ends");
    control::ensure_known(&found).expect("known lengths");
}

#[test]
fn wrong_arguments_get_one_line() {
    let probe = compile(&["test/probe.c"], "plugin-probe-4");
    for (arguments, status, part) in [
        ("model=of", 69, "model=of: arguments are out=FILE"),
        ("model=off", 69, "say where to write: out=FILE"),
        ("out=/nowhere/counts", 69, "/nowhere/counts: No such file"),
        (
            "out=/dev/null,watch=/nowhere/counts",
            69,
            "/nowhere/counts: No such file",
        ),
    ] {
        let output = yod(arguments).arg(&probe).output().expect("yod runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(part) && said.lines().count() == 1, "{said}");
        assert_eq!(output.status.code(), Some(status), "{said}");
    }
    let mut command = yod("");
    command.env("MARGAY_QEMU_PLUGIN", "/nowhere/plugin.so,out=/tmp/x");
    let output = command.arg(&probe).output().expect("yod runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        said.contains("MARGAY_QEMU_PLUGIN: /nowhere/plugin.so"),
        "{said}"
    );
    assert_eq!(output.status.code(), Some(2), "{said}");
}

#[test]
fn the_model_misses_what_its_geometry_demands() {
    let test = compile(&["test/model_test.c", "model.c"], "plugin-model-test");
    let output = Command::new(test).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
}
