//! A bootable disc: GRUB, which loads the kernel by multiboot2, with its modules.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use margay_tests::run::Run;
use margay_tests::scratch::Scratch;

/// Makes one in `scratch`, of which the kernel at `kernel` gets the command line and modules. Words of the command line have no blanks
/// and no quotes.
pub fn make(scratch: &Scratch, kernel: &Path, modules: &[&[u8]], cmdline: &str) -> Result<PathBuf> {
    let tree = scratch.path().join("tree");
    fs::create_dir_all(tree.join("boot/grub"))?;
    fs::copy(kernel, tree.join("kernel")).with_context(|| kernel.display().to_string())?;
    let mut menu = format!("multiboot2 /kernel {cmdline}\n");
    for (index, module) in modules.iter().enumerate() {
        fs::write(tree.join(format!("module{index}")), module)?;
        menu += &format!("module2 /module{index}\n");
    }
    fs::write(tree.join("boot/grub/grub.cfg"), menu + "boot\n")?;
    let disc = scratch.path().join("disc.iso");
    let [disc_name, tree] = [&disc, &tree].map(|path| path.to_string_lossy().into_owned());
    Run::new(["/usr/bin/grub-mkrescue", "-o", &disc_name, &tree])
        .run()?
        .ended_well()?;
    Ok(disc)
}
