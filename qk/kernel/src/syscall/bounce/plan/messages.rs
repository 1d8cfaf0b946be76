//! Messages: structures with names, vectors and control messages, one (sendmsg, recvmsg) or an array of them.

use abi::Errno;
use abi::syscall::Dir;

use super::super::{
    LOOK_WORK, MAX_BYTES, MAX_VECTORS, MESSAGE_BYTES, MESSAGE_WORDS, VECTOR_BYTES, is_remote,
    messages, words,
};
use super::{Back, Plan, Value, back};
use crate::preempt;
use crate::user::get_words;

/// A struct user_msghdr.
type Header = [u64; MESSAGE_WORDS];
/// Most words that are written for one array. The lists of pieces and words grow by being copied as a whole, with interrupts off:
/// so many words, and the pieces that they name, are copied for the last time when there are 2,048 of one and 1,024 of the other.
const MOST_WORDS: u64 = 2800;
/// Offset of a struct mmsghdr's msg_len, and its bytes.
const LENGTH: (u64, u64) = (56, 4);

impl Plan {
    /// A struct msghdr: where its copy is. `None`: it cannot be read.
    pub(super) fn message(&mut self, dir: Dir, at: u64) -> Result<Option<u64>, Errno> {
        let Ok(header) = get_words(at) else {
            return Ok(None);
        };
        let place = self.room(8 * MESSAGE_WORDS as u64);
        self.header(at, place, header, back(dir, false), back(dir, true))?;
        Ok(Some(place))
    }

    /// An array of struct mmsghdr in argument `i`, its count in argument `count`: as many of them as there is room for, at least
    /// one. Linux may always do fewer than requested.
    ///
    /// # Errors
    /// ENOMEM.
    pub(super) fn messages(
        &mut self,
        dir: Dir,
        i: usize,
        count: usize,
        args: &[u64; 6],
    ) -> Result<(), Errno> {
        let (at, wanted) = (args[i], messages(args[count]));
        let place = self.room(wanted * MESSAGE_BYTES);
        let mut done = 0;
        while done < wanted {
            preempt::point(LOOK_WORK);
            let from = at.wrapping_add(done * MESSAGE_BYTES);
            let Ok(words) = get_words::<{ MESSAGE_WORDS + 1 }>(from) else {
                break; // Linux ends the array there, too
            };
            let [header @ .., length] = words;
            if done > 0
                && (self.len_bytes.saturating_add(remote_bytes(&header)) > MAX_BYTES
                    || self.words.len() as u64 + words_of(&header) > MOST_WORDS)
            {
                break;
            }
            let to = place + done * MESSAGE_BYTES;
            let all = Back::Message(done);
            let part = if dir == Dir::In { Back::None } else { all };
            self.header(from, to, header, part, part)?;
            self.word(to + LENGTH.0, length, false)?;
            self.add(Some(from + LENGTH.0), to + LENGTH.0, LENGTH.1, all)?;
            done += 1;
        }
        if done > 0 {
            self.args[i] = Some(Value::At(place));
            self.args[count] = Some(Value::Number(done));
        }
        Ok(())
    }

    /// The header of a message at `at`, whose copy is to be at `place`: what happens to its parts afterwards, and to what its
    /// vectors name.
    fn header(
        &mut self,
        at: u64,
        place: u64,
        header: Header,
        part: Back,
        data: Back,
    ) -> Result<(), Errno> {
        let [name, name_len, iov, count, control, control_len, flags] = header;
        let mut bounced = |addr, len_bytes: u64| match is_remote(addr) && len_bytes <= MAX_BYTES {
            true => self.piece(addr, len_bytes, part),
            false => Ok(None),
        };
        let new_name = bounced(name, u64::from(name_len as u32))?;
        let new_control = bounced(control, control_len)?;
        let new_iov = self.vectors(data, iov, count)?;
        let words = [
            new_name.map_or((name, false), |at| (at, true)),
            (name_len, false),
            new_iov.map_or((iov, false), |at| (at, true)),
            (count, false),
            new_control.map_or((control, false), |at| (at, true)),
            (control_len, false),
            (flags, false),
        ];
        // BOUND: the words of a header.
        for (i, (word, is_offset)) in words.into_iter().enumerate() {
            self.word(place + 8 * i as u64, word, is_offset)?;
        }
        if part != Back::None {
            // What recvmsg changes: namelen, controllen and flags, each with what lies behind it.
            for i in [1, 5, 6] {
                self.add(Some(at + 8 * i), place + 8 * i, 8, part)?;
            }
        }
        Ok(())
    }
}

/// Words that are written for a message: of its header with its length, two for a vector.
fn words_of(header: &Header) -> u64 {
    let count = header[3];
    MESSAGE_WORDS as u64 + 1 + 2 * count.min(MAX_VECTORS)
}

/// Bytes that a message takes at the place.
fn remote_bytes(header: &Header) -> u64 {
    let [name, name_len, iov, count, control, control_len, _] = *header;
    let of = |addr, len_bytes| if is_remote(addr) { len_bytes } else { 0 };
    let vectors = (0..count.min(MAX_VECTORS)).map(|i| {
        preempt::point(LOOK_WORK);
        let vector = words(iov.wrapping_add(i * VECTOR_BYTES));
        VECTOR_BYTES + vector.map_or(0, |[base, len_bytes]| of(base, len_bytes))
    });
    let parts = [
        of(name, u64::from(name_len as u32)),
        of(control, control_len),
    ];
    // POINT: remote_bytes
    vectors.chain(parts).fold(0, u64::saturating_add)
}
