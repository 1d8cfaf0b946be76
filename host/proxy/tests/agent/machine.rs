//! A machine with the agent in it: a small program in QEMU's place (qemu.c), and what is seen of both.

use std::fs;
use std::io::{BufRead as _, BufReader, IoSlice, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use proxy::agent::{Agent, Place};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{Errno, FdFlags, fcntl_setfd, pwrite};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags,
    SocketType, recv, sendmsg, socketpair,
};

pub const PAGE: u64 = 4096;
pub const POOL_PAGES: u64 = 64;
/// What a byte of the pool is before anything else is stored.
pub const OF_POOL: u8 = 7;
/// What takes longer hangs.
pub const LIMIT: Duration = Duration::from_secs(60);

/// The library, and the program.
fn built() -> &'static (PathBuf, PathBuf) {
    static BUILT: OnceLock<(PathBuf, PathBuf)> = OnceLock::new();
    BUILT.get_or_init(|| {
        let here = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo runs this");
        let here = Path::new(&here);
        let library = ["-O2", "-fPIC", "-shared", "-fvisibility=hidden"];
        (
            compile(&here.join("../agent/agent.c"), "agent.so", &library),
            compile(&here.join("tests/agent/qemu.c"), "qemu", &["-O1"]),
        )
    })
}

fn compile(source: &Path, name: &str, options: &[&str]) -> PathBuf {
    let own = std::env::current_exe().expect("a program");
    let program = own.with_file_name(name);
    let new = program.with_extension(std::process::id().to_string());
    let status = Command::new("gcc")
        .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-pthread"])
        .args(options)
        .arg("-o")
        .arg(&new)
        .arg(source)
        .status();
    assert!(status.expect("a C compiler").success());
    fs::rename(&new, &program).expect("renamed");
    program
}

pub fn pair() -> (OwnedFd, OwnedFd) {
    let kind = SocketType::SEQPACKET;
    socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).expect("a pair")
}

/// A file of so many pages, each of which is full of this byte.
pub fn file(pages: u64, byte: u8) -> OwnedFd {
    let file = memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING);
    let file = file.expect("memory");
    let bytes = vec![byte; (pages * PAGE) as usize];
    assert_eq!(pwrite(&file, &bytes, 0), Ok(bytes.len()));
    file
}

/// A part of the pool, in pages.
pub fn pages(first: u64, count: u64) -> Place {
    Place {
        offset: first * PAGE,
        len_bytes: count * PAGE,
    }
}

/// Waits for what has to come.
pub fn wait_for(mut is_so: impl FnMut() -> bool) {
    let due = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < due, "it does not come");
        std::thread::yield_now();
    }
}

/// How it is started.
#[derive(Default)]
pub struct How<'a> {
    /// Pages of the pool, if not [`POOL_PAGES`].
    pub pages: Option<u64>,
    /// SIGBUS has a handler, which exits with 42.
    pub handler: bool,
    /// What the user preloads.
    pub preloaded: Option<&'a str>,
    /// By a shell that becomes it.
    pub by_shell: bool,
}

/// The program.
pub struct Machine {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// The job's end of the agent's socket.
    pub job: OwnedFd,
}

impl Machine {
    /// Starts it with the agent, which says so.
    pub fn new() -> Machine {
        Machine::start(&How::default())
    }

    pub fn start(how: &How<'_>) -> Machine {
        let (library, program) = built();
        let (job, agents) = pair();
        let pool = file(how.pages.unwrap_or(POOL_PAGES), OF_POOL);
        let pass = [agents.as_raw_fd(), pool.as_raw_fd()];
        let mut command = match how.by_shell {
            true => Command::new("/bin/sh"),
            false => Command::new(program),
        };
        if how.by_shell {
            // Commands before the last are processes of their own.
            command
                .args(["-c", r#"/bin/true; exec "$@""#, "qemu"])
                .arg(program);
        }
        let users = how.preloaded.map(|users| format!(":{users}"));
        command
            .arg(pool.as_raw_fd().to_string())
            .args(how.handler.then_some("handler"))
            .env(
                "LD_PRELOAD",
                format!("{}{}", library.display(), users.unwrap_or_default()),
            )
            .env("MARGAY_AGENT", format!("{},{}", pass[0], pass[1]))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        // SAFETY: 1. The closure makes system calls only. 2. The descriptors are open until this function returns.
        unsafe {
            command.pre_exec(move || {
                for fd in pass {
                    fcntl_setfd(BorrowedFd::borrow_raw(fd), FdFlags::empty())?;
                }
                Ok(())
            });
        }
        let mut child = command.spawn().expect("started");
        let input = child.stdin.take().expect("a pipe");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut machine = Machine {
            child,
            input,
            output,
            job,
        };
        assert_eq!(machine.line(), "here");
        assert_eq!(machine.notice(), [3, 0, 0]);
        machine
    }

    pub fn agent(&self) -> Agent<'_> {
        Agent::of(&self.job)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("a line");
        line.trim_end().to_owned()
    }

    pub fn say(&mut self, words: &str) {
        writeln!(self.input, "{words}").expect("it reads");
    }

    /// What it prints for a command.
    pub fn text(&mut self, command: &str) -> String {
        self.say(command);
        self.line()
    }

    pub fn number(&mut self, command: &str) -> u32 {
        let text = self.text(command);
        text.parse().unwrap_or_else(|_| panic!("{command}: {text}"))
    }

    /// The first byte of a page, as it sees it.
    pub fn byte(&mut self, page: u64) -> u8 {
        self.number(&format!("read {}", page * PAGE)) as u8
    }

    /// The next message to the keeper.
    pub fn notice(&self) -> [u64; 3] {
        let mut bytes = [0; 25];
        let (received, _) = receive(&self.job, &mut bytes).expect("a message");
        assert_eq!(received, 24);
        let (words, _) = bytes.as_chunks();
        [0, 1, 2].map(|word| u64::from_ne_bytes(words[word]))
    }

    /// Sends any request; the errno that comes back, or that it has not come.
    pub fn request(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Result<i32, Errno> {
        let (answer, agents) = pair();
        let all: Vec<_> = std::iter::once(agents.as_fd())
            .chain(fds.iter().copied())
            .collect();
        send(&self.job, bytes, &all);
        drop(agents);
        let mut word = [0; 4];
        match receive(&answer, &mut word)? {
            (4, _) => Ok(i32::from_ne_bytes(word)),
            _ => Err(Errno::PIPE),
        }
    }

    /// Numbers of its descriptors.
    pub fn descriptors(&self) -> Vec<String> {
        let entries = fs::read_dir(format!("/proc/{}/fd", self.pid())).expect("it lives");
        let names = entries.flatten().map(|entry| entry.file_name());
        let mut names: Vec<_> = names
            .map(|name| name.to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    pub fn maps(&self) -> String {
        fs::read_to_string(format!("/proc/{}/maps", self.pid())).expect("it lives")
    }

    /// Whether the agent's thread is there.
    pub fn has_thread(&self) -> bool {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.pid())).expect("it lives");
        let names = tasks
            .flatten()
            .map(|task| fs::read_to_string(task.path().join("comm")));
        names.flatten().any(|name| name == "margay-agent\n")
    }

    pub fn signal(&self, signo: i32) {
        // SAFETY: 1. It is a child that was not waited for.
        let sent = unsafe { libc::kill(self.pid() as i32, signo) };
        assert_eq!(sent, 0);
    }

    /// Stops all of its threads.
    pub fn stop(&self) {
        self.signal(libc::SIGSTOP);
        // SAFETY: 1. The status is not requested.
        let stopped =
            unsafe { libc::waitpid(self.pid() as i32, std::ptr::null_mut(), libc::WUNTRACED) };
        assert_eq!(stopped, self.pid() as i32);
    }

    /// How it ends: its exit status, or the signal.
    pub fn end(mut self) -> (Option<i32>, Option<i32>) {
        let status = self.child.wait().expect("a child");
        (status.code(), status.signal())
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a message with descriptors.
pub fn send(socket: &OwnedFd, bytes: &[u8], fds: &[BorrowedFd<'_>]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(fds.is_empty() || control.push(SendAncillaryMessage::ScmRights(fds)));
    sendmsg(
        socket,
        &[IoSlice::new(bytes)],
        &mut control,
        SendFlags::NOSIGNAL,
    )
    .expect("sent");
}

fn receive(socket: &OwnedFd, bytes: &mut [u8]) -> Result<(usize, usize), Errno> {
    let limit = Timespec {
        tv_sec: LIMIT.as_secs() as i64,
        tv_nsec: 0,
    };
    let ready = poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&limit));
    assert_eq!(ready, Ok(1), "nothing comes");
    recv(socket, bytes, RecvFlags::DONTWAIT)
}
