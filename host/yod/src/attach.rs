//! `--attach` and `--stack`: gdb at a rank that runs.
//!
//! A rank's process connects to a socket of this one, whose name a signal gives it ([`proxy::attach_request`]); gdb connects to
//! another, and what comes by the one goes out by the other.

use std::collections::BTreeMap;
use std::io::Read;
use std::net::Shutdown;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use machine::rendezvous::{Peer, is_yod};
use machine::{ready, stat, sys};
use rustix::event::PollFlags;

use crate::console;
use crate::failure::{Failure, status};
use crate::gdb;
use crate::ps::printable;

/// Time that a rank gets to connect, and to have its threads halt.
const LIMIT: Duration = Duration::from_secs(10);
/// How often it is looked whether gdb has ended before it came.
const POLL_PERIOD: Duration = Duration::from_millis(100);

/// Of every gdb: libraries are this host's.
const OPTIONS: [&str; 2] = ["-iex", "set sysroot /"];
/// Of one that only prints: nothing of the user's, one line for each frame.
const BATCH: [&str; 8] = [
    "-batch",
    "-nx",
    "-iex",
    "set debuginfod enabled off",
    "-iex",
    "set width 0",
    "-iex",
    "set pagination off",
];
const STACKS: [&str; 6] = [
    "-ex",
    "thread apply all -ascending print (long)$orig_rax",
    "-ex",
    "thread apply all -ascending backtrace",
    "-ex",
    "detach",
];
/// gdb begins what it prints of a thread with it.
const THREAD: &str = "Thread ";

/// Runs gdb at the only rank among a process and those it has started; returns yod's exit status: gdb's.
///
/// # Errors
/// There is none, or several, or it does not answer; gdb cannot be started.
pub fn attach(pid: u32) -> Result<u8, Failure> {
    let ranks = ranks_of(pid)?;
    let [rank] = ranks[..] else {
        let all: Vec<String> = ranks.iter().map(u32::to_string).collect();
        let line = format_args!(
            "--attach {pid}: it has several ranks, of which gdb takes one: {}",
            all.join(" ")
        );
        return Err(Failure::new(status::USAGE, line));
    };
    let mut session = Session::start(rank, &[], &[], Stdio::inherit())?;
    // Ctrl-C is gdb's.
    sys::set_ignored(libc::SIGINT, true);
    session.relay();
    let ended = session.gdb.wait();
    let ended = ended.map_err(|error| Failure::os("wait for gdb", error))?;
    Ok(ended.code().map_or(status::UNAVAILABLE, |code| code as u8))
}

/// Prints what every thread is doing of every rank among a process and those it has started.
///
/// # Errors
/// There is none, or one does not answer; gdb cannot be started.
pub fn stack(pid: u32) -> Result<u8, Failure> {
    for rank in ranks_of(pid)? {
        let mut session = Session::start(rank, &BATCH, &STACKS, Stdio::piped())?;
        let out = session.gdb.stdout.take();
        let reader = std::thread::spawn(move || {
            let mut text = Vec::new();
            out.map(|mut out| out.read_to_end(&mut text));
            String::from_utf8_lossy(&text).into_owned()
        });
        session.relay();
        let _ = session.gdb.wait();
        let text = reader.join().unwrap_or_default();
        console::out(format_args!("process {rank} ({})\n", name(rank)));
        console::out(stacks(&text));
    }
    Ok(0)
}

/// What gdb has printed by [`STACKS`]: each thread with the call that it is in.
fn stacks(text: &str) -> String {
    let mut calls = BTreeMap::new();
    let (mut shown, mut thread) = (String::new(), "");
    for line in text.lines() {
        if line.starts_with(THREAD) {
            thread = line;
        } else if let Some(call) = printed_value(line) {
            calls.insert(thread.to_owned(), call);
        } else if line.starts_with('#') {
            if let Some(call) = calls.remove(thread) {
                shown += &format!("thread {}, {}\n", number(thread), in_call(call));
            }
            shown += &format!("  {}\n", printable(line));
        }
    }
    shown
}

/// Of a line `Thread 2 (Thread 1.35 "name"):`.
fn number(thread: &str) -> &str {
    let id = thread.rsplit_once(THREAD).map_or("", |(_, id)| id);
    let end = id.find(|c: char| !c.is_ascii_digit() && c != '.');
    let id = &id[..end.unwrap_or(id.len())];
    id.rsplit_once('.').map_or(id, |(_, number)| number)
}

/// Of a line `$1 = 35`.
fn printed_value(line: &str) -> Option<i64> {
    let (name, value) = line.split_once(" = ")?;
    let is_value = name
        .strip_prefix('$')?
        .bytes()
        .all(|byte| byte.is_ascii_digit());
    value.parse().ok().filter(|_| is_value)
}

fn in_call(nr: i64) -> String {
    match u64::try_from(nr) {
        Ok(nr) => match abi::syscall::by_nr(nr) {
            Some(call) => format!("in {}", call.name),
            None => format!("in system call {nr}"),
        },
        Err(_) => "in no system call".into(),
    }
}

/// gdb, and the connections of both.
struct Session {
    gdb: Child,
    to_gdb: UnixStream,
    to_rank: UnixStream,
}

impl Session {
    fn start(
        rank: u32,
        options: &[&str],
        commands: &[&str],
        out: Stdio,
    ) -> Result<Session, Failure> {
        let to_rank = reach(rank)?;
        let socket = Socket::new()?;
        let mut gdb = Command::new("gdb");
        gdb.args(OPTIONS).args(options).arg("-ex");
        gdb.arg(format!("target remote {}", socket.path.display()));
        gdb.args(commands).stdout(out);
        if !options.is_empty() {
            gdb.stdin(Stdio::null()).stderr(Stdio::null());
        }
        let mut gdb = gdb.spawn().map_err(|error| {
            let line =
                format_args!("gdb: {error}: it shows what ranks do; install the package gdb");
            Failure::new(status::UNAVAILABLE, line)
        })?;
        loop {
            if ready::within(POLL_PERIOD, &socket.listener, PollFlags::IN) {
                break;
            }
            if let Ok(Some(_)) = gdb.try_wait() {
                return Err(Failure::new(
                    status::UNAVAILABLE,
                    "gdb has ended before it came to the rank",
                ));
            }
        }
        let to_gdb = socket.listener.accept();
        let (to_gdb, _) = to_gdb.map_err(|error| Failure::os("accept gdb", error))?;
        Ok(Session {
            gdb,
            to_gdb,
            to_rank,
        })
    }

    /// Passes on what either says until both have ended.
    fn relay(&self) {
        std::thread::scope(|scope| {
            for (mut from, mut to) in [(&self.to_gdb, &self.to_rank), (&self.to_rank, &self.to_gdb)]
            {
                scope.spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(Shutdown::Write);
                });
            }
        });
    }
}

/// Where gdb connects; it goes with this.
struct Socket {
    path: PathBuf,
    listener: UnixListener,
}

impl Socket {
    fn new() -> Result<Socket, Failure> {
        let path = gdb::default_base();
        let listener = gdb::listen(&path).map_err(|error| gdb::cannot(&path, error))?;
        Ok(Socket { path, listener })
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Another for each connection of this process: one that came late is not taken for the next.
fn next_number() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Has a rank's process connect.
fn reach(rank: u32) -> Result<UnixStream, Failure> {
    let own = std::process::id();
    let (value, name) = proxy::attach_request(own, rank, next_number());
    let listener = SocketAddr::from_abstract_name(name).and_then(|at| UnixListener::bind_addr(&at));
    let listener = listener.map_err(|error| Failure::os("listen for the rank", error))?;
    let cannot = |why: &str| {
        let line = format_args!("process {rank} ({}) {why}", self::name(rank));
        Failure::new(status::UNAVAILABLE, line)
    };
    sys::queue_signal(rank, proxy::ATTACH_SIGNAL, value)
        .map_err(|error| cannot(&format!("cannot be signalled: {error}")))?;
    let due = Instant::now() + LIMIT;
    let left = || due.saturating_duration_since(Instant::now());
    while ready::within(left(), &listener, PollFlags::IN) {
        let Ok((mut stream, _)) = listener.accept() else {
            break;
        };
        let peer = Peer::of(&stream).and_then(|peer| peer.pid);
        if peer.is_none_or(|pid| pid.as_raw_pid() as u32 != rank) {
            continue;
        }
        let mut first = [0];
        let _ = stream.set_read_timeout(Some(LIMIT));
        if stream.read_exact(&mut first).is_err() || first != [proxy::ATTACH_READY] {
            return Err(cannot(
                "cannot be looked into: its threads do not halt (is it stopped?), it forbids that (PR_SET_DUMPABLE), or a rank requested it",
            ));
        }
        let _ = stream.set_read_timeout(None);
        return Ok(stream);
    }
    Err(cannot(
        "does not answer: another gdb is there already, or it is in another network namespace",
    ))
}

/// The ranks of this user among a process and those it has started, by their process ids.
fn ranks_of(pid: u32) -> Result<Vec<u32>, Failure> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let all = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let parents: BTreeMap<u32, u32> = all.filter_map(|pid| Some((pid, parent(pid)?))).collect();
    let up = |pid: &u32| parents.get(pid).copied();
    let is_yod = |pid: u32| i32::try_from(pid).is_ok_and(is_yod);
    let is_rank = |rank: &u32| {
        let yod = up(rank).filter(|yod| is_yod(*yod));
        let above = yod.and_then(|yod| up(&yod));
        yod.is_some() && !above.is_some_and(is_yod) && name(*rank) != KEEPER
    };
    let is_below = |rank: &u32| {
        let mut line = std::iter::successors(Some(*rank), up);
        line.any(|above| above == pid)
    };
    let ranks: Vec<u32> = parents
        .keys()
        .copied()
        .filter(|rank| is_below(rank) && is_rank(rank))
        .collect();
    match (ranks.is_empty(), parents.contains_key(&pid)) {
        (false, _) => Ok(ranks),
        (true, true) => Err(no_rank(format_args!(
            "process {pid} ({}) is no rank and has started none (yod --ps lists jobs)",
            name(pid)
        ))),
        (true, false) => Err(no_rank(format_args!(
            "there is no process {pid} (yod --ps lists jobs)"
        ))),
    }
}

fn no_rank(line: std::fmt::Arguments<'_>) -> Failure {
    Failure::new(status::USAGE, line)
}

/// What keepers are called.
const KEEPER: &str = "margay-keeper";

fn parent(pid: u32) -> Option<u32> {
    stat::field(&stat::read(pid)?, stat::PARENT)
}

fn name(pid: u32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
    printable(name.unwrap_or_default().trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_are_shown_with_their_calls() {
        let text = "warning: x\n0x1 in main ()\n\nThread 1 (Thread 1.71):\n$1 = 0\n\nThread 2 (Thread 1.72):\n$2 = -1\n\n\
                    Thread 1 (Thread 1.71):\n#0  read (fd=0)\n#1  0x2 in main () at a.c:3\n\nThread 2 (Thread 1.72):\n#0  spin ()\n\
                    [Inferior 1 (Remote target) detached]\n";
        assert_eq!(
            stacks(text),
            "thread 71, in read\n  #0  read (fd=0)\n  #1  0x2 in main () at a.c:3\nthread 72, in no system call\n  #0  spin ()\n"
        );
        assert_eq!(in_call(9999), "in system call 9999");
    }

    #[test]
    fn what_is_no_process_is_said() {
        let line = ranks_of(u32::MAX).expect_err("no process").line;
        assert!(line.contains("there is no process"));
    }
}
