//! Signal numbers: gdb's protocol has its own (gdb's include/gdb/signals.def).

use gdbstub::common::Signal;

/// gdb's numbers of Linux's signals 1 to 31; 0: it has none.
const STANDARD: [u8; 31] = [
    1, 2, 3, 4, 5, 6, 10, 8, 9, 30, 11, 31, 13, 14, 15, 0, 20, 19, 17, 18, 21, 22, 16, 24, 25, 26,
    27, 28, 23, 32, 12,
];
/// gdb's "unknown signal".
const UNKNOWN: u8 = 143;

/// gdb's number of Linux's signal.
pub fn to_gdb(signo: u8) -> Signal {
    Signal(match signo {
        1..=31 => match STANDARD[usize::from(signo) - 1] {
            0 => UNKNOWN,
            number => number,
        },
        32 => 77,
        33..=63 => signo + 12,
        64 => 78,
        _ => UNKNOWN,
    })
}

/// Linux's number of gdb's signal; 0: none.
pub fn from_gdb(signal: Signal) -> u8 {
    (1..=64)
        .find(|&signo| to_gdb(signo) == signal && signal.0 != UNKNOWN)
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_gdbs() {
        for (signo, number) in [
            (libc::SIGINT, Signal::SIGINT),
            (libc::SIGTRAP, Signal::SIGTRAP),
            (libc::SIGBUS, Signal::SIGBUS),
            (libc::SIGSEGV, Signal::SIGSEGV),
            (libc::SIGUSR1, Signal::SIGUSR1),
            (libc::SIGUSR2, Signal::SIGUSR2),
            (libc::SIGCHLD, Signal::SIGCHLD),
            (libc::SIGSTOP, Signal::SIGSTOP),
            (libc::SIGCONT, Signal::SIGCONT),
            (libc::SIGURG, Signal::SIGURG),
            (libc::SIGIO, Signal::SIGIO),
            (libc::SIGSYS, Signal::SIGSYS),
            (libc::SIGWINCH, Signal::SIGWINCH),
            (libc::SIGPWR, Signal::SIGPWR),
            (34, Signal::SIG34),
        ] {
            assert_eq!(to_gdb(signo as u8), number);
            assert_eq!(i32::from(from_gdb(number)), signo);
        }
        assert_eq!(from_gdb(Signal(UNKNOWN)), 0);
        assert!(
            (1..=64)
                .filter(|n| *n != 16)
                .all(|n| from_gdb(to_gdb(n)) == n)
        );
    }
}
