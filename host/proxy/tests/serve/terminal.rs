//! Job control: a rank in the background that reads from its terminal stops, as any program does.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::Case;
use crate::files::open;
use crate::launch::{AS_SHELL, Setup};
use crate::life::stopped;
use crate::node::{DATA, Node, wait_for};

pub const CASES: &[Case] = &[("a_background_read_stops", a_background_read_stops)];

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

fn a_background_read_stops() {
    let (user, program) = terminal();
    let mut shell = Command::new(std::env::current_exe().unwrap());
    shell.arg(AS_SHELL);
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

/// What the test starts: the leader of a session with a terminal, and of its foreground job.
///
/// The stop is the worker's alone: once the watcher could take it, and passed it on to the node as well.
pub fn become_shell() -> ! {
    let mut node = Node::with(Setup {
        background: true,
        ..Setup::default()
    });
    let fd = open(&mut node, b"/dev/tty\0", libc::O_RDWR as u64) as u64;
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
    drop(node);
    std::process::exit(0)
}
