//! What the plugin of bench/plugin writes; its README says what each count is.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// Why there is nothing of the plugin's.
pub const MISSING: &str = "no plugin for QEMU was built";

/// Where xtask builds the plugin; `output` is a folder of the target directory.
pub fn library(output: &Path) -> PathBuf {
    output.with_file_name("plugin").join("margay-count.so")
}

/// The plugin, if it was built.
///
/// # Errors
/// It was not: [`MISSING`].
pub fn there(output: &Path) -> Result<PathBuf> {
    let library = library(output);
    ensure!(library.is_file(), "{MISSING}");
    Ok(library)
}

/// Everything.
#[derive(Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// In order.
    pub vcpus: Vec<Vcpu>,
}

impl Report {
    /// Instructions of all CPUs in the whole run, but those that waited: how long a node waits is its host's matter.
    pub fn worked(&self) -> u64 {
        let runs = self.vcpus.iter().map(|vcpu| &vcpu.run);
        let sides = runs.flat_map(|run| [&run.user, &run.kernel]);
        sides.map(|side| side.instructions - side.waited).sum()
    }
}

/// Of one virtual CPU.
#[derive(Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct Vcpu {
    /// All of it.
    pub run: Counts,
    /// Instructions of it before the first mark.
    pub before_regions: u64,
    /// Between marks.
    pub regions: Vec<Counts>,
    /// There is a mark_begin without a mark_end.
    pub open: bool,
}

/// Of a region or a run.
#[derive(Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct Counts {
    /// Into the kernel, for whatever reason.
    pub kernel_entries: u64,
    /// In the lower half of the addresses.
    pub user: Side,
    /// In the upper half.
    pub kernel: Side,
    /// Without the model (model=off) none.
    pub in_use: Option<InUse>,
    /// Without irqs=on none.
    pub irqs_off: Option<IrqsOff>,
}

/// The longest stretch with interrupts off, by the flag.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
pub struct IrqsOff {
    /// In instructions.
    pub longest: u64,
    /// Address of the first of them.
    pub from: u64,
    /// Address of what came next.
    pub to: u64,
}

/// Of user or kernel.
#[derive(Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct Side {
    /// Executed.
    pub instructions: u64,
    /// Of these, by loops that do nothing but wait: turns of at most 64 instructions that pause.
    pub waited: u64,
    /// Accesses that read.
    pub loads: u64,
    /// Accesses that write.
    pub stores: u64,
    /// Without it (model=off) none.
    #[serde(flatten)]
    pub model: Option<Model>,
}

/// What the accesses miss in the model.
#[derive(Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct Model {
    /// Accesses whose physical address was not known.
    pub unresolved: u64,
    /// Lines.
    pub l1d_misses: u64,
    /// Lines.
    pub l2_misses: u64,
    /// By the size of pages: 4K, 2M, 1G.
    pub tlb: BTreeMap<String, Tlb>,
}

/// Misses if all memory had pages of one size.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tlb {
    /// In the first level.
    pub l1_misses: u64,
    /// In the second level, too.
    pub walks: u64,
    /// To page tables.
    pub walk_references: u64,
}

/// The program's accesses, with pages of the sizes that the system gave it.
#[derive(Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct InUse {
    /// By size: 4K, 2M, 1G.
    pub pages: BTreeMap<String, Pages>,
    /// In the first level of the TLB.
    pub l1_misses: u64,
    /// To page tables.
    pub walk_references: u64,
    /// Walks that could not be followed.
    pub unknown: u64,
}

/// Pages of one size.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pages {
    /// Of those that were accessed for the first time.
    pub touched_bytes: u64,
    /// To them.
    pub walks: u64,
}

impl Report {
    /// The longest stretch with interrupts off on any CPU.
    ///
    /// # Errors
    /// The flag was not read.
    pub fn irqs_off(&self) -> Result<IrqsOff> {
        let each = self.vcpus.iter().filter_map(|vcpu| vcpu.run.irqs_off);
        each.max_by_key(|off| off.longest)
            .context("the plugin did not read the flag")
    }

    /// Reads the file that the plugin wrote as `out`.
    ///
    /// # Errors
    /// It cannot be read, or is not whole: QEMU was killed, or the disk is full.
    pub fn read(path: &Path) -> Result<Report> {
        let text =
            fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        serde_json::from_str(&text)
            .with_context(|| format!("{}: not what the plugin writes", path.display()))
    }
}
