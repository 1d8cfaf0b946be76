//! Page tables are read back: from the roots that CPUs have, through RAM as the host has it. None may lie in what host processes
//! map.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;

use abi::map::PAGE;
use anyhow::{Context, Result, ensure};
use margay_tests::clean::new_mark;
use margay_tests::process::{self, MARK, Role, wait_until};
use margay_tests::run::{HANG, Run, Started};
use margay_tests::scratch::Scratch;
use margay_tests::tree;
use rustix::process::Signal;

use crate::area::Area;

const RANKS: u64 = 4;
/// Bits of an entry (AMD APM vol. 2 §5.3): present, of programs, a large page, the address, not to be executed.
const PRESENT: u64 = 1;
const USER: u64 = 1 << 2;
const LARGE: u64 = 1 << 7;
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;
const NX: u64 = 1 << 63;
/// Of a table's entries the first of the kernel's half.
const KERNEL_HALF: usize = 256;
/// Tables of a program that runs: one of each level at the least, and more than one of the lowest.
const FEWEST: usize = 5;

/// A page as a table.
type Table = [u64; 512];

pub fn are_not_mapped() -> Result<()> {
    let scratch = Scratch::new()?;
    let mark = new_mark();
    let busy = tree::program("attack", "busy")
        .to_string_lossy()
        .into_owned();
    let ranks = RANKS.to_string();
    let started = Run::bare_yod(&["--accel", "tcg", "-n", &ranks, "--oversubscribe", "-q"])
        .args(&["-m", "64M", "--", &busy, "1", "1000000000"])
        .env(&[(MARK, mark.as_str())])
        .start(&scratch)?;
    let found = search(&mark, &started);
    process::signal(started.pid(), Signal::TERM);
    started.finish(HANG)?;
    found
}

/// Waits until all ranks have page tables, has the node stand still, and goes through them.
fn search(mark: &str, started: &Started<'_>) -> Result<()> {
    let mut seen = None;
    wait_until(HANG, || {
        let family = process::of_job(mark, started.pid());
        let qemu = family.iter().find(|process| process.role == Role::Qemu);
        seen = qemu.and_then(|qemu| Some((qemu.pid, Area::of(qemu.pid)?)));
        let running = |(_, area): &(u32, Area)| (0..RANKS as usize).all(|rank| area.runs(rank));
        seen.as_ref().is_some_and(running)
    });
    let (qemu, area) = seen.context("there is no node")?;
    process::signal(qemu, Signal::STOP);
    let checked = check(&area);
    process::signal(qemu, Signal::CONT);
    checked
}

fn check(area: &Area) -> Result<()> {
    let shown = area.shown();
    ensure!(
        shown.len() == 3 * RANKS as usize && shown.iter().all(|(_, len_bytes)| *len_bytes > 0),
        "host processes map {shown:x?}"
    );
    let is_shown = |frame: u64| {
        shown
            .iter()
            .any(|&(base, len_bytes)| (base..base + len_bytes).contains(&frame))
    };
    let ram = area.file();
    let end = ram.metadata()?.len();
    let frames = (0..end).step_by(PAGE as usize);
    let roots: Vec<u64> = frames
        .filter(|&frame| table(ram, frame).is_some_and(|table| is_root(&table, end)))
        .collect();
    ensure!(roots.len() == RANKS as usize, "roots at {roots:x?}");
    for root in roots {
        let mut tables = BTreeSet::new();
        walk(ram, root, 4, &mut tables)?;
        ensure!(tables.len() >= FEWEST, "only {} tables", tables.len());
        let mapped = tables.into_iter().find(|&frame| is_shown(frame));
        ensure!(
            mapped.is_none(),
            "a page table at {mapped:x?}, which host processes map: {shown:x?}"
        );
    }
    Ok(())
}

/// Whether it is the top table of a rank: one of its windows shows the rank's own memory, which lies in RAM, below `end`, and the kernel's
/// half is there. Code can look so but for the address: once instructions of 8 bytes each did.
fn is_root(table: &Table, end: u64) -> bool {
    let own = table[0] & ADDRESS;
    let of_programs = |entry: u64| entry & (PRESENT | USER) == PRESENT | USER;
    of_programs(table[0])
        && own < end
        && table[KERNEL_HALF] & PRESENT != 0
        && table[511] & PRESENT != 0
        && table[1..=RANKS as usize]
            .iter()
            .any(|&window| of_programs(window) && window & NX != 0 && window & ADDRESS == own)
}

/// All tables from one of `level` on, the kernel's too.
fn walk(ram: &File, frame: u64, level: u32, tables: &mut BTreeSet<u64>) -> Result<()> {
    if !tables.insert(frame) || level == 1 {
        return Ok(());
    }
    let table = table(ram, frame).with_context(|| format!("a table at {frame:#x}, beyond RAM"))?;
    for entry in table {
        if entry & PRESENT != 0 && (level == 4 || entry & LARGE == 0) {
            walk(ram, entry & ADDRESS, level - 1, tables)?;
        }
    }
    Ok(())
}

fn table(ram: &File, frame: u64) -> Option<Table> {
    let mut bytes = [0; PAGE as usize];
    ram.read_exact_at(&mut bytes, frame).ok()?;
    let mut table = [0; 512];
    for (word, bytes) in table.iter_mut().zip(bytes.as_chunks().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    Some(table)
}
