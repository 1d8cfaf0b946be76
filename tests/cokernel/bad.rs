//! What bad input gets from yod: the module missing or of another version, too little of what a node needs, kernels and PCTs that do
//! not do what they must. One line each, and Linux whole.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use margay_tests::guest::Guest;
use margay_tests::tree;

use super::job::{self, Step};

/// Two users without rights.
const USERS: [u32; 2] = [1000, 1001];
/// A function of the kernel that runs when a rank makes a call that there is not.
const ENTERED: &str = "margay::syscall::unknown";
/// UD2.
const UNDEFINED: [u8; 2] = [0x0f, 0x0b];
/// CLI, and a jump to itself.
const HANGS: [u8; 3] = [0xfa, 0xeb, 0xfe];

const FIRST: [Step; 14] = [
    (
        0,
        "/yod --machine cokernel -n 1 -m 64M /program/hello",
        "status 69",
        "/dev/margay is not there: load margay.ko",
    ),
    (0, "/load /other/margay.ko", "status 0", ""),
    (
        0,
        "/yod -n 1 -m 64M /program/hello",
        "status 71",
        "the margay.ko that is loaded is of another version than yod",
    ),
    (0, "/load", "status 0", ""),
    (0, "/load /right/margay.ko", "status 0", ""),
    // An interrupt that is bound to a CPU of the node, that of the console, goes elsewhere.
    (
        0,
        "/usr/bin/cp /only_cpu_2 /proc/irq/4/smp_affinity",
        "status 0",
        "",
    ),
    (
        0,
        "/yod -n 1 -m 64M /program/hello",
        "status 0",
        "hello from rank 0 of 1",
    ),
    (
        0,
        "/yod -n 1 -m 1760M /program/hello",
        "status 71",
        "of memory of a piece: ask for less with -m, or boot Linux with movablecore=",
    ),
    (0, "/usr/bin/chmod 666 /dev/margay", "status 0", ""),
    (
        USERS[0],
        "/usr/bin/setsid -f /yod --timeout 20 -n 1 -d 1 -m 64M /program/endless spin",
        "status 0",
        "",
    ),
    (
        0,
        "/load /sys/devices/system/cpu/cpu3/online 0",
        "status 0",
        "",
    ),
    (
        USERS[1],
        "/yod -n 1 -d 2 -m 64M /program/hello",
        "status 0",
        "hello from rank 0 of 1",
    ),
    (
        USERS[1],
        "/yod -n 3 -m 64M /program/hello",
        "status 2",
        "-n 3: only 2 cores are available here",
    ),
    (0, "/load", "status 1", "Resource temporarily unavailable"),
];
/// A kernel that panics, one that hangs with interrupts off, a PCT that ends, none.
const SECOND: [Step; 14] = [
    (
        0,
        "/usr/bin/cp /panics /usr/lib/firmware/margay/margay.elf",
        "status 0",
        "",
    ),
    (
        0,
        "/yod -n 1 -m 64M /program/no_such_call",
        "status 70",
        "the node's kernel panicked on cpu",
    ),
    (
        0,
        "/usr/bin/cp /hangs /usr/lib/firmware/margay/margay.elf",
        "status 0",
        "",
    ),
    (
        0,
        "/yod --timeout 5 -n 2 -m 64M /program/no_such_call",
        "status 124",
        "",
    ),
    (
        0,
        "/usr/bin/timeout -s KILL 6 /yod -n 2 -m 64M /program/no_such_call",
        "signal 9",
        "",
    ),
    (
        0,
        "/usr/bin/cp /margay/margay.elf /usr/lib/firmware/margay/margay.elf",
        "status 0",
        "",
    ),
    (
        0,
        "/usr/bin/cp /pct_ends /usr/lib/firmware/margay/pct",
        "status 0",
        "",
    ),
    (0, "/yod -n 1 -m 64M /program/hello", "status 70", "yod: "),
    (
        0,
        "/usr/bin/rm /usr/lib/firmware/margay/pct",
        "status 0",
        "",
    ),
    (
        0,
        "/yod -n 1 -m 64M /program/hello",
        "status 71",
        "no margay/margay.elf or margay/pct in /lib/firmware",
    ),
    (
        0,
        "/usr/bin/cp /margay/pct /usr/lib/firmware/margay/pct",
        "status 0",
        "",
    ),
    // The other user's job is over.
    (
        0,
        "/load /sys/devices/system/cpu/cpu3/online 1",
        "status 0",
        "",
    ),
    (
        0,
        "/yod -n 3 -m 64M /program/hello",
        "status 0",
        "hello from rank 2 of 3",
    ),
    (
        0,
        "/usr/bin/cat /sys/devices/system/cpu/online",
        "status 0",
        "0-3",
    ),
];

/// Linux keeps the only CPU.
pub fn one_cpu() -> Result<()> {
    let mut guest = Guest::new()?;
    job::add_files(&mut guest)?;
    let refused = "of the CPUs that this job may use (0) none is left for a co-kernel";
    let steps = [(
        0,
        "/yod --machine cokernel -n 1 -m 64M /program/hello",
        "status 2",
        refused,
    )];
    job::boot(guest, &steps, "1")
}

/// Linux wants signatures, of this kind first: margay.ko has none.
const SIGNED: [Step; 7] = [
    (0, "/load", "status 0", ""),
    (
        0,
        "/usr/bin/cp /integrity /sys/kernel/security/lockdown",
        "status 0",
        "",
    ),
    (
        0,
        "/load /right/margay.ko",
        "status 1",
        "Operation not permitted",
    ),
    (
        0,
        "/yod --machine cokernel -n 1 -m 64M /program/hello",
        "status 69",
        ONLY_SIGNED,
    ),
    (
        0,
        "/usr/bin/cp /yes /sys/module/module/parameters/sig_enforce",
        "status 0",
        "",
    ),
    (
        0,
        "/load /right/margay.ko",
        "status 1",
        "Key was rejected by service",
    ),
    (
        0,
        "/yod --machine cokernel -n 1 -m 64M /program/hello",
        "status 69",
        ONLY_SIGNED,
    ),
];
const ONLY_SIGNED: &str =
    "load margay.ko, signed, for this Linux loads no other module (docs/cokernel.md)";

/// All else, in one guest.
pub fn check() -> Result<()> {
    let mut guest = Guest::without_module()?;
    job::add_files(&mut guest)?;
    let folder = guest.folder().to_owned();
    for (name, text) in [
        ("only_cpu_2", "4\n"),
        ("integrity", "integrity\n"),
        ("yes", "1\n"),
    ] {
        let file = folder.join(name);
        fs::write(&file, text)?;
        guest.add(name, &file)?;
    }
    for (at, module) in [
        ("right", tree::node_files().join("cokernel/margay.ko")),
        ("other", other_module(&folder)?),
    ] {
        guest.add_folder(at);
        guest.add(&format!("{at}/margay.ko"), &module)?;
    }
    let (kernel, pct) = (
        tree::node_files().join("margay.elf"),
        tree::node_files().join("pct"),
    );
    let at = address(&kernel, ENTERED)?;
    for (name, from, at, code) in [
        ("panics", &kernel, Some(at), &UNDEFINED[..]),
        ("hangs", &kernel, Some(at), &HANGS),
        ("pct_ends", &pct, None, &UNDEFINED),
    ] {
        let to = folder.join(name);
        fs::write(&to, changed(&fs::read(from)?, at, code)?)?;
        guest.add(name, &to)?;
    }
    job::boot(guest, &[&FIRST[..], &SECOND, &SIGNED].concat(), "4")
}

/// margay.ko of a version that yod does not know.
fn other_module(folder: &Path) -> Result<std::path::PathBuf> {
    let to = folder.join("module");
    let built = tree::node_files().join("cokernel");
    run(Command::new("cp").arg("-a").arg(&built).arg(&to))?;
    let header = to.join("margay.h");
    let text = fs::read_to_string(&header)?;
    let other = text.replace("#define MARGAY_VERSION 1\n", "#define MARGAY_VERSION 999\n");
    ensure!(other != text, "margay.h has another MARGAY_VERSION");
    fs::write(&header, other)?;
    let headers = fs::read_dir(tree::target().join("linux-headers/usr/src"))?.flatten();
    let headers = headers
        .map(|entry| entry.path())
        .find(|path| path.to_string_lossy().ends_with("-cloud-amd64"))
        .context("no headers of Linux: cargo run -p xtask -- cokernel fetches them")?;
    run(Command::new("make")
        .args(["--silent", "-C"])
        .arg(headers)
        .arg(format!("M={}", to.display()))
        .env_remove("MAKEFLAGS")
        .arg("modules"))?;
    Ok(to.join("margay.ko"))
}

fn run(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {said}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Of a function, by the symbols of a program.
fn address(program: &Path, name: &str) -> Result<u64> {
    let symbols = run(Command::new("nm").arg("--demangle").arg(program))?;
    let found = symbols.lines().find_map(|line| {
        let (address, rest) = line.split_once(' ')?;
        let is_it = rest.get(2..)? == name;
        is_it.then(|| u64::from_str_radix(address, 16).ok())?
    });
    found.with_context(|| format!("no {name} in {}", program.display()))
}

/// A program (ELF-64) with other code at an address, or else where it begins.
fn changed(program: &[u8], at: Option<u64>, code: &[u8]) -> Result<Vec<u8>> {
    let word = |at: usize| -> Result<u64> {
        let bytes = program.get(at..at + 8).context("too short")?;
        Ok(u64::from_le_bytes(bytes.try_into()?))
    };
    let at = at.map_or_else(|| word(24), Ok)?; // e_entry
    let (headers, count) = (word(32)? as usize, usize::from(program[56])); // e_phoff, e_phnum
    for header in (0..count).map(|number| headers + number * 56) {
        let (offset, start, bytes) = (word(header + 8)?, word(header + 16)?, word(header + 32)?);
        let is_loaded = program[header] == 1; // PT_LOAD
        if is_loaded && (start..start + bytes).contains(&at) {
            let from = (at - start + offset) as usize;
            let mut changed = program.to_vec();
            changed[from..from + code.len()].copy_from_slice(code);
            return Ok(changed);
        }
    }
    anyhow::bail!("nothing is loaded at {at:#x}")
}
