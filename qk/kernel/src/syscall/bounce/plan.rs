//! What is to be bounced of a call, and where it goes: found before anything is copied.

mod messages;

use abi::Errno;
use abi::map::in_window;
use abi::syscall::Dir;
use abi::syscall::layout::{MAX_VECTORS, STRING_BYTES, VECTOR_BYTES, interfaces_bytes};
use abi::syscall::operand::{Flow, Operand, Piece as Named, Reader, Size};
use alloc::vec::Vec;
use qk_core::regions::Prot;

use crate::user::{Program, string_bytes};
use crate::{preempt, windows};

/// Most bytes that are bounced for one call: of longer buffers the beginning, and the call does as much.
const MAX_BYTES: u64 = 4 << 20;
/// Work of looking at a vector or a page, in instructions.
const LOOK_WORK: u32 = 170;
/// The same of one that is not bounced.
pub const PASS_WORK: u32 = LOOK_WORK / 5;
/// Work of writing a word, in instructions.
pub const WORD_WORK: u32 = 50;
/// Of a vector of strings: more take more than an execve may (three quarters of _STK_LIM, fs/exec.c).
const MOST_STRINGS: u64 = (6 << 20) / 8;
/// sizeof(struct ifconf), and of its length, an int (uapi/linux/if.h).
const IFCONF_BYTES: u64 = 16;
const LENGTH_BYTES: u64 = 4;

/// How much of what Linux was given is copied back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Back {
    /// Nothing: Linux only reads it.
    None,
    /// All, when the call succeeds.
    All,
    /// All, whatever becomes of the call: what it was to read and change.
    Always,
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

/// Whether a pointer leads into a window.
#[inline]
fn is_remote(addr: u64) -> bool {
    in_window(addr).is_some()
}

/// Whether an argument whose value is `at` leads into windows.
fn leads_there(operand: Operand, at: u64) -> bool {
    operand
        .pieces(at, &Program(PASS_WORK), &mut stop_there)
        .is_break()
}

/// Ends the search for what leads into windows at the first that does.
pub fn stop_there(named: Named) -> Flow {
    match is_remote(named.at) {
        true => Flow::Break(()),
        false => Flow::Continue(()),
    }
}

impl Plan {
    /// Adds what there is to bounce of the argument with index `i`, whose value is `at`.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn argument(&mut self, operand: Operand, i: usize, at: u64) -> Result<(), Errno> {
        if !leads_there(operand, at) {
            return Ok(());
        }
        let place = match operand {
            Operand::String => match string_bytes(at, STRING_BYTES) {
                Some(len_bytes) => self.piece(at, len_bytes, Back::None)?,
                None => None,
            },
            Operand::Vectors(dir, count) => self.vectors(back(dir, true), at, count)?,
            Operand::Message(dir) => self.message(dir, at)?,
            Operand::Messages(dir, count, counter) => {
                self.messages(dir, at, count, usize::from(counter))?
            }
            Operand::MaskPair => self.mask(at)?,
            Operand::Interfaces => self.interfaces(at)?,
            // Not a structure of ethtool, nor a question about a mapping.
            _ => match operand.flat() {
                Some((dir, size)) => self.memory(dir, size, at)?,
                None => None,
            },
        };
        self.args[i] = place.map(Value::At);
        Ok(())
    }

    /// Flat memory: where its copy is. `None`: it is left as it is.
    fn memory(&mut self, dir: Dir, size: Size, theirs: u64) -> Result<Option<u64>, Errno> {
        let (len_bytes, room) = (size.bytes(&Program(LOOK_WORK)), self.left_bytes());
        let Size::Counted(_, length) = size else {
            return match len_bytes <= room {
                true => self.piece(theirs, len_bytes, back(dir, false)),
                false => Ok(None), // More than any structure has.
            };
        };
        let at = self.piece(theirs, len_bytes.min(room), back(dir, true))?;
        if at.is_some() && len_bytes > room {
            self.args[usize::from(length)] = Some(Value::Number(room));
        }
        Ok(at)
    }

    /// An array of vectors, with those that lie in windows bounced: where it is. `None`: it cannot be read.
    fn vectors(&mut self, back: Back, at: u64, count: u64) -> Result<Option<u64>, Errno> {
        if count > MAX_VECTORS {
            return Ok(None); // Linux refuses so many before it looks there.
        }
        let place = self.room(count * VECTOR_BYTES);
        // POINT: user::read
        for i in 0..count {
            let vector = Program(LOOK_WORK).words(at.wrapping_add(i * VECTOR_BYTES));
            let Some([base, len_bytes]) = vector else {
                return Ok(None);
            };
            // Linux finds out what is wrong with a negative length.
            let wanted = if (len_bytes as i64) < 0 { 0 } else { len_bytes };
            let room = self.left_bytes();
            let piece = match is_remote(base) {
                true => self.piece(base, wanted.min(room), back)?,
                false => {
                    // Linux gets it as it is; it counts in what the call returns.
                    self.add(None, 0, wanted, back)?;
                    None
                }
            };
            let cut = piece.is_some() && wanted > room;
            let words = [base, if cut { room } else { len_bytes }];
            self.structure(place + i * VECTOR_BYTES, &words, &[(0, piece)])?;
            if cut {
                // The call ends here: what follows has no bytes.
                // POINT: structure
                for rest in i + 1..count {
                    self.structure(place + rest * VECTOR_BYTES, &[0, 0], &[])?;
                }
                break;
            }
        }
        Ok(Some(place))
    }

    /// Adds a vector of strings that ends with a null pointer, the argument with index `i`, where it or a string lies in a window. What
    /// cannot be read, and a longer string than a path, is left as it is.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn strings(&mut self, i: usize, at: u64) -> Result<(), Errno> {
        let pointer = |n: u64| {
            let word = Program(LOOK_WORK).words(at.wrapping_add(8 * n));
            word.map(|[word]| word)
        };
        let (mut count, mut any) = (0, is_remote(at));
        // POINT: user::read
        loop {
            match pointer(count) {
                Some(0) => break,
                Some(word) if count < MOST_STRINGS => any |= is_remote(word),
                _ => return Ok(()),
            }
            count += 1;
        }
        if !any {
            return Ok(());
        }
        let place = self.room(8 * (count + 1));
        // POINT: user::read
        for n in 0..count {
            let word = pointer(n).unwrap_or(0);
            let len_bytes = if is_remote(word) {
                string_bytes(word, STRING_BYTES).filter(|&len_bytes| len_bytes < STRING_BYTES)
            } else {
                None
            };
            let copy = match len_bytes {
                Some(len_bytes) => self.bounced(word, len_bytes, Back::None)?,
                None => None,
            };
            self.structure(place + 8 * n, &[word], &[(0, copy)])?;
        }
        self.structure(place + 8 * count, &[0], &[])?;
        self.args[i] = Some(Value::At(place));
        Ok(())
    }

    /// pselect6's pair of mask and length: where its copy is. `None`: it cannot be read.
    fn mask(&mut self, at: u64) -> Result<Option<u64>, Errno> {
        const MASK_BYTES: u64 = 8;
        let Some([mask, len_bytes]) = Program(LOOK_WORK).words(at) else {
            return Ok(None);
        };
        let place = self.room(16);
        let copy = self.bounced(mask, MASK_BYTES, Back::None)?;
        self.structure(place, &[mask, len_bytes], &[(0, copy)])?;
        Ok(Some(place))
    }

    /// A struct ifconf: where its copy is. `None`: it cannot be read.
    fn interfaces(&mut self, at: u64) -> Result<Option<u64>, Errno> {
        let Some([length, list]) = Program(LOOK_WORK).words(at) else {
            return Ok(None);
        };
        let place = self.room(IFCONF_BYTES);
        let bytes = interfaces_bytes(length).min(self.left_bytes());
        let copy = self.bounced(list, bytes, Back::All)?;
        let length = if copy.is_some() { bytes } else { length };
        self.structure(place, &[length, list], &[(1, copy)])?;
        // Linux says there how long the list is.
        self.add(Some(at), place, LENGTH_BYTES, Back::All)?;
        Ok(Some(place))
    }

    /// A buffer that may lie in a window: its offset, or `None`.
    fn bounced(&mut self, at: u64, len_bytes: u64, back: Back) -> Result<Option<u64>, Errno> {
        match is_remote(at) && len_bytes <= MAX_BYTES {
            true => self.piece(at, len_bytes, back),
            false => Ok(None),
        }
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

    /// Words of a structure; those with these indices are pointers to copies, where there are some.
    fn structure(
        &mut self,
        place: u64,
        words: &[u64],
        pointers: &[(usize, Option<u64>)],
    ) -> Result<(), Errno> {
        for (i, &word) in words.iter().enumerate() {
            preempt::point(WORD_WORK);
            // BOUND: its pointers.
            let copy = pointers.iter().find(|(at, _)| *at == i);
            let copy = copy.and_then(|(_, copy)| *copy);
            make_room(&mut self.words)?;
            let at = place + 8 * i as u64;
            self.words.push((at, copy.unwrap_or(word), copy.is_some()));
        }
        Ok(())
    }

    /// Bytes that may still be bounced.
    fn left_bytes(&self) -> u64 {
        MAX_BYTES.saturating_sub(self.len_bytes)
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
        Dir::Out => Back::All,
        Dir::InOut => Back::Always,
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
