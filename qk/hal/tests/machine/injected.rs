//! NMIs and machine checks that QEMU's monitor injects.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, ChildStdout};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::Duration;

use super::node::{DIED, ENDED_WELL, Machine, outcome};

/// Of IA32_MCi_STATUS: valid, uncorrected, enabled; and the CPU's state is corrupt.
const ERROR: u64 = 0xb << 60;
const CORRUPT: u64 = 1 << 57;

/// A node that runs programs, and the monitor of its QEMU.
struct Node {
    qemu: Child,
    output: BufReader<ChildStdout>,
    monitor: UnixStream,
}

fn start(cmdline: &str) -> Node {
    static STARTED: AtomicUsize = AtomicUsize::new(0);
    let number = STARTED.fetch_add(1, Ordering::Relaxed);
    let socket = std::env::temp_dir().join(format!("hal-{}-{number}", std::process::id()));
    let qmp = format!("unix:{},server=on,wait=off", socket.display());
    let mut qemu = Machine {
        more: &["-qmp", &qmp],
        ..Machine::default()
    }
    .start(cmdline);
    let monitor = loop {
        match UnixStream::connect(&socket) {
            Ok(monitor) => break monitor,
            Err(error) => assert!(
                qemu.try_wait().expect("a child").is_none(),
                "QEMU has ended: {error}"
            ),
        }
        sleep(Duration::from_millis(10));
    };
    std::fs::remove_file(&socket).expect("QEMU made the socket");
    let output = BufReader::with_capacity(1, qemu.stdout.take().expect("a pipe"));
    let mut node = Node {
        qemu,
        output,
        monitor,
    };
    node.say(r#""qmp_capabilities""#);
    node.wait_for("running");
    node
}

impl Node {
    /// Fails when the node ends meanwhile.
    fn say(&mut self, command: &str) {
        let _ = writeln!(self.monitor, r#"{{"execute": {command}}}"#);
    }

    fn wait_for(&mut self, words: &str) {
        let mut line = String::new();
        while !line.contains(words) {
            line.clear();
            let read = self.output.read_line(&mut line).expect("text");
            assert!(read > 0, "the node has ended");
        }
    }

    fn check_machine(&mut self, status: u64) {
        const GOES_ON: u64 = 1;
        const IN_PROGRESS: u64 = 4;
        let global = GOES_ON | IN_PROGRESS;
        let command = format!("mce 0 9 {status:#x} {global:#x} 0 0");
        self.say(&format!(
            r#""human-monitor-command", "arguments": {{"command-line": "{command}"}}"#
        ));
    }

    fn outcome(mut self) -> (i32, String) {
        self.qemu.stdout = Some(self.output.into_inner());
        outcome(self.qemu)
    }
}

/// NMIs strike anywhere, also between an entry and its `swapgs`; the kernel counts them and nothing else changes.
#[test]
fn survives_nmis_anywhere() {
    let mut node = start("nmi");
    while node.qemu.try_wait().expect("a child").is_none() {
        node.say(r#""inject-nmi""#);
        sleep(Duration::from_millis(3));
    }
    passed(node);
}

/// Processors tell all CPUs of errors that one of them has met; each was the end of the node.
#[test]
fn survives_machine_checks_of_another_cpu() {
    let mut node = start("machine check");
    node.check_machine(ERROR);
    node.wait_for("interrupts: 1");
    node.check_machine(ERROR);
    passed(node);
}

fn passed(node: Node) {
    let (status, text) = node.outcome();
    assert!(
        status == ENDED_WELL && text.contains("PASS"),
        "status {status}\n{text}"
    );
}

#[test]
fn dies_of_a_machine_check_of_its_own() {
    let mut node = start("machine check");
    node.check_machine(ERROR | CORRUPT);
    let (status, text) = node.outcome();
    assert_eq!(status, DIED, "{text}");
    let line = "machine check, status 0x5, bank 9: 0xb200000000000000";
    assert!(text.contains(line), "{text}");
}
