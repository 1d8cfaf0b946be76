//! Any arguments whatever: Linux is given nothing but what is the rank's, a copy, or nothing at all.

use proptest::prelude::*;

use super::*;
use abi::map::{USER_TOP, WINDOW_TOP};
use abi::syscall::{ALL, Dir, Serve};

const FIRST_OWN: u32 = 1024;
/// Signals that the worker blocks.
const BLOCKED: u64 = 0x1234;
/// Where the made-up rank has memory.
const MEMORY: (u64, u64) = (0x40_0000, 0x2_0000);

/// A rank's memory with a pattern in it; what is written is not kept.
struct Pattern(Vec<u64>);

impl RankMemory for Pattern {
    fn read(&self, addr: u64, into: &mut [u8]) -> Result<(), Errno> {
        inside(addr, into.len())?;
        for (i, byte) in into.iter_mut().enumerate() {
            let at = addr as usize + i;
            *byte = self.0[at / 8 % self.0.len()].to_ne_bytes()[at % 8];
        }
        Ok(())
    }

    fn write(&self, addr: u64, bytes: &[u8]) -> Result<(), Errno> {
        inside(addr, bytes.len())
    }
}

fn inside(addr: u64, len: usize) -> Result<(), Errno> {
    let end = addr.checked_add(len as u64).ok_or(Errno::EFAULT)?;
    let fits = len == 0 || addr >= MEMORY.0 && end <= MEMORY.0 + MEMORY.1;
    if fits { Ok(()) } else { Err(Errno::EFAULT) }
}

/// Words that make trouble as pointers, lengths, counts and descriptors.
fn word() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => MEMORY.0..MEMORY.0 + MEMORY.1,
        3 => 0..64u64,
        1 => 1000..1100u64,
        1 => USER_TOP - 64..USER_TOP + 64,
        1 => Just(0x5555_5555_5000u64),
        1 => Just(libc::AT_FDCWD as u64),
        1 => (0..64u32).prop_map(|bit| 1 << bit),
        1 => (0..64u64).prop_map(|less| u64::MAX - less),
        1 => any::<u64>(),
    ]
}

impl Scratch {
    fn is_string(&self, addr: u64) -> bool {
        self.strings
            .iter()
            .any(|string| string.as_ptr() as u64 == addr)
    }

    /// Whether an address is that of a copy of flat memory.
    fn holds(&self, addr: u64) -> bool {
        [
            self.pollfds.as_ptr() as u64,
            self.rlimit.as_ptr() as u64,
            &raw const self.blocked as u64,
        ]
        .contains(&addr)
    }
}

fn shipped() -> Vec<&'static Call> {
    ALL.iter()
        .filter(|call| call.serve == Serve::Shipped)
        .collect()
}

/// Whether this process has no memory there but the rank's.
fn is_tame(addr: u64) -> bool {
    addr <= GUARD_ADDR || addr >= WINDOW_TOP
}

/// A word of a copy that Linux is given.
fn word_of(scratch: &Scratch, addr: u64, index: usize) -> u64 {
    scratch
        .nested
        .word(addr, index)
        .expect("Linux is given a copy")
}

fn check_iovecs(scratch: &Scratch, addr: u64, count: u64) {
    if addr != GUARD_ADDR {
        for i in 0..count as u32 as usize {
            assert!(is_tame(word_of(scratch, addr, 2 * i)), "buffer {i}");
        }
    }
}

fn check_message(scratch: &Scratch, addr: u64, index: usize, dir: Dir) {
    let word = |i: usize| word_of(scratch, addr, 8 * index + i);
    assert!(is_tame(word(0)));
    check_iovecs(scratch, word(2), word(3));
    match (dir, word(4)) {
        (_, 0 | GUARD_ADDR) => {}
        (Dir::In, control) => assert!(scratch.nested.is_control(control, word(5))),
        (_, control) => assert!(is_tame(control)),
    }
}

/// What must hold of every argument that Linux is given.
fn check_all(call: &Call, args: &[u64; 6], scratch: &Scratch) {
    for (i, arg) in call.args.iter().enumerate() {
        let value = args[i];
        match *arg {
            Arg::Fd | Arg::DirFd => {
                assert!((value as i32) < FIRST_OWN as i32 || value == fds::CLOSED as u64)
            }
            Arg::Int | Arg::Hex | Arg::Request => {}
            _ if value == 0 || value == GUARD_ADDR => {}
            Arg::Path | Arg::Str => assert!(scratch.is_string(value)),
            Arg::Mem(..) => assert!(scratch.holds(value) || is_tame(value)),
            Arg::Iovec(_, count) => check_iovecs(scratch, value, args[usize::from(count)]),
            Arg::Msghdr(dir) => check_message(scratch, value, 0, dir),
            Arg::Mmsghdr(dir, count) => {
                for index in 0..args[usize::from(count)] as usize {
                    check_message(scratch, value, index, dir);
                }
            }
            Arg::SigsetPair => {
                let copy = &raw const scratch.blocked as u64;
                assert_eq!(value, scratch.mask_pair.as_ptr() as u64);
                assert!([0, copy, GUARD_ADDR].contains(&scratch.mask_pair[0]));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]
    #[test]
    fn linux_is_given_only_what_is_the_ranks(
        call in proptest::sample::select(shipped()),
        args in proptest::array::uniform6(word()),
        pattern in proptest::collection::vec(word(), 1..24),
    ) {
        let mut scratch = Scratch::new(BLOCKED);
        let mut given = args;
        let memory = Pattern(pattern);
        match prepare(call, &mut given, FIRST_OWN, &memory, &mut scratch) {
            Ok(after) => {
                check_all(call, &given, &scratch);
                for ret in [-1, 0, 1, 5, i64::from(i32::MAX)] {
                    let _ = finish(&after, ret, &memory, &scratch);
                }
            }
            Err(errno) => prop_assert_eq!((call.name, errno), ("setrlimit", Errno::EPERM)),
        }
    }
}

/// No row has more strings than there is room for.
#[test]
fn the_table_fits_the_checker() {
    for call in shipped() {
        let strings = call
            .args
            .iter()
            .filter(|arg| matches!(arg, Arg::Path | Arg::Str));
        assert!(strings.count() <= STRINGS, "{}", call.name);
    }
}

#[test]
fn masks_are_the_workers() {
    let memory = Pattern(vec![0]);
    let mut scratch = Scratch::new(BLOCKED);
    let own = &raw const scratch.blocked as u64;
    for (name, mask) in [("ppoll", 3), ("epoll_pwait", 4), ("epoll_pwait2", 4)] {
        let call = abi::syscall::by_name(name).unwrap();
        for (from, given) in [
            (0, 0),
            (MEMORY.0, own),
            (0x1000, GUARD_ADDR),
            (USER_TOP * 3, GUARD_ADDR),
        ] {
            let mut args = [0; 6];
            (args[mask], args[mask + 1]) = (from, 7);
            prepare(call, &mut args, FIRST_OWN, &memory, &mut scratch).unwrap();
            assert_eq!((args[mask], args[mask + 1]), (given, 7), "{name}");
        }
    }
}

#[test]
fn polls_without_our_descriptors_are_not_copied() {
    let poll = abi::syscall::by_name("poll").unwrap();
    let mut scratch = Scratch::new(BLOCKED);
    for (fd, copied) in [
        (3, false),
        (u64::from(FIRST_OWN), true),
        (u64::from(u32::MAX), false),
    ] {
        let mut args = [MEMORY.0, 4, 0, 0, 0, 0];
        let memory = Pattern(vec![fd]);
        let after = prepare(poll, &mut args, FIRST_OWN, &memory, &mut scratch).unwrap();
        assert_eq!(after == After::Pollfds(MEMORY.0, 4), copied);
        assert_eq!(args[0] == scratch.pollfds.as_ptr() as u64, copied);
    }
}
