//! Core files: what a debugger finds of a rank that a signal has ended.
//!
//! Linux's own core of this process would hold the proxy, not the program, so the file is made here, as Linux would make it,
//! from what the node says of the threads ([`crate::halt`]) and from the rank's memory, which is mapped here. Where it is put,
//! how long it may be and what is left out is Linux's rule as well. What Linux writes elsewhere, as a core_pattern with a
//! pipe has it, is `core.PID` in the rank's working directory.

mod file;
mod notes;
mod place;
mod segments;
pub(crate) mod state;

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::SystemTime;

use abi::map::PAGE;
use object::elf;
use rustix::process::{Resource, getrlimit};
use zerocopy::IntoBytes;

use crate::halt::Shown;
use crate::memory::Memory;
use crate::rank::Rank;
use crate::special::content;
use crate::special::regions::{Lines, Named};

use file::{Core, Cut};
use notes::{Mapped, Process, Thread};
use place::Facts;
use segments::Segment;

/// Linux writes none under a limit of less (ELF_EXEC_PAGESIZE).
const LEAST_BYTES: u64 = PAGE;
/// Most segments: the field for their number has 16 bits, of which the last value means something else.
const MOST_SEGMENTS: usize = 0xfff0;

/// Writes the core file of a rank whose threads have all ended. Returns whether there is one.
pub fn write(rank: &Rank) -> bool {
    let limit_bytes = getrlimit(Resource::Core).current.unwrap_or(u64::MAX);
    if limit_bytes < LEAST_BYTES {
        return false;
    }
    let kernel = |name: &str| std::fs::read(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
    // Ranks that die at the same time, in the same directory, have a file each.
    let several = !rank.is_alone();
    let uses_pid = several || kernel("core_uses_pid").first().is_some_and(|b| *b != b'0');
    let facts = facts(rank, limit_bytes);
    let Some(path) = place::path(&kernel("core_pattern"), uses_pid, &facts) else {
        return false;
    };
    // The rank may have used up its descriptors.
    let core = rank.limits().with_room(|| Core::create(&path, limit_bytes));
    let (report, written) = match core {
        Ok(core) => (fill(rank, core, &path), true),
        Err(error) => (
            format!("no core file: cannot create {}: {error}", path.display()),
            false,
        ),
    };
    rank.dump().report(report);
    written
}

/// The thread that took the signal: its index and thread id.
fn culprit(rank: &Rank) -> (usize, u32) {
    let index = rank.words().area.node.crash.thread.load() as usize;
    let tid = rank.workers().all().get(index).map_or(0, |it| it.tid());
    (index, tid)
}

fn facts(rank: &Rank, limit_bytes: u64) -> Facts {
    let (_, tid) = culprit(rank);
    let name = std::fs::read(format!("/proc/self/task/{tid}/comm")).unwrap_or_default();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    Facts {
        pid: rank.pid(),
        tid,
        ids: [
            rustix::process::getuid().as_raw(),
            rustix::process::getgid().as_raw(),
        ],
        signo: rank.words().area.node.crash.info[0].load() as i32,
        time_s: now.map_or(0, |time| time.as_secs()),
        host: rustix::system::uname().nodename().to_bytes().to_vec(),
        name: name.trim_ascii_end().to_vec(),
        path: rank.program().real_path.to_bytes().to_vec(),
        limit_bytes,
    }
}

/// Writes all of the core; says how that went.
fn fill(rank: &Rank, mut core: Core, path: &Path) -> String {
    let process = process(rank);
    let notes = notes::all(&process, &threads(rank));
    let memory = rank.memory();
    let left_out = rank.dump().left_out();
    let mut segments = segments::all(&memory, Named::of(rank.words()), &left_out);
    segments.truncate(MOST_SEGMENTS);
    let written = write_all(&mut core, &notes, &memory, &segments);
    let finished = core.finish();
    let path = path.display();
    match written.and(finished) {
        Ok(()) => format!("core file written to {path}"),
        Err(Cut::Limit) => {
            format!("core file {path} ends at the limit: it needs a larger one (ulimit -c)")
        }
        Err(Cut::Failed(error)) => format!("core file {path} is not whole: {error}"),
    }
}

fn write_all(
    core: &mut Core,
    notes: &[u8],
    memory: &Memory,
    segments: &[Segment],
) -> Result<(), Cut> {
    core.write(&headers(notes.len() as u64, segments))?;
    core.write(notes)?;
    core.align(PAGE);
    let mut dumped = segments.iter().filter(|segment| segment.dumped > 0);
    dumped.try_for_each(|segment| segments::write(core, memory, segment))
}

/// The ELF header and the program headers: the notes, then the segments from the next page on.
fn headers(notes_bytes: u64, segments: &[Segment]) -> Vec<u8> {
    const HEADER: u64 = 64;
    const PROGRAM_HEADER: u64 = 56;
    let count = segments.len() as u64 + 1;
    let notes_at = HEADER + count * PROGRAM_HEADER;
    let ident = u64::from_le_bytes([0x7f, b'E', b'L', b'F', 2, 1, 1, 0]); // 64 bits, little-endian, version 1
    let half = |low: u16, high: u16| u64::from(low) | u64::from(high) << 16;
    let mut words = vec![
        ident,
        0,
        half(elf::ET_CORE, elf::EM_X86_64) | 1 << 32, // e_version
        0,
        HEADER,
        0,
        HEADER << 32 | PROGRAM_HEADER << 48,
        count,
    ];
    let mut add = |kind: u32, flags: u32, fields: [u64; 6]| {
        words.push(u64::from(kind) | u64::from(flags) << 32);
        words.extend(fields);
    };
    // Offset, address, physical address, bytes in the file, bytes in memory, alignment.
    add(elf::PT_NOTE, 0, [notes_at, 0, 0, notes_bytes, 0, 4]);
    let mut at = (notes_at + notes_bytes).next_multiple_of(PAGE);
    for segment in segments {
        let [read, write, exec] = segment.access.map(u32::from);
        let len_bytes = segment.end - segment.start;
        let fields = [at, segment.start, 0, segment.dumped, len_bytes, PAGE];
        add(elf::PT_LOAD, read << 2 | write << 1 | exec, fields);
        at += segment.dumped;
    }
    words.as_bytes().to_vec()
}

/// The threads, the one that took the signal first.
fn threads(rank: &Rank) -> Vec<Thread> {
    let mut shown: BTreeMap<usize, Shown> = rank.halted().shown();
    let first = shown.remove_entry(&culprit(rank).0);
    let workers = rank.workers().all();
    first
        .into_iter()
        .chain(shown)
        .filter_map(|(index, shown)| Some((workers.get(index)?.tid(), shown)))
        .collect()
}

fn process(rank: &Rank) -> Process {
    use rustix::process::{getgid, getpgrp, getppid, getsid, getuid};
    let raw = |pid: Option<rustix::process::Pid>| pid.map_or(0, |pid| pid.as_raw_pid());
    let mut siginfo = [0; 16];
    for (to, word) in siginfo.iter_mut().zip(&rank.words().area.node.crash.info) {
        *to = word.load();
    }
    let program = rank.program();
    let arguments: Vec<&[u8]> = program.argv.iter().map(|a| a.to_bytes()).collect();
    Process {
        ids: [
            rank.pid() as i32,
            raw(getppid()),
            raw(Some(getpgrp())),
            raw(getsid(None).ok()),
        ],
        user: [getuid().as_raw(), getgid().as_raw()],
        name: program.file_name().to_vec(),
        arguments: arguments.join(&b' '),
        siginfo,
        auxv: content::auxv(rank, rank).unwrap_or_default(),
        files: files(&rank.memory(), Named::of(rank.words())),
    }
}

fn files(memory: &Memory, named: Named) -> Vec<Mapped> {
    let lines = Lines::of(memory, named);
    let mapped = lines.iter().filter_map(|line| {
        let (file, offset) = line.file?;
        Some(Mapped {
            start: line.start,
            end: line.end,
            offset,
            path: file.path.as_bytes().to_vec(),
        })
    });
    mapped.collect()
}
