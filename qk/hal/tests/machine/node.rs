//! A machine that boots the self-test kernel.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use super::kernel::kernel;

/// QEMU's exit status for `exit_node(0)` and for a panic report: code << 1 | 1.
pub(super) const ENDED_WELL: i32 = 1;

pub(super) const DIED: i32 = 127;

/// Options that are the same for every machine; `timeout` ends one that hangs.
const FIXED: &str = "20 qemu-system-x86_64 -nodefaults -no-user-config -display none -no-reboot -accel tcg \
    -serial stdio -device isa-debug-exit,iobase=0xf4,iosize=4";

/// The kind of machine that Margay uses.
const Q35: &str = "q35,sata=off,smbus=off,vmport=off,hpet=off,i8042=off";

/// A machine as Margay uses it, less what the self-test does not need.
pub(super) struct Machine<'a> {
    pub(super) kernel: &'a Path,
    pub(super) machine: &'a str,
    pub(super) cpu: &'a str,
    pub(super) cpus: &'a str,
    pub(super) memory: &'a str,
    /// SeaBIOS when not set.
    pub(super) qboot: bool,
    pub(super) more: &'a [&'a str],
}

impl Default for Machine<'_> {
    fn default() -> Self {
        Self {
            kernel: kernel(),
            machine: Q35,
            cpu: "max",
            cpus: "4",
            memory: "64",
            qboot: true,
            more: &[],
        }
    }
}

impl Machine<'_> {
    /// Starts a node with `cmdline`.
    pub(super) fn start(&self, cmdline: &str) -> Child {
        let bios: &[&str] = if self.qboot {
            &["-bios", "qboot.rom"]
        } else {
            &[]
        };
        Command::new("timeout")
            .args(FIXED.split_whitespace())
            .args(["-M", self.machine])
            .args(["-cpu", self.cpu, "-smp", self.cpus, "-m", self.memory])
            .args(bios)
            .args(self.more)
            .arg("-kernel")
            .arg(self.kernel)
            .args(["-append", cmdline])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("timeout and QEMU are installed")
    }

    /// Status and serial output of a node booted with `cmdline`.
    pub(super) fn boot(&self, cmdline: &str) -> (i32, String) {
        outcome(self.start(cmdline))
    }

    pub(super) fn must_pass(&self) -> String {
        let (status, text) = self.boot("");
        assert!(
            status == ENDED_WELL && text.contains("PASS"),
            "status {status}\n{text}"
        );
        text
    }

    /// The panic report must have all of `parts`, and the last lines must be in order.
    pub(super) fn must_die(&self, how: &str, parts: &[&str]) {
        let (status, text) = self.boot(how);
        assert_eq!(status, DIED, "{how}: {text}");
        for part in [
            "PANIC cpu ",
            "BACKTRACE 0x",
            " 0xffffffff8",
            "handler: cpu ",
        ]
        .iter()
        .chain(parts)
        {
            assert!(text.contains(part), "{how}: no {part:?} in\n{text}");
        }
        assert_eq!(text.matches("PANIC").count(), 1, "{how}: {text}");
    }
}

/// Waits for the end; status and what was printed.
pub(super) fn outcome(node: Child) -> (i32, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = node.wait_with_output().expect("QEMU ends");
    let text = String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr);
    (status.code().unwrap_or(-1), text)
}
