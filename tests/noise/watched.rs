//! What the plugin of bench/plugin counts on each virtual CPU, read while QEMU runs. It sees every instruction that a CPU
//! executes, so it also sees what a kernel that counts wrongly would not show.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use margay_tests::tree;

/// Bytes that the plugin writes for each CPU; the counts are the first of them (bench/plugin/README.md).
const CPU_BYTES: usize = 64;

/// The file that the plugin keeps its counts in.
pub struct Watched(PathBuf);

/// Of a CPU, since it was switched on.
#[derive(Clone, Copy, Debug)]
pub struct Counts {
    /// Instructions of programs and the PCT.
    pub user: u64,
    /// Instructions of the kernel.
    pub kernel: u64,
    /// Times that an instruction of the kernel came after one that was not.
    pub entries: u64,
}

impl Watched {
    /// To be written into a directory.
    pub fn new(directory: &Path) -> Watched {
        Watched(directory.join("watched"))
    }

    /// The value of MARGAY_QEMU_PLUGIN that makes the plugin write it.
    ///
    /// # Errors
    /// The plugin was not built.
    pub fn plugin(&self) -> Result<String> {
        let library = tree::target().join("plugin/margay-count.so");
        ensure!(
            library.is_file(),
            "{} is missing: cargo run -p xtask -- plugin builds it, or says why it cannot",
            library.display()
        );
        let watched = self.0.display();
        Ok(format!(
            "{},out={watched}.json,watch={watched},model=off",
            library.display()
        ))
    }

    /// Of a CPU, now.
    pub fn cpu(&self, number: usize) -> Result<Counts> {
        let bytes = fs::read(&self.0)?;
        let words = bytes
            .get(number * CPU_BYTES..(number + 1) * CPU_BYTES)
            .with_context(|| format!("the plugin does not know CPU {number}"))?;
        let word = |index: usize| -> Result<u64> {
            Ok(u64::from_ne_bytes(words[8 * index..][..8].try_into()?))
        };
        Ok(Counts {
            user: word(0)?,
            kernel: word(1)?,
            entries: word(2)?,
        })
    }
}
