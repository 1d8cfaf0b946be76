//! The self-test kernel, examples/selftest.

#[path = "../../../../xtask/src/root.rs"]
mod root;

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// A file that a test writes.
#[allow(dead_code)] // Not by the tests of the whole system.
pub fn tmp(name: &str) -> PathBuf {
    root::target().join("tmp").join(name)
}

/// Builds the kernel once.
pub fn kernel() -> &'static PathBuf {
    static KERNEL: OnceLock<PathBuf> = OnceLock::new();
    KERNEL.get_or_init(|| {
        let target = root::target().join("tmp/selftest");
        let built = Command::new("cargo")
            .args([
                "build",
                "--package=qk-hal",
                "--example=selftest",
                "--profile=kernel",
                "--target=x86_64-unknown-none",
            ])
            .arg("--target-dir")
            .arg(&target)
            .status()
            .expect("cargo runs");
        assert!(built.success(), "the self-test kernel does not build");
        target.join("x86_64-unknown-none/kernel/examples/selftest")
    })
}
