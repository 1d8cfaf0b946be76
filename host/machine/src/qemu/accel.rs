//! Which accelerator runs the node: KVM where the CPU has it, emulation (TCG) elsewhere.
//!
//! A /dev/kvm node can exist and still be unable to run a kernel (a nested software KVM), so the CPU itself must show
//! the feature, whatever the request.

use std::io::Read;
use std::path::Path;

use thiserror::Error;

const DEVICE: &str = "/dev/kvm";

/// What executes the node's instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Accel {
    /// The CPU.
    Kvm,
    /// QEMU's emulator.
    Tcg,
}

/// What the user wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Choice {
    /// KVM where it works, else TCG.
    #[default]
    Auto,
    /// KVM or nothing.
    Kvm,
    /// TCG.
    Tcg,
}

/// Why KVM cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum NoKvm {
    /// Neither vmx nor svm.
    #[error("this CPU shows no virtualization for KVM (vmx or svm in /proc/cpuinfo)")]
    Cpu,
    /// The device is not there or not ours.
    #[error("/dev/kvm: {kind}{}", hint(*kind))]
    Device {
        /// What opening it says.
        kind: std::io::ErrorKind,
    },
}

fn hint(kind: std::io::ErrorKind) -> &'static str {
    match kind {
        std::io::ErrorKind::PermissionDenied => " (is the user in group kvm?)",
        std::io::ErrorKind::NotFound => " (is the kernel module loaded?)",
        _ => "",
    }
}

impl std::fmt::Display for Accel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Accel::Kvm => "KVM",
            Accel::Tcg => "TCG",
        })
    }
}

/// Whether KVM looks usable.
///
/// # Errors
/// What is in the way.
pub fn kvm() -> Result<(), NoKvm> {
    device(Path::new(DEVICE))?;
    if cpu_has_virtualization() {
        Ok(())
    } else {
        Err(NoKvm::Cpu)
    }
}

/// Whether the device is ours to use.
fn device(path: &Path) -> Result<(), NoKvm> {
    std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .map(drop)
        .map_err(|error| NoKvm::Device { kind: error.kind() })
}

/// Follows the user's choice.
///
/// # Errors
/// KVM was asked for and is not usable.
pub fn choose(choice: Choice) -> Result<Accel, NoKvm> {
    match choice {
        Choice::Tcg => Ok(Accel::Tcg),
        Choice::Auto => Ok(if kvm().is_ok() {
            Accel::Kvm
        } else {
            Accel::Tcg
        }),
        Choice::Kvm => kvm().map(|()| Accel::Kvm),
    }
}

/// The first processor's flags are enough, and the kernel makes the text as it is read: so only its beginning is.
fn cpu_has_virtualization() -> bool {
    let mut head = Vec::new();
    let read = std::fs::File::open("/proc/cpuinfo")
        .and_then(|file| file.take(4096).read_to_end(&mut head));
    read.is_ok() && shows_virtualization(&String::from_utf8_lossy(&head))
}

fn shows_virtualization(cpuinfo: &str) -> bool {
    cpuinfo
        .lines()
        .find(|line| line.starts_with("flags"))
        .is_some_and(|line| {
            line.split_ascii_whitespace()
                .any(|flag| flag == "vmx" || flag == "svm")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_words() {
        assert!(shows_virtualization(
            "vendor_id : x\nflags\t\t: fpu vme svm sse\n"
        ));
        assert!(shows_virtualization("flags : vmx"));
        assert!(!shows_virtualization("flags : vmxnot svm_lock\nbugs : vmx"));
        assert!(!shows_virtualization(""));
    }

    #[test]
    fn emulation_is_always_there() {
        assert_eq!(choose(Choice::Tcg), Ok(Accel::Tcg));
    }

    /// yod waited 20 s for a node that the doctor reported as impossible.
    #[test]
    fn the_doctors_report_agrees_with_the_choice() {
        assert_eq!(choose(Choice::Kvm), kvm().map(|()| Accel::Kvm));
    }

    /// On a CPU without virtualization a device that may not be opened was left to QEMU to complain about.
    #[test]
    fn a_device_that_does_not_open_is_named_whatever_the_cpu_has() {
        let own = std::env::current_exe().expect("a path");
        let no = device(&own.join("kvm")).expect_err("a file is no directory");
        assert!(no.to_string().starts_with("/dev/kvm: "), "{no}");
        if let Err(no) = device(Path::new(DEVICE)) {
            assert_eq!(choose(Choice::Kvm), Err(no));
        }
    }
}
