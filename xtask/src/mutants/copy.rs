//! A copy of the tree with a target directory of its own, so nothing of what is being worked on changes.
//!
//! Building is cheap here: without link-time optimisation, and only what a mutant changed; and only the named test is run.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use super::{MAKE, Mutant};
use crate::build::{NODE_BUILD, agent, captured, cargo, for_loom, place_node, root, target};

/// A mutant may make a test hang that has no limit of its own.
const LIMIT_S: &str = "240";
/// What `timeout` returns then.
const TIMED_OUT: i32 = 124;

/// What came of a mutant.
#[derive(PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Its test failed.
    Caught,
    /// It passed.
    Survived,
}

/// A copy of the tree.
pub struct Copy {
    tree: PathBuf,
    target: PathBuf,
}

impl Copy {
    /// So many of them, numbered from 1, brought up to date.
    ///
    /// # Errors
    /// When a file cannot be copied.
    pub fn several(count: usize) -> Result<Vec<Copy>> {
        (1..=count).map(Copy::new).collect()
    }

    /// What did not change keeps its time, so it is not built again.
    fn new(number: usize) -> Result<Copy> {
        let folder = target().join("mutants").join(number.to_string());
        let copy = Copy {
            tree: folder.join("tree"),
            target: folder.join("target"),
        };
        let list = [
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ];
        let files = captured(Command::new("git").args(list).current_dir(root()))?;
        let files = String::from_utf8(files).context("a file's name is no text")?;
        for file in files.split_terminator('\0') {
            let (from, to) = (root().join(file), copy.tree.join(file));
            let (Ok(new), old) = (fs::read(&from), fs::read(&to)) else {
                let _ = fs::remove_file(&to);
                continue;
            };
            if old.is_ok_and(|old| old == new) {
                continue;
            }
            fs::create_dir_all(to.parent().context("a file in no folder")?)?;
            fs::copy(&from, &to).with_context(|| format!("cannot copy {file}"))?;
        }
        fs::create_dir_all(&copy.target)?;
        // Programs and plugin are not changed by mutants.
        for shared in ["programs", "plugin"] {
            point(&copy.target.join(shared), &target().join(shared))?;
        }
        Ok(copy)
    }

    /// cargo in the copy.
    fn cargo(&self) -> Command {
        let mut command = cargo();
        command
            .current_dir(&self.tree)
            .env("CARGO_TARGET_DIR", &self.target)
            .env("CARGO_INCREMENTAL", "1")
            .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1")
            .env("CARGO_PROFILE_KERNEL_LTO", "off")
            // In pieces, what makes the ranks copies each on the stack, which is too small for that.
            .env("CARGO_PROFILE_KERNEL_CODEGEN_UNITS", "1")
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::null());
        command
    }

    /// Builds kernel, PCT, yod and agent.
    ///
    /// # Errors
    /// With what the compiler says.
    pub fn build(&self) -> Result<()> {
        let mut node = self.cargo();
        must(node.args(NODE_BUILD).env("CARGO_INCREMENTAL", "0"))?;
        must(
            self.cargo()
                .args(["build", "--quiet", "--release", "-p", "yod"]),
        )?;
        let to = self.target.join("margay");
        place_node(&self.target, &to)?;
        agent(&self.tree, &to)
    }

    /// Makes a mutant, runs its test, and takes it back.
    ///
    /// # Errors
    /// As `build` and `test`.
    pub fn with(&self, mutant: &Mutant) -> Result<Verdict> {
        let path = self.tree.join(&mutant.file);
        let before = fs::read_to_string(&path)?;
        fs::write(&path, mutant.applied(&self.tree)?)?;
        let built = if mutant.needs_node() {
            self.build()
        } else {
            Ok(())
        };
        let tested = built.and_then(|()| self.test(&mutant.test));
        fs::write(&path, before)?;
        Ok(tested?.0)
    }

    /// Runs a test, and what it printed. The limit is the test's alone: it is built before.
    ///
    /// # Errors
    /// There is no such test, or it does not build.
    pub fn test(&self, [package, binary, name]: &[String; 3]) -> Result<(Verdict, String)> {
        if package == MAKE {
            return self.made(binary, name);
        }
        let mut of_package = vec!["test", "--quiet", "-p", package];
        match binary.as_str() {
            "lib" => of_package.push("--lib"),
            "bin" => of_package.push("--bins"),
            _ => of_package.extend(["--test", binary]),
        }
        let mut cargo = self.cargo();
        if binary == "loom" {
            of_package.push("--release");
            for_loom(&mut cargo, &self.target);
        }
        let mut command = Command::new("timeout");
        command
            .args(["--kill-after=5", LIMIT_S])
            .arg(cargo.get_program());
        command.current_dir(&self.tree).stdin(Stdio::null());
        for (key, value) in cargo.get_envs() {
            command.env(key, value.context("a variable without a value")?);
        }
        command.args(&of_package).args(["--", name]);
        must(cargo.args(&of_package).arg("--no-run"))?;
        let output = command.output().context("cannot run timeout")?;
        self.end_leftovers()?;
        let verdict = verdict(&output).with_context(|| format!("{package} {binary} {name}"))?;
        Ok((
            verdict,
            String::from_utf8_lossy(&output.stdout).into_owned(),
        ))
    }

    /// Has make build a program where the folder's are built, and runs it.
    fn made(&self, folder: &str, name: &str) -> Result<(Verdict, String)> {
        let (_, part) = folder.rsplit_once('/').context("no folder of lib/")?;
        let program = self.target.join(part).join(name);
        let mut make = Command::new("make");
        make.args(["-s", "-C", folder])
            .arg(format!("TARGET={}", self.target.display()));
        must(make.arg(&program).current_dir(&self.tree))?;
        let mut command = Command::new("timeout");
        command.args(["--kill-after=5", LIMIT_S]).arg(&program);
        let output = command.stdin(Stdio::null()).output();
        let output = output.context("cannot run timeout")?;
        let verdict = match output.status.success() {
            true => Verdict::Survived,
            false => Verdict::Caught,
        };
        Ok((
            verdict,
            String::from_utf8_lossy(&output.stderr).into_owned(),
        ))
    }

    /// Ends what runs a program of the copy: a mutant may keep a job from ending, which would take a processor from all later ones.
    /// With its keeper a node's QEMU ends.
    fn end_leftovers(&self) -> Result<()> {
        let own = fs::canonicalize(&self.target)?;
        for entry in fs::read_dir("/proc")? {
            let folder = entry?.path();
            let name = folder.file_name().and_then(OsStr::to_str);
            let pid = name.and_then(|name| Pid::from_raw(name.parse().ok()?));
            if let (Some(pid), Ok(program)) = (pid, fs::read_link(folder.join("exe")))
                && program.starts_with(&own)
            {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        Ok(())
    }
}

/// Makes a symbolic link, or has it lead to `to` if it leads elsewhere, as in a target directory that was copied.
fn point(link: &Path, to: &Path) -> Result<()> {
    if fs::read_link(link).is_ok_and(|old| old == to) {
        return Ok(());
    }
    let _ = fs::remove_file(link);
    symlink(to, link).with_context(|| format!("cannot make {}", link.display()))
}

/// Of a test runner.
fn verdict(output: &Output) -> Result<Verdict> {
    let text = String::from_utf8_lossy(&output.stdout);
    let result = text.lines().rfind(|line| line.starts_with("test result: "));
    match (output.status.code(), result) {
        (Some(TIMED_OUT), _) => Ok(Verdict::Caught),
        (Some(0), Some(line)) if !line.contains(" 0 passed") => Ok(Verdict::Survived),
        (Some(0), _) => bail!("there is no such test"),
        (_, Some(line)) if line.contains("FAILED") => Ok(Verdict::Caught),
        // It panicked while it panicked, say, and left no result.
        _ if String::from_utf8_lossy(&output.stderr).contains("(signal: ") => Ok(Verdict::Caught),
        _ => bail!("no verdict: {}", String::from_utf8_lossy(&output.stderr)),
    }
}

fn must(command: &mut Command) -> Result<()> {
    let output = command
        .output()
        .with_context(|| format!("cannot run {command:?}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "it does not build:\n{said}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use super::*;

    #[test]
    fn the_programs_of_a_copied_target_are_its_own() {
        let folder = target().join("scratch").join("mutants-link");
        fs::create_dir_all(&folder).expect("scratch");
        let (link, old, own) = (
            folder.join("programs"),
            folder.join("old"),
            folder.join("own"),
        );
        for to in [&old, &own, &own] {
            point(&link, to).expect("made or kept");
            assert_eq!(fs::read_link(&link).ok().as_ref(), Some(to));
        }
        fs::remove_dir_all(folder).expect("removed");
    }

    #[test]
    fn only_a_test_that_failed_has_noticed() {
        let output = |status: i32, text: &str| Output {
            status: ExitStatus::from_raw(status << 8),
            stdout: text.into(),
            stderr: Vec::new(),
        };
        let passed = "test result: ok. 1 passed; 0 failed; 0 ignored\n";
        let failed = "test result: FAILED. 0 passed; 1 failed; 0 ignored\n";
        assert_eq!(verdict(&output(0, passed)).ok(), Some(Verdict::Survived));
        assert_eq!(verdict(&output(101, failed)).ok(), Some(Verdict::Caught));
        assert_eq!(verdict(&output(124, "")).ok(), Some(Verdict::Caught));
        let none = "test result: ok. 0 passed; 0 failed; 0 ignored\n";
        assert!(verdict(&output(0, none)).is_err() && verdict(&output(101, "")).is_err());
        let aborted = Output {
            stderr: b"process didn't exit successfully: `a` (signal: 6, SIGABRT)\n".into(),
            ..output(101, "running 1 test\n")
        };
        assert_eq!(verdict(&aborted).ok(), Some(Verdict::Caught));
    }
}
