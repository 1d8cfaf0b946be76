//! Job control: a rank in the background that reads from its terminal stops, as any program does.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use abi::control::HostOp;

use crate::Case;
use crate::files::open;
use crate::launch::{AS_SHELL, Setup};
use crate::life::stopped;
use crate::node::{DATA, Node, wait_for};

pub const CASES: &[Case] = &[
    ("a_background_read_stops", || in_a_terminal(STOPS)),
    ("what_is_not_taken_does_not_interrupt", || {
        in_a_terminal(PASSES)
    }),
    ("what_is_taken_interrupts", || in_a_terminal(INTERRUPTS)),
    ("a_worker_is_as_its_own_thread", || in_a_terminal(DIFFER)),
];

/// What a shell that is started does.
const STOPS: &str = "stops";
const PASSES: &str = "passes";
const INTERRUPTS: &str = "interrupts";
const DIFFER: &str = "differ";

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
        Some(PASSES) => what_is_not_taken_does_not_interrupt(),
        Some(INTERRUPTS) => what_is_taken_interrupts(),
        Some(DIFFER) => a_worker_is_as_its_own_thread(),
        _ => a_background_read_stops(),
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

/// SIGTTIN and SIGTTOU.
const BOTH: u64 = 1 << (libc::SIGTTIN - 1) | 1 << (libc::SIGTTOU - 1);

/// Has a thread take both signals, or none.
fn takes(node: &Node, thread: usize, set: u64) {
    node.threads()[thread].node.put_takes(set);
}

/// Asserts that Linux has sent a signal and that the node has it already.
fn assert_posted(node: &Node, signo: i32) {
    let signal = node.area().mailbox.take().unwrap();
    assert_eq!((signal.signo, signal.code), (signo as u32, libc::SI_KERNEL));
    assert!(node.area().mailbox.is_empty());
}

/// Once the worker took the signals whatever the program did: a shell that ignores or blocks them, as all do, stopped for
/// good when it took the terminal for itself.
fn what_is_not_taken_does_not_interrupt() {
    let (mut node, fd) = background();
    node.put(BUF, b"seen\n");
    assert_eq!(node.call(libc::SYS_read, &[fd, BUF, 100]), -5); // EIO
    node.put_words(BUF, &[node.pid() as u64]);
    assert_eq!(node.call(libc::SYS_ioctl, &[fd, libc::TIOCSPGRP, BUF]), 0);
    assert_eq!(node.call(libc::SYS_read, &[fd, BUF, 100]), 6);
    // From outside they arrive like any other, whether workers block them or not.
    for set in [0, BOTH] {
        takes(&node, 0, set);
        assert!(node.call(libc::SYS_getpgid, &[0]) >= 0);
        for signo in [libc::SIGTTIN, libc::SIGTTOU] {
            // SAFETY: 1. Sends a signal to the proxy this process started.
            assert_eq!(unsafe { libc::kill(node.pid(), signo) }, 0);
            assert_eq!(node.wait_signal().unwrap().signo, signo as u32);
        }
    }
}

/// The thread takes the signals: the call ends and the node has the signal already, and once: what the watcher received
/// before the worker, Linux sent again.
fn what_is_taken_interrupts() {
    let (mut node, fd) = background();
    takes(&node, 0, BOTH);
    node.put_words(BUF, &[node.pid() as u64]);
    for _ in 0..5000 {
        for (nr, args, signo) in [
            (libc::SYS_ioctl, [fd, libc::TIOCSPGRP, BUF], libc::SIGTTOU),
            (libc::SYS_read, [fd, BUF, 100], libc::SIGTTIN),
        ] {
            assert_eq!(node.call(nr, &args), -4); // EINTR
            assert_posted(&node, signo);
        }
    }
}

/// Once what was said of one thread was true of all: which worker of them followed last decided what Linux does to the others.
fn a_worker_is_as_its_own_thread() {
    let (mut node, fd) = background();
    assert!(node.host_op(HostOp::GrowWorkers, &[2]) >= 2);
    node.start_thread(1, 0);
    let tty = BUF + 64;
    node.put_words(tty, &[node.pid() as u64]);
    for (of_first, of_second, ret) in [(BOTH, 0, -5), (0, BOTH, -4)] {
        takes(&node, 0, of_first);
        takes(&node, 1, of_second);
        assert!(node.call(libc::SYS_getpgid, &[0]) >= 0);
        assert_eq!(node.call_on(1, libc::SYS_read, &[fd, BUF, 100]), ret);
        if of_second != 0 {
            assert_posted(&node, libc::SIGTTIN);
        }
    }
    assert_eq!(node.call(libc::SYS_ioctl, &[fd, libc::TIOCSPGRP, tty]), 0);
    assert!(node.area().mailbox.is_empty());
}

/// A program that takes the signal by default: the node stops it, and it goes on in the foreground.
fn a_background_read_stops() {
    let (mut node, fd) = background();
    takes(&node, 0, BOTH);
    assert_eq!(node.call(libc::SYS_read, &[fd, BUF, 100]), -4); // EINTR
    assert_posted(&node, libc::SIGTTIN);
    node.begin_host_op(HostOp::Stop, &[u64::MAX, libc::SIGTTIN as u64]);
    wait_for(|| stopped(&node));
    assert!(!node.answered());
    let tty = File::open("/dev/tty").unwrap();
    // SAFETY: 1. No memory is passed; the group is that of the proxy this process started.
    unsafe {
        assert_eq!(libc::tcsetpgrp(tty.as_raw_fd(), node.pid()), 0);
        assert_eq!(libc::kill(-node.pid(), libc::SIGCONT), 0);
    }
    assert_eq!(node.finish(), 0);
    let signal = node.wait_signal().map(|signal| signal.signo);
    assert_eq!(signal, Some(libc::SIGCONT as u32));
    assert_eq!(node.call(libc::SYS_read, &[fd, BUF, 100]), 6);
    assert_eq!(node.get(BUF, 6), b"typed\n");
}
