//! Mutants: mistakes made on purpose in the source, each with the test that must notice (tests/mutants.txt). They are made in a
//! copy of the tree with a target directory of its own, so nothing of what is being worked on changes.
//!
//! A test shows what it is worth only when what it tests is broken. Building is cheap here: without link-time optimisation, and
//! only what a mutant changed; and only the named test is run.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use crate::build::{NODE_TARGET, captured, cargo, replace, root, target};
use crate::{plugin, programs};

/// In the repository.
const LIST: &str = "tests/mutants.txt";
/// Packages whose tests need kernel, PCT and yod.
const NODE_TESTS: [&str; 2] = ["margay-tests", "margay-bench"];
/// A mutant may make a test hang that has no limit of its own.
const LIMIT_S: &str = "240";
/// What `timeout` returns then.
const TIMED_OUT: i32 = 124;

/// A mistake.
#[derive(PartialEq, Eq, Debug, Default)]
struct Mutant {
    /// What it is, in words.
    name: String,
    /// From the root.
    file: String,
    /// What stands there once, and what is put in its place.
    changes: Vec<(String, String)>,
    /// The package, the test binary ("lib", "bin", or of tests/) and a part of the test's name.
    test: [String; 3],
}

/// What came of one.
#[derive(PartialEq, Eq, Debug)]
enum Verdict {
    Caught,
    Survived,
}

/// Makes every mutant whose name contains `only`, and runs its test.
///
/// # Errors
/// A mutant is not noticed, or does not apply any more; a test fails without it.
pub fn run(only: Option<&str>) -> Result<()> {
    let text = fs::read_to_string(root().join(LIST)).with_context(|| LIST.to_owned())?;
    let mut mutants = parse(&text)?;
    mutants.retain(|mutant| only.is_none_or(|only| mutant.name.contains(only)));
    ensure!(
        !mutants.is_empty(),
        "no mutant is called {}",
        only.unwrap_or_default()
    );
    for mutant in &mutants {
        mutant.applied(&root())?;
    }
    programs::all()?;
    let _ = plugin::build()?;
    let copy = Copy::new()?;
    if mutants.iter().any(Mutant::needs_node) {
        copy.build().context("without any mutant")?;
    }
    for test in mutants
        .iter()
        .map(|mutant| &mutant.test)
        .collect::<BTreeSet<_>>()
    {
        let (verdict, said) = copy.test(test)?;
        ensure!(
            verdict == Verdict::Survived,
            "{} fails without any mutant:\n{said}",
            test.join(" ")
        );
    }
    let mut survived = Vec::new();
    for mutant in &mutants {
        let start = Instant::now();
        let verdict = copy.with(mutant).with_context(|| mutant.name.clone())?;
        let word = match verdict {
            Verdict::Caught => "caught",
            Verdict::Survived => "SURVIVED",
        };
        println!(
            "{word:<9} {:>5.1} s  {} ({})",
            start.elapsed().as_secs_f64(),
            mutant.name,
            mutant.test[2]
        );
        if verdict == Verdict::Survived {
            survived.push(&mutant.name);
        }
    }
    let caught = mutants.len() - survived.len();
    println!(
        "{} mutants: {caught} caught, {} survived",
        mutants.len(),
        survived.len()
    );
    ensure!(
        survived.is_empty(),
        "{} mutants were not noticed",
        survived.len()
    );
    Ok(())
}

impl Mutant {
    /// Whether its test boots nodes; unit tests build what they need.
    fn needs_node(&self) -> bool {
        let [package, binary, _] = &self.test;
        NODE_TESTS.contains(&&**package) || package == "yod" && binary != "bin"
    }

    /// The file as the mutant has it.
    fn applied(&self, tree: &Path) -> Result<String> {
        let path = tree.join(&self.file);
        let mut text = fs::read_to_string(&path)
            .with_context(|| format!("{}: cannot read {}", self.name, self.file))?;
        for (from, to) in &self.changes {
            let times = text.matches(from.as_str()).count();
            ensure!(
                times == 1,
                "the mutant \"{}\" does not apply any more: {} has {from:?} {times} times instead of once",
                self.name,
                self.file
            );
            text = text.replace(from.as_str(), to);
        }
        Ok(text)
    }
}

/// The copy of the tree.
struct Copy {
    tree: PathBuf,
    target: PathBuf,
}

impl Copy {
    /// Brings it up to date: what did not change keeps its time, so it is not built again.
    fn new() -> Result<Copy> {
        let copy = Copy {
            tree: target().join("mutants/tree"),
            target: target().join("mutants/target"),
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
            let link = copy.target.join(shared);
            if !link.exists() {
                symlink(target().join(shared), link)?;
            }
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

    /// Kernel, PCT and yod.
    fn build(&self) -> Result<()> {
        let node = [
            "build",
            "--quiet",
            "--profile",
            "kernel",
            "--target",
            NODE_TARGET,
        ];
        must(
            self.cargo()
                .args(node)
                .args(["-p", "margay", "-p", "pct"])
                .env("CARGO_INCREMENTAL", "0"),
        )?;
        must(
            self.cargo()
                .args(["build", "--quiet", "--release", "-p", "yod"]),
        )?;
        let (built, to) = (
            self.target.join(NODE_TARGET).join("kernel"),
            self.target.join("margay"),
        );
        fs::create_dir_all(&to)?;
        replace(&built.join("margay"), &to.join("margay.elf"))?;
        replace(&built.join("pct"), &to.join("pct"))
    }

    /// Makes a mutant, runs its test, and takes it back.
    fn with(&self, mutant: &Mutant) -> Result<Verdict> {
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

    /// Runs a test, and what it printed. It must have been there.
    fn test(&self, [package, binary, name]: &[String; 3]) -> Result<(Verdict, String)> {
        let cargo = self.cargo();
        let mut command = Command::new("timeout");
        command
            .args(["--kill-after=5", LIMIT_S])
            .arg(cargo.get_program());
        command.current_dir(&self.tree).stdin(Stdio::null());
        for (key, value) in cargo.get_envs() {
            command.env(key, value.context("a variable without a value")?);
        }
        command.args(["test", "--quiet", "-p", package]);
        match binary.as_str() {
            "lib" => command.arg("--lib"),
            "bin" => command.arg("--bins"),
            _ => command.args(["--test", binary]),
        };
        command.args(["--", name]);
        let output = command.output().context("cannot run timeout")?;
        let verdict = verdict(&output).with_context(|| format!("{package} {binary} {name}"))?;
        Ok((
            verdict,
            String::from_utf8_lossy(&output.stdout).into_owned(),
        ))
    }
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

/// Paragraphs of lines "mutant", "file", "from", "to", "test", each with its text after a space; the list says more.
fn parse(text: &str) -> Result<Vec<Mutant>> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let text = lines.collect::<Vec<_>>().join("\n");
    let paragraphs = text.split("\n\n").filter(|part| !part.trim().is_empty());
    let mutants = paragraphs
        .map(|part| parse_one(part).with_context(|| part.trim().to_owned()))
        .collect::<Result<Vec<_>>>()?;
    let names: BTreeSet<&str> = mutants.iter().map(|mutant| &*mutant.name).collect();
    ensure!(names.len() == mutants.len(), "two mutants have one name");
    Ok(mutants)
}

fn parse_one(paragraph: &str) -> Result<Mutant> {
    let mut mutant = Mutant::default();
    for line in paragraph.trim().lines() {
        let (key, value) = line.split_once(' ').unwrap_or((line, ""));
        match key {
            "mutant" => value.clone_into(&mut mutant.name),
            "file" => value.clone_into(&mut mutant.file),
            "from" => mutant.changes.push((value.to_owned(), String::new())),
            "to" => {
                let change = mutant.changes.last_mut().context("to without from")?;
                value.clone_into(&mut change.1);
            }
            "test" => {
                let words: Vec<String> = value.splitn(3, ' ').map(str::to_owned).collect();
                mutant.test = words.try_into().ok().context("package, binary, name")?;
            }
            _ => bail!("what is {key}?"),
        }
    }
    let whole = !mutant.name.is_empty() && !mutant.file.is_empty() && !mutant.test[2].is_empty();
    ensure!(whole && !mutant.changes.is_empty(), "something is missing");
    Ok(mutant)
}

#[cfg(test)]
mod tests;
