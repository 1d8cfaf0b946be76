//! Notices: that the CPU is emulated, on a terminal once per session, and where a program relies on what emulation lacks; that an
//! MPI's ranks will not find each other.
//!
//! That it was shown is recorded by an empty file where sessions keep such things (XDG Base Directory Specification):
//! XDG_RUNTIME_DIR, which goes away with the session, or the state directory where there is none.

use std::fs::OpenOptions;
use std::io::IsTerminal;
use std::path::PathBuf;

use crate::console;
use crate::launcher::Launched;
use crate::place::Place;
use crate::program::Program;
use crate::verdict::ranks_text;

const TEXT: &str = "no KVM here: the CPU is emulated; compare counts and ratios, not seconds";

/// Prints the notice that the CPU is emulated if it is due.
pub fn emulation() {
    if std::io::stderr().is_terminal() && first_time() {
        console::say(TEXT);
    }
}

/// Says of a program of one MPI that another's launcher has started it.
pub fn foreign_launcher(place: &Place, program: &Program) {
    if let (Some(launched), Some(mpi)) = (&place.launched, program.mpi())
        && place.is_shared()
        && let Some(line) = foreign_line(launched, mpi)
    {
        console::say(format_args!("{} {line}", program.name()));
    }
}

fn foreign_line(launched: &Launched, mpi: &str) -> Option<String> {
    let Launched { launcher, size, .. } = *launched;
    let other = launched.connects.filter(|other| *other != mpi)?;
    Some(format!(
        "is linked with {mpi}, whose ranks do not find each other by the {launcher} of {other} that has started them: use {mpi}'s, or yod -n {size} without one"
    ))
}

/// Names ranks that unmasked SSE exceptions, which an emulated CPU (QEMU's TCG) never raises: `mxcsr` of each rank that has ended.
pub fn exceptions(mxcsr: impl Iterator<Item = (usize, u64)>) {
    if let Some(line) = exceptions_line(mxcsr) {
        console::say(line);
    }
}

fn exceptions_line(mxcsr: impl Iterator<Item = (usize, u64)>) -> Option<String> {
    /// By their bits in MXCSR; the masks are seven bits up (Intel SDM vol. 1 §10.2.3).
    const NAMES: [&str; 6] = [
        "invalid operation",
        "denormal operand",
        "division by zero",
        "overflow",
        "underflow",
        "inexact result",
    ];
    let (mut ranks, mut raised) = (Vec::new(), 0);
    for (rank, mxcsr) in mxcsr {
        let unmasked = !(mxcsr >> 7) & 0x3f;
        // A rank that never ran has no MXCSR: one that masks nothing and has seen nothing.
        if unmasked != 0 && mxcsr != 0 {
            ranks.push(rank);
            raised |= mxcsr & unmasked;
        }
    }
    if ranks.is_empty() {
        return None;
    }
    let names: Vec<_> = (0..NAMES.len())
        .filter(|bit| raised >> bit & 1 != 0)
        .map(|bit| NAMES[bit])
        .collect();
    let happened = match names.is_empty() {
        true => String::new(),
        false => format!("; happened: {}", names.join(", ")),
    };
    Some(format!(
        "{} unmasked floating-point exceptions (feenableexcept, -ffpe-trap), but the emulated CPU raises no SIGFPE for SSE and AVX{happened}",
        ranks_text(&ranks)
    ))
}

/// Where nothing can be remembered, every time is the first.
fn first_time() -> bool {
    let Some(dir) = directory(|name| std::env::var_os(name).map(PathBuf::from)) else {
        return true;
    };
    let _ = std::fs::create_dir_all(&dir);
    let created = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(dir.join("emulation-noticed"));
    !matches!(created, Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists)
}

fn directory(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let base = |name| variable(name).filter(|dir| dir.is_absolute());
    base("XDG_RUNTIME_DIR")
        .or_else(|| base("XDG_STATE_HOME"))
        .or_else(|| base("HOME").map(|home| home.join(".local/state")))
        .map(|dir| dir.join("margay"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unmasked_exceptions_are_named() {
        let line = |mxcsr: &[u64]| exceptions_line(mxcsr.iter().copied().enumerate());
        assert_eq!(line(&[0x1f80, 0x1fbf, 0]), None);
        let unmasked = line(&[0x1f80, 0x1d80]).expect("a line");
        assert!(unmasked.starts_with("rank 1 unmasked ") && unmasked.ends_with(" SSE and AVX"));
        let happened = line(&[0x1d84 | 0x20, 0x1d80]).expect("a line");
        assert!(
            happened.starts_with("ranks 0 and 1 ")
                && happened.ends_with("; happened: division by zero")
        );
    }

    #[test]
    fn another_mpis_launcher_is_named() {
        let line = |connects, mpi| {
            let launched = Launched {
                launcher: "mpiexec",
                size_variable: "SIZE",
                job: String::new(),
                rank: 0,
                size: 3,
                connects,
                settings: &[],
            };
            foreign_line(&launched, mpi)
        };
        let said = line(Some("MPICH"), "Open MPI").expect("a line");
        assert!(said.contains(" by the mpiexec of MPICH ") && said.contains("yod -n 3 "));
        assert_eq!(line(Some("MPICH"), "MPICH"), None);
        assert_eq!(line(None, "MPICH"), None);
    }

    #[test]
    fn the_session_remembers_rather_than_the_home() {
        let dir = |set: &[(&str, &str)]| {
            directory(|name| {
                set.iter()
                    .find(|(key, _)| *key == name)
                    .map(|(_, value)| PathBuf::from(value))
            })
        };
        assert_eq!(
            dir(&[("XDG_RUNTIME_DIR", "/run/user/1"), ("HOME", "/h")]),
            Some("/run/user/1/margay".into())
        );
        assert_eq!(
            dir(&[("XDG_STATE_HOME", "relative"), ("HOME", "/h")]),
            Some("/h/.local/state/margay".into())
        );
        assert_eq!(dir(&[]), None);
    }
}
