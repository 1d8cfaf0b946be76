//! The self-test kernel, examples/selftest.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// Builds the kernel once.
pub fn kernel() -> &'static PathBuf {
    static KERNEL: OnceLock<PathBuf> = OnceLock::new();
    KERNEL.get_or_init(|| {
        let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("selftest");
        let built = Command::new(env!("CARGO"))
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
