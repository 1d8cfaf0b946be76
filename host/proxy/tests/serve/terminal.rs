//! Job control: a rank in the background that reads from its terminal stops, as any program does.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use wire::rank::terminal;

use crate::Case;
use crate::files::open;
use crate::launch::{AS_SHELL, Setup};
use crate::life::stopped;
use crate::node::{DATA, Node, wait_for};

pub const CASES: &[Case] = &[
    ("a_background_read_stops", || in_a_terminal(STOPS)),
    ("what_is_ignored_does_not_stop", || in_a_terminal(PASSES)),
    ("what_is_handled_interrupts", || in_a_terminal(HANDLED)),
];

/// What a shell that is started does.
const STOPS: &str = "stops";
const PASSES: &str = "passes";
const HANDLED: &str = "handled";

const BUF: u64 = DATA.0 + 0x2000;

/// A new terminal: what the user has, and what programs have.
fn terminal() -> (OwnedFd, OwnedFd) {
    let (mut user, mut program) = (-1, -1);
    let null = std::ptr::null_mut();
    // SAFETY: 1. openpty writes two ints; the other arguments may be null. 2. The descriptors are new.
    unsafe {
        assert_eq!(
            libc::openpty(
                &raw mut user,
                &raw mut program,
                null,
                null.cast(),
                null.cast()
            ),
            0
        );
        (OwnedFd::from_raw_fd(user), OwnedFd::from_raw_fd(program))
    }
}

fn in_a_terminal(case: &str) {
    let (user, program) = terminal();
    let mut shell = Command::new(std::env::current_exe().unwrap());
    shell.args([AS_SHELL, case]);
    let number = program.as_raw_fd();
    // SAFETY: 1. Only async-signal-safe calls are made between fork and exec.
    unsafe {
        shell.pre_exec(move || {
            libc::setsid();
            match libc::ioctl(number, libc::TIOCSCTTY, 0) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        });
    }
    let mut shell = shell.spawn().unwrap();
    File::from(user.try_clone().unwrap())
        .write_all(b"typed\n")
        .unwrap();
    assert!(shell.wait().unwrap().success());
}

/// What a test starts: the leader of a session with a terminal, and of its foreground job.
pub fn become_shell() -> ! {
    match std::env::args().nth(2).as_deref() {
        Some(PASSES) => background_use_passes(),
        Some(HANDLED) => background_use_is_handled(),
        _ => background_read_stops(),
    }
    std::process::exit(0)
}

/// A node with a rank in the background, and its descriptor of the terminal.
fn background() -> (Node, u64) {
    let mut node = Node::with(Setup {
        background: true,
        ..Setup::default()
    });
    let fd = open(&mut node, b"/dev/tty\0", libc::O_RDWR as u64) as u64;
    (node, fd)
}

/// Has both signals do the same to the program.
fn both(node: &Node, what: u64) {
    node.area().node.terminal_stops.store(what | what << 2);
}

/// Once the worker took the signals whatever the program did: a shell that ignores or blocks them, as all do, stopped for
/// good when it took the terminal for itself.
fn background_use_passes() {
    let (mut node, fd) = background();
    both(&node, terminal::PASSES);
    node.put(BUF, b"seen\n");
    assert_eq!(node.call(libc::SYS_read, &[fd, BUF, 100]), -5); // EIO
    node.put_words(BUF, &[node.pid() as u64]);
    assert_eq!(node.call(libc::SYS_ioctl, &[fd, libc::TIOCSPGRP, BUF]), 0);
    assert_eq!(node.call(libc::SYS_read, &[fd, BUF, 100]), 6);
    // From outside they arrive like any other.
    for signo in [libc::SIGTTIN, libc::SIGTTOU] {
        // SAFETY: 1. Sends a signal to the proxy this process started.
        assert_eq!(unsafe { libc::kill(node.pid(), signo) }, 0);
        assert_eq!(node.wait_signal().unwrap().signo, signo as u32);
    }
    // And stop again when the program lets them.
    both(&node, terminal::STOPS);
    assert!(node.call(libc::SYS_getpgid, &[0]) >= 0);
    // SAFETY: 1. As above.
    assert_eq!(unsafe { libc::kill(node.pid(), libc::SIGTTOU) }, 0);
    wait_for(|| stopped(&node));
}

/// The program has a handler: the call ends and the node has the signal already.
fn background_use_is_handled() {
    let (mut node, fd) = background();
    both(&node, terminal::HANDLED);
    node.put_words(BUF, &[node.pid() as u64]);
    for (nr, args, signo) in [
        (libc::SYS_ioctl, [fd, libc::TIOCSPGRP, BUF], libc::SIGTTOU),
        (libc::SYS_read, [fd, BUF, 100], libc::SIGTTIN),
    ] {
        assert_eq!(node.call(nr, &args), -4); // EINTR
        let signal = node.area().mailbox.take().unwrap();
        assert_eq!((signal.signo, signal.code), (signo as u32, libc::SI_KERNEL));
        assert!(node.area().mailbox.is_empty());
    }
}

/// The stop is the worker's alone: once the watcher could take it, and passed it on to the node as well.
fn background_read_stops() {
    let (mut node, fd) = background();
    node.begin(libc::SYS_read, &[fd, BUF, 100]);
    wait_for(|| stopped(&node));
    assert!(!node.answered());
    let tty = File::open("/dev/tty").unwrap();
    // SAFETY: 1. No memory is passed; the group is that of the proxy this process started.
    unsafe {
        assert_eq!(libc::tcsetpgrp(tty.as_raw_fd(), node.pid()), 0);
        assert_eq!(libc::kill(-node.pid(), libc::SIGCONT), 0);
    }
    assert_eq!(node.finish(), 6);
    assert_eq!(node.get(BUF, 6), b"typed\n");
    let signal = node.wait_signal().map(|signal| signal.signo);
    assert_eq!(signal, Some(libc::SIGCONT as u32));
}
