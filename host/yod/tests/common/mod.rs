//! What the tests of the built yod share: running it with a time limit, programs to run, who is left afterwards.

// Each test binary uses a part of this.
#![allow(dead_code)]

pub mod comm;
pub mod job;

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A test that takes longer hangs, also on a machine with many jobs for each core.
pub const LIMIT: Duration = Duration::from_secs(60);

/// How a yod ended.
#[derive(Debug)]
pub struct Ended {
    /// Exit status, or 128 + signal.
    pub status: i32,
    pub out: String,
    pub err: String,
}

impl Ended {
    /// Asserts status and that stderr is one line with `part` in it.
    pub fn one_line(&self, status: i32, part: &str) {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.err.lines().count(), 1, "one line: {self:?}");
        assert!(
            self.err.starts_with("yod: ") && self.err.contains(part),
            "{part}: {self:?}"
        );
        assert_eq!(self.out, "", "nothing on stdout");
    }
}

/// yod, as cargo says at run time: what is compiled in stays behind when a checkout is copied with its target directory.
pub fn yod_path() -> &'static str {
    static PATH: OnceLock<String> = OnceLock::new();
    PATH.get_or_init(|| std::env::var("CARGO_BIN_EXE_yod").expect("cargo runs the tests"))
}

/// The caller of the tests may ignore signals (shells do for what they start in the background), and yod and its ranks inherit
/// that: they are started with all signals as usual.
pub fn yod() -> Command {
    let mut command = Command::new("/usr/bin/env");
    command
        .args(["--default-signal", yod_path()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Waits for a yod's end and output.
pub fn finish(mut child: Child) -> Ended {
    let due = Instant::now() + LIMIT;
    // More than a pipe holds would block yod: then it is read while it runs.
    let readers = [
        child
            .stdout
            .take()
            .map(|pipe| std::thread::spawn(|| read(pipe))),
        child
            .stderr
            .take()
            .map(|pipe| std::thread::spawn(|| read(pipe))),
    ];
    let status = loop {
        match child.try_wait().expect("a child") {
            Some(status) => break status,
            None if Instant::now() > due => {
                let left = descendants(child.id() as i32);
                let _ = child.kill();
                panic!("yod hangs, with {left:?}");
            }
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    let [out, err] =
        readers.map(|reader| reader.map_or(String::new(), |r| r.join().expect("a reader")));
    Ended {
        status: status
            .code()
            .unwrap_or_else(|| 128 + status.signal().unwrap_or(0)),
        out,
        err,
    }
}

fn read(mut pipe: impl Read) -> String {
    let mut bytes = Vec::new();
    pipe.read_to_end(&mut bytes).expect("readable");
    String::from_utf8_lossy(&bytes).into_owned()
}

pub fn run(command: &mut Command) -> Ended {
    finish(command.spawn().expect("yod starts"))
}

/// A directory for one test of one run: several may run at once. Those of runs that are over go.
pub fn dir(test: &str) -> PathBuf {
    let target = Path::new(yod_path()).parent().and_then(Path::parent);
    let tmp = &target.expect("a target directory").join("tmp");
    for entry in std::fs::read_dir(tmp).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let run = name.strip_prefix("yod-").and_then(|n| n.split('-').next());
        if run.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
    let dir = tmp.join(format!("yod-{}-{test}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).expect("a directory");
    dir
}

/// An executable file. Another process writes it: a process that a test beside this one is just starting has what is open here until
/// its own exec, and Linux runs no file that is open for writing (ETXTBSY).
pub fn executable(path: &Path, bytes: &[u8]) {
    let mut install = Command::new("install")
        .args(["-m", "755", "/dev/stdin"])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .expect("install runs");
    let mut pipe = install.stdin.take().expect("a pipe");
    pipe.write_all(bytes).expect("written");
    drop(pipe);
    assert!(install.wait().expect("a child").success());
}

/// The header of an ELF program with nothing to load; `class` 1 is 32 bits, 2 is 64.
pub fn elf_header(class: u8, machine: u16) -> Vec<u8> {
    let mut header = vec![0u8; 64];
    header[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', class, 1, 1]);
    header[16] = 2; // ET_EXEC
    header[18..20].copy_from_slice(&machine.to_le_bytes());
    header[20] = 1;
    header[52] = 64;
    header[54] = 56;
    header
}

/// A static program made from C.
pub fn compile(dir: &Path, name: &str, source: &str) -> PathBuf {
    let (file, program) = (dir.join(format!("{name}.c")), dir.join(name));
    std::fs::write(&file, source).expect("written");
    let status = Command::new("cc")
        .args(["-static", "-O1", "-o"])
        .arg(&program)
        .arg(&file)
        .status();
    assert!(status.expect("a C compiler").success());
    program
}

/// Says in the output of the tests that one could not run here; print! is shown of tests that fail only.
pub fn skipped(why: &str) {
    let line = format!("skipped: {why}\n");
    let _ = std::io::stdout().write_all(line.as_bytes());
}

/// Kernel and PCT, if this tree has been built.
pub fn has_node() -> bool {
    let built = Path::new(yod_path())
        .ancestors()
        .any(|dir| dir.join("margay/margay.elf").is_file());
    let there = std::env::var_os("MARGAY_KERNEL").is_some() || built;
    if !there {
        skipped("no kernel is built (cargo xtask build)");
    }
    there
}

/// A process, distinguished from another with the same id by its start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Process {
    pub pid: i32,
    pub name: String,
    pub parent: i32,
    start: u64,
}

/// All processes of this host.
fn processes() -> Vec<Process> {
    let dir = std::fs::read_dir("/proc").expect("/proc");
    dir.filter_map(|entry| process(entry.ok()?.file_name().to_str()?.parse().ok()?))
        .collect()
}

/// /proc/PID/stat; `None` when it is gone, zombies included.
fn process(pid: i32) -> Option<Process> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (head, rest) = stat.rsplit_once(')')?;
    let name = head.split_once('(')?.1.to_owned();
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let alive = !matches!(fields[0], "Z" | "X");
    alive.then(|| Process {
        pid,
        name,
        parent: fields[1].parse().unwrap_or(0),
        start: fields[19].parse().unwrap_or(0),
    })
}

/// All descendants of a process, near ones first.
pub fn descendants(pid: i32) -> Vec<Process> {
    let all = processes();
    let mut found: Vec<Process> = Vec::new();
    let mut of = vec![pid];
    while let Some(parent) = of.pop() {
        for child in all.iter().filter(|p| p.parent == parent) {
            found.push(child.clone());
            of.push(child.pid);
        }
    }
    found
}

/// Waits until none of them is there any more: what a kill sets going takes its time.
pub fn assert_gone(those: &[Process]) {
    let due = Instant::now() + LIMIT;
    loop {
        let left: Vec<&Process> = those
            .iter()
            .filter(|p| process(p.pid).as_ref() == Some(p))
            .collect();
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < due, "left behind: {left:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Waits until `condition` holds.
pub fn wait_for<T>(what: &str, condition: impl FnMut() -> Option<T>) -> T {
    wait_long_for(1, what, condition)
}

/// The same for what takes so many times as long as most things.
pub fn wait_long_for<T>(times: u32, what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let due = Instant::now() + LIMIT * times;
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(Instant::now() < due, "never: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub fn signal(pid: i32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid).expect("a process");
    let _ = rustix::process::kill_process(pid, signal);
}

/// A terminal of our own: its master, and its other side.
pub fn terminal() -> (OwnedFd, OwnedFd) {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = openpt(flags).expect("a terminal");
    grantpt(&master)
        .and_then(|()| unlockpt(&master))
        .expect("unlocked");
    let name = ptsname(&master, Vec::new()).expect("a name");
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY;
    let other = rustix::fs::open(name, flags, rustix::fs::Mode::empty()).expect("opens");
    (master, other)
}

/// Whether a signal has stopped a process.
pub fn is_stopped(pid: i32) -> bool {
    has_state(pid, 'T')
}

/// Whether a process is in this state (proc(5)).
pub fn has_state(pid: i32, state: char) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')')
        .is_some_and(|(_, rest)| rest.trim_start().starts_with(state))
}

/// Whether all threads of a process sleep.
pub fn is_idle(process: i32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).into_iter();
    let mut names = threads.flatten().flatten().map(|task| task.file_name());
    names.all(|name| {
        let id = name.to_str().and_then(|name| name.parse().ok());
        id.is_some_and(|id| has_state(id, 'S'))
    })
}

/// The processor time of a process so far, or of a thread as "PID/task/TID", in ticks of 10 ms (proc(5)); `None` when it is gone.
pub fn ticks(of: impl std::fmt::Display) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{of}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let tick = |at: usize| fields[at].parse::<u64>().expect("a number");
    Some(tick(11) + tick(12))
}
