//! Files of /proc that speak of the process.

use crate::Case;
use crate::files::{names, open};
use crate::node::{DATA, Node};

pub const CASES: &[Case] = &[
    ("exe_is_the_program", exe_is_the_program),
    ("texts_are_the_ranks", texts_are_the_ranks),
    ("there_is_one_thread", there_is_one_thread),
    (
        "of_other_processes_what_is_public",
        of_other_processes_what_is_public,
    ),
];

const BUF: u64 = DATA.0 + 0x2000;
const PATH: u64 = DATA.0 + 0x1000;

fn readlink(node: &mut Node, path: &str, room: u64) -> Result<String, i64> {
    node.put(PATH, path.as_bytes());
    let len = node.call(libc::SYS_readlink, &[PATH, BUF, room]);
    usize::try_from(len)
        .map(|len| String::from_utf8(node.get(BUF, len)).unwrap())
        .map_err(|_| len)
}

fn exe_is_the_program() {
    let mut node = Node::new();
    let real = std::fs::canonicalize("/bin/true").unwrap();
    let real = real.to_str().unwrap();
    let own = format!("/proc/{}/exe\0", node.pid());
    for path in [
        "/proc/self/exe\0",
        "/proc/thread-self/exe\0",
        "/proc/self/../self/exe\0",
        &own,
    ] {
        assert_eq!(
            readlink(&mut node, path, 4096).as_deref(),
            Ok(real),
            "{path}"
        );
        let fd = open(&mut node, path.as_bytes(), 0) as u64;
        let link = format!("/proc/self/fd/{fd}\0");
        assert_eq!(
            readlink(&mut node, &link, 4096).as_deref(),
            Ok(real),
            "{path}"
        );
        node.call(libc::SYS_close, &[fd]);
    }
    assert_eq!(
        readlink(&mut node, "/proc/self/exe\0", 3).as_deref(),
        Ok(&real[..3])
    );
    assert_eq!(readlink(&mut node, "/proc/self/exe\0", 0), Err(-22));
    // Relative to a descriptor, and to the working directory.
    let dir = open(&mut node, b"/proc/self\0", libc::O_DIRECTORY as u64) as u64;
    node.put(PATH, b"exe\0");
    assert_eq!(
        node.call(libc::SYS_readlinkat, &[dir, PATH, BUF, 4096]),
        real.len() as i64
    );
    assert_eq!(node.get(BUF, real.len()), real.as_bytes());
    assert_eq!(node.call(libc::SYS_fchdir, &[dir]), 0);
    assert_eq!(readlink(&mut node, "exe\0", 4096).as_deref(), Ok(real));
    // Not everything of that name.
    node.put(PATH, b"/tmp\0");
    node.call(libc::SYS_chdir, &[PATH]);
    assert_eq!(readlink(&mut node, "exe\0", 4096), Err(-2));
    // What it leads to can be looked at but not removed.
    node.put(PATH, b"/proc/self/exe\0");
    assert_eq!(node.call(libc::SYS_stat, &[PATH, BUF]), 0);
    assert_eq!(
        i64::from(node.get_i32(BUF + 48)),
        std::fs::metadata(real).unwrap().len() as i64
    );
    assert!(node.call(libc::SYS_unlink, &[PATH]) < 0);
}

fn text(node: &mut Node, path: &str) -> String {
    let fd = open(node, format!("{path}\0").as_bytes(), 0);
    assert!(fd >= 0, "{path}: {fd}");
    let len = node.call(libc::SYS_read, &[fd as u64, BUF, 65536]);
    node.call(libc::SYS_close, &[fd as u64]);
    String::from_utf8(node.get(BUF, len as usize)).unwrap()
}

fn texts_are_the_ranks() {
    let mut node = Node::new();
    node.area().node.used_bytes.store(64 << 10);
    node.area().node.peak_bytes.store(128 << 10);
    assert_eq!(text(&mut node, "/proc/self/cmdline"), "prog\0one two\0");
    assert_eq!(text(&mut node, "/proc/self/environ"), "A=b\0EMPTY=\0");
    assert_eq!(
        text(&mut node, "/proc/self/statm"),
        "1024 16 0 0 0 1024 0\n"
    );
    assert_eq!(
        text(&mut node, "/proc/self/maps"),
        "00400000-00800000 rw-p 00000000 00:00 0 \n"
    );
    let status = text(&mut node, "/proc/self/status");
    assert!(status.starts_with("Name:\ttrue\n"), "{status}");
    assert!(status.contains("VmRSS:\t      64 kB\n") && status.contains("Threads:\t1\n"));
    assert_eq!(text(&mut node, "/proc/self/comm"), "true\n");
    let memory = text(&mut node, "/proc/meminfo");
    let total = format!("MemTotal:       {:>8} kB\n", crate::node::SHARE.1 >> 10);
    assert!(memory.starts_with(&total), "{memory}");
    let host = std::fs::read_to_string("/proc/cpuinfo").unwrap();
    assert!(host.starts_with(&text(&mut node, "/proc/cpuinfo")[..64]));
    assert_eq!(
        open(&mut node, b"/proc/self/mem\0", libc::O_RDWR as u64),
        -13
    );
}

fn there_is_one_thread() {
    let mut node = Node::new();
    let fd = open(&mut node, b"/proc/self/task\0", libc::O_DIRECTORY as u64) as u64;
    let len = node.call(libc::SYS_getdents64, &[fd, BUF, 4096]);
    let pid = node.pid().to_string();
    assert_eq!(names(&node.get(BUF, len as usize)), [".", "..", &pid]);
    assert_eq!(node.call(libc::SYS_getdents64, &[fd, BUF, 4096]), 0);
}

fn of_other_processes_what_is_public() {
    let mut node = Node::new();
    let path = format!("/proc/{}", std::process::id());
    let own = std::fs::read_to_string(format!("{path}/cmdline")).unwrap();
    assert_eq!(text(&mut node, &format!("{path}/cmdline")), own);
    // Linux shows it to those who may trace the process.
    let link = readlink(&mut node, &format!("{path}/exe\0"), 4096);
    assert_eq!(link, Err(-13));
}
