//! The documentation's page about system calls: what the table says, for people.

use std::fmt::Write;

use margay_abi::syscall::{ALL, Arg, Call, Dir, Len, Restart, Serve};

const HEAD: &str = "\
# System calls

Every system call of Linux 6.18 on x86-64, and who serves it. Made from the table in `abi/src/syscall/table/`, which also drives the
kernel's dispatch, the proxy's checks, `--strace` and `--stats`; do not edit:

    cargo run -p margay-abi --example syscall_table > docs/syscalls.md

";

const LEGEND: &str = "
- **local**: the QK, on the calling core, without leaving it.
- **local, relayed**: the QK; where it concerns others than the rank (another process, a limit that Linux keeps), the proxy.
- **shipped**: the rank's proxy makes the same call on Linux, in its own context (docs/function-shipping.md).
- **refused**: not served; the program gets the error that a Linux without the call gives. No success is ever faked. A call with arguments
  that are not supported yet fails the same way, though its row says that it is served.

Arguments: `fd` and `dirfd` descriptors, checked to be the rank's; `path` and `string` end with a NUL; `int` and `hex` are passed as they are;
`in`, `out` and `inout` point to memory that the call reads, writes or both, with its length in bytes (`#3`: what the third argument
says, `*#3`: what the number behind it says); `iovec` and `msghdr` are followed to what they name; `request` is what the argument before says, or the first (ioctl, fcntl, semctl, sysfs, keyctl); `sigset` is a mask for the time of the call.
*Restarts*: a handler with SA_RESTART does not end it.

";

const OTHERWISE: &str = "
## Served, but not as on Linux

What a call that is served does not do, and why. Most of it belongs to other chapters (children.md, shared-memory.md, signals.md, trust.md); this is
what programs that test Linux itself have run into.

| call | where | what differs, and why |
|---|---|---|
| open of /proc/self/maps | child | names no file but what it maps itself, and no vDSO, until it calls exec: its memory is a copy, in pages that have no file |
| mlockall | child | counts all of the main thread's stack as mapped, as it is on the rank: ENOMEM where RLIMIT_MEMLOCK is smaller |
| shmctl | child | shm_nattch also counts what the node itself has attached, in QEMU and in each rank's proxy |
| io_submit | rank | returns when what it has submitted is done; IOCB_CMD_POLL is EINVAL: data is moved by the calls that requests stand for |
| signalfd4 | rank | never reads SIGCONT, SIGTTIN, SIGTTOU, SIGURG, SIGSTKFLT: the proxy has to know of them (docs/adr/0050) |
| keyctl | rank | EOPNOTSUPP for commands with structures, which would have to be followed, and for the parent's session, which is yod's |
| unshare | rank | EPERM for namespaces and CLONE_SYSVSEM, and with several threads for all: the threads of the proxy share what it has |
";

/// The whole page.
pub fn page() -> String {
    let mut page = String::from(HEAD);
    let count = |which: fn(&Call) -> bool| ALL.iter().filter(|call| which(call)).count();
    let local = count(|call| call.serve == Serve::Local);
    let shipped = count(|call| call.serve == Serve::Shipped);
    let refused = count(|call| matches!(call.serve, Serve::Refused(..)));
    // Writing to a String cannot fail.
    let _ = writeln!(
        page,
        "{} calls: {local} local, {shipped} shipped, {refused} refused.",
        ALL.len()
    );
    page.push_str(LEGEND);
    page.push_str("| nr | call | served | arguments, or why not |\n|---|---|---|---|\n");
    for call in ALL {
        let (served, what) = (served(call), what(call));
        let _ = writeln!(page, "| {} | {} | {served} | {what} |", call.nr, call.name);
    }
    page.push_str(OTHERWISE);
    page
}

fn served(call: &Call) -> String {
    match call.serve {
        Serve::Local if call.relayed => "local, relayed".into(),
        Serve::Local => "local".into(),
        Serve::Shipped => "shipped".into(),
        Serve::Refused(errno, _) => format!("refused: {errno}"),
    }
}

fn what(call: &Call) -> String {
    if let Serve::Refused(_, why) = call.serve {
        return why.into();
    }
    let args: Vec<String> = call.args.iter().copied().map(argument).collect();
    let mut text = args.join(", ");
    if call.restart == Restart::Handler {
        text.push_str(" *restarts*");
    }
    text
}

fn argument(arg: Arg) -> String {
    match arg {
        Arg::Int | Arg::Millis => "int".into(),
        Arg::Hex => "hex".into(),
        Arg::Fd => "fd".into(),
        Arg::DirFd => "dirfd".into(),
        Arg::Path => "path".into(),
        Arg::Str => "string".into(),
        Arg::Mem(way, len) => format!("{}({})", direction(way), length(len)),
        Arg::Iovec(way, count) => format!("{} iovec(#{})", direction(way), count + 1),
        Arg::Msghdr(way) => format!("{} msghdr", direction(way)),
        Arg::Mmsghdr(way, count) => format!("{} mmsghdr(#{})", direction(way), count + 1),
        Arg::Ioctl | Arg::Fcntl | Arg::Semctl | Arg::Sysfs | Arg::Prctl | Arg::Keyctl => {
            "request".into()
        }
        Arg::Sigset(len) => format!("sigset(#{})", len + 1),
        Arg::SigsetPair => "sigset and length".into(),
    }
}

fn direction(way: Dir) -> &'static str {
    match way {
        Dir::In => "in",
        Dir::Out => "out",
        Dir::InOut => "inout",
    }
}

fn length(len: Len) -> String {
    match len {
        Len::Bytes(bytes) => bytes.to_string(),
        Len::Arg(arg) => format!("#{}", arg + 1),
        Len::Plus(arg, bytes) => format!("#{} + {bytes}", arg + 1),
        Len::Most(arg, bytes) => format!("#{}, at most {bytes}", arg + 1),
        Len::Times(arg, bytes) => format!("#{} × {bytes}", arg + 1),
        Len::Bits(arg) => format!("#{} bits", arg + 1),
        Len::AtPtr(arg) => format!("*#{}", arg + 1),
    }
}
