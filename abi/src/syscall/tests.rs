//! What must hold of the table, and what strace lines look like.

extern crate std;

use std::collections::HashSet;
use std::string::String;

use super::*;

/// Linux's own list of numbers and names.
const LINUX: &str = include_str!("linux-6.1.tsv");

fn linux_calls() -> impl Iterator<Item = (u16, &'static str)> {
    LINUX
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let (nr, name) = line.split_once('\t').expect("number, tab, name");
            (nr.parse().expect("a number"), name)
        })
}

#[test]
fn every_call_of_linux_has_its_row_and_no_other_has() {
    for (nr, name) in linux_calls() {
        let call = by_nr(u64::from(nr)).unwrap_or_else(|| panic!("no row for {nr} {name}"));
        assert_eq!(call.name, name, "number {nr}");
    }
    assert_eq!(ALL.len(), linux_calls().count());
}

#[test]
fn numbers_ascend_and_names_are_unique() {
    assert!(ALL.windows(2).all(|pair| pair[0].nr < pair[1].nr));
    assert_eq!(
        ALL.iter().map(|c| c.name).collect::<HashSet<_>>().len(),
        ALL.len()
    );
}

#[test]
fn lookups_by_number_and_by_name_agree() {
    for call in ALL {
        assert_eq!(by_nr(call.nr.into()).expect("by number").name, call.name);
        assert_eq!(by_name(call.name).expect("by name").nr, call.nr);
    }
    for unknown in [335, 423, 451, 511, 512, 0x4d00, u64::MAX] {
        assert!(by_nr(unknown).is_none());
    }
    assert!(by_name("no_such_call").is_none());
}

/// The argument that holds the length, count or length pointer of `arg`.
fn index_in(arg: Arg) -> Option<u8> {
    match arg {
        Arg::Mem(_, Len::Arg(i) | Len::Times(i, _) | Len::AtPtr(i))
        | Arg::Iovec(_, i)
        | Arg::Mmsghdr(_, i) => Some(i),
        _ => None,
    }
}

#[test]
fn lengths_point_at_arguments_that_are_lengths() {
    for call in ALL {
        for &arg in call.args {
            let Some(i) = index_in(arg) else { continue };
            let length = call.args.get(usize::from(i));
            let right = match arg {
                Arg::Mem(_, Len::AtPtr(_)) => {
                    matches!(length, Some(Arg::Mem(Dir::InOut, Len::Bytes(4))))
                }
                _ => matches!(length, Some(Arg::Int)),
            };
            assert!(right, "{}: {arg:?} names {length:?}", call.name);
        }
    }
}

#[test]
fn requests_follow_the_argument_that_explains_them() {
    for call in ALL {
        for (i, arg) in call.args.iter().enumerate() {
            if matches!(arg, Arg::Request) {
                assert!(i > 0 && matches!(call.args[i - 1], Arg::Int | Arg::Hex));
            }
        }
    }
}

#[test]
fn refusals_say_why_in_one_line() {
    for call in ALL {
        if let Serve::Refused(errno, why) = call.serve {
            assert!((1..=4095).contains(&errno.0) && errno.name().is_some());
            assert!(!why.is_empty() && why.len() <= 90 && !why.contains('\n'));
        }
    }
}

/// DESIGN.md: "seccomp, address-space limits, namespaces and the mmap/brk/clone/exec families are never shipped."
#[test]
fn what_would_change_the_proxy_is_never_shipped() {
    for name in [
        "mmap",
        "munmap",
        "mremap",
        "mprotect",
        "brk",
        "madvise",
        "remap_file_pages",
        "shmat",
        "clone",
        "clone3",
        "fork",
        "vfork",
        "execve",
        "execveat",
        "exit",
        "exit_group",
        "seccomp",
        "prctl",
        "setrlimit",
        "prlimit64",
        "unshare",
        "setns",
        "chroot",
        "landlock_restrict_self",
        "io_setup",
        "io_uring_setup",
        "userfaultfd",
        "rt_sigaction",
        "rt_sigprocmask",
        "sigaltstack",
        "setuid",
        "setresuid",
        "setgroups",
        "ptrace",
        "arch_prctl",
        "set_tid_address",
        "rseq",
        "mlockall",
    ] {
        let call = by_name(name).expect(name);
        assert!(call.serve != Serve::Shipped, "{name}");
    }
}

#[test]
fn only_shipped_calls_restart_or_raise_sigpipe() {
    for call in ALL {
        if call.restart || call.sigpipe {
            assert_eq!(call.serve, Serve::Shipped, "{}", call.name);
        }
        assert!(call.blocks || !call.restart);
    }
}

fn shown(name: &str, args: [u64; 6], text: Option<&[u8]>, ret: i64) -> String {
    let mut line = String::new();
    let call = by_name(name).expect(name);
    show(&mut line, Some(call), call.nr.into(), &args, text, ret).expect("a String takes all");
    line
}

const FDCWD: u64 = -100i64 as u64;

#[test]
fn shows_paths_and_errors() {
    let args = [FDCWD, 0x40_0000, 0, 0, 0, 0];
    assert_eq!(
        shown("openat", args, Some(b"data.txt\0rest"), 3),
        r#"openat(AT_FDCWD, "data.txt", 0x0, 0x0) = 3"#
    );
    assert_eq!(
        shown("openat", args, Some(b"data.txt"), -2),
        r#"openat(AT_FDCWD, "data.txt"..., 0x0, 0x0) = -1 ENOENT"#
    );
    // AT_FDCWD as a C compiler passes it: an int, upper half zero.
    assert_eq!(
        shown(
            "openat",
            [0xffff_ff9c, 0x40_0000, 0, 0, 0, 0],
            None,
            -4095 + 1
        ),
        "openat(AT_FDCWD, 0x400000, 0x0, 0x0) = -1 E4094"
    );
    assert_eq!(
        shown("openat", [FDCWD, 0, 0, 0, 0, 0], Some(b"x"), -14),
        "openat(AT_FDCWD, NULL, 0x0, 0x0) = -1 EFAULT"
    );
}

#[test]
fn shows_buffers_as_far_as_they_are_valid() {
    assert_eq!(
        shown(
            "write",
            [1, 0x1000, 6, 0, 0, 0],
            Some(b"a\"\n\x01\xffz___"),
            6
        ),
        r#"write(1, "a\"\n\001\377z", 6) = 6"#
    );
    let long = [b'x'; 100];
    assert_eq!(
        shown("write", [1, 0x1000, 100, 0, 0, 0], Some(&long), 100),
        std::format!("write(1, \"{}\"..., 100) = 100", "x".repeat(SHOWN_BYTES))
    );
    assert_eq!(
        shown("read", [0, 0x1000, 10, 0, 0, 0], Some(b"abcdefghij"), 3),
        r#"read(0, "abc", 10) = 3"#
    );
    assert_eq!(
        shown("read", [0, 0x1000, 10, 0, 0, 0], Some(b"stale"), -4),
        "read(0, 0x1000, 10) = -1 EINTR"
    );
}

#[test]
fn shows_numbers_addresses_and_calls_without_return() {
    assert_eq!(
        shown(
            "mmap",
            [0, 4096, 3, 0x22, 0xffff_ffff, 0],
            None,
            0x7f_0000_0000
        ),
        "mmap(0x0, 4096, 0x3, 0x22, -1, 0x0) = 0x7f00000000"
    );
    assert_eq!(
        shown("wait4", [0xffff_ffff, 0, 0, 0, 0, 0], None, -10),
        "wait4(-1, NULL, 0x0, NULL) = -1 ECHILD"
    );
    assert_eq!(
        shown("exit_group", [3, 0, 0, 0, 0, 0], None, 0),
        "exit_group(3) = ?"
    );
    assert_eq!(shown("getpid", [9; 6], None, 42), "getpid() = 42");
    let mut line = String::new();
    show(&mut line, None, 999, &[0, 1, 2, 3, 4, u64::MAX], None, -38).expect("a String takes all");
    assert_eq!(
        line,
        "syscall_999(0x0, 0x1, 0x2, 0x3, 0x4, 0xffffffffffffffff) = -1 ENOSYS"
    );
}

proptest::proptest! {
    #[test]
    fn shows_anything_without_panicking(
        nr in 0u64..600,
        args: [u64; 6],
        text: Option<std::vec::Vec<u8>>,
        ret: i64,
    ) {
        let mut line = String::new();
        show(&mut line, by_nr(nr), nr, &args, text.as_deref(), ret).expect("a String takes all");
        proptest::prop_assert!(line.is_ascii() && !line.contains('\n'));
    }
}
