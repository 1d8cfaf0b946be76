//! Installing: PREFIX/bin/yod, PREFIX/lib/margay/{margay.elf,pct}. yod finds the latter relative to itself.

use std::path::Path;

use anyhow::{Context, Result};

use crate::build;

/// Builds and installs under a prefix.
///
/// # Errors
/// When a build fails or the prefix cannot be written to.
pub fn run(prefix: &Path) -> Result<()> {
    build::all()?;
    let prefix = std::path::absolute(prefix)?;
    let files = [
        (build::yod(), "bin/yod"),
        (build::output().join("margay.elf"), "lib/margay/margay.elf"),
        (build::output().join("pct"), "lib/margay/pct"),
    ];
    for (from, to) in files {
        let to = prefix.join(to);
        let folder = to.parent().expect("it lies in a folder");
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make {}", folder.display()))?;
        build::replace(&from, &to)?;
        println!("{}", to.display());
    }
    Ok(())
}
