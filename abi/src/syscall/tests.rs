//! What must hold of the table.

extern crate std;

use std::collections::HashSet;

use super::*;

/// Linux's own list of numbers and names.
const LINUX: &str = include_str!("linux-6.18.tsv");

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
    for unknown in [337, 423, 470, 511, 512, 0x4d00, u64::MAX] {
        assert!(by_nr(unknown).is_none());
    }
    assert!(by_name("no_such_call").is_none());
}

/// The argument that holds the length, count or length pointer of `arg`.
fn index_in(arg: Arg) -> Option<u8> {
    match arg {
        Arg::Mem(
            _,
            Len::Arg(i)
            | Len::Plus(i, _)
            | Len::Most(i, _)
            | Len::Times(i, _)
            | Len::Bits(i)
            | Len::AtPtr(i),
        )
        | Arg::Iovec(_, i)
        | Arg::Mmsghdr(_, i)
        | Arg::Sigset(i) => Some(i),
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
            let explains = match arg {
                Arg::Ioctl | Arg::Fcntl | Arg::Semctl | Arg::Sysfs | Arg::Prctl => i.checked_sub(1),
                Arg::Keyctl => (i > 0).then_some(0),
                _ => continue,
            };
            let explains = explains.map(|i| call.args[i]);
            assert!(matches!(explains, Some(Arg::Int | Arg::Hex)));
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
        if call.restart == Restart::Handler || call.sigpipe {
            assert_eq!(call.serve, Serve::Shipped, "{}", call.name);
        }
        let limited = call.args.contains(&Arg::Millis);
        assert!(limited || call.restart != Restart::OldEnd, "{}", call.name);
    }
}
