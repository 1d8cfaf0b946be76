//! Questions about one mapping: PROCMAP_QUERY of ioctl(2), for /proc/self/maps alone, as fs/proc/task_mmu.c answers it.

use abi::Errno;
use abi::map::PAGE;
use abi::syscall::Call;
use abi::syscall::layout::{MAP_NAME, MAP_NAME_LEN, MAP_QUERY_BYTES, MapQuery, STRING_BYTES};
use abi::syscall::request::{NO_SUCH_REQUEST, PROCMAP_QUERY};
use zerocopy::IntoBytes;

use super::content::File;
use super::regions::{Line, Lines, Named};
use super::text;
use crate::call::make::linux;
use crate::memory::{GUARD_ADDR, RankMemory};
use crate::rank::Rank;

/// uapi/linux/fs.h
const SHARED: u64 = 8;
const ACCESS: u64 = 15;
const COVERING_OR_NEXT: u64 = 16;
const FILE_BACKED: u64 = 32;
const ALL: u64 = ACCESS | COVERING_OR_NEXT | FILE_BACKED;

/// Whether a call asks about a mapping.
pub fn is_one(call: &Call, args: &[u64; 6]) -> bool {
    i64::from(call.nr) == libc::SYS_ioctl && args[1] as u32 == PROCMAP_QUERY
}

/// Answers it. Of any other file Linux says that it has no such request.
pub fn answer(rank: &Rank, args: &[u64; 6]) -> i64 {
    let [fd, _, at, ..] = *args;
    let file = text::name(rank, fd).and_then(|name| text::file(&name));
    match file {
        Some(File::Maps) => find(rank, at).map_or_else(Errno::ret, |()| 0),
        _ => linux(
            libc::SYS_ioctl as u16,
            &[fd, NO_SUCH_REQUEST, GUARD_ADDR, 0, 0, 0],
        ),
    }
}

/// Answers the question at `at`.
fn find(rank: &Rank, at: u64) -> Result<(), Errno> {
    let (mut query, known_bytes) = read(rank, at)?;
    let [_, flags, addr, ..] = query;
    let [room_bytes, build_id_bytes] = halves(query[MAP_NAME_LEN]);
    let halfway = |bytes: u32, addr: u64| (bytes == 0) != (addr == 0);
    if flags & !ALL != 0
        || halfway(room_bytes, query[MAP_NAME])
        || halfway(build_id_bytes, query[MAP_NAME + 1])
    {
        return Err(Errno::EINVAL);
    }
    let memory = rank.memory();
    let lines = Lines::of(&memory, Named::of(rank.words()));
    let line = lines
        .iter()
        .find(|line| line.end > addr && fits(line, flags));
    let covers = |line: &&Line<'_>| flags & COVERING_OR_NEXT != 0 || line.start <= addr;
    let line = line.filter(covers).ok_or(Errno::ENOENT)?;
    query[3..10].copy_from_slice(&described(line));
    let mut name = Vec::new();
    if room_bytes != 0 && !line.name().is_empty() {
        name = [line.name(), b"\0"].concat();
        if name.len() as u64 > u64::from(room_bytes).min(STRING_BYTES) {
            return Err(Errno::ENAMETOOLONG);
        }
    }
    // No build ID, as of a file that has none.
    query[MAP_NAME_LEN] = name.len() as u64;
    drop(memory);
    rank.write(query[MAP_NAME], &name)?;
    rank.write(at, &query.as_bytes()[..known_bytes])
}

/// The question, as far as it is known here, and how much of it that is.
///
/// # Errors
/// EFAULT, EINVAL; E2BIG when it says what only a later Linux knows.
fn read(rank: &Rank, at: u64) -> Result<(MapQuery, usize), Errno> {
    let mut len_bytes = 0;
    rank.read(at, len_bytes.as_mut_bytes())?;
    if len_bytes > *MAP_QUERY_BYTES.end() {
        return Err(Errno::E2BIG);
    }
    if len_bytes < *MAP_QUERY_BYTES.start() {
        return Err(Errno::EINVAL);
    }
    let mut bytes = [0; *MAP_QUERY_BYTES.end() as usize];
    let bytes = &mut bytes[..len_bytes as usize];
    rank.read(at, bytes)?;
    let known_bytes = bytes.len().min(size_of::<MapQuery>());
    let (known, later) = bytes.split_at(known_bytes);
    if later.iter().any(|byte| *byte != 0) {
        return Err(Errno::E2BIG);
    }
    let mut query = MapQuery::default();
    query.as_mut_bytes()[..known_bytes].copy_from_slice(known);
    Ok((query, known_bytes))
}

/// Whether a mapping has what the flags ask for.
fn fits(line: &Line<'_>, flags: u64) -> bool {
    flags & ACCESS & !access(line) == 0 && (flags & FILE_BACKED == 0 || line.file.is_some())
}

fn access(line: &Line<'_>) -> u64 {
    let bits = line.access.into_iter().zip([1, 2, 4]);
    let bits = bits.filter(|(has, _)| *has).map(|(_, bit)| bit);
    bits.sum::<u64>() | if line.shared { SHARED } else { 0 }
}

/// vma_start to dev_minor.
fn described(line: &Line<'_>) -> [u64; 7] {
    let (offset, inode, device) = line.file.map_or((0, 0, 0), |(file, offset)| {
        let (major, minor) = file.device;
        (
            offset,
            file.inode,
            u64::from(major) | u64::from(minor) << 32,
        )
    });
    let Line { start, end, .. } = *line;
    [start, end, access(line), PAGE, offset, inode, device]
}

/// Two unsigned ints of a word.
fn halves(word: u64) -> [u32; 2] {
    [word as u32, (word >> 32) as u32]
}
