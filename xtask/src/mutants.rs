//! Mutants: mistakes made on purpose in the source, each with the test that must notice (tests/mutants.txt). They are made in
//! copies of the tree, several at the same time.
//!
//! A test shows what it is worth only when what it tests is broken.

mod copy;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use crate::build::root;
use crate::{plugin, programs};
use copy::{Copy, Verdict};

/// In the repository.
const LIST: &str = "tests/mutants.txt";
/// Packages whose tests need kernel, PCT and yod; so do those of yod but for its unit tests.
const NODE_TESTS: [&str; 2] = ["margay-tests", "margay-bench"];
/// In place of a package: a program that make builds, which fails by its status.
const MAKE: &str = "make";
/// A build of the kernel keeps one processor busy, and has a gigabyte of files.
const MOST_COPIES: usize = 4;

/// A mistake.
#[derive(PartialEq, Eq, Debug, Default)]
struct Mutant {
    /// What it is, in words.
    name: String,
    /// From the root.
    file: String,
    /// What stands there once, and what is put in its place.
    changes: Vec<(String, String)>,
    /// The package, the test binary ("lib", "bin", or of tests/) and a part of the test's name; or [`MAKE`], a folder, and a program
    /// that its Makefile builds.
    test: [String; 3],
}

/// Makes every mutant whose name contains `only`, and runs its test.
///
/// # Errors
/// A mutant is not noticed, or does not apply any more; a test fails without it, or something does not build.
pub fn run(only: Option<&str>) -> Result<()> {
    let mutants = chosen(only)?;
    programs::all()?;
    let _ = plugin::build()?;
    let needs_node = mutants.iter().any(Mutant::needs_node);
    let copies = Copy::several(thread::available_parallelism()?.get().min(MOST_COPIES))?;
    let built = share(&copies, &copies, |copy, _| match needs_node {
        true => copy.build(),
        false => Ok(()),
    });
    built
        .into_iter()
        .collect::<Result<()>>()
        .context("without any mutant")?;
    let tests: BTreeSet<_> = mutants.iter().map(|mutant| &mutant.test).collect();
    let tests = Vec::from_iter(tests);
    let passed = share(&copies, &tests, |copy, test| passes(copy, test));
    let passing = tests.iter().zip(passed).filter(|(_, passed)| *passed);
    let passing: BTreeSet<_> = passing.map(|(test, _)| *test).collect();
    let to_make = mutants
        .iter()
        .filter(|mutant| passing.contains(&mutant.test));
    let to_make = Vec::from_iter(to_make);
    let caught = share(&copies, &to_make, |copy, mutant| is_caught(copy, mutant));
    let caught = caught.into_iter().filter(|caught| *caught).count();
    println!("{} mutants: {caught} caught", mutants.len());
    ensure!(
        caught == mutants.len(),
        "{} mutants were not noticed",
        mutants.len() - caught
    );
    Ok(())
}

/// Those whose name contains `only`; each applies.
fn chosen(only: Option<&str>) -> Result<Vec<Mutant>> {
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
    Ok(mutants)
}

/// Does something for every item, in each copy for one at a time; what came of it, in the order of the items.
fn share<C: Sync, T: Sync, R: Send>(
    copies: &[C],
    items: &[T],
    work: impl Fn(&C, &T) -> R + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let take = || {
        let at = next.fetch_add(1, Ordering::Relaxed);
        items.get(at).map(|item| (at, item))
    };
    let in_copy = |copy| {
        let items = std::iter::from_fn(take);
        Vec::from_iter(items.map(|(at, item)| (at, work(copy, item))))
    };
    let mut done = thread::scope(|scope| {
        let workers = copies.iter().map(|copy| scope.spawn(move || in_copy(copy)));
        let workers = Vec::from_iter(workers);
        let done = workers
            .into_iter()
            .map(|worker| worker.join().expect("it does not panic"));
        Vec::from_iter(done.flatten())
    });
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Whether a test passes without any mutant: one that fails notices nothing, and its mutants are not made.
fn passes(copy: &Copy, test: &[String; 3]) -> bool {
    let why = match copy.test(test) {
        Ok((Verdict::Survived, _)) => return true,
        Ok((Verdict::Caught, said)) => said,
        Err(error) => format!("{error:#}"),
    };
    println!("{} fails without any mutant:\n{why}", test.join(" "));
    false
}

/// Makes one, and says what came of it.
fn is_caught(copy: &Copy, mutant: &Mutant) -> bool {
    let start = Instant::now();
    let verdict = copy.with(mutant);
    let word = match &verdict {
        Ok(Verdict::Caught) => "caught",
        Ok(Verdict::Survived) => "SURVIVED",
        Err(_) => "FAILED",
    };
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{word:<9} {seconds:>5.1} s  {} ({})",
        mutant.name, mutant.test[2]
    );
    if let Err(error) = &verdict {
        println!("    {error:#}");
    }
    matches!(verdict, Ok(Verdict::Caught))
}

impl Mutant {
    /// Whether its test boots nodes.
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
