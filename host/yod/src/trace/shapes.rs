//! Structures that arguments point to (layouts: the x86-64 uapi headers that the table of calls names).

use std::net::{Ipv4Addr, Ipv6Addr};

use abi::syscall::layout::{Header, VECTOR_BYTES};
use abi::syscall::operand::Reader;

use super::memory::{Memory, buffer, half, path, word};
use super::names::{self, choice, flags};

/// What lies behind a pointer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// A 32-bit number.
    Int,
    /// So many of them.
    Ints(usize),
    /// A 64-bit number, as file offsets are.
    Offset,
    /// sigset_t.
    SignalSet,
    /// The kernel's struct sigaction.
    SigAction,
    /// stack_t.
    AltStack,
    /// struct timespec, and two of them.
    Timespec,
    TwoTimespecs,
    /// struct timeval.
    Timeval,
    /// struct itimerval and itimerspec: interval, then value.
    Itimerval,
    Itimerspec,
    /// struct sigevent.
    SigEvent,
    /// struct rlimit.
    Rlimit,
    /// struct stat.
    Stat,
    /// struct new_utsname.
    Uname,
    /// An array of struct pollfd.
    PollFds,
    /// struct epoll_event, and as many as were returned.
    EpollEvent,
    EpollEvents,
    /// fd_set of as many descriptors as the first argument says.
    FdSet,
    /// struct sockaddr.
    Sockaddr,
    /// An array of struct iovec.
    Vectors,
    /// struct msghdr.
    Message,
    /// wait's status.
    WaitStatus,
}

/// What is known when a shape is shown.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub memory: Memory<'a>,
    /// What the call had copied when it began: arrays of vectors do not change.
    pub before: Memory<'a>,
    pub args: &'a [u64; 6],
    /// Bytes that the argument is said to have, or how many vectors.
    pub len: u64,
    /// What it returned, if it has.
    pub ret: Option<i64>,
}

/// The structure at an address; `None` when there is no copy of it.
pub fn show(shape: Shape, at: u64, view: &View<'_>) -> Option<String> {
    let memory = view.memory;
    let bytes = |len: usize| memory.from(at)?.get(..len);
    Some(match shape {
        Shape::Int => format!("[{}]", memory.int(at)? as i32),
        Shape::Ints(count) => ints(bytes(4 * count)?),
        Shape::Offset => format!("[{}]", memory.words::<1>(at)?[0] as i64),
        Shape::SignalSet => names::signal_set(memory.words::<1>(at)?[0]),
        Shape::SigAction => sig_action(&memory.words::<4>(at)?),
        Shape::AltStack => {
            let [sp, flags_, size] = memory.words::<3>(at)?;
            let state = flags(u64::from(flags_ as u32), names::SS, "0");
            format!("{{ss_sp={sp:#x}, ss_flags={state}, ss_size={size}}}")
        }
        Shape::Timespec => time(&memory.words::<2>(at)?, "tv_nsec"),
        Shape::TwoTimespecs => pair(&memory.words::<4>(at)?, "tv_nsec"),
        Shape::Timeval => time(&memory.words::<2>(at)?, "tv_usec"),
        Shape::Itimerval => timer(&memory.words::<4>(at)?, "tv_usec"),
        Shape::Itimerspec => timer(&memory.words::<4>(at)?, "tv_nsec"),
        Shape::SigEvent => sig_event(&memory.words::<3>(at)?),
        Shape::Rlimit => {
            let [soft, hard] = memory.words::<2>(at)?.map(limit);
            format!("{{rlim_cur={soft}, rlim_max={hard}}}")
        }
        Shape::Stat => stat(bytes(144)?),
        Shape::Uname => {
            let text = |at: usize| memory_text(bytes(195)?.get(at..at + 65)?);
            format!("{{sysname={}, nodename={}, ...}}", text(0)?, text(65)?)
        }
        Shape::PollFds => poll_fds(memory.from(at)?, view.len / 8, view.ret.is_some()),
        Shape::EpollEvent => epoll_event(bytes(12)?),
        Shape::EpollEvents => {
            let count = usize::try_from(view.ret?).ok()?;
            list(memory.from(at)?.chunks_exact(12).map(epoll_event), count)
        }
        Shape::FdSet => fd_set(memory.from(at)?, view.args[0]),
        Shape::Sockaddr => sockaddr(memory.from(at)?, view.len),
        Shape::Vectors => vectors(at, view.len, view)?,
        Shape::Message => message(at, view)?,
        Shape::WaitStatus => wait_status(memory.int(at)? as i32),
    })
}

/// `[a, b, ...]` of `count` elements, of which there may be fewer here.
fn list(elements: impl Iterator<Item = String>, count: usize) -> String {
    let mut shown: Vec<String> = elements.take(count).collect();
    if shown.len() < count {
        shown.push("...".into());
    }
    format!("[{}]", shown.join(", "))
}

fn ints(bytes: &[u8]) -> String {
    let numbers = bytes.chunks(4).map(|int| (half(int, 0) as i32).to_string());
    list(numbers, bytes.len() / 4)
}

fn memory_text(bytes: &[u8]) -> Option<String> {
    Some(path(bytes))
}

fn time([seconds, part]: &[u64; 2], part_name: &str) -> String {
    format!(
        "{{tv_sec={}, {part_name}={}}}",
        *seconds as i64, *part as i64
    )
}

fn pair([a, b, c, d]: &[u64; 4], part_name: &str) -> String {
    format!(
        "[{}, {}]",
        time(&[*a, *b], part_name),
        time(&[*c, *d], part_name)
    )
}

fn timer([a, b, c, d]: &[u64; 4], part_name: &str) -> String {
    let (interval, value) = (time(&[*a, *b], part_name), time(&[*c, *d], part_name));
    format!("{{it_interval={interval}, it_value={value}}}")
}

fn limit(value: u64) -> String {
    match value {
        u64::MAX => "RLIM64_INFINITY".into(),
        value => value.to_string(),
    }
}

fn sig_action([handler, flags_, _, mask]: &[u64; 4]) -> String {
    let handler = match handler {
        0 => "SIG_DFL".into(),
        1 => "SIG_IGN".into(),
        at => format!("{at:#x}"),
    };
    let (mask, flags_) = (names::signal_set(*mask), flags(*flags_, names::SA, "0"));
    format!("{{sa_handler={handler}, sa_mask={mask}, sa_flags={flags_}}}")
}

/// sigev_value; sigev_signo and sigev_notify; sigev_notify_thread_id (uapi/asm-generic/siginfo.h).
fn sig_event([value, how, thread]: &[u64; 3]) -> String {
    let notify = how >> 32;
    let (signo, how) = (
        names::signal(u64::from(*how as u32)),
        choice(notify, names::SIGEV),
    );
    let thread = match notify == libc::SIGEV_THREAD_ID as u64 {
        true => format!(", sigev_notify_thread_id={}", *thread as i32),
        false => String::new(),
    };
    let number = *value as i32;
    format!(
        "{{sigev_value={{sival_int={number}, sival_ptr={value:#x}}}, sigev_signo={signo}, sigev_notify={how}{thread}}}"
    )
}

/// st_dev, st_ino, st_nlink, st_mode, st_uid, st_gid, st_rdev, st_size and more (arch/x86/include/uapi/asm/stat.h).
fn stat(bytes: &[u8]) -> String {
    let mode = u64::from(half(bytes, 24));
    let kind = mode & libc::S_IFMT as u64;
    let shown = names::file_mode(mode);
    let rdev = word(bytes, 40);
    match kind == libc::S_IFCHR as u64 || kind == libc::S_IFBLK as u64 {
        true => format!(
            "{{st_mode={shown}, st_rdev=makedev({:#x}, {:#x}), ...}}",
            libc::major(rdev),
            libc::minor(rdev)
        ),
        false => format!(
            "{{st_mode={shown}, st_size={}, ...}}",
            word(bytes, 48) as i64
        ),
    }
}

/// fd (int), events, revents (16 bits each).
fn poll_fds(bytes: &[u8], count: u64, returned: bool) -> String {
    let each = bytes.chunks_exact(8).map(|entry| {
        let events = half(entry, 4);
        let show = |value: u32| flags(value.into(), names::POLL, "0");
        let fd = half(entry, 0) as i32;
        let (wanted, seen) = (show(events & 0xffff), show(events >> 16));
        match returned {
            true => format!("{{fd={fd}, events={wanted}, revents={seen}}}"),
            false => format!("{{fd={fd}, events={wanted}}}"),
        }
    });
    list(each, usize::try_from(count).unwrap_or(usize::MAX))
}

/// events (32 bits), data (64 bits), packed.
fn epoll_event(bytes: &[u8]) -> String {
    let events = flags(half(bytes, 0).into(), names::EPOLL, "0");
    format!("{{events={events}, data={:#x}}}", word(bytes, 4))
}

fn fd_set(bytes: &[u8], count: u64) -> String {
    let set = |fd: &u64| {
        let byte = bytes.get(*fd as usize / 8).copied().unwrap_or(0);
        byte >> (fd % 8) & 1 == 1
    };
    let members: Vec<String> = (0..count.min(1024))
        .filter(set)
        .map(|fd| fd.to_string())
        .collect();
    format!("[{}]", members.join(" "))
}

fn sockaddr(bytes: &[u8], len: u64) -> String {
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    let Some(address) = bytes.get(2..len.min(bytes.len())) else {
        return "{}".into();
    };
    let family = u64::from(half(bytes, 0) & 0xffff);
    let port = || u16::from_be_bytes([bytes[2], bytes[3]]);
    let name = choice(family, names::FAMILIES);
    let text = match (family as i32, address.len()) {
        (libc::AF_UNIX, _) => match address {
            // Abstract: the length ends it.
            [0, rest @ ..] => format!("sun_path=@{}", buffer(rest, rest.len() as u64)),
            _ => format!("sun_path={}", path(&[address, &[0]].concat())),
        },
        (libc::AF_INET, 6..) => {
            let ip = Ipv4Addr::from(half(bytes, 4).to_le_bytes());
            format!("sin_port=htons({}), sin_addr=inet_addr(\"{ip}\")", port())
        }
        (libc::AF_INET6, 22..) => {
            let ip: [u8; 16] = std::array::from_fn(|i| bytes[8 + i]);
            format!(
                "sin6_port=htons({}), sin6_addr={}",
                port(),
                Ipv6Addr::from(ip)
            )
        }
        _ => format!("sa_data={}", buffer(address, address.len() as u64)),
    };
    format!("{{sa_family={name}, {text}}}")
}

fn vectors(at: u64, count: u64, view: &View<'_>) -> Option<String> {
    let entries = view.before.from(at)?;
    // What was read ends somewhere in the buffers.
    let mut left = match view.ret {
        Some(ret) => u64::try_from(ret).ok()?,
        None => u64::MAX,
    };
    let each = entries.chunks_exact(VECTOR_BYTES as usize).map(|entry| {
        let (base, len) = (word(entry, 0), word(entry, 8));
        let valid = len.min(left);
        left -= valid;
        let data = match view.memory.from(base).or(view.before.from(base)) {
            Some(bytes) => buffer(bytes, valid),
            None if valid == 0 => "\"\"".into(),
            None => format!("{base:#x}"),
        };
        format!("{{iov_base={data}, iov_len={len}}}")
    });
    Some(list(each, usize::try_from(count).unwrap_or(usize::MAX)))
}

fn message(at: u64, view: &View<'_>) -> Option<String> {
    let header: Header = view.memory.words(at)?;
    let [name, name_len, iov, count, control, control_len, flags_] = header;
    let name_len = u64::from(name_len as u32);
    let name = match view.memory.from(name) {
        _ if name == 0 => "NULL".into(),
        Some(bytes) => sockaddr(bytes, name_len),
        None => format!("{name:#x}"),
    };
    let data = vectors(iov, count, view).unwrap_or_else(|| format!("{iov:#x}"));
    let control = match control {
        0 => "NULL".into(),
        at => format!("{at:#x}"),
    };
    let flags_ = flags(u64::from(flags_ as u32), names::MSG, "0");
    Some(format!(
        "{{msg_name={name}, msg_namelen={name_len}, msg_iov={data}, msg_iovlen={count}, msg_control={control}, \
         msg_controllen={control_len}, msg_flags={flags_}}}"
    ))
}

/// As the macros of sys/wait.h take it apart.
fn wait_status(status: i32) -> String {
    match (status & 0x7f, status >> 8 & 0xff) {
        (0, code) => format!("[{{WIFEXITED(s) && WEXITSTATUS(s) == {code}}}]"),
        (0x7f, signal) => {
            format!(
                "[{{WIFSTOPPED(s) && WSTOPSIG(s) == {}}}]",
                names::signal(signal as u64)
            )
        }
        (signal, _) => {
            format!(
                "[{{WIFSIGNALED(s) && WTERMSIG(s) == {}}}]",
                names::signal(signal as u64)
            )
        }
    }
}
