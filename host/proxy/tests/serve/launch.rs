//! Starting this binary again as a proxy.

use std::ffi::CString;
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use rustix::io::FdFlags;

use crate::node::{COMM_GPA, WIRE, ram};

/// First argument of this binary when it is to be a proxy.
pub const AS_PROXY: &str = "--as-proxy";
/// First argument when it is to be the parent of one.
pub const AS_YOD: &str = "--as-yod";

/// First argument when it is to be a shell with a job in the background.
pub const AS_SHELL: &str = "--as-shell";

/// First argument when it is to be a node's keeper.
pub const AS_KEEPER: &str = "--as-keeper";

/// Names the environment's variable with [`Setup::room`].
const ROOM: &str = "ROOM";
/// Names the environment's variable that is there without [`Setup::agent`].
const NO_AGENT: &str = "NO_AGENT";

/// How to start the proxy.
pub struct Setup {
    pub label: &'static str,
    pub program: &'static str,
    /// Soft and hard RLIMIT_NOFILE.
    pub files: Option<(u64, u64)>,
    /// RLIMIT_AS.
    pub address_space: Option<u64>,
    /// RLIMIT_FSIZE.
    pub file_bytes: Option<u64>,
    /// RLIMIT_NPROC, soft and hard.
    pub processes: Option<u64>,
    /// Whether QEMU has an agent.
    pub agent: bool,
    /// Bytes of memory that the host says it has left.
    pub room: Option<u64>,
    pub ignore: Option<i32>,
    /// User and group to become; only root can.
    pub user: Option<u32>,
    /// A process group of its own.
    pub background: bool,
    /// Attach before returning.
    pub attach: bool,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup {
            label: "",
            program: "/bin/true",
            files: None,
            address_space: None,
            file_bytes: None,
            processes: None,
            agent: true,
            room: None,
            ignore: None,
            user: None,
            background: false,
            attach: true,
        }
    }
}

/// Starts a proxy with guest RAM, its doorbell and those of the cores.
pub fn start(setup: &Setup, fds: &[&OwnedFd]) -> Child {
    let numbers: Vec<RawFd> = fds.iter().map(|fd| fd.as_raw_fd()).collect();
    // Another user may not have the right to go where it lies.
    let mut command = Command::new("/proc/self/exe");
    command.args([
        AS_PROXY,
        setup.label,
        setup.program,
        &std::process::id().to_string(),
    ]);
    if let Some(room) = setup.room {
        command.env(ROOM, room.to_string());
    }
    if !setup.agent {
        command.env(NO_AGENT, "1");
    }
    command.args(numbers.iter().map(RawFd::to_string));
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let limits = [
        (libc::RLIMIT_NOFILE, setup.files),
        (
            libc::RLIMIT_AS,
            setup.address_space.map(|limit| (limit, limit)),
        ),
        (
            libc::RLIMIT_FSIZE,
            setup.file_bytes.map(|limit| (limit, libc::RLIM_INFINITY)),
        ),
        (
            libc::RLIMIT_NPROC,
            setup.processes.map(|limit| (limit, limit)),
        ),
    ];
    if setup.background {
        command.process_group(0);
    }
    let (ignore, user) = (setup.ignore, setup.user);
    // SAFETY: 1. Only async-signal-safe calls are made between fork and exec.
    unsafe {
        command.pre_exec(move || {
            keep_to_ourselves(); // other tests have descriptors open
            for fd in &numbers {
                libc::fcntl(*fd, libc::F_SETFD, 0);
            }
            for (resource, limit) in limits {
                if let Some((soft, hard)) = limit {
                    let limit = libc::rlimit {
                        rlim_cur: soft,
                        rlim_max: hard,
                    };
                    libc::setrlimit(resource, &raw const limit);
                }
            }
            // The caller of the tests may ignore some.
            for signo in 1..=libc::SIGRTMAX() {
                libc::signal(signo, libc::SIG_DFL);
            }
            if let Some(signo) = ignore {
                libc::signal(signo, libc::SIG_IGN);
            }
            match user {
                Some(user) if libc::setgid(user) != 0 || libc::setuid(user) != 0 => {
                    Err(std::io::Error::last_os_error())
                }
                _ => Ok(()),
            }
        });
    }
    command.spawn().unwrap()
}

/// The other side of [`start`].
pub fn become_proxy(inherited: proxy::Inherited) -> ! {
    let args: Vec<String> = std::env::args().skip(2).collect();
    let fd = |i: usize| {
        let number: RawFd = args[i].parse().unwrap();
        // SAFETY: 1. `start` passed it on for this; it is taken once.
        let fd = unsafe { OwnedFd::from_raw_fd(number) };
        rustix::io::fcntl_setfd(&fd, FdFlags::CLOEXEC).unwrap();
        fd
    };
    let text = |text: &str| CString::new(text).unwrap();
    let program = args[1].as_str();
    proxy::serve(proxy::Config {
        ram: fd(3),
        pool: fd(4),
        agent: Some(fd(5)).filter(|_| std::env::var_os(NO_AGENT).is_none()),
        ram_layout: ram(),
        comm_gpa: COMM_GPA,
        wire: WIRE,
        rank: 0,
        doorbell_in: fd(6),
        core_doorbells: (7..args.len()).map(fd).collect(),
        program: proxy::Program {
            file: File::open(program).unwrap().into(),
            interpreter: File::open(format!("{program}.interpreter"))
                .ok()
                .map(OwnedFd::from),
            started_as: text(program),
            real_path: text(std::fs::canonicalize(program).unwrap().to_str().unwrap()),
            argv: vec![text("prog"), text("one two")],
            env: vec![text("A=b"), text("EMPTY=")],
        },
        label: args[0].clone(),
        inherited,
        gdb: None,
        room: proxy::Room(|| {
            let room = std::env::var(ROOM).ok();
            room.map_or(u64::MAX, |room| room.parse().unwrap())
        }),
        parent: args[2].parse().unwrap(),
    })
}

/// What is open is not for the proxies.
pub fn keep_to_ourselves() {
    // SAFETY: 1. Only flags of descriptors change.
    unsafe { libc::close_range(3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC as i32) };
}
