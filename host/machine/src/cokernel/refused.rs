//! What the device refuses, as one line each: what, why, and what to do.

use rustix::io::Errno;

use super::device::{PATH, Parts};
use crate::plan::Bytes;

/// It cannot be opened. `only_signed`: this Linux loads no module without a signature that it knows.
pub fn open(errno: Errno, only_signed: bool) -> String {
    match errno {
        Errno::NOENT | Errno::NXIO | Errno::NODEV => {
            let signed = if only_signed {
                ", signed, for this Linux loads no other module"
            } else {
                ""
            };
            format!("{PATH} is not there: load margay.ko{signed} (docs/cokernel.md)")
        }
        Errno::ACCESS | Errno::PERM => {
            format!("{PATH} is not this user's: be in the group that has it (docs/cokernel.md)")
        }
        other => format!("{PATH}: {}", text(other)),
    }
}

/// Memory and CPUs are not to be had.
pub fn reserve(errno: Errno, parts: &Parts) -> String {
    let cpus = list(&parts.cpus);
    match errno {
        Errno::PROTO => {
            "the margay.ko that is loaded is of another version than yod: build and load that of this yod".into()
        }
        Errno::PERM => format!("CPUs {cpus}: this user may not run on one of them"),
        Errno::BUSY => format!(
            "CPUs {cpus}: another node has one of them, or it is offline: ask for fewer with -n or -d"
        ),
        Errno::NOMEM => format!(
            "Linux has no {} of memory of a piece: ask for less with -m, or boot Linux with movablecore=",
            Bytes(parts.bytes)
        ),
        other => format!("{PATH}: reserve CPUs {cpus} and {}: {}", Bytes(parts.bytes), text(other)),
    }
}

/// The node does not start.
pub fn start(errno: Errno, cpus: &[u32]) -> String {
    let cpus = list(cpus);
    match errno {
        Errno::NOENT => {
            "no margay/margay.elf or margay/pct in /lib/firmware: install them (docs/cokernel.md)".into()
        }
        Errno::NOEXEC => {
            "/lib/firmware/margay/margay.elf is no kernel that margay.ko can start: install the one that was built with it".into()
        }
        Errno::BUSY => format!(
            "Linux keeps one of CPUs {cpus}: is something bound to it, or a node just ending? Its kernel log says more (dmesg)"
        ),
        other => format!("{PATH}: start a node on CPUs {cpus}: {}", text(other)),
    }
}

/// There are fewer CPUs than the plan has cores.
pub fn too_few(cores: usize, most: usize) -> String {
    format!(
        "a node of {cores} cores: Linux can give {most} of the CPUs that this job may use, for it keeps CPU 0 and one of them"
    )
}

/// Something else that it does not do.
pub fn other(what: &str, errno: Errno) -> String {
    format!("{PATH}: {what}: {}", text(errno))
}

fn text(errno: Errno) -> String {
    std::io::Error::from(errno).to_string()
}

/// `1,2,5`.
pub fn list(cpus: &[u32]) -> String {
    let cpus: Vec<String> = cpus.iter().map(u32::to_string).collect();
    cpus.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_is_a_line_that_has_a_way_out() {
        let parts = Parts {
            bytes: 3 << 30,
            pool_bytes: 0,
            comm_offset: 0,
            comm_bytes: 0,
            cpus: vec![2, 3],
        };
        for (line, part) in [
            (
                open(Errno::NOENT, false),
                "/dev/margay is not there: load margay.ko (docs",
            ),
            (
                open(Errno::NOENT, true),
                "load margay.ko, signed, for this Linux loads no other module (docs",
            ),
            (open(Errno::ACCESS, true), "in the group"),
            (
                open(Errno::BUSY, false),
                "/dev/margay: Device or resource busy (os error 16)",
            ),
            (reserve(Errno::PROTO, &parts), "another version"),
            (reserve(Errno::PERM, &parts), "CPUs 2,3: this user may not"),
            (reserve(Errno::BUSY, &parts), "CPUs 2,3: another node"),
            (
                reserve(Errno::NOMEM, &parts),
                "no 3G of memory of a piece: ask for less with -m",
            ),
            (
                reserve(Errno::INVAL, &parts),
                "CPUs 2,3 and 3G: Invalid argument",
            ),
            (start(Errno::NOENT, &[2]), "in /lib/firmware: install"),
            (start(Errno::NOEXEC, &[2]), "is no kernel"),
            (start(Errno::BUSY, &[2]), "Linux keeps one of CPUs 2:"),
            (
                start(Errno::IO, &[2]),
                "start a node on CPUs 2: Input/output error",
            ),
            (too_few(4, 3), "4 cores: Linux can give 3"),
            (
                other("the pool", Errno::MFILE),
                "the pool: Too many open files",
            ),
        ] {
            assert!(line.contains(part) && !line.contains('\n'), "{line}");
        }
    }
}
