//! Files of /proc that speak of the process.

use abi::control::HostOp;

use crate::Case;
use crate::files::{names, open};
use crate::launch::Setup;
use crate::node::{DATA, Node};

pub const CASES: &[Case] = &[
    ("exe_is_the_program", exe_is_the_program),
    ("texts_are_the_ranks", texts_are_the_ranks),
    ("status_makes_sense", status_makes_sense),
    (
        "texts_are_like_those_of_linux",
        texts_are_like_those_of_linux,
    ),
    (
        "texts_are_never_open_for_writing",
        texts_are_never_open_for_writing,
    ),
    (
        "a_text_that_is_opened_again_is_of_that_moment",
        a_text_that_is_opened_again_is_of_that_moment,
    ),
    (
        "every_user_reads_what_is_its_own",
        every_user_reads_what_is_its_own,
    ),
    (
        "the_auxiliary_vector_is_the_programs",
        the_auxiliary_vector_is_the_programs,
    ),
    (
        "without_descriptors_exe_is_the_program",
        without_descriptors_exe_is_the_program,
    ),
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
    // What it leads to can be examined but not removed.
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
    let total = format!("MemTotal:       {:>8} kB\n", crate::node::PARTITION.1 >> 10);
    assert!(memory.starts_with(&total), "{memory}");
    // Once it listed the host's processors and what they can.
    let processors = text(&mut node, "/proc/cpuinfo");
    assert_eq!(
        processors.matches("processor\t: ").count(),
        node.core_count()
    );
    assert!(!processors.contains("flags"), "{processors}");
    let details = text(&mut node, "/proc/self/smaps");
    assert!(
        details.contains("\nRss:                4096 kB\n"),
        "{details}"
    );
    let domains = text(&mut node, "/proc/self/numa_maps");
    assert!(
        domains.starts_with("00400000 default anon=1024 "),
        "{domains}"
    );
    // Once they were the proxy's.
    let soft_and_hard = &node.area().node.rlimits[libc::RLIMIT_NOFILE as usize];
    soft_and_hard[0].put(100);
    soft_and_hard[1].put(u64::MAX);
    let limits = text(&mut node, "/proc/self/limits");
    assert!(
        limits.contains(
            "\nMax open files            100                  unlimited            files"
        ),
        "{limits}"
    );
    assert_eq!(open(&mut node, b"/proc/self/io\0", 0), -2);
    let scope = "/proc/sys/kernel/yama/ptrace_scope";
    if std::path::Path::new(scope).exists() {
        assert_eq!(text(&mut node, scope), "0\n");
    }
}

/// Once VmRSS, which counts page tables, could be more than VmPeak, which did not; and the rest spoke of the proxy.
fn status_makes_sense() {
    let mut node = Node::new();
    node.area().node.cpus[0].store(3);
    node.area().node.cpus[1].store(2);
    node.area().node.used_bytes.store(64 << 20);
    node.area().node.peak_bytes.store(65 << 20);
    let status = text(&mut node, "/proc/self/status");
    let field = |name: &str| {
        let mut lines = status.lines().filter_map(|line| line.split_once(":\t"));
        lines
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value.trim().to_owned())
    };
    let kib = |name| {
        field(name)
            .unwrap()
            .trim_end_matches(" kB")
            .parse::<u64>()
            .unwrap()
    };
    assert!(
        kib("VmPeak") >= kib("VmSize") && kib("VmSize") >= kib("VmRSS"),
        "{status}"
    );
    assert!(
        kib("VmPeak") >= kib("VmHWM") && kib("VmHWM") >= kib("VmRSS"),
        "{status}"
    );
    assert_eq!(field("Cpus_allowed_list").as_deref(), Some("3-4"));
    assert_eq!(field("Seccomp").as_deref(), Some("0"));
    assert_eq!(field("SigBlk"), None);
}

/// Once it was a file that could be written, had a size, and stayed as it was when it was opened.
fn texts_are_like_those_of_linux() {
    let mut node = Node::new();
    node.area().node.used_bytes.store(64 << 10);
    let fd = open(&mut node, b"/proc/self/statm\0", 0) as u64;
    let dup = node.call(libc::SYS_dup, &[fd]) as u64;
    let read = |node: &mut Node, fd, used: u64| {
        node.area().node.used_bytes.store(used << 12);
        assert_eq!(node.call(libc::SYS_lseek, &[fd, 0, 0]), 0);
        let len = node.call(libc::SYS_read, &[fd, BUF, 100]);
        String::from_utf8(node.get(BUF, len as usize)).unwrap()
    };
    assert_eq!(read(&mut node, fd, 16), "1024 16 0 0 0 1024 0\n");
    assert_eq!(read(&mut node, fd, 170), "1024 170 0 0 0 1024 0\n");
    assert_eq!(read(&mut node, dup, 1), "1024 1 0 0 0 1024 0\n");
    node.area().node.used_bytes.store(33 << 12);
    let len = node.call(libc::SYS_pread64, &[fd, BUF, 100, 0]) as usize;
    assert_eq!(node.get(BUF, len), b"1024 33 0 0 0 1024 0\n");
    // What is left of it is of the same moment.
    node.area().node.used_bytes.store(44 << 12);
    let len = node.call(libc::SYS_pread64, &[fd, BUF, 100, 5]) as usize;
    assert_eq!(node.get(BUF, len), b"33 0 0 0 1024 0\n");
    assert_eq!(node.call(libc::SYS_write, &[fd, BUF, 1]), -9);
    let at = libc::AT_EMPTY_PATH as u64;
    node.put(PATH, b"\0");
    for (nr, args, size_at) in [
        (libc::SYS_fstat, [fd, BUF, 0, 0, 0], 48),
        (libc::SYS_newfstatat, [fd, PATH, BUF, at, 0], 48),
        (libc::SYS_statx, [fd, PATH, at, 0xfff, BUF], 40),
    ] {
        assert_eq!(node.call(nr, &args), 0);
        assert_eq!(node.get_i32(BUF + size_at), 0, "call {nr}");
    }
    assert_eq!(node.call(libc::SYS_fstat, &[fd, BUF]), 0);
    assert_eq!(node.get_i32(BUF + 24) & 0o777, 0o444); // st_mode
    assert_eq!(node.call(libc::SYS_fchmod, &[fd, 0o666]), -1);
}

/// Once `fchmod` and an open by /proc/self/fd made one writable, and root's open for writing led to the proxy's own file.
fn texts_are_never_open_for_writing() {
    // SAFETY: 1. No preconditions.
    let root = unsafe { libc::geteuid() } == 0;
    for user in [None, Some(65534)] {
        let mut node = Node::with(Setup {
            user: user.filter(|_| root),
            ..Setup::default()
        });
        for (path, mode) in [
            ("/proc/self/auxv", 0o400),
            ("/proc/self/environ", 0o400),
            ("/proc/self/maps", 0o444),
            ("/proc/self/smaps", 0o444),
            ("/proc/self/status", 0o444),
            ("/proc/meminfo", 0o444),
            ("/proc/thread-self/environ", 0o400),
        ] {
            let path = format!("{path}\0");
            let fd = open(&mut node, path.as_bytes(), 0) as u64;
            let by_fd = format!("/proc/self/fd/{fd}\0");
            assert_eq!(node.call(libc::SYS_fchmod, &[fd, 0o666]), -1); // EPERM
            node.put(PATH, by_fd.as_bytes());
            node.call(libc::SYS_chmod, &[PATH, 0o666]);
            for way in [
                libc::O_RDWR,
                libc::O_WRONLY,
                libc::O_RDWR | libc::O_CREAT,
                libc::O_WRONLY | libc::O_TRUNC,
                libc::O_ACCMODE,
            ] {
                for path in [&path, &by_fd] {
                    let opened = open(&mut node, path.as_bytes(), way as u64);
                    assert_eq!(opened, -13, "{path} {way:#o} {user:?}"); // EACCES
                }
            }
            assert_eq!(node.call(libc::SYS_ftruncate, &[fd, 0]), -22);
            // The proxy's writing must not wait for one, or end the rank by SIGIO.
            let lease = [fd, libc::F_SETLEASE as u64, libc::F_RDLCK as u64];
            assert_eq!(node.call(libc::SYS_fcntl, &lease), -11); // EAGAIN
            let others = node.call(libc::SYS_pread64, &[fd, BUF, 4096, 0]);
            assert_eq!(node.call(libc::SYS_fstat, &[fd, BUF]), 0);
            let now = node.get_i32(BUF + 24) & 0o777;
            assert_eq!(now, mode, "{path} {others}: once read it is as it was");
            node.call(libc::SYS_close, &[fd]);
        }
    }
}

/// Once it was the old one, which no read brought up to date.
fn a_text_that_is_opened_again_is_of_that_moment() {
    let mut node = Node::new();
    node.area().node.used_bytes.store(16 << 12);
    let fd = open(&mut node, b"/proc/self/statm\0", 0);
    let by_fd = format!("/proc/self/fd/{fd}\0");
    let again = open(&mut node, by_fd.as_bytes(), 0) as u64;
    node.area().node.used_bytes.store(33 << 12);
    let len = node.call(libc::SYS_read, &[again, BUF, 100]) as usize;
    assert_eq!(node.get(BUF, len), b"1024 33 0 0 0 1024 0\n");
    // What the rank itself calls so is its own.
    node.put(PATH, b"proc/self/none\0");
    let own = node.call(libc::SYS_memfd_create, &[PATH, 0]);
    let by_fd = format!("/proc/self/fd/{own}\0");
    let writable = open(&mut node, by_fd.as_bytes(), libc::O_RDWR as u64);
    assert!(writable > own, "{writable}");
}

/// For users without rights as well, from whom Linux keeps some of what a process says of itself when it is not dumpable.
fn every_user_reads_what_is_its_own() {
    // SAFETY: 1. No preconditions.
    let root = unsafe { libc::geteuid() } == 0;
    let mut node = Node::with(Setup {
        user: root.then_some(65534),
        ..Setup::default()
    });
    assert_eq!(text(&mut node, "/proc/self/environ"), "A=b\0EMPTY=\0");
    assert_eq!(
        text(&mut node, "/proc/thread-self/cmdline"),
        "prog\0one two\0"
    );
    assert!(text(&mut node, "/proc/self/status").contains("\nThreads:\t1\n"));
    assert_eq!(open(&mut node, b"/proc/self/mem\0", 0), -13);
}

/// The vector as the program has it, below its strings.
fn the_auxiliary_vector_is_the_programs() {
    let mut node = Node::new();
    let strings = DATA.0 + 0x8000;
    assert_eq!(node.host_op(HostOp::WriteStrings, &[strings, 4096]), 34);
    let vector = [6, 4096, 25, strings - 16, 0, 0];
    let stack = [2, strings, strings + 5, 0, strings + 13, strings + 17, 0];
    let start = node.put_words(strings - 0x100, &stack);
    node.put_words(start + 8 * stack.len() as u64, &vector);
    let fd = open(&mut node, b"/proc/self/auxv\0", 0) as u64;
    let bytes: Vec<u8> = vector.iter().flat_map(|word| word.to_le_bytes()).collect();
    assert_eq!(
        node.call(libc::SYS_read, &[fd, BUF, 4096]),
        bytes.len() as i64
    );
    assert_eq!(node.get(BUF, bytes.len()), bytes);
}

/// Once examining a path took a descriptor of the rank's: with none left the proxy answered about itself.
fn without_descriptors_exe_is_the_program() {
    let mut node = Node::with(Setup {
        files: Some((16, 1024)),
        ..Setup::default()
    });
    let real = std::fs::canonicalize("/bin/true").unwrap();
    let fill = |node: &mut Node| while open(node, b"/dev/null\0", 0) >= 0 {};
    fill(&mut node);
    let link = readlink(&mut node, "/proc/self/exe\0", 4096);
    assert_eq!(link.as_deref(), Ok(real.to_str().unwrap()));
    for path in ["/proc/self/exe\0", "/proc/self/statm\0"] {
        assert_eq!(open(&mut node, path.as_bytes(), 0), -24); // EMFILE
        assert_eq!(node.call(libc::SYS_close, &[7]), 0);
        assert_eq!(open(&mut node, path.as_bytes(), 0), 7, "{path}");
    }
    let link = readlink(&mut node, "/proc/self/fd/7\0", 4096).unwrap();
    assert!(link.starts_with("/memfd:proc/self/statm"), "{link}");
    assert!(node.call(libc::SYS_pread64, &[7, BUF, 100, 0]) > 0);
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
