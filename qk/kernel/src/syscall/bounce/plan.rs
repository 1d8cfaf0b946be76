//! What is to be bounced of a call, and where it goes: found before anything is copied.

mod messages;
mod requests;

use abi::Errno;
use abi::syscall::{Arg, Call as Row, Dir, Len, bytes_of_bits};
use alloc::vec::Vec;
use hal::addr::User;
use qk_core::regions::Prot;
pub use requests::is_remote_request;

use super::{
    LOOK_WORK, MAX_BYTES, MAX_VECTORS, VECTOR_BYTES, WORD_WORK, has_remote_message,
    has_remote_vectors, is_remote, names_remote,
};
use crate::user::get_words;
use crate::{preempt, windows};

/// Longest string with its NUL (PATH_MAX, include/uapi/linux/limits.h).
const STRING_BYTES: u64 = 4096;

/// How much of what Linux was given is copied back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Back {
    /// Nothing: Linux only reads it.
    None,
    /// All, when the call succeeds.
    All,
    /// What the call returns as its count of bytes, after the pieces before.
    Counted,
    /// All, when the call returns that it got as far as beyond the message with this index.
    Message(u64),
}

/// A buffer of the call.
pub struct Piece {
    /// Where the program has it; `None`: in its own memory, and Linux is given that.
    pub theirs: Option<u64>,
    /// Offset in the place that Linux is given.
    pub at: u64,
    /// Its length.
    pub len_bytes: u64,
    /// What happens to it afterwards.
    pub back: Back,
}

/// What an argument becomes.
#[derive(Clone, Copy)]
pub enum Value {
    /// The address of this offset.
    At(u64),
    /// This number.
    Number(u64),
}

/// What is to be bounced.
#[derive(Default)]
pub struct Plan {
    /// Bytes of the place.
    pub len_bytes: u64,
    /// Buffers, in the order in which the call fills them.
    pub pieces: Vec<Piece>,
    /// Arguments that change.
    pub args: [Option<Value>; 6],
    /// Words of structures that are not copied as they are: offset, value, and whether that is an offset, too.
    pub words: Vec<(u64, u64, bool)>,
}

impl Plan {
    /// Adds what there is to bounce of the argument with index `i`.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn argument(
        &mut self,
        row: &Row,
        arg: Arg,
        i: usize,
        args: &[u64; 6],
    ) -> Result<(), Errno> {
        let value = args[i];
        match arg {
            Arg::Path | Arg::Str if is_remote(value) => {
                if let Some(len_bytes) = string_bytes(value) {
                    let at = self.piece(value, len_bytes, Back::None)?;
                    self.args[i] = at.map(Value::At);
                }
            }
            Arg::Mem(dir, len) if is_remote(value) => self.memory(dir, len, i, args)?,
            Arg::Iovec(dir, count) => {
                let count = args[count as usize];
                if has_remote_vectors(value, count) {
                    self.args[i] = self.vectors(back(dir, true), value, count)?.map(Value::At);
                }
            }
            Arg::Msghdr(dir) if has_remote_message(value) => {
                self.args[i] = self.message(dir, value)?.map(Value::At);
            }
            Arg::Mmsghdr(dir, count) if names_remote(row, args) => {
                self.messages(dir, i, count as usize, args)?;
            }
            Arg::Request => self.request(row, args[i - 1], value, i)?,
            Arg::SigsetPair => self.mask(value, i)?,
            _ => {}
        }
        Ok(())
    }

    fn memory(&mut self, dir: Dir, len: Len, i: usize, args: &[u64; 6]) -> Result<(), Errno> {
        let (len_bytes, counted) = match len {
            Len::Bytes(bytes) => (u64::from(bytes), false),
            Len::Arg(i) => (args[i as usize], true),
            Len::Times(i, bytes) => (args[i as usize].saturating_mul(bytes.into()), false),
            Len::Bits(i) => (bytes_of_bits(args[i as usize]), false),
            Len::AtPtr(i) => (
                get_words(args[i as usize]).map_or(0, |[word]| word as u32 as u64),
                false,
            ),
        };
        let room = MAX_BYTES - self.len_bytes.min(MAX_BYTES);
        if len_bytes > room && !counted {
            return Ok(()); // More than any structure has.
        }
        let at = self.piece(args[i], len_bytes.min(room), back(dir, counted))?;
        self.args[i] = at.map(Value::At);
        if let (Len::Arg(length), Some(_)) = (len, at)
            && len_bytes > room
        {
            self.args[length as usize] = Some(Value::Number(room));
        }
        Ok(())
    }

    /// An array of vectors, with those that lie in windows bounced: where it is. `None`: it cannot be read.
    fn vectors(&mut self, back: Back, at: u64, count: u64) -> Result<Option<u64>, Errno> {
        if count > MAX_VECTORS {
            return Ok(None); // Linux refuses so many before it looks there.
        }
        let place = self.room(count * VECTOR_BYTES);
        for i in 0..count {
            preempt::point(LOOK_WORK);
            let Ok([base, len_bytes]) = get_words(at.wrapping_add(i * VECTOR_BYTES)) else {
                return Ok(None);
            };
            // Linux finds out what is wrong with a negative length.
            let wanted = if (len_bytes as i64) < 0 { 0 } else { len_bytes };
            let room = MAX_BYTES - self.len_bytes.min(MAX_BYTES);
            let piece = match is_remote(base) {
                true => self.piece(base, wanted.min(room), back)?,
                false => {
                    // Linux gets it as it is; it counts in what the call returns.
                    self.add(None, 0, wanted, back)?;
                    None
                }
            };
            let cut = piece.is_some() && wanted > room;
            let word = place + i * VECTOR_BYTES;
            self.word(word, piece.unwrap_or(base), piece.is_some())?;
            self.word(word + 8, if cut { room } else { len_bytes }, false)?;
            if cut {
                // The call ends here: what follows has no bytes.
                for rest in i + 1..count {
                    preempt::point(WORD_WORK);
                    self.word(place + rest * VECTOR_BYTES, 0, false)?;
                    self.word(place + rest * VECTOR_BYTES + 8, 0, false)?;
                }
                break;
            }
        }
        Ok(Some(place))
    }

    /// pselect6's mask, of which the sixth argument says where it is and how long.
    fn mask(&mut self, at: u64, i: usize) -> Result<(), Errno> {
        const MASK_BYTES: u64 = 8;
        let Ok([mask, len_bytes]) = get_words(at) else {
            return Ok(());
        };
        if !is_remote(at) && !is_remote(mask) {
            return Ok(());
        }
        let place = self.room(16);
        let copy = match is_remote(mask) {
            true => self.piece(mask, MASK_BYTES, Back::None)?,
            false => None,
        };
        self.word(place, copy.unwrap_or(mask), copy.is_some())?;
        self.word(place + 8, len_bytes, false)?;
        self.args[i] = Some(Value::At(place));
        Ok(())
    }

    /// A buffer in a window: its offset. `None`: not all of it may be accessed as it has to be.
    fn piece(&mut self, theirs: u64, len_bytes: u64, back: Back) -> Result<Option<u64>, Errno> {
        let needs = if back == Back::None {
            Prot::READ
        } else {
            Prot::WRITE
        };
        if !is_accessible(theirs, len_bytes, needs) {
            return Ok(None);
        }
        let at = self.room(len_bytes);
        self.add(Some(theirs), at, len_bytes, back)?;
        Ok(Some(at))
    }

    fn add(
        &mut self,
        theirs: Option<u64>,
        at: u64,
        len_bytes: u64,
        back: Back,
    ) -> Result<(), Errno> {
        make_room(&mut self.pieces)?;
        self.pieces.push(Piece {
            theirs,
            at,
            len_bytes,
            back,
        });
        Ok(())
    }

    fn word(&mut self, at: u64, word: u64, is_offset: bool) -> Result<(), Errno> {
        make_room(&mut self.words)?;
        self.words.push((at, word, is_offset));
        Ok(())
    }

    /// Room for so many bytes, aligned as any structure.
    fn room(&mut self, len_bytes: u64) -> u64 {
        let at = self.len_bytes;
        self.len_bytes = (at + len_bytes).next_multiple_of(16);
        at
    }
}

/// Room for one more in a list, which is copied as a whole when it grows.
fn make_room<T>(list: &mut Vec<T>) -> Result<(), Errno> {
    if list.len() == list.capacity() {
        preempt::point((size_of_val(&list[..]) / 8) as u32);
    }
    list.try_reserve(1).map_err(|_| Errno::ENOMEM)
}

/// What happens to a buffer after the call; `counted`: what the call returns says how much of it was filled.
const fn back(dir: Dir, counted: bool) -> Back {
    match dir {
        Dir::In => Back::None,
        Dir::Out if counted => Back::Counted,
        Dir::Out | Dir::InOut => Back::All,
    }
}

/// Whether the owners let all of a range in windows be accessed so.
fn is_accessible(at: u64, len_bytes: u64, needs: Prot) -> bool {
    let mut done = 0;
    while done < len_bytes {
        preempt::point(LOOK_WORK);
        let found = at.checked_add(done).and_then(windows::owner);
        let page = found.and_then(|(owner, addr)| Some((owner.peek_translation(addr)?, addr)));
        match page {
            Some((page, addr)) if page.prot.contains(needs) => {
                done += page.size.bytes() - addr % page.size.bytes();
            }
            _ => return false,
        }
    }
    true
}

/// Bytes of a string with its NUL, or of the longest that any call takes; `None`: it cannot be read.
fn string_bytes(at: u64) -> Option<u64> {
    /// Divides a page: what begins in front of its end can be read as a whole or not at all.
    const CHUNK: u64 = 64;
    let mut done = 0;
    // BOUND: 64 turns.
    while done < STRING_BYTES {
        let from = at.checked_add(done)?;
        let mut chunk = [0; CHUNK as usize];
        let bytes = CHUNK - from % CHUNK;
        let chunk = &mut chunk[..bytes as usize];
        hal::user::copy_in(chunk, User::range(from, bytes)?).ok()?;
        // BOUND: CHUNK.
        if let Some(end) = chunk.iter().position(|byte| *byte == 0) {
            return Some(done + end as u64 + 1);
        }
        done += bytes;
    }
    Some(STRING_BYTES)
}
