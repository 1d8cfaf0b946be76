//! `--strace`: a line per system call and signal, in the words and forms of strace(1), as the QK records them.
//!
//! The records hold copies of what the arguments pointed to (`wire::trace`); what they mean is decided here. All of it comes
//! from the program: it is shown escaped, and whatever it holds, a line is a line.

mod call;
mod line;
mod memory;
mod names;
mod shapes;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use abi::syscall::by_name;
use machine::comm::Comm;
use wire::rank::state;
use wire::trace::{Kind, Record};

use crate::cli::Cli;
use crate::failure::{Failure, status};
use crate::place::Place;
use crate::sink::Sink;
use line::{EXIT, Line, Pending, exit_line, is_exit, no_return_line, signal_line, unfinished};

/// How often a pipe is tried that nothing reads yet.
const READER_POLL: Duration = Duration::from_millis(10);
/// A call that takes longer is shown before it returns, so that one that never does is seen while it hangs.
const SHOWN_AFTER: Duration = Duration::from_millis(500);

/// Where the lines go, and what is known of calls that have not returned.
pub struct Trace {
    pub sink: Sink,
    times: bool,
    /// Numbers of the calls that are shown; `None`: all.
    only: Option<BTreeSet<u64>>,
    /// Those of this yod.
    ranks: Vec<Rank>,
}

#[derive(Default)]
struct Rank {
    number: usize,
    label: String,
    /// Calls that have not returned, by the threads that make them.
    pending: BTreeMap<u64, Pending>,
    /// Threads that were seen; with more than one, lines say which.
    threads: BTreeSet<u64>,
    /// Those of them that have not ended, without the main thread, which is the first that makes a call.
    live: BTreeSet<u64>,
    main: Option<u64>,
    /// Its last line is written.
    over: bool,
}

impl Rank {
    /// The last line of a thread that ends before the rank does, when `record` is the beginning of its last call. The end of the
    /// main thread is the rank's.
    fn thread_end(&mut self, record: &Record) -> Option<Line> {
        let ends = record.kind == Kind::Enter && record.nr == EXIT;
        (ends && self.live.remove(&record.tid)).then(|| {
            let text = format!("+++ exited with {} +++", record.args[0] & 0xff);
            Line::at(record.time_ns, text).of(record.tid)
        })
    }
}

impl Trace {
    /// As the command line says; `None` without `--strace`.
    pub fn new(cli: &Cli, place: &Place) -> Result<Option<Trace>, Failure> {
        let only = only(&cli.strace_only)?;
        let Some(file) = &cli.strace else {
            return Ok(None);
        };
        let sink = match file {
            None => Sink::new("stderr", std::io::stderr().as_fd())?,
            Some(path) => {
                let path = place.own_file(path);
                let file = create(&path, cli.timeout)?;
                Sink::new(path.display().to_string(), file.as_fd())?
            }
        };
        let label = |rank| match place.size {
            1 => String::new(),
            _ => format!("[{rank}] "),
        };
        let ranks = place.ranks.clone().map(|number| Rank {
            number,
            label: label(number),
            ..Rank::default()
        });
        Ok(Some(Trace {
            sink,
            times: cli.strace_times,
            only,
            ranks: ranks.collect(),
        }))
    }

    /// Takes what was recorded since the last time, as far as the sink has room: a rank whose ring is full waits. True when
    /// there was something.
    pub fn drain(&mut self, comm: &Comm) -> bool {
        let mut any = false;
        for rank in 0..self.ranks.len() {
            let number = self.ranks[rank].number;
            let Some(ring) = comm.trace(number) else {
                continue;
            };
            // Looked at before the ring: a rank that has ended adds nothing.
            let node = &comm.rank(number).node;
            let ended = (node.state.load() == state::EXITED).then(|| node.wait_status.load());
            // A rank that makes calls as fast as they are taken here must not keep us from everything else.
            for _ in 0..wire::trace::CAPACITY {
                let Some(record) = (!self.sink.is_full()).then(|| ring.take()).flatten() else {
                    break;
                };
                let lines = self.lines(rank, record);
                self.write(rank, &lines);
                any = true;
            }
            let last = match ended.filter(|_| ring.is_empty()) {
                Some(wait_status) => self.last_lines(rank, wait_status),
                None => self.unfinished_after(rank, SHOWN_AFTER),
            };
            self.write(rank, &last);
        }
        any
    }

    /// All ranks have ended and everything is drained: what those were at that were ended from outside.
    pub fn finish(&mut self) {
        for rank in 0..self.ranks.len() {
            let lines = self.last_lines(rank, libc::SIGKILL as u64);
            self.write(rank, &lines);
        }
    }

    fn lines(&mut self, rank: usize, record: Record) -> Vec<Line> {
        let rank = &mut self.ranks[rank];
        let tid = record.tid;
        rank.threads.insert(tid);
        if *rank.main.get_or_insert(tid) != tid {
            rank.live.insert(tid);
        }
        let is_call = record.kind != Kind::Signal;
        if is_call
            && let Some(only) = &self.only
            && !only.contains(&record.nr)
        {
            rank.pending.remove(&tid);
            return rank.thread_end(&record).into_iter().collect();
        }
        // What other threads are in comes before what this one does.
        let others = rank.pending.iter_mut();
        let others = others.filter(|(other, _)| !is_call || **other != tid);
        let mut lines: Vec<Line> = others
            .flat_map(|(_, pending)| unfinished(Some(pending)))
            .collect();
        match record.kind {
            Kind::Signal => {
                let text = signal_line(&record);
                lines.push(Line::at(record.time_ns, text).of(tid));
            }
            Kind::Enter => {
                let pending = Pending {
                    record,
                    since: Instant::now(),
                    shown: None,
                };
                if rank.threads.len() > 1 && pending.record.nr == EXIT {
                    lines.push(no_return_line(&pending));
                    lines.extend(rank.thread_end(&pending.record));
                } else {
                    rank.pending.insert(tid, pending);
                }
            }
            Kind::Exit => {
                let pending = rank.pending.remove(&tid);
                let pending = pending.filter(|pending| pending.record.nr == record.nr);
                lines.extend(pending.map(|pending| exit_line(&pending, &record)));
            }
        }
        lines
    }

    fn unfinished_after(&mut self, rank: usize, limit: Duration) -> Vec<Line> {
        let pending = self.ranks[rank].pending.values_mut();
        pending
            .filter(|pending| pending.since.elapsed() >= limit)
            .flat_map(|pending| unfinished(Some(pending)))
            .collect()
    }

    /// The end of a rank and of each of its threads, the main thread's last; `wait_status` as wait(2) has it.
    fn last_lines(&mut self, rank: usize, wait_status: u64) -> Vec<Line> {
        let rank = &mut self.ranks[rank];
        if std::mem::replace(&mut rank.over, true) {
            return Vec::new();
        }
        let mut lines = Vec::new();
        let pending = std::mem::take(&mut rank.pending).into_values();
        let (exits, others): (Vec<_>, Vec<_>) = pending.partition(|p| is_exit(&p.record));
        for mut pending in others {
            lines.extend(unfinished(Some(&mut pending)));
        }
        lines.extend(exits.iter().map(no_return_line));
        let text = match wait_status & 0x7f {
            0 => format!("+++ exited with {} +++", wait_status >> 8 & 0xff),
            signal => {
                let core = if wait_status & 0x80 != 0 {
                    " (core dumped)"
                } else {
                    ""
                };
                format!("+++ killed by {}{core} +++", names::signal(signal))
            }
        };
        let threads = std::mem::take(&mut rank.live).into_iter();
        lines.extend(threads.map(|tid| Line::now(text.clone()).of(tid)));
        lines.push(Line::now(text));
        lines
    }

    fn write(&mut self, rank: usize, lines: &[Line]) {
        for line in lines {
            let Rank { label, threads, .. } = &self.ranks[rank];
            let thread = match line.tid {
                Some(tid) if threads.len() > 1 => format!("[pid {tid:>5}] "),
                _ => String::new(),
            };
            let (micros, second) = (
                line.time_ns / 1000 % 1_000_000,
                line.time_ns / 1_000_000_000,
            );
            let to = self.sink.pending();
            // Writing to memory cannot fail.
            let _ = match self.times {
                true => writeln!(
                    to,
                    "{label}{thread}{second}.{micros:06} {}{}",
                    line.text,
                    line.took()
                ),
                false => writeln!(to, "{label}{thread}{}", line.text),
            };
        }
    }
}

/// The calls that are shown, from names separated by commas.
fn only(text: &Option<String>) -> Result<Option<BTreeSet<u64>>, Failure> {
    let Some(text) = text else {
        return Ok(None);
    };
    let names = text.split(',').filter(|name| !name.is_empty());
    let numbers = names.map(|name| {
        let call = by_name(name).ok_or_else(|| {
            Failure::new(
                status::USAGE,
                format_args!("--strace-only: no system call {name}"),
            )
        })?;
        Ok(call.nr.into())
    });
    numbers.collect::<Result<_, _>>().map(Some)
}

/// Creates a file that the user named. A pipe is waited for until it has a reader, as a shell would, but no longer than the
/// job may take.
pub fn create(path: &Path, timeout: Option<Duration>) -> Result<File, Failure> {
    let start = Instant::now();
    loop {
        let mut options = File::options();
        options.write(true).create(true).truncate(true);
        match options.custom_flags(libc::O_NONBLOCK).open(path) {
            Err(error) if error.raw_os_error() == Some(libc::ENXIO) && is_pipe(path) => {}
            other => {
                return other.map_err(|error| {
                    Failure::os("write", format_args!("{}: {error}", path.display()))
                });
            }
        }
        if let Some(limit) = timeout.filter(|&limit| start.elapsed() >= limit) {
            return Err(Failure::new(
                status::TIMEOUT,
                format_args!(
                    "timed out after {} s (--timeout): nothing reads {}",
                    limit.as_secs_f64(),
                    path.display()
                ),
            ));
        }
        std::thread::sleep(READER_POLL);
    }
}

fn is_pipe(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|meta| meta.file_type().is_fifo())
}

#[cfg(test)]
mod tests;
