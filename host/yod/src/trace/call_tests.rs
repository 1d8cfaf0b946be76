//! Calls as text, as strace prints them but for its column of results.

use proptest::prelude::*;
use wire::trace::Pieces;

use super::*;

fn pieces(memory: &[(u64, &[u8])]) -> Pieces {
    let mut pieces = Pieces::default();
    for (addr, bytes) in memory {
        pieces.add(*addr, bytes.len().max(1), |room| {
            room[..bytes.len()].copy_from_slice(bytes);
            Some(bytes.len())
        });
    }
    pieces
}

type Piece<'a> = (u64, &'a [u8]);

/// The line of a call that read `before` and wrote `after`.
fn shown(
    name: &str,
    args: [u64; 6],
    before: &[Piece<'_>],
    after: &[Piece<'_>],
    ret: i64,
) -> String {
    let nr = abi::syscall::by_name(name).expect(name).nr.into();
    let (before, after) = (pieces(before), pieces(after));
    let exit = Some((Memory::new(&after), ret));
    let shown = arguments(nr, &args, Memory::new(&before), exit);
    let texts: Vec<String> = shown.args.into_iter().map(|(_, text)| text).collect();
    format!(
        "{}({}) = {}",
        shown.name,
        texts.join(", "),
        result(nr, &args, ret)
    )
}

fn words<const N: usize>(words: [u64; N]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

const AT: u64 = 0x1000;
const AT2: u64 = 0x2000;
const FDCWD: u64 = -100i64 as u64;

/// Flags and modes were bare numbers, and error texts were missing.
#[test]
fn flags_modes_and_errors_have_names() {
    let path: &[Piece<'_>] = &[(AT, b"data.txt\0")];
    assert_eq!(
        shown("openat", [FDCWD, AT, 0o2000101, 0o644, 0, 0], path, &[], 3),
        r#"openat(AT_FDCWD, "data.txt", O_WRONLY|O_CREAT|O_CLOEXEC, 0644) = 3"#
    );
    assert_eq!(
        shown("open", [AT, 0, 0o644, 0, 0, 0], path, &[], -2),
        r#"open("data.txt", O_RDONLY) = -1 ENOENT (No such file or directory)"#
    );
    assert_eq!(
        shown(
            "mmap",
            [0, 4096, 3, 0x22, u64::from(u32::MAX), 0],
            &[],
            &[],
            0x7f_0000_0000
        ),
        "mmap(NULL, 4096, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0x0) = 0x7f00000000"
    );
    assert_eq!(
        shown("mprotect", [AT, 4096, 0, 0, 0, 0], &[], &[], 0),
        "mprotect(0x1000, 4096, PROT_NONE) = 0"
    );
    assert_eq!(
        shown("lseek", [3, 0, 2, 0, 0, 0], &[], &[], 8),
        "lseek(3, 0, SEEK_END) = 8"
    );
    assert_eq!(
        shown("fcntl", [3, 3, 9, 0, 0, 0], &[], &[], 0x8002),
        "fcntl(3, F_GETFL) = 0x8002 (flags O_RDWR|O_LARGEFILE)"
    );
    assert_eq!(
        shown("access", [AT, 0, 0, 0, 0, 0], path, &[], -4094),
        r#"access("data.txt", F_OK) = -1 0xffe (Unknown error 4094)"#
    );
}

#[test]
fn descriptors_show_which_signals_they_are_for() {
    let set = words([1 << 16 | 1 << 14]);
    assert_eq!(
        shown(
            "signalfd4",
            [u64::from(u32::MAX), AT, 8, 0o2000000, 0, 0],
            &[(AT, &set)],
            &[],
            5
        ),
        "signalfd4(-1, [TERM CHLD], 8, SFD_CLOEXEC) = 5"
    );
}

#[test]
fn keys_show_what_they_are() {
    let before: &[Piece<'_>] = &[(AT, b"user\0"), (AT2, b"one\0")];
    assert_eq!(
        shown(
            "request_key",
            [AT, AT2, 0, -1i64 as u64, 0, 0],
            before,
            &[],
            77
        ),
        r#"request_key("user", "one", NULL, -1) = 77"#
    );
}

#[test]
fn timers_show_whom_they_notify_how() {
    let event = words([12, 34 | 4 << 32, 77]);
    let id = 3u32.to_le_bytes();
    assert_eq!(
        shown(
            "timer_create",
            [1, AT, AT2, 0, 0, 0],
            &[(AT, &event)],
            &[(AT2, &id)],
            0
        ),
        "timer_create(CLOCK_MONOTONIC, {sigev_value={sival_int=12, sival_ptr=0xc}, sigev_signo=SIGRT_2, \
         sigev_notify=SIGEV_THREAD_ID, sigev_notify_thread_id=77}, [3]) = 0"
    );
    let event = words([u64::MAX, 14, 0]);
    assert_eq!(
        shown(
            "timer_create",
            [2, AT, AT2, 0, 0, 0],
            &[(AT, &event)],
            &[],
            -22
        ),
        "timer_create(CLOCK_PROCESS_CPUTIME_ID, {sigev_value={sival_int=-1, sival_ptr=0xffffffffffffffff}, \
         sigev_signo=SIGALRM, sigev_notify=SIGEV_SIGNAL}, 0x2000) = -1 EINVAL (Invalid argument)"
    );
    let time = words([0, 1, 2, 3]);
    assert_eq!(
        shown("timer_settime", [3, 1, AT, 0, 0, 0], &[(AT, &time)], &[], 0),
        "timer_settime(3, TIMER_ABSTIME, {it_interval={tv_sec=0, tv_nsec=1}, it_value={tv_sec=2, tv_nsec=3}}, NULL) = 0"
    );
    assert_eq!(
        shown("timer_gettime", [3, AT, 0, 0, 0, 0], &[], &[(AT, &time)], 0),
        "timer_gettime(3, {it_interval={tv_sec=0, tv_nsec=1}, it_value={tv_sec=2, tv_nsec=3}}) = 0"
    );
}

/// What was read was shown as an address: it was copied before the call only.
#[test]
fn buffers_show_what_was_moved() {
    assert_eq!(
        shown(
            "write",
            [1, AT, 9, 0, 0, 0],
            &[(AT, b"a\"\n\x01\xff2\0\0\\")],
            &[],
            9
        ),
        r#"write(1, "a\"\n\1\3772\0\0\\", 9) = 9"#
    );
    assert_eq!(
        shown("read", [0, AT, 10, 0, 0, 0], &[], &[(AT, b"abc")], 3),
        r#"read(0, "abc", 10) = 3"#
    );
    assert_eq!(
        shown("read", [0, AT, 10, 0, 0, 0], &[], &[], 0),
        r#"read(0, "", 10) = 0"#
    );
    assert_eq!(
        shown("read", [0, AT, 10, 0, 0, 0], &[], &[], -4),
        "read(0, 0x1000, 10) = -1 EINTR (Interrupted system call)"
    );
    let long = [b'x'; 128];
    assert_eq!(
        shown("write", [1, AT, 999, 0, 0, 0], &[(AT, &long)], &[], 999),
        format!("write(1, \"{}\"..., 999) = 999", "x".repeat(32))
    );
    let vectors = words([AT, 2, AT2, 3]);
    assert_eq!(
        shown(
            "writev",
            [1, 64, 2, 0, 0, 0],
            &[(64, &vectors), (AT, b"ab"), (AT2, b"cde")],
            &[],
            5
        ),
        r#"writev(1, [{iov_base="ab", iov_len=2}, {iov_base="cde", iov_len=3}], 2) = 5"#
    );
    assert_eq!(
        shown(
            "readv",
            [0, 64, 2, 0, 0, 0],
            &[(64, &vectors)],
            &[(AT, b"ab"), (AT2, b"c")],
            3
        ),
        r#"readv(0, [{iov_base="ab", iov_len=2}, {iov_base="c", iov_len=3}], 2) = 3"#
    );
}

#[test]
fn structures_are_taken_apart() {
    let mut stat = [0; 144];
    stat[24..28].copy_from_slice(&0o100_640u32.to_le_bytes());
    stat[48..56].copy_from_slice(&8u64.to_le_bytes());
    assert_eq!(
        shown("fstat", [3, AT, 0, 0, 0, 0], &[], &[(AT, &stat)], 0),
        "fstat(3, {st_mode=S_IFREG|0640, st_size=8, ...}) = 0"
    );
    assert_eq!(
        shown(
            "nanosleep",
            [AT, 0, 0, 0, 0, 0],
            &[(AT, &words([1, 500]))],
            &[],
            0
        ),
        "nanosleep({tv_sec=1, tv_nsec=500}, NULL) = 0"
    );
    let action = words([0x40_1000, 0x1400_0000, 0, 1 << 9]);
    assert_eq!(
        shown(
            "rt_sigaction",
            [2, AT, 0, 8, 0, 0],
            &[(AT, &action)],
            &[],
            0
        ),
        "rt_sigaction(SIGINT, {sa_handler=0x401000, sa_mask=[USR1], sa_flags=SA_RESTORER|SA_RESTART}, NULL, 8) = 0"
    );
    let fd = |revents: u64| words([3 | 1 << 32 | revents << 48]);
    assert_eq!(
        shown(
            "poll",
            [AT, 1, u64::from(u32::MAX), 0, 0, 0],
            &[(AT, &fd(0))],
            &[(AT, &fd(1))],
            1
        ),
        "poll([{fd=3, events=POLLIN, revents=POLLIN}], 1, -1) = 1"
    );
    let inet = [2, 0, 0, 80, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(
        shown("connect", [3, AT, 16, 0, 0, 0], &[(AT, &inet)], &[], -111),
        "connect(3, {sa_family=AF_INET, sin_port=htons(80), sin_addr=inet_addr(\"127.0.0.1\")}, 16) = -1 ECONNREFUSED (Connection refused)"
    );
    assert_eq!(
        shown(
            "bind",
            [3, AT, 9, 0, 0, 0],
            &[(AT, b"\x01\0/tmp/\x1b\0")],
            &[],
            0
        ),
        r#"bind(3, {sa_family=AF_UNIX, sun_path="/tmp/\33"}, 9) = 0"#
    );
    assert_eq!(
        shown(
            "pipe2",
            [AT, 0o2000000, 0, 0, 0, 0],
            &[],
            &[(AT, &words([3 | 4 << 32]))],
            0
        ),
        "pipe2([3, 4], O_CLOEXEC) = 0"
    );
    assert_eq!(
        shown(
            "wait4",
            [u64::from(u32::MAX), AT, 1, 0, 0, 0],
            &[],
            &[(AT, &[0, 7, 0, 0])],
            5
        ),
        "wait4(-1, [{WIFEXITED(s) && WEXITSTATUS(s) == 7}], WNOHANG, NULL) = 5"
    );
    assert_eq!(
        shown("futex", [AT, 128, 0, 0, 0, 0], &[], &[], -11),
        "futex(0x1000, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0x0) = -1 EAGAIN (Resource temporarily unavailable)"
    );
}

/// The kernel's own 512 and 514 were shown as errors.
/// Addresses in windows were numbers like all others.
#[test]
fn addresses_in_windows_name_their_rank() {
    let at = abi::map::remote(3, 0x1234_5000);
    assert_eq!(
        shown("munmap", [at, 4096, 0, 0, 0, 0], &[], &[], -22),
        "munmap(rank 3:0x12345000, 4096) = -1 EINVAL (Invalid argument)"
    );
}

#[test]
fn interrupted_calls_are_called_so() {
    let ret = |ret| result(34, &[0; 6], ret);
    assert!(ret(-512).starts_with("? ERESTARTSYS ("));
    assert!(ret(-514).starts_with("? ERESTARTNOHAND ("));
}

#[test]
fn calls_without_a_row_are_shown_by_number() {
    let nothing = Pieces::default();
    let shown = arguments(999, &[1; 6], Memory::new(&nothing), None);
    assert_eq!(
        (shown.name.as_str(), shown.args.len()),
        ("syscall_0x3e7", 6)
    );
}

proptest! {
    /// Whatever a program passes and whatever lies there, a line is a line of printable ASCII.
    #[test]
    fn anything_is_one_printable_line(
        nr in 0u64..512,
        args in prop::array::uniform6(prop_oneof![Just(AT), Just(AT2), 0u64..40, any::<u64>()]),
        before in prop::collection::vec(any::<u8>(), 0..300),
        after in prop::collection::vec(any::<u8>(), 0..300),
        ret: i64,
    ) {
        let inner = words([AT, 5, AT2, 7, AT, 0, 1]);
        let enter = pieces(&[(AT, &before), (AT2, &inner)]);
        let exit = pieces(&[(AT, &after), (AT2, &inner)]);
        for exit in [None, Some((Memory::new(&exit), ret))] {
            let shown = arguments(nr, &args, Memory::new(&enter), exit);
            for (_, text) in &shown.args {
                prop_assert!(text.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{}: {}", shown.name, text);
                prop_assert!(text.len() < 8000);
            }
        }
        prop_assert!(!result(nr, &args, ret).contains('\n'));
    }
}
