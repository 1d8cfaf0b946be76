//! `--strace`: a line per system call, as the QK records them.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use abi::syscall::{Arg, Call, by_nr, show};
use machine::comm::Comm;
use wire::trace::{Record, TEXT_BYTES};

use crate::failure::{Failure, status};
use crate::sink::Sink;

/// How often a pipe is tried that nothing reads yet.
const READER_LOOK: Duration = Duration::from_millis(10);

/// Where the lines go.
pub struct Trace {
    pub sink: Sink,
    ranks: usize,
}

impl Trace {
    /// To `file`, or to stderr.
    pub fn new(
        file: Option<&Path>,
        ranks: usize,
        timeout: Option<Duration>,
    ) -> Result<Trace, Failure> {
        let sink = match file {
            None => Sink::new("stderr", std::io::stderr().as_fd())?,
            Some(path) => Sink::new(path.display().to_string(), create(path, timeout)?.as_fd())?,
        };
        Ok(Trace { sink, ranks })
    }

    /// Takes what was recorded since the last time, as far as the sink has room: a rank whose ring is full waits. True when
    /// there was something.
    pub fn drain(&mut self, comm: &Comm) -> bool {
        let mut any = false;
        for rank in 0..self.ranks {
            let Some(ring) = comm.trace(rank) else {
                continue;
            };
            // A rank that makes calls as fast as they are taken here must not keep us from everything else.
            for _ in 0..wire::trace::CAPACITY {
                let Some(record) = (!self.sink.is_full()).then(|| ring.take()).flatten() else {
                    break;
                };
                let label = if self.ranks > 1 {
                    format!("[{rank}] ")
                } else {
                    String::new()
                };
                // Writing to memory cannot fail.
                let _ = writeln!(self.sink.pending(), "{label}{}", line(&record));
                any = true;
            }
        }
        any
    }
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
        std::thread::sleep(READER_LOOK);
    }
}

fn is_pipe(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|meta| meta.file_type().is_fifo())
}

fn line(record: &Record) -> String {
    let mut line = String::new();
    let call = by_nr(record.nr);
    let text = record.text_len.map(|len| match call {
        // A path that did not fill its room is whole: its NUL says so.
        Some(call) if len < TEXT_BYTES && names_path(call) => &record.text[..=len],
        _ => &record.text[..len],
    });
    // Writing to a String cannot fail.
    let _ = show(&mut line, call, record.nr, &record.args, text, record.ret);
    line
}

fn names_path(call: &Call) -> bool {
    let arg = call.text_arg().map(|index| call.args[index]);
    matches!(arg, Some(Arg::Path | Arg::Str))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_shown_with_its_text() {
        let mut text = [0; wire::trace::TEXT_BYTES];
        text[..3].copy_from_slice(b"hi\n");
        let record = Record {
            nr: 1,
            args: [1, 0x1000, 3, 0, 0, 0],
            ret: 3,
            text,
            text_len: Some(3),
        };
        assert_eq!(line(&record), "write(1, \"hi\\n\", 3) = 3");
        assert!(
            line(&Record {
                text_len: None,
                ..record
            })
            .starts_with("write(1, 0x1000, 3")
        );
    }

    /// Every path was shown as if it had been cut, because records are without the NUL.
    #[test]
    fn a_whole_path_is_not_shown_as_cut() {
        let mut record = Record {
            nr: 21,
            args: [0x1000, 4, 0, 0, 0, 0],
            ret: -2,
            text: [0; TEXT_BYTES],
            text_len: Some(4),
        };
        record.text[..4].copy_from_slice(b"/etc");
        assert_eq!(line(&record), "access(\"/etc\", 0x4) = -1 ENOENT");
        record.text = [b'x'; TEXT_BYTES];
        record.text_len = Some(TEXT_BYTES);
        assert!(line(&record).contains("x\"..., 0x4"));
    }
}
