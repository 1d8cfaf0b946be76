//! Bochs, a second machine: it keeps rules of processors that QEMU's emulator does not know.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use margay_tests::process;
use margay_tests::scratch::Scratch;

/// Seconds after which a machine counts as hung: Bochs interprets, firmware and GRUB come first, and the host may be busy.
const HANG_SECONDS: &str = "300";

/// A processor of Bochs: its model there, and how many.
pub struct Cpus(pub &'static str, pub u32);

/// x2APIC and a timer with TSC deadlines, as current machines have them.
pub const ICE_LAKE: Cpus = Cpus("corei7_icelake_u", 2);
/// xAPIC, a timer that counts, no UMIP.
pub const RYZEN: Cpus = Cpus("ryzen", 1);

/// Boots `disc` and reads COM1 up to the line that ends it.
pub fn boot(
    scratch: &Scratch,
    disc: &Path,
    Cpus(model, count): Cpus,
    ends: fn(&str) -> bool,
) -> Result<String> {
    let at = |name| scratch.path().join(name);
    // Debian's Bochs starts in its debugger, and without a display it wants to be a server of one that nobody has to use.
    fs::write(at("debugger"), "c\n")?;
    let machine = format!(
        "cpu: model={model}, count={count}, ips=200000000, reset_on_triple_fault=0\n\
         memory: guest=128, host=128\n\
         romimage: file=/usr/share/bochs/BIOS-bochs-latest\n\
         vgaromimage: file=/usr/share/bochs/VGABIOS-lgpl-latest\n\
         ata0-master: type=cdrom, path={}, status=inserted\n\
         boot: cdrom\n\
         com1: enabled=1, mode=file, dev=/dev/fd/3\n\
         display_library: rfb, options=\"timeout=0\"\n\
         log: {}\n\
         panic: action=fatal\n",
        disc.display(),
        at("log").display()
    );
    fs::write(at("machine"), machine)?;
    // It has much to say by itself on both of its outputs.
    let mut child = Command::new("sh")
        .args(["-c", "exec \"$@\" 3>&1 >/dev/null 2>&1", "sh"])
        .args(["timeout", HANG_SECONDS, "bochs", "-q", "-f"])
        .arg(at("machine"))
        .arg("-rc")
        .arg(at("debugger"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .context("timeout and Bochs are installed")?;
    let com1 = child.stdout.take().context("a pipe")?;
    let mut text = String::new();
    let mut has_ended = false;
    for line in BufReader::new(com1).lines() {
        let line = line?;
        text += &line;
        text += "\n";
        has_ended = ends(line.trim_end());
        if has_ended {
            break;
        }
    }
    process::kill_group(&mut child);
    ensure!(has_ended, "{model} ended by itself, or hung: {text}");
    Ok(text.replace('\r', ""))
}
