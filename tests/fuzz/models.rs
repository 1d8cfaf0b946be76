//! Property tests of other crates, run with many more cases than in their own unit tests, again and again.
//!
//! Each run starts from fresh random numbers; proptest prints the smallest case that fails, which does not need ours.

use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use margay_tests::tree;
use serde_json::Value;

use crate::Budget;

/// Cases per property in the first run: less than in a unit test, to see how long they take.
const FIRST_CASES: u32 = 100;

/// Runs the property tests of a crate's library whose names begin with `prefix` until the time is over.
pub fn run(package: &str, prefix: &str, budget: Budget) -> Result<()> {
    let tests = UnitTests::build(package)?;
    let mut cases = FIRST_CASES;
    loop {
        let since = Instant::now();
        let output = Command::new(&tests.binary)
            .args(["--test-threads", "1", prefix])
            .env("PROPTEST_CASES", cases.to_string())
            .env("RUST_BACKTRACE", "0")
            .current_dir(&tests.folder)
            .output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        ensure!(
            output.status.success(),
            "{text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        ensure!(
            !text.contains(" 0 passed"),
            "no such tests in {package}: {prefix}"
        );
        // Another run, and one of twice as many cases if that fits as well.
        let (took, left) = (since.elapsed(), budget.left());
        if took > left {
            return Ok(());
        }
        if took * 3 < left {
            cases *= 2;
        }
    }
}

/// The unit tests of a crate's library.
struct UnitTests {
    binary: PathBuf,
    /// That of the crate, where cargo runs them.
    folder: PathBuf,
}

impl UnitTests {
    fn build(package: &str) -> Result<UnitTests> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let output = Command::new(cargo)
            .args(["test", "--quiet", "--no-run", "--lib"])
            .args(["--message-format", "json", "-p", package])
            .current_dir(tree::root())
            .output()?;
        ensure!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let messages = String::from_utf8_lossy(&output.stdout).into_owned();
        for line in messages.lines().rev() {
            let message: Value = serde_json::from_str(line).context("cargo's messages")?;
            if let Some(binary) = message["executable"].as_str() {
                let manifest = message["manifest_path"].as_str().context("no manifest")?;
                return Ok(UnitTests {
                    binary: PathBuf::from(binary),
                    folder: PathBuf::from(manifest.trim_end_matches("Cargo.toml")),
                });
            }
        }
        bail!("cargo built no tests for {package}")
    }
}
