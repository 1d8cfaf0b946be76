//! Text that ranks share: what a file is known by, and how it gets into frames of the node pool. Whatever a node requests, nothing
//! but frames of the pool is written to, and no key is given for what may change unseen.

use std::os::unix::fs::MetadataExt;

use abi::control::HostOp::{DescribeText, LoadText};
use abi::control::{INTERPRETER, PROGRAM};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::Case;
use crate::files::open;
use crate::node::{Directory, Node, PARTITION, POOL, wait_for};

pub const CASES: &[Case] = &[
    (
        "a_file_is_known_until_it_changes",
        a_file_is_known_until_it_changes,
    ),
    ("only_regular_files_are_text", only_regular_files_are_text),
    (
        "only_frames_of_the_pool_are_filled",
        only_frames_of_the_pool_are_filled,
    ),
    (
        "what_a_file_does_not_have_is_refused",
        what_a_file_does_not_have_is_refused,
    ),
    (
        "the_programs_own_file_is_text",
        the_programs_own_file_is_text,
    ),
];

const PAGE: u64 = 4096;
/// Where text is said to be mapped.
const PLACE: u64 = 0x5000_0000;
const ENOENT: i64 = -2;
const EBADF: i64 = -9;
const EAGAIN: i64 = -11;
const EFAULT: i64 = -14;
const EISDIR: i64 = -21;
const EINVAL: i64 = -22;
const ESPIPE: i64 = -29;

/// A file of two pages and a half, of a, b and c, that the rank has open to read.
fn file(node: &mut Node, directory: &Directory) -> u64 {
    let page = |byte| vec![byte; PAGE as usize];
    let content = [page(b'a'), page(b'b'), vec![b'c'; PAGE as usize / 2]].concat();
    std::fs::write(directory.0.join("text"), content).unwrap();
    open(node, &directory.path("text"), 0) as u64
}

/// All frames hold p.
fn fill_pool(node: &Node) {
    node.put_gpa(POOL.0, &vec![b'p'; POOL.1 as usize]);
}

/// The first bytes of the first four frames.
fn frames(node: &Node) -> [u8; 4] {
    [0, 1, 2, 3].map(|frame| node.get_gpa(POOL.0 + frame * PAGE, 1)[0])
}

fn a_file_is_known_until_it_changes() {
    let directory = Directory::new("text");
    let mut node = Node::new();
    let fd = file(&mut node, &directory);
    let describe = [fd, PLACE, 3 * PAGE, 0];
    let path = directory.0.join("text");
    let meta = std::fs::metadata(&path).unwrap();
    let changed_ns = meta.ctime() * 1_000_000_000 + meta.ctime_nsec();
    // Just written, it could change once more at what looks like the same time.
    wait_for(|| {
        let answer = node.host_op(DescribeText, &describe);
        assert!([changed_ns, EAGAIN].contains(&answer), "{answer}");
        answer == changed_ns
    });
    assert_eq!(node.threads()[0].slot.more(), [meta.dev(), meta.ino()]);
    fill_pool(&node);
    let load = [fd, POOL.0, 2 * PAGE, PAGE];
    assert_eq!(node.host_op(LoadText, &load), changed_ns);
    assert_eq!(node.threads()[0].slot.more(), [meta.dev(), meta.ino()]);
    assert_eq!(frames(&node), *b"bcpp");
    let behind_end = node.get_gpa(POOL.0 + PAGE + PAGE / 2 - 1, 2);
    assert_eq!(behind_end, b"c\0");
    let too_long = [fd, POOL.0, 2 * PAGE, 2 * PAGE];
    assert_eq!(node.host_op(LoadText, &too_long), EAGAIN);
    // Addresses and offsets that end nowhere. With some the proxy's thread ended, and the rank waited for ever.
    for [addr, len_bytes, offset] in [
        [u64::MAX - PAGE + 1, 2 * PAGE, 0],
        [PLACE, u64::MAX, 0],
        [(1 << 39) - PAGE, 2 * PAGE, 0],
    ] {
        let args = [fd, addr, len_bytes, offset];
        assert_eq!(node.host_op(DescribeText, &args), EFAULT, "{addr:#x}");
    }
    let args = [fd, PLACE, 2 * PAGE, u64::MAX - PAGE + 1];
    assert_eq!(node.host_op(DescribeText, &args), EINVAL);
    assert_eq!(node.host_op(DescribeText, &describe), changed_ns);
    // It is cut between the two: the rank must not take what is left for all of it.
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(PAGE).unwrap();
    fill_pool(&node);
    assert_eq!(node.host_op(LoadText, &load), EAGAIN);
    assert_eq!(node.host_op(DescribeText, &describe), EAGAIN);
    assert_eq!(frames(&node)[2..], *b"pp");
}

fn only_regular_files_are_text() {
    let directory = Directory::new("no-text");
    let (fifo, mode) = (FileType::Fifo, Mode::RUSR | Mode::WUSR);
    mknodat(CWD, directory.0.join("fifo"), fifo, mode, 0).unwrap();
    let mut node = Node::new();
    let mut open = |path: &[u8], flags: i32| open(&mut node, path, flags as u64) as u64;
    let fifo = open(&directory.path("fifo"), libc::O_RDWR);
    let folder = open(b"/tmp\0", libc::O_DIRECTORY);
    let zeros = open(b"/dev/zero\0", libc::O_RDONLY);
    let path_only = open(b"/bin/sh\0", libc::O_PATH);
    let written = open(b"/dev/null\0", libc::O_WRONLY);
    let own = node.area().host.rlimits[7][1].load();
    for (fd, described, loaded) in [
        (fifo, EAGAIN, ESPIPE),
        (folder, EAGAIN, EISDIR),
        (zeros, EAGAIN, EAGAIN),
        (written, EAGAIN, EBADF),
        (999, EBADF, EBADF),
        (own, EBADF, EBADF),
        (u64::MAX, EBADF, EBADF),
    ] {
        let describe = [fd, PLACE, PAGE, 0];
        assert_eq!(node.host_op(DescribeText, &describe), described, "{fd}");
        let load = [fd, POOL.0, PAGE, 0];
        assert_eq!(node.host_op(LoadText, &load), loaded, "{fd}");
    }
    // It says what it is, and cannot be read.
    assert_eq!(node.host_op(LoadText, &[path_only, POOL.0, PAGE, 0]), EBADF);
}

/// Loads `len_bytes` to `gpa`, and sees that nothing is written but what is allowed.
fn refused(node: &mut Node, fd: u64, [gpa, len_bytes]: [u64; 2]) -> i64 {
    let answer = node.host_op(LoadText, &[fd, gpa, len_bytes, 0]);
    let around = [PARTITION.0, POOL.0 - PAGE, POOL.0, POOL.0 + POOL.1 - PAGE];
    for page in around {
        let bytes = node.get_gpa(page, PAGE as usize);
        let first = bytes[0];
        assert!(bytes.iter().all(|byte| *byte == first), "{gpa:#x}");
        assert!(b"sp".contains(&first), "{gpa:#x}: {first}");
    }
    answer
}

fn only_frames_of_the_pool_are_filled() {
    let directory = Directory::new("text-frames");
    let mut node = Node::new();
    let fd = file(&mut node, &directory);
    fill_pool(&node);
    for page in [PARTITION.0, POOL.0 - PAGE] {
        node.put_gpa(page, &[b's'; PAGE as usize]);
    }
    let end = POOL.0 + POOL.1;
    for place in [
        [0, PAGE],
        [PARTITION.0, PAGE],
        [POOL.0 - PAGE, PAGE],
        [POOL.0 - PAGE, 2 * PAGE],
        [end - PAGE, 2 * PAGE],
        [end, PAGE],
        [u64::MAX - PAGE + 1, PAGE],
        [u64::MAX - PAGE + 1, 2 * PAGE],
        [POOL.0, u64::MAX],
        [POOL.0, POOL.1 + PAGE],
        // Less than a page is none.
        [POOL.0, 0],
        [POOL.0, PAGE - 1],
    ] {
        assert_eq!(refused(&mut node, fd, place), EFAULT, "{place:x?}");
    }
}

fn what_a_file_does_not_have_is_refused() {
    let directory = Directory::new("text-offsets");
    let mut node = Node::new();
    let fd = file(&mut node, &directory);
    for (offset, len_bytes, answer) in [
        (3 * PAGE, PAGE, EAGAIN),
        (2 * PAGE, 2 * PAGE, EAGAIN),
        (0, POOL.1, EAGAIN),
        (i64::MAX as u64 - PAGE, PAGE, EAGAIN),
        (i64::MAX as u64, PAGE, EINVAL),
        (1 << 63, PAGE, EINVAL),
        (u64::MAX - PAGE + 1, 2 * PAGE, EINVAL),
    ] {
        let load = [fd, POOL.0, len_bytes, offset];
        assert_eq!(node.host_op(LoadText, &load), answer, "{offset:#x}");
    }
}

/// It has a number that no descriptor has. The tests' program has no interpreter.
fn the_programs_own_file_is_text() {
    let mut node = Node::new();
    let program = std::fs::metadata("/bin/true").unwrap();
    wait_for(|| node.host_op(DescribeText, &[PROGRAM, PLACE, PAGE, 0]) > 0);
    let known_by = node.threads()[0].slot.more();
    assert_eq!(known_by, [program.dev(), program.ino()]);
    fill_pool(&node);
    assert!(node.host_op(LoadText, &[PROGRAM, POOL.0, PAGE, 0]) > 0);
    assert_eq!(node.get_gpa(POOL.0, 4), b"\x7fELF");
    assert_eq!(frames(&node)[1], b'p');
    for op in [DescribeText, LoadText] {
        assert_eq!(node.host_op(op, &[INTERPRETER, POOL.0, PAGE, 0]), ENOENT);
    }
}
