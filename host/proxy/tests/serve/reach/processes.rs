//! Other processes that a rank cannot reach, and what Linux keeps the proxy from.

use std::io::{BufRead, BufReader};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use super::{EACCES, PATH, USER, watcher};
use crate::Case;
use crate::files::open;
use crate::launch::AS_KEEPER;
use crate::node::Node;

pub const CASES: &[Case] = &[
    ("signals_to_what_keeps_nodes", signals_to_what_keeps_nodes),
    (
        "signals_by_one_without_descriptors",
        signals_by_one_without_descriptors,
    ),
    ("tracing_calls_are_refused", tracing_calls_are_refused),
    ("the_keepers_socket", the_keepers_socket),
    ("linux_keeps_the_proxy_in", linux_keeps_the_proxy_in),
    ("no_other_process_traces_it", no_other_process_traces_it),
    ("its_name_is_not_written", its_name_is_not_written),
];

/// A process under the name of a keeper, leader of its group and listening, and a process that it has started.
pub struct Keeper {
    /// It.
    pub process: Child,
    /// What it has started.
    pub child: i32,
}

impl Keeper {
    pub fn start() -> Keeper {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.arg(AS_KEEPER).process_group(0);
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(process.stdout.as_mut().unwrap());
        output.read_line(&mut line).unwrap();
        let child = line.trim().parse().unwrap();
        Keeper { process, child }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // SAFETY: 1. The group is that of a process this test started and has not waited for.
        unsafe { libc::kill(-(self.process.id() as i32), libc::SIGKILL) };
        let _ = self.process.wait();
    }
}

/// Its name as a socket.
fn keepers_socket(keeper: u32) -> String {
    format!("margay-test-{keeper}")
}

/// The other side of [`Keeper::start`].
pub fn become_keeper() -> ! {
    rustix::thread::set_name(c"margay-keeper").unwrap();
    let name = keepers_socket(std::process::id());
    let address = SocketAddr::from_abstract_name(name).unwrap();
    let _listener = UnixListener::bind_addr(&address).unwrap();
    let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
    println!("{}", child.id());
    child.wait().unwrap();
    std::process::exit(0)
}

/// Once a rank could join its node as a yod does, and was given guest RAM.
fn the_keepers_socket() {
    let (mut node, keeper) = (Node::new(), Keeper::start());
    let (unix, stream) = (libc::AF_UNIX as u64, libc::SOCK_STREAM as u64);
    let socket = node.call(libc::SYS_socket, &[unix, stream, 0]) as u64;
    let name = keepers_socket(keeper.process.id());
    let address = [&[libc::AF_UNIX as u8, 0, 0], name.as_bytes()].concat();
    node.put(PATH, &address);
    let ret = node.call(libc::SYS_connect, &[socket, PATH, address.len() as u64]);
    assert_eq!(ret, -111); // ECONNREFUSED
    assert_eq!(node.call(libc::SYS_write, &[socket, PATH, 1]), -32); // EPIPE
}

/// Once a rank could end the node of others by killing its keeper, its QEMU or their yods.
fn signals_to_what_keeps_nodes() {
    const EPERM: i64 = -1;
    let (mut node, mut keeper) = (Node::new(), Keeper::start());
    let (leader, qemu) = (u64::from(keeper.process.id()), keeper.child as u64);
    let yod = u64::from(std::process::id());
    let kill = libc::SIGKILL as u64;
    let info = node.put_words(PATH, &[kill, libc::SI_QUEUE as u32 as u64, 0, 0]);
    let null = open(&mut node, b"/dev/null\0", 0) as u64;
    for pid in [yod, leader, qemu] {
        for (nr, args) in [
            (libc::SYS_kill, [pid, kill, 0, 0]),
            (libc::SYS_tkill, [pid, kill, 0, 0]),
            (libc::SYS_tgkill, [pid, pid, kill, 0]),
            (libc::SYS_rt_sigqueueinfo, [pid, kill, info, 0]),
            (libc::SYS_rt_tgsigqueueinfo, [pid, pid, kill, info]),
            (libc::SYS_setpriority, [0, pid, 19, 0]),
            (libc::SYS_ioprio_set, [1, pid, 3 << 13, 0]),
            (libc::SYS_fcntl, [null, libc::F_SETOWN as u64, pid, 0]),
        ] {
            assert_eq!(node.call(nr, &args), EPERM, "call {nr}");
        }
        let named = node.call(libc::SYS_pidfd_open, &[pid, 0]) as u64;
        let signal = [named, kill, 0, 0];
        assert_eq!(
            node.call(libc::SYS_pidfd_send_signal, &signal),
            EPERM,
            "by a descriptor"
        );
        assert_eq!(node.call(libc::SYS_kill, &[pid, 0]), 0, "there it is");
        for kind in [0, 1] {
            let owner = node.put_words(PATH + 0x100, &[kind | pid << 32]);
            let set = 15; // F_SETOWN_EX
            assert_eq!(node.call(libc::SYS_fcntl, &[null, set, owner]), EPERM);
        }
        let owner = node.put_words(PATH + 0x100, &[pid]);
        for set in [0x8901, 0x8902] {
            assert_eq!(node.call(libc::SYS_ioctl, &[null, set, owner]), EPERM);
        }
    }
    let group = (leader as i64).wrapping_neg() as u64;
    assert_eq!(node.call(libc::SYS_kill, &[group, kill]), EPERM);
    assert_eq!(node.call(libc::SYS_kill, &[u64::MAX, kill]), EPERM);
    let thread = watcher(&node) as u64;
    assert_eq!(node.call(libc::SYS_tkill, &[thread, kill]), -3); // ESRCH
    assert_eq!(keeper.process.try_wait().unwrap(), None);
    // Another process of the user.
    let mut sleep = Command::new("sleep").arg("1000").spawn().unwrap();
    assert_eq!(node.call(libc::SYS_kill, &[sleep.id().into(), kill]), 0);
    assert!(!sleep.wait().unwrap().success());
}

/// Who a process is could not be read without a descriptor: a rank that had used up its own could signal them all.
fn signals_by_one_without_descriptors() {
    const EMFILE: i64 = -24;
    const EPERM: i64 = -1;
    let (mut node, keeper) = (Node::new(), Keeper::start());
    let hard = node.area().host.rlimits[libc::RLIMIT_NOFILE as usize][1].load();
    let set = [libc::RLIMIT_NOFILE as u64, 0, 3, hard];
    assert_eq!(node.call(libc::SYS_setrlimit, &set), 0);
    assert_eq!(open(&mut node, b"/dev/null\0", 0), EMFILE);
    for pid in [std::process::id(), keeper.process.id()] {
        let args = [pid.into(), libc::SIGCONT as u64];
        assert_eq!(node.call(libc::SYS_kill, &args), EPERM);
    }
}

/// The node refuses them, or serves them itself (process_vm_readv and writev, between ranks); a proxy that gets them all
/// the same refuses them.
fn tracing_calls_are_refused() {
    let (mut node, other) = (Node::new(), Node::new());
    for nr in [
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_pidfd_getfd,
        libc::SYS_process_madvise,
        libc::SYS_perf_event_open,
    ] {
        let call = abi::syscall::by_nr(nr as u64).unwrap();
        assert!(
            !matches!(call.serve, abi::syscall::Serve::Shipped) && !call.relayed,
            "{}",
            call.name
        );
        assert_eq!(node.call(nr, &[other.pid() as u64]), -38, "{}", call.name);
    }
    let (own, other) = (node.pid() as u64, other.pid() as u64);
    for vm in [[other, own, 1, 0, 0], [own, other, 1, 0, 0]] {
        assert_eq!(node.call(libc::SYS_kcmp, &vm), -1, "with another process");
    }
    let thread = watcher(&node) as u64;
    assert_eq!(node.call(libc::SYS_kcmp, &[own, thread, 1, 0, 0]), -3); // ESRCH
}

/// The second line, where the host has it: a filter on calls, a Landlock domain.
fn linux_keeps_the_proxy_in() {
    let mut node = Node::new();
    for thread in [node.pid(), watcher(&node)] {
        let status = std::fs::read_to_string(format!("/proc/{thread}/status")).unwrap();
        assert!(status.contains("\nNoNewPrivs:\t1\n"), "{status}");
        assert!(status.contains("\nSeccomp:\t2\n"), "{status}");
    }
    // SAFETY: 1. The version is requested: no memory is passed.
    let landlock = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, 0, 0, 1) };
    if landlock < 2 {
        println!("skipped: this host has no Landlock");
        return;
    }
    node.put(
        PATH,
        format!("/proc/{}/cwd\0", std::process::id()).as_bytes(),
    );
    assert_eq!(node.call(libc::SYS_readlink, &[PATH, PATH, 100]), EACCES);
}

/// A node of a user without rights, if that can be, and whether it is.
fn of_a_user() -> (Node, bool) {
    // SAFETY: 1. No preconditions.
    let root = unsafe { libc::geteuid() } == 0;
    let setup = crate::launch::Setup {
        user: root.then_some(USER),
        ..crate::launch::Setup::default()
    };
    (Node::with(setup), root)
}

/// Linux gives the entries of a process that is not dumpable to root.
fn no_other_process_traces_it() {
    let (node, _) = of_a_user();
    let owner = std::fs::metadata(format!("/proc/{}/mem", node.pid())).unwrap();
    assert_eq!(owner.uid(), 0);
}

/// Nor does another process of the user give it another name: by its name a keeper is known.
fn its_name_is_not_written() {
    let (node, root) = of_a_user();
    let path = format!("/proc/{}/comm", node.pid());
    let before = std::fs::read(&path).unwrap();
    let mut write = Command::new("/bin/sh");
    write.args(["-c", "exec 2>&-; echo margay-keeper >$0", &path]);
    if root {
        write.uid(USER).gid(USER);
    }
    assert_eq!(
        write.status().unwrap().code(),
        Some(2),
        "it could be opened"
    );
    assert_eq!(std::fs::read(&path).unwrap(), before);
}
