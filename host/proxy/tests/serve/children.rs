//! Children of the rank: made as the node's record says, with nothing of the proxy, out of reach of what keeps nodes.

pub mod limits;
pub mod vfork;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use abi::control::{HostOp, PROGRAM};
use abi::map::USER_TOP;
use wire::child::how;
use wire::region_log::{Change, prot};

use crate::Case;
use crate::launch::Setup;
use crate::node::{DATA, Directory, Node, PARTITION, POOL, wait_for};

pub const CASES: &[Case] = &[
    ("are_waited_for", are_waited_for),
    ("have_nothing_of_the_proxy", have_nothing_of_the_proxy),
    ("have_copies_of_memory", have_copies_of_memory),
    (
        "show_text_and_own_what_they_write",
        show_text_and_own_what_they_write,
    ),
    ("reach_no_other_process", reach_no_other_process),
    ("get_no_rights", get_no_rights),
];

/// A user without rights (nobody).
const USER: u32 = 65534;
/// Where the child's code is.
const CODE: u64 = 0x100_0000;
const CODE_GPA: u64 = PARTITION.0 + DATA.1;
const STACK: u64 = DATA.0 + DATA.1 - 0x1000;
const ECHILD: i64 = -10;

// Registers of the record.
const RDI: usize = 8;
const RSI: usize = 9;
const RDX: usize = 12;
const RAX: usize = 13;
const RSP: usize = 15;
const RIP: usize = 16;

/// syscall; exit_group(rax)
pub const CALL_AND_EXIT: &[u8] = &[
    0x0f, 0x05, // syscall
    0x89, 0xc7, // mov edi, eax
    0xb8, 231, 0, 0, 0, // mov eax, SYS_exit_group
    0x0f, 0x05, // syscall
];
/// for (;;) pause();
pub const PAUSE: &[u8] = &[
    0xb8, 34, 0, 0, 0, // mov eax, SYS_pause
    0x0f, 0x05, // syscall
    0xeb, 0xf7, // jmp to the beginning
];

fn is_root() -> bool {
    // SAFETY: 1. No preconditions.
    unsafe { libc::geteuid() == 0 }
}

/// A node with a user that has no rights, if that can be.
fn node() -> Node {
    node_with(Setup {
        user: is_root().then_some(USER),
        ..Setup::default()
    })
}

fn node_with(setup: Setup) -> Node {
    let node = Node::with(setup);
    node.log.append(&code()).unwrap();
    node
}

/// The mapping of a child's code.
pub fn code() -> Change {
    Change::Map {
        addr: CODE,
        len_bytes: 0x1000,
        gpa: CODE_GPA,
        prot: prot::READ | prot::EXEC,
    }
}

/// Describes a child that begins at `code` with rax, rdi, rsi, rdx.
pub fn describe(node: &Node, code: &[u8], registers: [u64; 4]) {
    node.put_gpa(CODE_GPA, code);
    let child = &node.area().child;
    child.exit_signal.put(libc::SIGCHLD as u64);
    for (at, value) in [RAX, RDI, RSI, RDX].into_iter().zip(registers) {
        child.registers[at].put(value);
    }
    child.registers[RSP].put(STACK);
    child.registers[RIP].put(CODE);
    child.dumpable.put(1);
    for limit in node.area().node.rlimits.as_flattened() {
        limit.put(u64::MAX);
    }
}

pub fn fork(node: &mut Node) -> i64 {
    node.host_op(HostOp::Fork, &[])
}

/// Waits for a child; its status as wait(2) has it.
pub fn wait(node: &mut Node, pid: i64) -> i32 {
    let to = DATA.0 + 0x2000;
    assert_eq!(node.call(libc::SYS_wait4, &[pid as u64, to, 0, 0]), pid);
    node.get_i32(to)
}

fn are_waited_for() {
    let mut node = node();
    describe(&node, CALL_AND_EXIT, [libc::SYS_getppid as u64, 0, 0, 0]);
    let pid = fork(&mut node);
    assert!(pid > 0, "{pid}");
    assert_eq!(wait(&mut node, pid), (node.pid() & 0xff) << 8);
    assert_eq!(node.wait_signal().unwrap().signo, libc::SIGCHLD as u32);
    assert_eq!(node.call(libc::SYS_wait4, &[u64::MAX, 0, 0, 0]), ECHILD);
}

/// Numbers of a process's open descriptors.
pub fn descriptors(pid: i64) -> BTreeSet<u32> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    entries
        .map(|entry| {
            entry
                .unwrap()
                .file_name()
                .to_str()
                .unwrap()
                .parse()
                .unwrap()
        })
        .collect()
}

pub fn status(pid: i64) -> String {
    fs::read_to_string(format!("/proc/{pid}/status")).unwrap()
}

/// Linux from 5.9 on.
fn has_close_range() -> bool {
    const LAST: u32 = u32::MAX;
    // SAFETY: 1. There is no such descriptor: nothing is closed.
    unsafe { libc::syscall(libc::SYS_close_range, LAST, LAST, 0) == 0 }
}

fn have_nothing_of_the_proxy() {
    let mut node = node();
    describe(&node, PAUSE, [0; 4]);
    node.area().child.mask.put(1 << (libc::SIGUSR1 - 1));
    let pid = fork(&mut node);
    assert!(pid > 0, "{pid}");
    // The last of ours goes away with the step into the program.
    wait_for(|| status(pid).contains("\nState:\tS"));
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    for line in maps.lines().filter(|line| !line.ends_with("[vsyscall]")) {
        let start = line.split('-').next().unwrap();
        let start = u64::from_str_radix(start, 16).unwrap();
        assert!(start < USER_TOP && !line.contains('/'), "{maps}");
    }
    let own = node.area().host.rlimits[libc::RLIMIT_NOFILE as usize][1].load() as u32;
    let of_rank: BTreeSet<u32> = descriptors(node.pid().into())
        .range(..own)
        .copied()
        .collect();
    assert_eq!(descriptors(pid), of_rank);
    let status = status(pid);
    // Every fork copied a table that reached up to the proxy's own descriptors: a tenth of what a fork costs, and of an exec.
    if has_close_range() {
        let table = status.lines().find_map(|line| line.strip_prefix("FDSize:"));
        let table: u32 = table.unwrap().trim().parse().unwrap();
        assert!(table < own, "{table} descriptors");
    }
    for line in [
        "Seccomp:\t0",
        "Threads:\t1",
        "SigBlk:\t0000000000000200",
        "SigCgt:\t0000000000000000",
    ] {
        assert!(status.contains(&format!("\n{line}\n")), "{line}: {status}");
    }
    assert!(status.starts_with("Name:\ttrue\n"), "{status}");
    // What is not dumpable is root's.
    let uid = fs::metadata(format!("/proc/{pid}/mem")).unwrap().uid();
    assert_eq!(uid, fs::metadata(format!("/proc/{pid}")).unwrap().uid());
    assert!(status.contains(&format!("\nUid:\t{uid}\t")), "{status}");
    assert_eq!(node.call(libc::SYS_kill, &[pid as u64, 9]), 0);
    assert_eq!(wait(&mut node, pid), 9);
}

fn have_copies_of_memory() {
    let mut node = node();
    let word = DATA.0 + 0x100;
    node.put_words(word, &[7]);
    // mov eax, [rdi]; add dword ptr [rdi], 1; mov edi, eax; mov eax, SYS_exit_group; syscall
    let code = [
        0x8b, 0x07, 0x83, 0x07, 1, 0x89, 0xc7, 0xb8, 231, 0, 0, 0, 0x0f, 0x05,
    ];
    describe(&node, &code, [0, word, 0, 0]);
    let pid = fork(&mut node);
    assert_eq!(wait(&mut node, pid), 7 << 8);
    assert_eq!(node.get_i32(word), 7);
}

/// Half of a small Python is text, which was copied for each child.
fn show_text_and_own_what_they_write() {
    const ADDR: u64 = 0x200_0000;
    let mut node = node();
    assert!(node.host_op(HostOp::HoldText, &[PROGRAM, ADDR, 0x1000, 0]) >= 0);
    let [device, inode] = node.threads()[0].slot.more();
    let lay = [device, inode, POOL.0, 0x1000, 0, 1];
    assert_eq!(node.host_op(HostOp::LayText, &lay), 0);
    let text = Change::Map {
        addr: ADDR,
        len_bytes: 0x1000,
        gpa: POOL.0,
        prot: prot::READ | prot::TEXT,
    };
    node.log.append(&text).unwrap();
    describe(&node, PAUSE, [0; 4]);
    let pid = fork(&mut node);
    assert!(pid > 0, "{pid}");
    wait_for(|| status(pid).contains("\nState:\tS"));
    // It has the file, and no frames of the pool.
    let is_with_child = [POOL.0, 0x1000];
    assert_eq!(node.host_op(HostOp::IsWithChild, &is_with_child), 0);
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let line = "02000000-02001000 r--p 00000000";
    assert!(maps.contains(line), "{maps}");
    let mut options = fs::OpenOptions::new();
    let memory = options.read(true).write(true);
    let memory = memory.open(format!("/proc/{pid}/mem")).unwrap();
    let shown = || {
        let mut bytes = [0; 4];
        memory.read_exact_at(&mut bytes, ADDR).map(|()| bytes)
    };
    assert_eq!(shown().unwrap(), *b"\x7fELF");
    memory.write_all_at(b"own!", ADDR).unwrap();
    assert_eq!(shown().unwrap(), *b"own!");
    assert_eq!(node.get_gpa(POOL.0, 4), b"\x7fELF");
    assert_eq!(node.call(libc::SYS_kill, &[pid as u64, 9]), 0);
    assert_eq!(wait(&mut node, pid), 9);
}

/// Runs a script in a child; its exit code.
fn shell(node: &mut Node, script: &str) -> i32 {
    let strings = DATA.0 + 0x10_0000;
    let [path, dash_c, text] = [0, 0x100, 0x200].map(|offset| strings + offset);
    node.put(path, b"/bin/sh\0");
    node.put(dash_c, b"-c\0");
    node.put(text, format!("{script}\0").as_bytes());
    let argv = node.put_words(strings - 0x100, &[path, dash_c, text, 0]);
    describe(
        node,
        CALL_AND_EXIT,
        [libc::SYS_execve as u64, path, argv, 0],
    );
    let pid = fork(node);
    assert!(pid > 0, "{pid}");
    wait(node, pid) >> 8
}

/// Stands for what keeps nodes and can be traced by its user, as QEMU.
fn bystander() -> Child {
    let mut command = Command::new("/bin/sleep");
    command.arg("1000");
    if is_root() {
        command.uid(USER).gid(USER);
    }
    command.spawn().unwrap()
}

/// Linux lets every process of a user trace the others, if nothing else forbids it: through one child a program would have had
/// the memory of all ranks.
fn reach_no_other_process() {
    // SAFETY: 1. The version is requested: no memory is passed.
    let landlock = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, 0, 0, 1) };
    let mut node = node();
    let mut other = bystander();
    let mut targets = vec![node.pid()];
    if landlock >= 2 {
        targets.push(other.id() as i32);
    }
    for pid in targets {
        for file in ["maps", "environ", "mem", "auxv"] {
            let script = format!("exec 2>&-; : </proc/{pid}/{file} || exit 3; exit 1");
            assert_eq!(
                shell(&mut node, &format!("({script}); exit $?")),
                2,
                "{file} of {pid}"
            );
        }
        let script = format!(
            "ls /proc/{pid}/fd/ >&- 2>&- && exit 1; readlink /proc/{pid}/exe && exit 1; exit 0"
        );
        assert_eq!(shell(&mut node, &script), 0, "links of {pid}");
    }
    // Its own it reaches.
    assert_eq!(
        shell(&mut node, ": </proc/self/maps && : </proc/self/mem"),
        0
    );
    other.kill().unwrap();
    other.wait().unwrap();
}

/// A program of root's with the set-user-ID bit runs as the user in a child.
fn get_no_rights() {
    let (mut node, directory) = (node(), Directory::new("set_user_id"));
    let report = directory.0.join("status");
    fs::write(&report, "").unwrap();
    fs::set_permissions(&report, fs::Permissions::from_mode(0o666)).unwrap();
    let script = format!("grep NoNewPrivs /proc/self/status >{}", report.display());
    assert_eq!(shell(&mut node, &script), 0);
    assert_eq!(fs::read_to_string(&report).unwrap(), "NoNewPrivs:\t1\n");
    let id = directory.0.join("id");
    fs::copy("/usr/bin/id", &id).unwrap();
    fs::set_permissions(&id, fs::Permissions::from_mode(0o4755)).unwrap();
    let mut natively = Command::new(&id);
    natively.arg("-u");
    if is_root() {
        natively.uid(USER).gid(USER);
    }
    if !is_root() || natively.output().unwrap().stdout != b"0\n" {
        println!("skipped: no program of root's gets its rights here");
        return;
    }
    let script = format!("{} -u >{}", id.display(), report.display());
    assert_eq!(shell(&mut node, &script), 0);
    assert_eq!(fs::read_to_string(&report).unwrap(), format!("{USER}\n"));
}
