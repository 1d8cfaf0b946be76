//! The host's gdb, and the program that it looks at.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use margay_tests::process;
use margay_tests::run::HANG;
use margay_tests::scratch::Scratch;
use margay_tests::tree;

/// Builds a program of tests/programs/debug, with its line numbers.
pub fn build(scratch: &Scratch, name: &str, options: &[&str]) -> Result<String> {
    let program = scratch.path().join(name).to_string_lossy().into_owned();
    let source = format!("tests/programs/debug/{name}.c");
    let made = Command::new("gcc")
        .args(["-g", "-O1", "-fno-optimize-sibling-calls", "-pthread"])
        .args(options)
        .args(["-o", &program])
        .arg(tree::root().join(source))
        .status()?;
    ensure!(made.success(), "gcc failed");
    Ok(program)
}

const GDB: &str = "/usr/bin/gdb";
/// Of every session: nothing of the user's or from the network, one line for each thing.
const OPTIONS: [&str; 10] = [
    "-nx",
    "-batch",
    "-iex",
    "set debuginfod enabled off",
    "-iex",
    "set auto-load safe-path /",
    "-iex",
    "set width 0",
    "-iex",
    "set pagination off",
];

/// The words of a session of these commands about `program`.
fn words<'a>(program: &[&'a str], commands: &[&'a str]) -> Vec<&'a str> {
    let commands = commands.iter().flat_map(|command| ["-ex", command]);
    let words = OPTIONS.into_iter().chain(commands);
    words.chain(program.iter().copied()).collect()
}

/// A command of gdb that runs another session meanwhile. No word may hold a quote.
pub fn nested(program: &str, commands: &[&str]) -> String {
    let words = words(&[program], commands);
    format!("shell {GDB} '{}'", words.join("' '"))
}

/// What gdb prints when it carries out these commands in `directory`.
pub fn gdb(directory: &Path, arguments: &[&str], commands: &[&str]) -> Result<String> {
    let mut child = Command::new(GDB)
        .args(words(arguments, commands))
        .current_dir(directory)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("gdb")?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let read = |pipe: Option<Box<dyn std::io::Read + Send>>| {
        std::thread::spawn(move || {
            let mut text = Vec::new();
            pipe.map(|mut pipe| pipe.read_to_end(&mut text));
            String::from_utf8_lossy(&text).into_owned()
        })
    };
    let out = read(stdout.map(|pipe| Box::new(pipe) as _));
    let err = read(stderr.map(|pipe| Box::new(pipe) as _));
    let ended = process::wait(&mut child, HANG)?;
    if ended.is_none() {
        process::kill_group(&mut child);
    }
    let text = [out, err].map(|reader| reader.join().unwrap_or_default());
    ensure!(ended.is_some(), "gdb hangs: {}{}", text[0], text[1]);
    Ok(text.concat())
}

/// The functions of backtraces, innermost first: a list for each that gdb printed. What has no name is left out.
pub fn functions(text: &str) -> Vec<Vec<String>> {
    let mut all: Vec<Vec<String>> = Vec::new();
    for line in text.lines() {
        let Some((number, rest)) = line.strip_prefix('#').and_then(|l| l.split_once(' ')) else {
            continue;
        };
        let rest = rest.trim_start();
        let rest = match rest.strip_prefix("0x") {
            Some(address) => address.split_once(" in ").map_or("", |(_, rest)| rest),
            None => rest,
        };
        if number == "0" {
            all.push(Vec::new());
        }
        let name = rest.split_once(" (").map_or("", |(name, _)| name);
        if let Some(last) = all.last_mut().filter(|_| !name.is_empty()) {
            last.push(name.into());
        }
    }
    all
}
