//! The PVH start information (Xen public/arch-x86/hvm/start_info.h), copied and checked.
//!
//! It lies in RAM that is about to be reused, so everything needed is copied out; `in_use` names the places that must not be
//! overwritten before.
//!
//! BOUND: at boot only.

use super::MAX_CMDLINE;
use super::modules::{self, MAX_MODULES, Modules};
use super::paging::read_low;
use crate::addr::{Phys, PhysRange};
use crate::ranges::Ranges;
use arrayvec::ArrayString;
use zerocopy::FromBytes;

/// `XEN_HVM_START_MAGIC_VALUE`.
const MAGIC: u32 = 0x336e_c578;
/// `XEN_HVM_MEMMAP_TYPE_RAM`.
const TYPE_RAM: u32 = 1;
/// More entries than any loader gives; a bound against a garbled count.
const MAX_ENTRIES: u32 = 512;

/// `struct hvm_start_info`, version 1.
#[derive(FromBytes)]
#[repr(C)]
struct StartInfo {
    magic: u32,
    version: u32,
    _flags: u32,
    nr_modules: u32,
    modlist: u64,
    cmdline: u64,
    rsdp: u64,
    memmap: u64,
    memmap_entries: u32,
    _reserved: u32,
}

/// `struct hvm_modlist_entry`.
#[derive(FromBytes)]
#[repr(C)]
struct Module {
    start: u64,
    len_bytes: u64,
    _cmdline: u64,
    _reserved: u64,
}

/// `struct hvm_memmap_table_entry`.
#[derive(FromBytes)]
#[repr(C)]
struct MapEntry {
    start: u64,
    len_bytes: u64,
    kind: u32,
    _reserved: u32,
}

/// The loader's facts.
pub(super) struct Loader {
    pub cmdline: ArrayString<MAX_CMDLINE>,
    /// All RAM.
    pub memory: Ranges,
    pub modules: Modules,
    pub rsdp: Phys,
    /// What must survive until boot has finished.
    pub in_use: Ranges,
}

/// Reads the start information at `at`.
pub(super) fn read(at: Phys) -> Result<Loader, &'static str> {
    let info: StartInfo = read_low(at).ok_or("not below 4 GiB")?;
    if info.magic != MAGIC {
        return Err("wrong magic number");
    }
    if info.version < 1 || info.memmap_entries == 0 {
        return Err("no memory map (version 0)");
    }
    let mut in_use = Ranges::new();
    let mut memory = Ranges::new();
    for index in 0..u64::from(info.memmap_entries.min(MAX_ENTRIES)) {
        let entry: MapEntry =
            read_low(Phys(info.memmap + index * 24)).ok_or("memory map not below 4 GiB")?;
        let end = entry
            .start
            .checked_add(entry.len_bytes)
            .ok_or("memory map entry wraps")?;
        if entry.kind == TYPE_RAM {
            memory.insert(PhysRange {
                start: Phys(entry.start),
                end: Phys(end),
            });
        }
    }
    let cmdline = read_cmdline(Phys(info.cmdline));
    let mut modules = Modules::new();
    for index in 0..u64::from(info.nr_modules).min(MAX_MODULES as u64) {
        let module: Module =
            read_low(Phys(info.modlist + index * 32)).ok_or("module list not below 4 GiB")?;
        let end = module
            .start
            .checked_add(module.len_bytes)
            .ok_or("module wraps")?;
        modules.push(PhysRange {
            start: Phys(module.start),
            end: Phys(end),
        });
    }
    in_use.extend(modules.iter().map(|range| PhysRange {
        start: range.start.align_down(4096),
        end: range.end.align_up(4096),
    }));
    if let [only] = modules[..] {
        modules = modules::of_one(only, &cmdline)?;
    }
    Ok(Loader {
        cmdline,
        memory,
        modules,
        rsdp: Phys(info.rsdp),
        in_use,
    })
}

/// The zero-terminated command line at `at`, cut where it stops being text.
fn read_cmdline(at: Phys) -> ArrayString<MAX_CMDLINE> {
    let mut bytes = [0u8; MAX_CMDLINE];
    let mut len = 0;
    while at.0 != 0 && len < MAX_CMDLINE {
        match read_low(at + len as u64) {
            Some(byte) if byte != 0 => bytes[len] = byte,
            _ => break,
        }
        len += 1;
    }
    let text = bytes[..len]
        .utf8_chunks()
        .next()
        .map_or("", |chunk| chunk.valid());
    ArrayString::from(text).unwrap_or_default()
}
