//! Building what runs: the kernel and the PCT for the node, yod and the agent for the host.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use anyhow::{Context, Result, bail, ensure};

pub use crate::root::{root, target};
use crate::{plugin, programs, setup};

/// The target of everything that runs on the node.
pub const NODE_TARGET: &str = "x86_64-unknown-none";

/// Has cargo build for loom, in a folder of its own: with other flags for the compiler, everything is built anew.
pub fn for_loom(cargo: &mut Command, target: &Path) {
    cargo
        .env("RUSTFLAGS", "--cfg loom")
        .env("CARGO_TARGET_DIR", target.join("loom"));
}

/// Where the built node files are, and where yod looks for them in a build tree.
pub fn output() -> PathBuf {
    target().join("margay")
}

/// yod as it was built.
pub fn yod() -> PathBuf {
    target().join("release/yod")
}

/// Runs a command in the workspace's root; its output is the user's to see.
///
/// # Errors
/// When it cannot be run or fails.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command
        .current_dir(root())
        .status()
        .with_context(|| format!("cannot run {command:?}"))?;
    ensure!(status.success(), "{command:?} failed: {status}");
    Ok(())
}

/// Runs a command and returns what it printed.
///
/// # Errors
/// When it is missing, or fails: with its last word.
pub fn captured(command: &mut Command) -> Result<Vec<u8>> {
    let program = command.get_program().display().to_string();
    let output = match command.output() {
        Err(error) => bail!("cannot run {program}: {error}"),
        Ok(output) => output,
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    // apt warns about more than what is wrong.
    let reason = errors.lines().rfind(|line| line.starts_with("E: "));
    let reason = reason
        .or(errors.lines().last())
        .unwrap_or("it said nothing");
    ensure!(output.status.success(), "{program} failed: {reason}");
    Ok(output.stdout)
}

/// cargo, the one that runs us.
pub fn cargo() -> Command {
    Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Builds everything that `yod` needs to run a program.
///
/// # Errors
/// When something is missing or a build fails.
pub fn all() -> Result<()> {
    setup::all()?;
    together(&[node, host, || agent(&root(), &output())])
}

/// Does several things at the same time: linking the kernel, for one, keeps a single core busy.
///
/// # Errors
/// The first of theirs.
pub fn together(tasks: &[fn() -> Result<()>]) -> Result<()> {
    thread::scope(|scope| {
        let started: Vec<_> = tasks.iter().map(|task| scope.spawn(task)).collect();
        let ended = started
            .into_iter()
            .map(|task| task.join().expect("no task panics"));
        ended.collect::<Vec<_>>().into_iter().collect()
    })
}

/// Builds yod.
fn host() -> Result<()> {
    run(cargo().args(["build", "--quiet", "--release", "-p", "yod"]))
}

/// How libraries that QEMU loads are compiled.
pub const LIBRARY_FLAGS: [&str; 8] = [
    "-std=gnu11",
    "-O2",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
];

/// Builds a tree's agent, which yod preloads into QEMU.
///
/// # Errors
/// When it cannot be compiled.
pub fn agent(tree: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    replace_by(&to.join("agent.so"), |new| {
        let source = tree.join("host/agent/agent.c");
        let mut cc = Command::new("gcc");
        cc.args(LIBRARY_FLAGS).arg("-o").arg(new).arg(source);
        captured(&mut cc).map(drop)
    })
}

/// Measures; see bench/.
///
/// # Errors
/// When a build or a measurement fails, or a promise is missed.
pub fn bench(only: Option<&str>) -> Result<()> {
    all()?;
    programs::all()?;
    plugin::build()?;
    let mut command = cargo();
    command.args(["run", "--quiet", "--release", "-p", "margay-bench", "--"]);
    if let Some(only) = only {
        command.args(["--only", only]);
    }
    run(&mut command)
}

/// The gate; see bench/src/gate. As the unit tests are built: what counts is the emulator's plugin, and yod is a build of its own.
pub fn gate_command() -> Command {
    let mut command = cargo();
    command.args(["run", "--quiet", "-p", "margay-bench"]);
    command.args(["--bin", "gate", "--"]);
    command
}

/// What is promised and measured, and not by the gate; `which` option of the benchmarks says which part.
pub fn promises_command(which: &str) -> Command {
    let mut command = cargo();
    command.args(["run", "--quiet", "-p", "margay-bench"]);
    command.args(["--bin", "margay-bench", "--", which]);
    command
}

/// Compares counts with the baseline, or writes them there.
///
/// # Errors
/// When a build or a measurement fails, or a count is not as in the baseline.
pub fn gate(update: bool) -> Result<()> {
    all()?;
    plugin::build()?;
    let mut command = gate_command();
    if update {
        command.arg("--update");
    }
    let status = command.current_dir(root()).status()?;
    ensure!(status.success(), "the gate is closed");
    Ok(())
}

/// Cargo's arguments that build kernel and PCT.
pub const NODE_BUILD: [&str; 10] = [
    "build",
    "--quiet",
    "--profile",
    "kernel",
    "--target",
    NODE_TARGET,
    "-p",
    "margay",
    "-p",
    "pct",
];

/// Builds the kernel and the PCT into [`output`].
fn node() -> Result<()> {
    run(cargo().args(NODE_BUILD))?;
    place_node(&target(), &output())
}

/// Puts kernel and PCT, built in a target directory, where yod looks for them.
pub fn place_node(target: &Path, to: &Path) -> Result<()> {
    let built = target.join(NODE_TARGET).join("kernel");
    std::fs::create_dir_all(to)?;
    for (from, name) in [("margay", "margay.elf"), ("pct", "pct")] {
        replace(&built.join(from), &to.join(name))?;
    }
    Ok(())
}

/// Copies a file in one step: a node that is booting meanwhile reads the old one or the new one.
pub fn replace(from: &Path, to: &Path) -> Result<()> {
    replace_by(to, |new| {
        std::fs::copy(from, new)
            .map(drop)
            .with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))
    })
}

/// Replaces a file in one step by what `make` writes to the path it is given, beside it.
///
/// The path is this process's own: several builds of one tree replace the same files at the same time.
pub fn replace_by(to: &Path, make: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let new = to.with_extension(format!("{}.new", std::process::id()));
    let made = make(&new).and_then(|()| {
        std::fs::rename(&new, to).with_context(|| format!("cannot replace {}", to.display()))
    });
    if made.is_err() {
        // It may not have been made at all.
        let _ = std::fs::remove_file(&new);
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_fail_say_why() {
        let said = captured(Command::new("echo").arg("a"));
        assert_eq!(said.expect("runs"), b"a\n");
        let error = captured(Command::new("sh").args(["-c", "echo no >&2; exit 3"]));
        assert_eq!(error.expect_err("fails").to_string(), "sh failed: no");
        assert!(captured(&mut Command::new("no-such-program")).is_err());
    }

    /// What was not made replaces nothing and leaves nothing behind.
    #[test]
    fn files_are_replaced_whole() {
        let folder = std::env::temp_dir().join(format!("replace-{}", std::process::id()));
        std::fs::create_dir(&folder).expect("makes a folder");
        let to = folder.join("file.txt");
        let write = |text: &'static str, good: bool| {
            replace_by(&to, |new| {
                std::fs::write(new, text)?;
                anyhow::ensure!(good, "to fail");
                Ok(())
            })
        };
        assert!(write("first", true).is_ok() && write("second", true).is_ok());
        assert!(write("third", false).is_err());
        assert_eq!(std::fs::read_to_string(&to).expect("it is there"), "second");
        assert_eq!(std::fs::read_dir(&folder).expect("is read").count(), 1);
        std::fs::remove_dir_all(&folder).expect("removes its folder");
    }
}
