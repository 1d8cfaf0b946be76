//! Where things are in the source tree and in cargo's target directory.

use std::env;
use std::path::{Path, PathBuf};

/// The root of the workspace.
#[must_use]
pub fn root() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().unwrap_or(tests).to_path_buf()
}

/// cargo's target directory, absolute.
#[must_use]
pub fn target() -> PathBuf {
    let set = env::var_os("CARGO_TARGET_DIR").filter(|dir| !dir.is_empty());
    root().join(set.map_or_else(|| "target".into(), PathBuf::from))
}

/// yod, as `make build` leaves it.
#[must_use]
pub fn yod() -> PathBuf {
    target().join("release/yod")
}

/// The kernel and the PCT, as `make build` leaves them: `margay.elf` and `pct`.
#[must_use]
pub fn node_files() -> PathBuf {
    target().join("margay")
}

/// A compiled program: its kind of build and its name.
#[must_use]
pub fn program(kind: &str, name: &str) -> PathBuf {
    target().join("programs").join(kind).join(name)
}

/// A manifest of programs.
#[must_use]
pub fn manifest(name: &str) -> PathBuf {
    root().join("tests/programs").join(name)
}

/// The accelerator that tests use: MARGAY_TEST_ACCEL, else emulation, which works everywhere.
#[must_use]
pub fn accel() -> String {
    env::var("MARGAY_TEST_ACCEL").unwrap_or_else(|_| "tcg".into())
}

/// A number from the environment, or the default.
#[must_use]
pub fn number(variable: &str, default: u64) -> u64 {
    let set = env::var(variable).ok();
    set.and_then(|text| text.parse().ok()).unwrap_or(default)
}
