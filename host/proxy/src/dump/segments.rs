//! What of the rank's memory goes into a core file: what Linux dumps by default (core(5), coredump_filter 0x33).
//!
//! All memory that the program may read, but for what it has left out, and what is as in its file: of that only the first
//! page, if an ELF file begins there.

use std::fs::File;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};

use abi::map::{PAGE, VDSO_AREA};

use crate::dump::file::{Core, Cut};
use crate::memory::{Memory, RankMemory};
use crate::special::regions::{Line, Lines, Named};

/// Copied at once.
const CHUNK: usize = 64 << 10;
const ELF_MAGIC: [u8; 4] = *b"\x7fELF";

/// A range of the rank's memory, alike in access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// First byte.
    pub start: u64,
    /// End.
    pub end: u64,
    /// May be read, written, executed.
    pub access: [bool; 3],
    /// Bytes of it that are dumped.
    pub dumped: u64,
}

/// All of them, without what lies in `left_out`.
pub fn all(memory: &Memory, named: Named, left_out: &[(u64, u64)]) -> Vec<Segment> {
    let lines = Lines::of(memory, named);
    // The clock page is the node's.
    let lines = lines.iter().filter(|line| line.start != VDSO_AREA);
    let mut segments = Vec::new();
    for line in lines {
        let dumped = dumped_bytes(memory, line);
        let mut at = line.start;
        for &(start, end) in left_out {
            let (start, end) = (start.max(at), end.min(line.end));
            if start < end {
                segments.extend(piece(line, at, start, dumped));
                segments.extend(piece(line, start, end, 0));
                at = end;
            }
        }
        segments.extend(piece(line, at, line.end, dumped));
    }
    segments
}

/// The part `start .. end` of a line of which the first `dumped` bytes are dumped.
fn piece(line: &Line<'_>, start: u64, end: u64, dumped: u64) -> Option<Segment> {
    let dumped_end = (line.start + dumped).clamp(start, end);
    (start < end).then_some(Segment {
        start,
        end,
        access: line.access,
        dumped: dumped_end - start,
    })
}

/// How much of a line is dumped, from its start on.
fn dumped_bytes(memory: &Memory, line: &Line<'_>) -> u64 {
    let [read, write, _] = line.access;
    let mut magic = [0; ELF_MAGIC.len()];
    if !read && !write {
        0 // the proxy cannot read it either
    } else if write || !is_as_in_file(memory, line) {
        line.end - line.start
    } else if memory.read(line.start, &mut magic).is_ok() && magic == ELF_MAGIC {
        PAGE
    } else {
        0
    }
}

/// Whether the line shows a file's bytes, unchanged.
fn is_as_in_file(memory: &Memory, line: &Line<'_>) -> bool {
    let Some((file, offset)) = line.file else {
        return false;
    };
    let Ok(open) = File::open(&file.path) else {
        return false;
    };
    if open.metadata().map_or(0, |stat| stat.ino()) != file.inode {
        return false;
    }
    let (mut ours, mut theirs) = ([0; CHUNK], [0; CHUNK]);
    let len_bytes = line.end - line.start;
    (0..len_bytes).step_by(CHUNK).all(|at| {
        let len = CHUNK.min((len_bytes - at) as usize);
        let (ours, theirs) = (&mut ours[..len], &mut theirs[..len]);
        theirs.fill(0); // what is mapped behind the end of the file
        let read = read_up_to(&open, theirs, offset + at);
        read && memory.read(line.start + at, ours).is_ok() && ours == theirs
    })
}

/// Reads until `into` is full or the file ends.
fn read_up_to(file: &File, into: &mut [u8], offset: u64) -> bool {
    let mut done = 0;
    while done < into.len() {
        match file.read_at(&mut into[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(_) => return false,
        }
    }
    true
}

/// Writes what is dumped of a segment.
///
/// # Errors
/// [`Cut`].
pub fn write(core: &mut Core, memory: &Memory, segment: &Segment) -> Result<(), Cut> {
    let mut bytes = [0; CHUNK];
    for at in (0..segment.dumped).step_by(CHUNK) {
        let chunk = &mut bytes[..CHUNK.min((segment.dumped - at) as usize)];
        if memory.read(segment.start + at, chunk).is_err() {
            chunk.fill(0);
        }
        core.write(chunk)?;
    }
    Ok(())
}
