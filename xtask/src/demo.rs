//! The demonstration: STREAM and a small gallery on a node with two ranks.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::{build, programs};

/// Elements of each of STREAM's arrays.
const STREAM_ELEMENTS: &str = "2000000";
/// Times that each kernel runs; the best counts. Emulated arithmetic is slow, and a demo is not a measurement.
const STREAM_ROUNDS: &str = "4";
const STREAM: &str = "stream";

/// Builds what is missing, then runs STREAM first and everything else of the gallery after it, each on two ranks.
///
/// # Errors
/// When something cannot be built or a program fails.
pub fn run() -> Result<()> {
    build::all()?;
    programs::all()?;
    let mut programs = gallery()?;
    programs.sort_by_key(|name| (name != STREAM, name.clone()));
    ensure!(!programs.is_empty(), "the gallery is empty");
    for name in &programs {
        show(name)?;
    }
    Ok(())
}

/// Names of the gallery's programs.
fn gallery() -> Result<Vec<String>> {
    let folder = build::root().join("tests/programs/gallery");
    let mut names = Vec::new();
    for entry in
        fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?
    {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "c")
            && let Some(name) = path.file_stem()
        {
            names.push(name.to_string_lossy().into_owned());
        }
    }
    Ok(names)
}

fn show(name: &str) -> Result<()> {
    let program = programs::directory().join("glibc-static").join(name);
    let arguments: &[&str] = if name == STREAM {
        &[STREAM_ELEMENTS, STREAM_ROUNDS]
    } else {
        &[]
    };
    println!(
        "$ yod -n 2 --label {}",
        [&[name], arguments].concat().join(" ")
    );
    let start = Instant::now();
    let output = command(&program, arguments)
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot run {name}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    // Each rank measures its own memory; pictures are all alike.
    print!(
        "{}",
        if name == STREAM {
            text.into()
        } else {
            readable(&text)
        }
    );
    ensure!(output.status.success(), "{name} failed: {}", output.status);
    println!("({name}: {:.1} s)\n", start.elapsed().as_secs_f64());
    Ok(())
}

/// All that rank 0 said, and of the others, who said the same, the last line.
fn readable(output: &str) -> String {
    let mut shown = String::new();
    let mut last = BTreeMap::new();
    for line in output.lines() {
        match line.split_once("] ") {
            Some(("[0", _)) => {
                shown.push_str(line);
                shown.push('\n');
            }
            Some((rank, text)) => {
                last.insert(rank, text);
            }
            None => {}
        }
    }
    for (rank, text) in last {
        shown.push_str(&format!("{rank}] ... {text}\n"));
    }
    shown
}

fn command(program: &Path, arguments: &[&str]) -> Command {
    let mut yod = Command::new(build::yod());
    yod.args(["-n", "2", "--label"]);
    if std::thread::available_parallelism().is_ok_and(|cores| cores.get() < 2) {
        yod.arg("--oversubscribe");
    }
    yod.arg("--").arg(program).args(arguments);
    yod
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_ranks_text_is_shorter() {
        let output = "[0] a\n[1] a\n[1] end of 1\n[0] end\n[0] \n";
        assert_eq!(readable(output), "[0] a\n[0] end\n[0] \n[1] ... end of 1\n");
    }
}
