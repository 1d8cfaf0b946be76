//! Where the source tree and cargo's target directory are: found when asked for. What is compiled in stays behind when a checkout is
//! moved or copied with its target directory.

use std::env;
use std::path::{Path, PathBuf};

/// The root of the workspace in which cargo runs this, or else in which the current directory is.
#[must_use]
pub fn root() -> PathBuf {
    let package = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let here = package
        .or_else(|| env::current_dir().ok())
        .unwrap_or_default();
    let is_root = |folder: &&Path| folder.join("Cargo.lock").is_file();
    here.ancestors()
        .find(is_root)
        .unwrap_or(&here)
        .to_path_buf()
}

/// cargo's target directory, absolute.
#[must_use]
pub fn target() -> PathBuf {
    let set = env::var_os("CARGO_TARGET_DIR").filter(|dir| !dir.is_empty());
    root().join(set.map_or_else(|| "target".into(), PathBuf::from))
}
