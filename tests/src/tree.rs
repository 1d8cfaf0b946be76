//! Where things are in the source tree and in cargo's target directory.

#[path = "../../xtask/src/root.rs"]
mod root;

use std::env;
use std::path::PathBuf;

pub use root::{root, target};

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

/// The option of yod that says what makes the nodes of tests: `--accel` with [`accel`], or a co-kernel where MARGAY_TEST_MACHINE
/// says so.
#[must_use]
pub fn machine() -> String {
    match env::var("MARGAY_TEST_MACHINE") {
        Ok(machine) => format!("--machine={machine}"),
        Err(_) => format!("--accel={}", accel()),
    }
}

/// So many times as long as elsewhere may things take: MARGAY_TEST_SLOWER, 1 unless set.
#[must_use]
pub fn slower() -> u64 {
    number("MARGAY_TEST_SLOWER", 1)
}

/// A number from the environment, or the default.
#[must_use]
pub fn number(variable: &str, default: u64) -> u64 {
    let set = env::var(variable).ok();
    set.and_then(|text| text.parse().ok()).unwrap_or(default)
}
