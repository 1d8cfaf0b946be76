//! The trace for `--strace`: a record of each call of a rank, in its ring in the communication area.

use abi::syscall::{Arg, Dir, Len, by_nr};
use hal::addr::User;
use wire::trace::{Record, TEXT_BYTES};

use crate::comm;
use crate::rank::Rank;

/// Bytes kept of a call's path or outgoing data, and how many there are.
pub type Text = ([u8; TEXT_BYTES], Option<usize>);

/// A call that names none.
pub const NO_TEXT: Text = ([0; TEXT_BYTES], None);

/// The text of the first path or of the data that the call is about to write. Read before the call, which may change it.
pub fn text_before(rank: &Rank, nr: u64, args: &[u64; 6]) -> Text {
    let mut text = NO_TEXT;
    if comm::get().trace(rank.id).is_none() {
        return text;
    }
    let kinds = by_nr(nr).map_or(&[][..], |row| row.args);
    for (kind, &value) in kinds.iter().zip(args) {
        match kind {
            Arg::Path | Arg::Str => text.1 = read_string(&mut text.0, value),
            Arg::Mem(Dir::In, Len::Arg(i)) => {
                text.1 = read(&mut text.0, value, args[usize::from(*i)])
            }
            _ => continue,
        }
        break;
    }
    text
}

fn read(to: &mut [u8; TEXT_BYTES], from: u64, len_bytes: u64) -> Option<usize> {
    let len = (len_bytes as usize).min(TEXT_BYTES);
    let user = User::range(from, len as u64)?;
    hal::user::copy_in(&mut to[..len], user).ok().map(|()| len)
}

fn read_string(to: &mut [u8; TEXT_BYTES], from: u64) -> Option<usize> {
    for (i, byte) in to.iter_mut().enumerate() {
        let at = User::range(from.checked_add(i as u64)?, 1)?;
        hal::user::copy_in(core::slice::from_mut(byte), at).ok()?;
        if *byte == 0 {
            return Some(i);
        }
    }
    Some(TEXT_BYTES)
}

/// Adds a record, waiting for room: the host reads all the time, and nothing is lost.
pub fn record(rank: &Rank, nr: u64, args: &[u64; 6], (text, text_len): Text, ret: i64) {
    let Some(ring) = comm::get().trace(rank.id) else {
        return;
    };
    let record = Record {
        nr,
        args: *args,
        ret,
        text,
        text_len,
    };
    while !ring.append(&record) {
        crate::preempt::window();
        hal::cpu::pause();
    }
}
