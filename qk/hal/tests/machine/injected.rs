//! NMIs and machine checks that QEMU's monitor injects.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::Duration;

use super::node::{DIED, ENDED_WELL, Machine, outcome};

/// Of IA32_MCi_STATUS: valid, uncorrected, enabled; and the CPU's state is corrupt.
const ERROR: u64 = 0xb << 60;
const CORRUPT: u64 = 1 << 57;

/// A node that runs programs, and the monitor of its QEMU.
fn start(cmdline: &str) -> (Child, UnixStream) {
    static STARTED: AtomicUsize = AtomicUsize::new(0);
    let number = STARTED.fetch_add(1, Ordering::Relaxed);
    let socket = std::env::temp_dir().join(format!("hal-{}-{number}", std::process::id()));
    let qmp = format!("unix:{},server=on,wait=off", socket.display());
    let mut node = Machine {
        more: &["-qmp", &qmp],
        ..Machine::default()
    }
    .start(cmdline);
    let mut monitor = loop {
        match UnixStream::connect(&socket) {
            Ok(monitor) => break monitor,
            Err(error) => assert!(
                node.try_wait().expect("a child").is_none(),
                "QEMU has ended: {error}"
            ),
        }
        sleep(Duration::from_millis(10));
    };
    std::fs::remove_file(&socket).expect("QEMU made the socket");
    say(&mut monitor, r#""qmp_capabilities""#);
    let mut output = BufReader::with_capacity(1, node.stdout.take().expect("a pipe"));
    let mut line = String::new();
    while !line.contains("running") {
        line.clear();
        let read = output.read_line(&mut line).expect("text");
        assert!(read > 0, "the node has ended");
    }
    node.stdout = Some(output.into_inner());
    (node, monitor)
}

/// Fails when the node ends meanwhile.
fn say(monitor: &mut UnixStream, command: &str) {
    let _ = writeln!(monitor, r#"{{"execute": {command}}}"#);
}

fn inject_machine_check(status: u64) -> (i32, String) {
    const GOES_ON: u64 = 1;
    const IN_PROGRESS: u64 = 4;
    let (node, mut monitor) = start("machine check");
    let global = GOES_ON | IN_PROGRESS;
    let command = format!("mce 0 9 {status:#x} {global:#x} 0 0");
    say(
        &mut monitor,
        &format!(r#""human-monitor-command", "arguments": {{"command-line": "{command}"}}"#),
    );
    outcome(node)
}

/// NMIs strike anywhere, also between an entry and its `swapgs`; the kernel counts them and nothing else changes.
#[test]
fn survives_nmis_anywhere() {
    let (mut node, mut monitor) = start("nmi");
    while node.try_wait().expect("a child").is_none() {
        say(&mut monitor, r#""inject-nmi""#);
        sleep(Duration::from_millis(3));
    }
    let (status, text) = outcome(node);
    assert!(
        status == ENDED_WELL && text.contains("PASS"),
        "status {status}\n{text}"
    );
}

/// Processors tell all CPUs of errors that one of them has met; each was the end of the node.
#[test]
fn survives_a_machine_check_of_another_cpu() {
    let (status, text) = inject_machine_check(ERROR);
    assert!(
        status == ENDED_WELL && text.contains("PASS"),
        "status {status}\n{text}"
    );
}

#[test]
fn dies_of_a_machine_check_of_its_own() {
    let (status, text) = inject_machine_check(ERROR | CORRUPT);
    assert_eq!(status, DIED, "{text}");
    let line = "machine check, status 0x5, bank 9: 0xb200000000000000";
    assert!(text.contains(line), "{text}");
}
