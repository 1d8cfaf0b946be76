//! The socket where a rank waits for its gdb, and what becomes of a rank whose gdb misbehaves, dies or never comes.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use libtest_mimic::Trial;
use margay_tests::clean;
use margay_tests::process::{self, signal, wait_until};
use margay_tests::run::HANG;
use margay_tests::trial::trial;
use rustix::process::Signal;

use crate::waiting::{Waiting, has};

pub fn all() -> Vec<Trial> {
    let case = |name: &str, test: fn() -> Result<()>| trial(format!("connection: {name}"), test);
    vec![
        case("garbage", garbage),
        case("damaged packets", damaged_packets),
        case("malformed packets", malformed_packets),
        case("gdb goes", gdb_goes),
        case("no gdb comes", without_gdb),
        case("a socket in use", in_use),
        case("a socket of the user alone", of_the_user_alone),
    ]
}

/// A line of yod's, and the rank goes on.
fn garbage() -> Result<()> {
    let waiting = Waiting::new("steps")?;
    let started = waiting.start(&[], &[])?;
    let mut stream = UnixStream::connect(waiting.socket())?;
    // What it answers does not matter; it may have gone before all is written.
    let _ = stream
        .write_all(b"hello\r\n\x00\xff$$$#zz+++$qSupported:x#00$m0,ffffffffffffffffff#00$Z9#00");
    drop(stream);
    let outcome = started.finish(HANG)?;
    waiting.ended(&outcome, 3)?;
    has(&outcome.stderr.text(), &["gdb is gone, the rank goes on: "])
}

/// At the first packet with a wrong sum the session was over.
fn damaged_packets() -> Result<()> {
    let waiting = Waiting::new("steps")?;
    let started = waiting.start(&[], &[])?;
    let mut stream = UnixStream::connect(waiting.socket())?;
    stream.set_read_timeout(Some(HANG))?;
    let answers = [("$?#00", "-"), ("$?$?#3f", "-+$"), ("noise$?#3f", "+$")];
    for (packet, begin) in answers {
        exchange(&mut stream, packet, begin)?;
    }
    drop(stream);
    waiting.ended(&started.finish(HANG)?, 3)
}

/// Sends bytes, whose answer begins as this; to the end of a packet, if it ends where one begins.
fn exchange(stream: &mut UnixStream, sent: &str, begin: &str) -> Result<()> {
    stream.write_all(sent.as_bytes())?;
    let mut answer = vec![0; begin.len()];
    stream.read_exact(&mut answer)?;
    ensure!(answer == begin.as_bytes(), "{sent}: {answer:?}");
    if begin.ends_with('$') {
        let mut byte = [0];
        while byte[0] != b'#' {
            stream.read_exact(&mut byte)?;
        }
        stream.read_exact(&mut [0; 2])?;
    }
    Ok(())
}

/// At the first packet that is no command of gdb's, although its sum is right, the session was over.
fn malformed_packets() -> Result<()> {
    let waiting = Waiting::new("steps")?;
    let started = waiting.start(&[], &[])?;
    let mut stream = UnixStream::connect(waiting.socket())?;
    stream.set_read_timeout(Some(HANG))?;
    for malformed in [
        "gx",
        "G00",
        "Hg-1",
        "m0",
        "m,",
        "M0,1:9",
        "T0",
        "qSupported",
        "qXfer:features:read:x.xml:0,1",
        "s",
        "vCont;s",
        "vCont;r1,2:1",
        "Z0,1",
    ] {
        let sum = malformed.bytes().fold(0, u8::wrapping_add);
        exchange(&mut stream, &format!("${malformed}#{sum:02x}"), "+$E01#a6")?;
    }
    exchange(&mut stream, "$?#3f", "+$T05thread:")?;
    drop(stream);
    waiting.ended(&started.finish(HANG)?, 3)
}

/// gdb is killed while its breakpoint is in the program.
fn gdb_goes() -> Result<()> {
    let waiting = Waiting::new("steps")?;
    let started = waiting.start(&[], &["loop"])?;
    let mut child = Command::new("/usr/bin/gdb")
        .args([
            "-nx",
            "-batch",
            "-ex",
            "set sysroot /",
            "-ex",
            "target remote s",
        ])
        .args([
            "-ex",
            "break twice",
            "-ex",
            "continue",
            "-ex",
            "set var go_on = 0",
        ])
        .args([
            "-ex",
            "shell echo 4711",
            "-ex",
            "python import time; time.sleep(60)",
        ])
        .arg(&waiting.program)
        .current_dir(waiting.scratch.path().join("cwd"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut text = String::new();
    let mut out = std::io::BufReader::new(child.stdout.take().expect("piped"));
    while !text.contains("4711") {
        ensure!(
            std::io::BufRead::read_line(&mut out, &mut text)? > 0,
            "{text}"
        );
    }
    process::kill_group(&mut child);
    let outcome = started.finish(HANG)?;
    waiting.ended(&outcome, 3)?;
    has(&outcome.stderr.text(), &["gdb is gone, the rank goes on: "]).with_context(|| text)
}

/// SIGTERM ends a rank that waits for gdb; nothing is left.
fn without_gdb() -> Result<()> {
    let waiting = Waiting::new("steps")?;
    let started = waiting.start(&[], &[])?;
    ensure!(signal(started.pid(), Signal::TERM));
    waiting.ended(&started.finish(HANG)?, 143)?;
    let run = waiting.run(&["--timeout", "3"], &[]);
    let outcome = clean::run_in(run, &waiting.scratch)?;
    waiting.ended(&outcome, 124)
}

fn in_use() -> Result<()> {
    let waiting = Waiting::new("steps")?;
    std::fs::create_dir_all(waiting.scratch.path().join("cwd"))?;
    std::fs::write(waiting.socket(), "a file")?;
    let outcome = clean::run_in(waiting.run(&[], &[]), &waiting.scratch)?;
    clean::one_line(&outcome, 71, "cannot listen for gdb at ")?;
    ensure!(std::fs::read(waiting.socket())? == b"a file");
    Ok(())
}

/// A process that connects to it has the rank's memory. It is there under its name before yod could change its mode, so it is looked at
/// as soon as it is, and where nothing else restricts it.
fn of_the_user_alone() -> Result<()> {
    let waiting = Waiting::new("steps")?;
    let run = waiting.run(&[], &[]);
    let run = run.under(&["/bin/sh", "-c", "umask 0; exec \"$@\"", "sh"]);
    let started = run.start(&waiting.scratch)?;
    let mut mode = None;
    let there = wait_until(HANG, || {
        let found = std::fs::metadata(waiting.socket());
        mode = found.ok().map(|meta| meta.permissions().mode() & 0o7777);
        mode.is_some()
    });
    ensure!(there, "no socket");
    ensure!(signal(started.pid(), Signal::TERM));
    waiting.ended(&started.finish(HANG)?, 143)?;
    ensure!(mode == Some(0o600), "mode {:o}", mode.unwrap_or(0));
    Ok(())
}
