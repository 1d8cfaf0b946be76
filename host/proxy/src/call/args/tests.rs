//! Any arguments whatever: Linux is given nothing but what is the rank's, a copy, or nothing at all.

use abi::map::{USER_TOP, WINDOW_TOP};
use abi::syscall::operand::{Flow, Kind, Piece, Reader};
use abi::syscall::{ALL, Dir, Serve};
use proptest::prelude::*;

use super::*;

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
    /// The copy that has all of such memory, from there on.
    fn copy(&self, addr: u64, len_bytes: u64) -> Option<&[u8]> {
        let own = [
            self.strings[0].as_bytes(),
            self.strings[1].as_bytes(),
            self.strings[2].as_bytes(),
            self.rlimit.as_bytes(),
            self.blocked.as_bytes(),
            self.mask_pair.as_bytes(),
            self.time_limit.as_bytes(),
            self.event.as_bytes(),
            self.received.as_bytes(),
            self.capabilities.header(),
            self.capabilities.data(),
            self.pollfds.as_bytes(),
            self.owner.as_bytes(),
        ];
        own.into_iter().chain(self.nested.all()).find_map(|copy| {
            let offset = usize::try_from(addr.checked_sub(copy.as_ptr() as u64)?).ok()?;
            let found = copy.get(offset..)?;
            (found.len() as u64 >= len_bytes).then_some(found)
        })
    }
}

/// Linux follows pointers into copies only.
impl Reader for Scratch {
    fn words<const N: usize>(&self, at: u64) -> Option<[u64; N]> {
        let (words, _) = self.copy(at, 8 * N as u64)?.as_chunks();
        Some(std::array::from_fn(|i| u64::from_ne_bytes(words[i])))
    }

    fn int(&self, _: u64) -> Option<u32> {
        None
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

/// What must hold of every argument that Linux is given.
fn check_all(call: &Call, args: &[u64; 6], scratch: &Scratch) {
    for (i, &value) in args.iter().enumerate().take(call.args.len()) {
        let operand = call.operand(i, args);
        if operand == Operand::Fd {
            assert!((value as i32) < FIRST_OWN as i32 || value == fds::CLOSED as u64);
        }
        if operand == Operand::MapQuery {
            continue; // Linux is not asked
        }
        let _ = operand.pieces(value, scratch, &mut |piece: Piece| {
            let Piece { kind, at, .. } = piece;
            let nowhere = at == GUARD_ADDR || at == 0;
            let is_copied = nowhere || scratch.copy(at, piece.len_bytes).is_some();
            // What Linux follows, and what was examined.
            let is_followed = at == value && !matches!(operand, Operand::Flat(..))
                || kind == Kind::Vectors
                || kind == Kind::Control && piece.dir == Dir::In;
            assert!(is_copied || !is_followed && is_tame(at), "{i}: {piece:x?}");
            Flow::Continue(())
        });
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
            Err(errno) => {
                let refused = [
                    ("capset", Errno::EPERM),
                    ("kcmp", Errno::EOPNOTSUPP),
                ];
                prop_assert!(refused.contains(&(call.name, errno)), "{} {errno:?}", call.name);
            }
        }
    }
}

/// No row has more strings than there is room for.
#[test]
fn the_table_fits_the_checker() {
    for call in shipped() {
        let operands = (0..call.args.len()).map(|i| call.operand(i, &[0; 6]));
        let strings = operands.filter(|operand| *operand == Operand::String);
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

#[test]
fn a_descriptor_of_ours_is_found_wherever_it_stands() {
    let poll = abi::syscall::by_name("poll").unwrap();
    for at in 0..4 {
        let mut fds = vec![3; 4];
        fds[at] = u64::from(FIRST_OWN);
        let mut scratch = Scratch::new(BLOCKED);
        let mut args = [MEMORY.0, 4, 0, 0, 0, 0];
        prepare(poll, &mut args, FIRST_OWN, &Pattern(fds), &mut scratch).unwrap();
        assert_eq!(args[0], scratch.pollfds.as_ptr() as u64);
        assert_eq!(scratch.pollfds[at], fds::CLOSED as u64);
    }
}

#[test]
fn ranges_and_sets_of_descriptors_end_below_ours() {
    const UNSHARE: u64 = 2;
    let first_own = u64::from(FIRST_OWN);
    let none = u64::from(u32::MAX);
    let prepared = |name, mut args: [u64; 6]| {
        let call = abi::syscall::by_name(name).unwrap();
        let mut scratch = Scratch::new(BLOCKED);
        prepare(call, &mut args, FIRST_OWN, &Pattern(vec![0]), &mut scratch).unwrap();
        args
    };
    for (range, given) in [
        ([3, 7], [3, 7]),
        ([7, 3], [7, 3]),
        ([3, first_own - 1], [3, first_own - 1]),
        ([3, first_own], [3, first_own - 1]),
        ([0, none], [0, first_own - 1]),
        ([first_own, none], [none, none]),
        ([1 << 32 | 3, 1 << 32 | 7], [3, 7]),
    ] {
        let [first, last] = range;
        let args = prepared("close_range", [first, last, UNSHARE | 4, 0, 0, 0]);
        assert_eq!(
            (args[..2].to_vec(), args[2]),
            (given.to_vec(), 4),
            "{range:?}"
        );
    }
    for (count, given) in [
        (0, 0),
        (64, 64),
        (first_own + 1, first_own),
        (u64::MAX, u64::MAX),
    ] {
        assert_eq!(prepared("select", [count, 0, 0, 0, 0, 0])[0], given);
    }
}

/// Requests of ioctl with a pointer in their structure are rare among random ones.
#[test]
fn pointers_in_structures_of_ioctl_lead_nowhere_beyond_the_rank() {
    const SIOCGIFCONF: u64 = 0x8912;
    const SIOCETHTOOL: u64 = 0x8946;
    let ioctl = abi::syscall::by_name("ioctl").unwrap();
    // Of struct ifconf, and of struct ifreq: which of the copies, and where in it the pointer is.
    for (request, copy, at) in [(SIOCGIFCONF, 4, 8), (SIOCETHTOOL, 5, 16)] {
        for (pointer, given) in [(MEMORY.0, MEMORY.0), (USER_TOP + 8, GUARD_ADDR)] {
            let mut args = [3, request, MEMORY.0, 0, 0, 0];
            let mut scratch = Scratch::new(BLOCKED);
            let memory = Pattern(vec![pointer]);
            prepare(ioctl, &mut args, FIRST_OWN, &memory, &mut scratch).unwrap();
            let bytes = scratch.nested.all()[copy];
            assert_eq!(args[2], bytes.as_ptr() as u64);
            assert_eq!(&bytes[at..at + 8], &given.to_ne_bytes(), "{request:#x}");
        }
    }
}

/// Of the signals that a descriptor is for, not those that the proxy has to know of.
#[test]
fn descriptors_receive_no_signal_of_the_proxys() {
    let signalfd = abi::syscall::by_name("signalfd4").unwrap();
    let mut args = [u64::MAX, MEMORY.0, 8, 0, 0, 0];
    let mut scratch = Scratch::new(BLOCKED);
    let memory = Pattern(vec![u64::MAX]);
    prepare(signalfd, &mut args, FIRST_OWN, &memory, &mut scratch).unwrap();
    assert_eq!(
        (args[0], args[1]),
        (u64::MAX, &raw const scratch.received as u64)
    );
    assert_eq!(scratch.received, !wire::signal::NEVER_LEFT);
}

/// What a message queue is to send to a socket (SIGEV_THREAD), and the socket.
#[test]
fn notifications_name_what_is_the_ranks() {
    const THREAD: u64 = 2 << 32;
    let notify = abi::syscall::by_name("mq_notify").unwrap();
    let own = u64::from(FIRST_OWN);
    for (event, given) in [
        ([MEMORY.0, THREAD | 3], [MEMORY.0, THREAD | 3]),
        ([USER_TOP + 8, THREAD | 3], [GUARD_ADDR, THREAD | 3]),
        ([7, THREAD | own], [7, THREAD | fds::CLOSED as u32 as u64]),
        ([USER_TOP + 8, own], [USER_TOP + 8, own]), // a signal, and its value
    ] {
        let mut args = [3, MEMORY.0, 0, 0, 0, 0];
        let mut scratch = Scratch::new(BLOCKED);
        let memory = Pattern(event.to_vec());
        prepare(notify, &mut args, FIRST_OWN, &memory, &mut scratch).unwrap();
        assert_eq!(args[1], scratch.event.as_ptr() as u64);
        assert_eq!(scratch.event[..2], given);
    }
}
