//! Text that ranks share: what a file is known by, and how long it is held. Whatever a node requests, nothing
//! but frames of the pool changes, and no key is given for what may change unseen.

use std::os::unix::fs::MetadataExt;

use abi::control::HostOp::{HoldFile, HoldText, LayFile, LayText, ReleaseFile};
use abi::control::{INTERPRETER, NO_FILE, PROGRAM};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use wire::region_log::{Change, prot};

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
        "only_frames_of_the_pool_change",
        only_frames_of_the_pool_change,
    ),
    ("frames_were_text", frames_were_text),
    (
        "text_stays_when_its_file_is_not_shared_any_more",
        text_stays_when_its_file_is_not_shared_any_more,
    ),
    (
        "files_that_are_not_mapped_are_closed",
        files_that_are_not_mapped_are_closed,
    ),
    (
        "the_programs_own_file_is_text",
        the_programs_own_file_is_text,
    ),
];

const PAGE: u64 = 4096;
/// Where text is mapped.
const PLACE: u64 = 0x5000_0000;
const ENOENT: i64 = -2;
const EBADF: i64 = -9;
const EFAULT: i64 = -14;
const ENODEV: i64 = -19;
const EINVAL: i64 = -22;

/// A file of two pages and a half, of a, b and c, that the rank has open to read.
fn file(node: &mut Node, directory: &Directory) -> u64 {
    let page = |byte| vec![byte; PAGE as usize];
    let content = [page(b'a'), page(b'b'), vec![b'c'; PAGE as usize / 2]].concat();
    std::fs::write(directory.0.join("text"), content).unwrap();
    open(node, &directory.path("text"), 0) as u64
}

/// Has its file kept.
fn hold(node: &mut Node, fd: u64) -> [u64; 2] {
    assert!(node.host_op(HoldText, &[fd, PLACE, 3 * PAGE, 0]) >= 0);
    node.threads()[0].slot.more()
}

/// Has frames from the pool's first on be pages of a file that is held.
fn lay(node: &mut Node, [device, inode]: [u64; 2], pages: u64, offset: u64) -> i64 {
    node.host_op(LayText, &[device, inode, POOL.0, pages * PAGE, offset, 1])
}

/// The rank maps the pool's first pages, as text.
fn map(node: &Node, pages: u64) {
    let text = Change::Map {
        addr: PLACE,
        len_bytes: pages * PAGE,
        gpa: POOL.0,
        prot: prot::READ | prot::TEXT,
    };
    node.log.append(&text).unwrap();
}

/// What a call of the rank's finds there.
fn shown(node: &mut Node, len: u64) -> Vec<u8> {
    assert_eq!(node.call(libc::SYS_write, &[1, PLACE, len]), len as i64);
    node.stdout(len as usize)
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
    let hold = [fd, PLACE, 3 * PAGE, 0];
    let path = directory.0.join("text");
    let meta = std::fs::metadata(&path).unwrap();
    let changed_ns = meta.ctime() * 1_000_000_000 + meta.ctime_nsec();
    // Just written, it could change once more at what looks like the same time.
    wait_for(|| {
        let answer = node.host_op(HoldText, &hold);
        assert!([changed_ns, 0].contains(&answer), "{answer}");
        answer == changed_ns
    });
    let known_by = node.threads()[0].slot.more();
    assert_eq!(known_by, [meta.dev(), meta.ino()]);
    // The rank may close it.
    assert_eq!(node.call(libc::SYS_close, &[fd]), 0);
    fill_pool(&node);
    assert_eq!(lay(&mut node, known_by, 2, PAGE), 0);
    assert_eq!(frames(&node), *b"bcpp");
    let behind_end = node.get_gpa(POOL.0 + PAGE + PAGE / 2 - 1, 2);
    assert_eq!(behind_end, b"c\0");
    map(&node, 2);
    assert_eq!(shown(&mut node, 2), b"bb");
    // Addresses and offsets that end nowhere. With some the proxy's thread ended, and the rank waited for ever.
    let fd = open(&mut node, &directory.path("text"), 0) as u64;
    for [addr, len_bytes, offset] in [
        [u64::MAX - PAGE + 1, 2 * PAGE, 0],
        [PLACE, u64::MAX, 0],
        [(1 << 39) - PAGE, 2 * PAGE, 0],
    ] {
        let args = [fd, addr, len_bytes, offset];
        assert_eq!(node.host_op(HoldText, &args), EFAULT, "{addr:#x}");
    }
    let args = [fd, PLACE, 2 * PAGE, u64::MAX - PAGE + 1];
    assert_eq!(node.host_op(HoldText, &args), EINVAL);
    // What is stored there is seen, and then it is another text.
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"new", PAGE).unwrap();
    assert_eq!(shown(&mut node, 4), b"newb");
    assert_eq!(node.get_gpa(POOL.0, 4), b"newb");
    assert_eq!(node.host_op(HoldText, &[fd, PLACE, PAGE, 0]), 0);
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
    for (fd, answer) in [
        (fifo, ENODEV),
        (folder, ENODEV),
        (zeros, ENODEV),
        (written, ENODEV),
        (999, EBADF),
        (own, EBADF),
        (u64::MAX, EBADF),
    ] {
        let args = [fd, PLACE, PAGE, 0];
        assert_eq!(node.host_op(HoldText, &args), answer, "{fd}");
    }
    assert_eq!(lay(&mut node, [1, 2], 1, 0), EBADF);
    // It says what it is, and cannot be read.
    let held = hold(&mut node, path_only);
    assert_eq!(lay(&mut node, held, 1, 0), EBADF);
}

fn only_frames_of_the_pool_change() {
    let directory = Directory::new("text-frames");
    let mut node = Node::new();
    let fd = file(&mut node, &directory);
    let [device, inode] = hold(&mut node, fd);
    fill_pool(&node);
    for page in [PARTITION.0, POOL.0 - PAGE] {
        node.put_gpa(page, &[b's'; PAGE as usize]);
    }
    let end = POOL.0 + POOL.1;
    for [gpa, len_bytes] in [
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
        let args = [device, inode, gpa, len_bytes, 0, 1];
        assert_eq!(node.host_op(LayText, &args), EFAULT, "{gpa:#x}");
        for (page, byte) in [
            (PARTITION.0, b's'),
            (POOL.0 - PAGE, b's'),
            (POOL.0, b'p'),
            (end - PAGE, b'p'),
        ] {
            let bytes = node.get_gpa(page, PAGE as usize);
            assert!(bytes.iter().all(|other| *other == byte), "{gpa:#x}");
        }
    }
    for offset in [1, i64::MAX as u64, 1 << 63, u64::MAX - PAGE + 1] {
        assert_eq!(lay(&mut node, [device, inode], 1, offset), EINVAL);
    }
}

/// A rank that had a file's pages there as text was shown them where it got memory without a file.
fn frames_were_text() {
    let directory = Directory::new("were-text");
    let mut node = Node::new();
    let fd = file(&mut node, &directory);
    let held = hold(&mut node, fd);
    assert_eq!(lay(&mut node, held, 2, 0), 0);
    map(&node, 2);
    assert_eq!(shown(&mut node, 1), b"a");
    node.unmap(PLACE, 2 * PAGE);
    // Another rank gives them back, and this one's proxy hears of that only now.
    let args = [NO_FILE, 7, POOL.0, 2 * PAGE, 0, 2];
    assert_eq!(node.host_op(LayFile, &args), 0);
    node.map(PLACE, PAGE, POOL.0, true, true);
    assert_eq!(node.call(libc::SYS_pread64, &[fd, PLACE, 4, PAGE]), 4);
    let bytes = std::fs::read(directory.0.join("text")).unwrap();
    assert_eq!(bytes[..4], *b"aaaa");
    assert_eq!(shown(&mut node, 4), b"bbbb");
}

fn text_stays_when_its_file_is_not_shared_any_more() {
    let directory = Directory::new("both-ways");
    let mut node = Node::new();
    let fd = file(&mut node, &directory);
    let [device, inode] = hold(&mut node, fd);
    assert_eq!(lay(&mut node, [device, inode], 2, 0), 0);
    assert_eq!(node.host_op(HoldFile, &[fd, PLACE, PAGE, 0]), 0);
    assert_eq!(node.host_op(ReleaseFile, &[device, inode, 1]), 0);
    map(&node, 2);
    assert_eq!(shown(&mut node, 1), b"a");
}

/// A program that maps one file after the other had all of them open in the end.
fn files_that_are_not_mapped_are_closed() {
    const COUNT: usize = 300;
    let directory = Directory::new("texts");
    let name = |number: usize| format!("text{number}");
    for number in 0..COUNT {
        std::fs::write(directory.0.join(name(number)), [b't'; PAGE as usize]).unwrap();
    }
    let mut node = Node::new();
    let mut held = Vec::new();
    for number in 0..COUNT {
        let fd = open(&mut node, &directory.path(&name(number)), 0) as u64;
        held.push(hold(&mut node, fd));
        assert_eq!(node.call(libc::SYS_close, &[fd]), 0);
        if number == 0 {
            assert_eq!(lay(&mut node, held[0], 1, 0), 0);
            map(&node, 1);
        }
    }
    let is_held = |node: &mut Node, index: usize| {
        let [device, inode] = held[index];
        let args = [device, inode, POOL.0 + PAGE, PAGE, 0, 0];
        node.host_op(LayText, &args) == 0
    };
    assert!(is_held(&mut node, 0), "it is mapped");
    assert!(!is_held(&mut node, 1));
    assert!(is_held(&mut node, COUNT - 1));
    assert_eq!(shown(&mut node, 1), b"t");
}

/// It has a number that no descriptor has. The tests' program has no interpreter.
fn the_programs_own_file_is_text() {
    let mut node = Node::new();
    let program = std::fs::metadata("/bin/true").unwrap();
    let held = hold(&mut node, PROGRAM);
    assert_eq!(held, [program.dev(), program.ino()]);
    fill_pool(&node);
    assert_eq!(lay(&mut node, held, 1, 0), 0);
    assert_eq!(node.get_gpa(POOL.0, 4), b"\x7fELF");
    assert_eq!(frames(&node)[1], b'p');
    let args = [INTERPRETER, PLACE, PAGE, 0];
    assert_eq!(node.host_op(HoldText, &args), ENOENT);
}
