//! What went wrong, as one line for the user and a status for the shell.
//!
//! | status | meaning |
//! |---|---|
//! | 2 | usage: options that make no sense, or request more than the host has |
//! | 69 | something a run needs is missing or does not work: what executes a node, its kernel, an accelerator (EX_UNAVAILABLE, sysexits.h) |
//! | 70 | Margay's own fault: the kernel panicked (EX_SOFTWARE) |
//! | 71 | Linux refused something: processes, memory, descriptors (EX_OSERR) |
//! | 124 | --timeout, as timeout(1) |
//! | 126 | the program cannot be run |
//! | 127 | the program was not found |
//! | 128 + n | killed by signal n; or the node or its keeper was, while ranks ran |

use std::fmt::Display;

/// See the table above.
pub mod status {
    pub const USAGE: u8 = 2;
    pub const UNAVAILABLE: u8 = 69;
    pub const SOFTWARE: u8 = 70;
    pub const OS: u8 = 71;
    pub const TIMEOUT: u8 = 124;
    pub const CANNOT_RUN: u8 = 126;
    pub const NOT_FOUND: u8 = 127;
    pub const SIGNAL: u8 = 128;
}

/// A line without "yod: ", and the exit status.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// Exit status of yod.
    pub status: u8,
    /// What happened, to what, and what to do; empty when that has been said.
    pub line: String,
}

impl Failure {
    pub fn new(status: u8, line: impl Display) -> Failure {
        Failure {
            status,
            line: line.to_string(),
        }
    }

    /// Another yod of the job says why.
    pub fn said(status: u8) -> Failure {
        Failure::new(status, "")
    }

    /// Linux refused to do `what`.
    pub fn os(what: &str, error: impl Display) -> Failure {
        Failure::new(status::OS, format_args!("cannot {what}: {error}"))
    }
}

/// A signal with its name: `signal 9 (SIGKILL)`.
pub fn signal_text(signo: i32) -> String {
    // Names in the order of Linux's numbers on x86-64, from 1 (signal(7)).
    const NAMES: [&str; 31] = [
        "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
        "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG",
        "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
    ];
    let name = usize::try_from(signo - 1).ok().and_then(|i| NAMES.get(i));
    match name {
        Some(name) => format!("signal {signo} (SIG{name})"),
        None => format!("signal {signo}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_linuxs_names() {
        assert_eq!(signal_text(libc::SIGKILL), "signal 9 (SIGKILL)");
        assert_eq!(signal_text(libc::SIGSYS), "signal 31 (SIGSYS)");
        assert_eq!(signal_text(libc::SIGSEGV), "signal 11 (SIGSEGV)");
        assert_eq!(signal_text(34), "signal 34");
        assert_eq!(signal_text(0), "signal 0");
    }
}
