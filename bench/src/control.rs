//! Controls of the instruments: programs in which each must count as much as is known beforehand. What is promised is mostly
//! "at most" or "none", which an instrument that counts nothing would confirm.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use margay_tests::tree;

use crate::lab::{How, Lab};
use crate::plugin::{self, Report};
use crate::process;
use crate::stats::Counters;

/// Events of each kind.
const EVENTS: u64 = 16;
/// Instructions of the work in test/sections.S: 1000 rounds of two, and one before.
const WORK: u64 = 1 + 2 * 1000;
/// Between what the kernel says of its longest section and what the flag says: the kernel reads the clock after it was
/// entered, and before it leaves.
const RECORD_OFF_BY: u64 = 1000;
/// A guest of a few thousand instructions, on a machine that is busy with others.
const LIMIT: Duration = Duration::from_secs(20);

/// The kernel's counters of page faults, timer interrupts and entries that are no calls.
///
/// # Errors
/// One does not count what there is.
pub fn events(lab: &Lab) -> Result<()> {
    let wanted = EVENTS.to_string();
    let faults = count(lab, "faults", &wanted)?;
    counts("page faults", faults.page_faults, EVENTS)?;
    counts("entries by faults", unasked(&faults), EVENTS)?;
    let ticks = count(lab, "ticks", &wanted)?;
    counts("timer interrupts", ticks.timer_interrupts, EVENTS)?;
    counts("entries by interrupts", unasked(&ticks), EVENTS)
}

fn count(lab: &Lab, kind: &str, events: &str) -> Result<Counters> {
    let how = How {
        stats: true,
        memory: "64M",
        ..How::default()
    };
    Ok(lab
        .margay(how, "events", &[kind, events])?
        .stats()?
        .total
        .clone())
}

fn unasked(counters: &Counters) -> u64 {
    u64::try_from(counters.unasked_entries()).unwrap_or(0)
}

/// Starting and ending may add some; none may be missed.
fn counts(what: &str, found: u64, wanted: u64) -> Result<()> {
    ensure!(
        found >= wanted && found < 2 * wanted,
        "a control: {what}: {found} counted where there are {wanted}"
    );
    Ok(())
}

/// The clock that counts instructions: a loop of a known number of them, as a program read it.
///
/// # Errors
/// It counts another number.
pub fn instructions(loop_of_2000: u64) -> Result<()> {
    ensure!(
        loop_of_2000 == 2000,
        "a control: a loop of 2000 instructions is counted as {loop_of_2000}"
    );
    Ok(())
}

/// The plugin's reading of the flag: in one call interrupts are off for all of what the kernel executes, and in a guest of its
/// own for as long as its program says.
///
/// # Errors
/// It reads something else.
pub fn flag(lab: &Lab) -> Result<()> {
    let library = plugin::there(lab.output())?;
    ensure_known(&known_sections(&library, &lab.program("sections"))?)?;
    let how = How {
        icount: true,
        memory: "64M",
        ..How::default()
    };
    let (_, report) = lab.watched(how, "events", &["off"])?;
    let regions = report.vcpus.first().map(|vcpu| &vcpu.regions);
    let call = regions.and_then(|regions| regions.get(1));
    let call = call.context("a control: the plugin saw no region")?;
    let off = call.irqs_off.context("a control: the flag was not read")?;
    ensure!(
        off.longest == call.kernel.instructions && off.longest > 0,
        "a control: interrupts are off for {} of the {} instructions of a call",
        off.longest,
        call.kernel.instructions
    );
    Ok(())
}

/// What the kernel says of its longest section agrees with the flag.
///
/// # Errors
/// It does not.
pub fn record(recorded: u64, flag: u64) -> Result<()> {
    ensure!(
        recorded.abs_diff(flag) <= RECORD_OFF_BY,
        "a control: the kernel says that interrupts were off for {recorded} instructions, the flag says {flag}"
    );
    Ok(())
}

/// The longest sections in the regions of bench/plugin/test/sections.S, which is compiled to `guest` and run by itself.
///
/// # Errors
/// When something is missing.
pub fn known_sections(library: &Path, guest: &Path) -> Result<Vec<u64>> {
    let source = tree::root().join("bench/plugin/test/sections.S");
    let mut cc = Command::new("cc");
    cc.args(["-m32", "-nostdlib", "-static", "-no-pie"])
        .args(["-Wl,-Ttext=0x100000,--build-id=none", "-o"])
        .args([guest, &source]);
    process::run(&mut cc, LIMIT)?.good()?;
    let out = guest.with_extension("json");
    let mut qemu = Command::new("qemu-system-x86_64");
    qemu.args(["-accel", "tcg", "-display", "none", "-no-reboot"])
        .args(["-device", "isa-debug-exit,iobase=0xf4", "-plugin"])
        .arg(format!(
            "{},out={},model=off,irqs=on,scope=marks",
            library.display(),
            out.display()
        ))
        .arg("-kernel")
        .arg(guest);
    let ended = process::run(&mut qemu, LIMIT)?;
    // isa-debug-exit makes 1 of the guest's 0.
    ensure!(ended.status.code() == Some(1), "{}", ended.stderr);
    let report = Report::read(&out)?;
    let regions = report.vcpus.iter().flat_map(|vcpu| &vcpu.regions);
    let longest = regions.filter_map(|region| Some(region.irqs_off?.longest));
    Ok(longest.collect())
}

/// The work, and the instructions that end the section: a window that lets nothing in ends none.
///
/// # Errors
/// They are not as the guest's program says.
pub fn ensure_known(longest: &[u64]) -> Result<()> {
    let one = WORK + 1;
    let known = [one, 2 * WORK + 3, one, one, WORK + 2, one];
    ensure!(
        longest == known,
        "a control: sections of {known:?} instructions were measured as {longest:?}"
    );
    Ok(())
}
