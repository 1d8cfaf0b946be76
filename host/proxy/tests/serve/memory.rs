//! The rank's memory: what the region log says is there, and nothing else.

use abi::control::{HostOp, MappedFile};

use crate::Case;
use crate::files::open;
use crate::launch::Setup;
use crate::node::{DATA, Directory, Node, PARTITION};

pub const CASES: &[Case] = &[
    ("wild_pointers_fault", wild_pointers_fault),
    ("protection_holds", protection_holds),
    ("what_is_unmapped_is_gone", what_is_unmapped_is_gone),
    ("remapping_shows_other_frames", remapping_shows_other_frames),
    ("the_clock_page_can_be_shown", the_clock_page_can_be_shown),
    (
        "memory_of_others_ends_the_rank",
        memory_of_others_ends_the_rank,
    ),
    ("writable_clock_ends_the_rank", writable_clock_ends_the_rank),
    (
        "a_position_never_reached_ends_the_rank",
        a_position_never_reached_ends_the_rank,
    ),
    ("sync_acknowledges", sync_acknowledges),
    ("a_full_log_is_worked_off", a_full_log_is_worked_off),
    ("the_program_is_read", the_program_is_read),
    ("strings_are_written", strings_are_written),
    (
        "a_limited_address_space_is_said",
        a_limited_address_space_is_said,
    ),
];

const BUF: u64 = DATA.0 + 0x2000;
const EFAULT: i64 = -14;
const CLOCK_GPA: u64 = (1 << 20) + 4096;

fn wild_pointers_fault() {
    let mut node = Node::new();
    let zero = open(&mut node, b"/dev/zero\0", 0) as u64;
    let own = &raw const node as u64; // an address that proxies have memory near
    for wild in [
        1,
        0x1000,
        DATA.0 - 1,
        DATA.0 + DATA.1,
        1 << 38,
        1 << 39,
        0x40_0000 | 5 << 39,
        0x5555_5555_0000,
        own,
        1 << 46,
        (1 << 47) - 8,
        1 << 47,
        u64::MAX - 7,
        u64::MAX,
    ] {
        assert_eq!(
            node.call(libc::SYS_read, &[zero, wild, 8]),
            EFAULT,
            "{wild:#x}"
        );
        assert_eq!(
            node.call(libc::SYS_openat, &[0, wild, 0, 0]),
            EFAULT,
            "{wild:#x}"
        );
        assert_eq!(node.call(libc::SYS_pipe2, &[wild, 0]), EFAULT, "{wild:#x}");
        assert_eq!(
            node.call(libc::SYS_readv, &[zero, wild, 1]),
            EFAULT,
            "{wild:#x}"
        );
        assert_eq!(
            node.call(libc::SYS_poll, &[wild, 1, 0]),
            EFAULT,
            "{wild:#x}"
        );
    }
    let end = DATA.0 + DATA.1;
    // As much as there is, as Linux does it.
    assert_eq!(node.call(libc::SYS_read, &[zero, end - 8, 8]), 8);
    let rest = (end - BUF) as i64;
    assert_eq!(node.call(libc::SYS_read, &[zero, BUF, 1 << 39]), rest);
    assert_eq!(node.call(libc::SYS_read, &[zero, BUF, u64::MAX]), EFAULT);
    let top = (1 << 39) - 4096;
    node.map(top, 4096, PARTITION.0 + DATA.1, true, true);
    for len in [8192, 0x7fff_f000, 1 << 40] {
        assert_eq!(node.call(libc::SYS_read, &[zero, top, len]), 4096);
    }
    assert_eq!(node.call(libc::SYS_read, &[zero, 0, 8]), EFAULT);
    // A path that runs out of its mapping.
    node.put(end - 4, b"/dev");
    assert_eq!(node.call(libc::SYS_openat, &[0, end - 4, 0, 0]), EFAULT);
    node.put(BUF, &[b'a'; 5000]);
    assert_eq!(node.call(libc::SYS_openat, &[0, BUF, 0, 0]), -36); // ENAMETOOLONG
}

fn protection_holds() {
    let mut node = Node::new();
    let at = 0x10_0000_0000;
    node.put_gpa(PARTITION.0 + DATA.1, b"/dev/zero\0");
    node.map(at, 4096, PARTITION.0 + DATA.1, true, false);
    let zero = node.call(libc::SYS_openat, &[0, at, 0, 0]) as u64;
    assert_eq!(zero, 3);
    assert_eq!(node.call(libc::SYS_read, &[zero, at, 1]), EFAULT);
    assert_eq!(node.call(libc::SYS_write, &[1, at, 1]), 1);
    node.map(at, 4096, PARTITION.0 + DATA.1, false, false);
    assert_eq!(node.call(libc::SYS_write, &[1, at, 1]), EFAULT);
    assert_eq!(node.call(libc::SYS_openat, &[0, at, 0, 0]), EFAULT);
    node.map(at, 4096, PARTITION.0 + DATA.1, true, true);
    assert_eq!(node.call(libc::SYS_read, &[zero, at, 1]), 1);
    assert_eq!(node.get_gpa(PARTITION.0 + DATA.1, 4), b"\0dev");
}

fn what_is_unmapped_is_gone() {
    let mut node = Node::new();
    assert_eq!(node.call(libc::SYS_write, &[1, DATA.0 + 0x10_0000, 1]), 1);
    node.unmap(DATA.0 + 0x10_0000, 0x1000);
    assert_eq!(
        node.call(libc::SYS_write, &[1, DATA.0 + 0x10_0000, 1]),
        EFAULT
    );
    assert_eq!(
        node.call(libc::SYS_openat, &[0, DATA.0 + 0x10_0000, 0, 0]),
        EFAULT
    );
    assert_eq!(node.call(libc::SYS_write, &[1, DATA.0 + 0x10_1000, 1]), 1);
}

fn remapping_shows_other_frames() {
    let mut node = Node::new();
    let (at, one, two) = (
        0x10_0000_0000,
        PARTITION.0 + DATA.1,
        PARTITION.0 + DATA.1 + 0x10_0000,
    );
    node.put_gpa(one, b"one");
    node.put_gpa(two, b"two");
    for (gpa, want) in [(one, b"one"), (two, b"two"), (one, b"one")] {
        node.map(at, 8192, gpa, true, true);
        assert_eq!(node.call(libc::SYS_write, &[1, at, 3]), 3);
        assert_eq!(node.stdout(3), want);
    }
}

fn the_clock_page_can_be_shown() {
    let mut node = Node::new();
    node.map(abi::map::VDSO_AREA, 4096, CLOCK_GPA, true, false);
    assert_eq!(node.call(libc::SYS_write, &[1, abi::map::VDSO_AREA, 8]), 8);
}

fn ends_with_a_line(mut node: Node, what: &str) {
    node.begin(libc::SYS_getpgid, &[0]);
    assert_eq!(node.wait().code(), Some(70));
    let text = node.stderr();
    assert!(
        text.starts_with("yod: rank 7: /bin/true: ") && text.contains(what),
        "{text}"
    );
    assert_eq!(text.lines().count(), 1, "{text}");
}

fn labelled() -> Node {
    Node::with(Setup {
        label: "rank 7",
        ..Setup::default()
    })
}

fn memory_of_others_ends_the_rank() {
    for (gpa, len) in [
        (0, 4096),
        (1 << 20, 4096),
        (PARTITION.0 + PARTITION.1 - 4096, 8192),
        (PARTITION.0 - 4096, 8192),
        (4 << 30, 4096),
    ] {
        let node = labelled();
        node.map(0x10_0000_0000, len, gpa, true, false);
        ends_with_a_line(node, "not this rank's");
    }
}

fn writable_clock_ends_the_rank() {
    let node = labelled();
    node.map(0x10_0000_0000, 4096, CLOCK_GPA, true, true);
    ends_with_a_line(node, "not this rank's");
}

fn a_position_never_reached_ends_the_rank() {
    let mut node = labelled();
    node.begin_at(libc::SYS_getpgid, 1000);
    assert_eq!(node.wait().code(), Some(70));
    assert!(node.stderr().contains("cannot be"));
}

fn sync_acknowledges() {
    let mut node = Node::new();
    for page in 0..100 {
        node.map(
            0x10_0000_0000 + page * 8192,
            4096,
            PARTITION.0 + DATA.1 + page * 4096,
            true,
            true,
        );
    }
    assert_eq!(node.host_op(HostOp::Sync, &[]), 0);
    assert_eq!(node.log.applied(), node.log.position());
    assert_eq!(node.log.room(), wire::region_log::RECORDS);
}

fn a_full_log_is_worked_off() {
    let mut node = Node::new();
    for _ in 0..3 {
        while node.log.room() > 0 {
            node.map(0x10_0000_0000, 4096, PARTITION.0 + DATA.1, true, true);
        }
        assert_eq!(node.host_op(HostOp::Sync, &[]), 0);
    }
}

fn the_program_is_read() {
    let directory = Directory::new("program");
    let content: Vec<u8> = (0..100_000u32).map(|i| (i / 7) as u8).collect();
    let path = directory.0.join("program");
    std::fs::write(&path, &content).unwrap();
    std::fs::write(directory.0.join("program.interpreter"), b"ld.so").unwrap();
    let program = Box::leak(path.to_str().unwrap().to_owned().into_boxed_str());
    let mut node = Node::with(Setup {
        program,
        ..Setup::default()
    });
    assert_eq!(node.area().host.info[3].load(), 100_000); // file_bytes
    assert_eq!(node.area().host.info[12].load(), 5); // interpreter_bytes
    assert_eq!(
        node.host_op(HostOp::ReadProgram, &[BUF, 50_000, 10]),
        50_000
    );
    assert!(node.get(BUF, 50_000) == content[10..50_010]);
    assert_eq!(
        node.host_op(HostOp::ReadProgram, &[BUF, 50_000, 90_000]),
        10_000
    );
    assert_eq!(node.host_op(HostOp::ReadProgram, &[BUF, 1, 100_000]), 0);
    assert_eq!(node.host_op(HostOp::ReadProgram, &[BUF, 1, u64::MAX]), -22);
    assert_eq!(node.host_op(HostOp::ReadProgram, &[1 << 39, 1, 0]), EFAULT);
    assert_eq!(
        node.host_op(HostOp::ReadProgram, &[0x10_0000_0000, 1, 0]),
        EFAULT
    );
    assert_eq!(node.host_op(HostOp::ReadInterpreter, &[BUF, 50_000, 3]), 2);
    assert!(node.get(BUF, 2) == *b"so");
    // The rank's descriptors are read alike; the proxy's own are none of them.
    let fd = open(&mut node, format!("{program}\0").as_bytes(), 0) as u64;
    let word = node.host_op(HostOp::DescribeFile, &[fd, 4096, 1 << 20]);
    let file = MappedFile::decode(word as u64).expect("a number");
    assert!(file.readable && !file.writable && file.mappable && file.pages == 24);
    assert_eq!(
        node.host_op(HostOp::LoadFile, &[fd, BUF, 50_000, 10]),
        50_000
    );
    assert!(node.get(BUF, 50_000) == content[10..50_010]);
    for fd in [99, node.area().host.rlimits[7][1].load(), u64::MAX] {
        assert_eq!(node.host_op(HostOp::DescribeFile, &[fd, 0, 1]), -9);
        assert_eq!(node.host_op(HostOp::LoadFile, &[fd, BUF, 1, 0]), -9);
    }
}

fn strings_are_written() {
    let mut node = Node::new();
    let want = b"prog\0one two\0A=b\0EMPTY=\0/bin/true\0";
    let info = &node.area().host.info;
    assert_eq!([0, 1, 2].map(|i| info[i].load()), [2, 2, want.len() as u64]);
    assert_eq!(
        node.host_op(HostOp::WriteStrings, &[BUF, 4096]),
        want.len() as i64
    );
    assert_eq!(node.get(BUF, want.len()), want);
    assert_eq!(node.host_op(HostOp::WriteStrings, &[BUF, 10]), -7); // E2BIG
    assert_eq!(node.host_op(HostOp::WriteStrings, &[1 << 39, 4096]), EFAULT);
}

fn a_limited_address_space_is_said() {
    let setup = Setup {
        address_space: Some(8 << 30),
        attach: false,
        ..Setup::default()
    };
    let mut node = Node::with(setup);
    assert_eq!(node.wait().code(), Some(71));
    let text = node.stderr();
    assert!(
        text.contains("ulimit -v") && text.lines().count() == 1,
        "{text}"
    );
}
