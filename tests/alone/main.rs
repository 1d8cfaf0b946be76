//! A node without a host: QEMU, or GRUB on a disc, starts the kernel with two modules, the PCT and a static program, and nothing else.
//! There is no communication area, no ivshmem device and no proxy; the console is all that comes out.

mod bochs;
mod console;
mod disc;
#[path = "../../qk/hal/tests/machine/kernel.rs"]
mod selftest;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use bochs::{Cpus, ICE_LAKE, RYZEN};
use console::Console;
use margay_tests::manifest::{self, Row};
use margay_tests::run::{Outcome, Run};
use margay_tests::scratch::Scratch;
use margay_tests::tree;

const PAGE: usize = 4096;
/// A machine with as little as there can be: no PCI device but the bridges.
const MACHINE: &str = "-nodefaults -no-user-config -display none -no-reboot -accel tcg -cpu max -bios qboot.rom \
    -M q35,sata=off,smbus=off,vmport=off,hpet=off,i8042=off -serial stdio -device isa-debug-exit,iobase=0xf4,iosize=4";
/// One that firmware boots from a disc.
const DISC_MACHINE: &str = "-nodefaults -no-user-config -display none -no-reboot -accel tcg -cpu max -M q35 -smp 2 -m 128 \
    -serial stdio -device isa-debug-exit,iobase=0xf4,iosize=4 -cdrom";
/// Programs of the conformance set, natively and here: output and status are the same.
const PROGRAMS: &[&str] = &[
    "exit_exit_255",
    "malloc_churn",
    "protect_split",
    "handlers",
    "timers",
    "futex_wait.ping_pong",
    "abort_handlers",
    "realtime.musl",
];
/// Those of them that arm the timer.
const SLEEPERS: &[&str] = &["timers", "realtime.musl"];

fn pct() -> PathBuf {
    tree::node_files().join("pct")
}

/// Starts a node with these modules, which QEMU passes as one, and arguments for the program.
fn node(modules: &[&[u8]], memory: &str, args: &[String]) -> Result<Console> {
    boot(modules, memory, |lengths| {
        format!("margay.modules={lengths} -- {}", args.join(" "))
    })
}

/// Starts a node with these modules and a command line, which is given their lengths.
fn boot(
    modules: &[&[u8]],
    memory: &str,
    command_line: impl FnOnce(&str) -> String,
) -> Result<Console> {
    let scratch = Scratch::new()?;
    let bundle = scratch.path().join("modules");
    let mut bytes = Vec::new();
    let mut lengths = Vec::new();
    for module in modules {
        bytes.resize(bytes.len().next_multiple_of(PAGE), 0);
        bytes.extend_from_slice(module);
        lengths.push(module.len().to_string());
    }
    fs::write(&bundle, &bytes)?;
    let kernel = tree::node_files().join("margay.elf");
    let mut command: Vec<String> = vec!["/usr/bin/env".into(), "qemu-system-x86_64".into()];
    command.extend(MACHINE.split_whitespace().map(String::from));
    command.extend(["-smp", "2", "-m", memory, "-kernel"].map(String::from));
    command.push(text(&kernel));
    if !modules.is_empty() {
        command.extend(["-initrd".into(), text(&bundle), "-append".into()]);
        command.push(command_line(&lengths.join(",")));
    }
    console(&Run::new(command).run()?)
}

/// The console of a QEMU that ran.
fn console(outcome: &Outcome) -> Result<Console> {
    outcome.ended()?;
    Console::of(&outcome.stdout.text(), outcome.status)
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn row(name: &str) -> Result<Row> {
    let rows = manifest::conformance("64K")?;
    let row = rows.into_iter().find(|row| row.name == name);
    row.with_context(|| format!("no program {name}"))
}

/// The program of a row, and its command line as natively, where [`Run::native`] gives it its path as its name.
fn file_and_args(row: &Row) -> Result<(Vec<u8>, Vec<String>)> {
    let path = tree::program(&row.kind, &row.program);
    let args = [text(&path)].into_iter().chain(row.args.iter().cloned());
    let file = fs::read(&path).with_context(|| text(&path))?;
    Ok((file, args.collect()))
}

/// Runs a program with the arguments that it has natively.
fn program(row: &Row) -> Result<Console> {
    let (file, args) = file_and_args(row)?;
    node(&[&fs::read(pct())?, &file], "128", &args)
}

/// Boot information that is none, as a host may leave it, once ended the kernel with a panic.
#[test]
fn boot_information_that_is_none_is_one_line() -> Result<()> {
    let console = boot(&[&fs::read(pct())?], "128", |_| {
        "margay.comm=0x4000000".into()
    })?;
    console.ended(
        "margay: the boot information at 0x4000000 is none of this kernel's: Magic",
        1,
    )
}

/// That a program did here what it does natively.
fn as_natively(row: &Row, here: &Console) -> Result<()> {
    let native = Run::native(row).run()?;
    ensure!(
        here.output == native.stdout.text().trim_end_matches('\n'),
        "natively\n{}\nhere\n{}",
        native.stdout.text(),
        here.output
    );
    let status = native.status.context("hung natively")?;
    let line = match status {
        129..=192 => format!("margay: ended by signal {}", status - 128),
        _ => format!("margay: exited with status {status}"),
    };
    here.ended(&line, status)
}

#[test]
fn programs_run_as_natively() -> Result<()> {
    for name in PROGRAMS {
        let row = row(name)?;
        as_natively(&row, &program(&row)?).context(*name)?;
    }
    Ok(())
}

/// A disc with the node, the program of a row and its arguments.
fn disc_with(scratch: &Scratch, row: &Row) -> Result<PathBuf> {
    let (file, args) = file_and_args(row)?;
    let kernel = tree::node_files().join("margay.elf");
    let cmdline = format!("-- {}", args.join(" "));
    disc::make(scratch, &kernel, &[&fs::read(pct())?, &file], &cmdline)
}

#[test]
fn a_disc_boots_by_multiboot2() -> Result<()> {
    let row = row("handlers")?;
    let scratch = Scratch::new()?;
    let disc = disc_with(&scratch, &row)?;
    let command = format!(
        "/usr/bin/env qemu-system-x86_64 {DISC_MACHINE} {}",
        text(&disc)
    );
    let outcome = Run::new(command.split_whitespace()).run()?;
    as_natively(&row, &console(&outcome)?)
}

/// On the emulator of Bochs, which once were left without any timer: what was written before the local APIC was software-enabled stayed masked
/// there, as on every processor, but not in QEMU's emulator.
#[test]
fn timers_and_sleeps_on_another_machine() -> Result<()> {
    for name in SLEEPERS {
        let row = row(name)?;
        let scratch = Scratch::new()?;
        let disc = disc_with(&scratch, &row)?;
        let text = bochs::boot(&scratch, &disc, ICE_LAKE, |line| {
            line.starts_with("margay: ")
        })?;
        as_natively(&row, &Console::of(&text, None)?).context(*name)?;
    }
    Ok(())
}

/// The self-test of the hardware layer (qk/hal/examples/selftest).
fn selftest_on(cpus: Cpus) -> Result<()> {
    let scratch = Scratch::new()?;
    let disc = disc::make(&scratch, selftest::kernel(), &[], "")?;
    let passed = format!("PASS {} cpus", cpus.1);
    let ends = |line: &str| line.starts_with("PASS") || line.starts_with("handler: ");
    let text = bochs::boot(&scratch, &disc, cpus, ends)?;
    ensure!(text.lines().any(|line| line == passed), "{text}");
    Ok(())
}

#[test]
fn the_hardware_layer_passes_on_other_cpus() -> Result<()> {
    selftest_on(ICE_LAKE)?;
    selftest_on(RYZEN)
}

#[test]
fn what_is_not_served_is_said_once() -> Result<()> {
    let here = program(&row("open_flags")?)?; // it goes on when it could not open
    ensure!(here.last.starts_with("margay: "), "{}", here.last);
    let said =
        |line: &&String| line.contains("openat (257) is not served on a node without a host");
    ensure!(here.log.iter().filter(said).count() == 1, "{:#?}", here.log);
    Ok(())
}

#[test]
fn modules_that_cannot_run_get_one_line() -> Result<()> {
    let pct = fs::read(pct())?;
    let hello = fs::read(tree::program("glibc-static", "hello"))?;
    let dynamic = fs::read(tree::program("glibc-dynamic", "blas_threads"))?;
    let args = ["a".to_owned()];
    let nothing =
        "margay: nothing to run: the program is the loader's second module, after the PCT";
    node(&[], "64", &args)?.ended(nothing, 71)?;
    node(&[&pct], "64", &args)?.ended(nothing, 71)?;
    // How much the kernel needs is up to what the loader, or a host, wants of it: once that was a panic.
    node(&[&pct, &hello], "7", &args)?
        .ended("margay: there is not enough memory for the kernel", 1)?;
    node(&[&pct[..100], &hello], "64", &args)?
        .ended("margay: the PCT is gone: nothing can be run", 71)?;
    let refused = |modules: &[&[u8]], part: &str| {
        let here = node(modules, "64", &args)?;
        ensure!(here.last.contains(part), "'{}' without '{part}'", here.last);
        here.ended(&here.last, 126)
    };
    refused(&[&pct, b"#!/bin/sh\n"], "not an ELF program")?;
    refused(&[&pct, &hello[..200]], "truncated")?;
    refused(&[&pct, &dynamic], "it needs an interpreter")?;
    refused(&[&pct, &with_much_memory(&hello)?], "does not fit")
}

/// The same program with a segment of 4 GiB (Elf64_Phdr of elf(5)).
fn with_much_memory(program: &[u8]) -> Result<Vec<u8>> {
    const LOAD_WRITABLE: [u8; 8] = [1, 0, 0, 0, 6, 0, 0, 0];
    const MEMSZ: usize = 40;
    let mut program = program.to_vec();
    let at = program
        .windows(8)
        .position(|window| window == LOAD_WRITABLE)
        .context("a segment that can be written")?;
    program[at + MEMSZ..at + MEMSZ + 8].copy_from_slice(&(4u64 << 30).to_le_bytes());
    Ok(program)
}
