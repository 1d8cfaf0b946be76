//! Messages: structures with names, vectors and control messages, one (sendmsg, recvmsg) or an array of them.

use abi::Errno;
use abi::syscall::Dir;
use abi::syscall::layout::{
    CONTROL, CONTROL_LEN, COUNT, FLAGS, HEADER_BYTES, Header, MAX_VECTORS, MESSAGE_BYTES,
    MESSAGE_LEN, NAME, NAME_LEN, VECTORS,
};
use abi::syscall::operand::{Flow, Kind, Operand, Piece, Reader};

use super::{Back, LOOK_WORK, MAX_BYTES, Plan, Value, back, is_remote};
use crate::user::Program;

/// Most words that are written for one array. The lists of pieces and words grow by being copied as a whole, with interrupts off:
/// so many words, and the pieces that they name, are copied for the last time when there are 2,048 of one and 1,024 of the other.
const MOST_WORDS: u64 = 2800;
/// Offset of a struct mmsghdr's msg_len, and its bytes.
const LENGTH: (u64, u64) = (8 * MESSAGE_LEN as u64, 4);

impl Plan {
    /// A struct msghdr: where its copy is. `None`: it cannot be read.
    pub(super) fn message(&mut self, dir: Dir, at: u64) -> Result<Option<u64>, Errno> {
        let Some(header) = Program(LOOK_WORK).words(at) else {
            return Ok(None);
        };
        let place = self.room(HEADER_BYTES);
        self.header(at, place, header, back(dir, false), back(dir, true))?;
        Ok(Some(place))
    }

    /// An array of so many struct mmsghdr, their number in argument `counter`: where its copy is, with as many of them as there is
    /// room for, at least one. Linux may always do fewer than requested. `None`: it cannot be read.
    ///
    /// # Errors
    /// ENOMEM.
    pub(super) fn messages(
        &mut self,
        dir: Dir,
        at: u64,
        wanted: u64,
        counter: usize,
    ) -> Result<Option<u64>, Errno> {
        let place = self.room(wanted * MESSAGE_BYTES);
        let mut done = 0;
        // POINT: user::read
        while done < wanted {
            let from = at.wrapping_add(done * MESSAGE_BYTES);
            let Some([header @ .., length]) = Program(LOOK_WORK).words::<8>(from) else {
                break; // Linux ends the array there, too
            };
            if done > 0
                && (self.len_bytes.saturating_add(remote_bytes(dir, from)) > MAX_BYTES
                    || self.words.len() as u64 + words_of(&header) > MOST_WORDS)
            {
                break;
            }
            let to = place + done * MESSAGE_BYTES;
            let all = Back::Message(done);
            let part = if dir == Dir::In { Back::None } else { all };
            self.header(from, to, header, part, part)?;
            self.structure(to + LENGTH.0, &[length], &[])?;
            self.add(Some(from + LENGTH.0), to + LENGTH.0, LENGTH.1, all)?;
            done += 1;
        }
        if done == 0 {
            return Ok(None);
        }
        self.args[counter] = Some(Value::Number(done));
        Ok(Some(place))
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
        let name_bytes = u64::from(header[NAME_LEN] as u32);
        let name = self.bounced(header[NAME], name_bytes, part)?;
        let control = self.bounced(header[CONTROL], header[CONTROL_LEN], part)?;
        let vectors = self.vectors(data, header[VECTORS], header[COUNT])?;
        let pointers = [(NAME, name), (CONTROL, control), (VECTORS, vectors)];
        self.structure(place, &header, &pointers)?;
        if part != Back::None {
            // What recvmsg changes, each with what lies behind it.
            for i in [NAME_LEN, CONTROL_LEN, FLAGS].map(|i| 8 * i as u64) {
                self.add(Some(at + i), place + i, 8, part)?;
            }
        }
        Ok(())
    }
}

/// Words that are written for a message: of its header with its length, two for a vector.
fn words_of(header: &Header) -> u64 {
    header.len() as u64 + 1 + 2 * header[COUNT].min(MAX_VECTORS)
}

/// Bytes that a message takes at the place, besides its header.
fn remote_bytes(dir: Dir, at: u64) -> u64 {
    let mut bytes = 0u64;
    let _ = Operand::Message(dir).pieces(at, &Program(LOOK_WORK), &mut |piece: Piece| {
        let is_copied = is_remote(piece.at) && piece.kind != Kind::Message;
        if is_copied || piece.kind == Kind::Vectors {
            bytes = bytes.saturating_add(piece.len_bytes);
        }
        Flow::Continue(())
    });
    bytes
}
