//! What the arguments of one call are and what memory they lead to: the one place where kinds and lengths are decoded.
//!
//! A row says what an argument is in general ([`Arg`]). With the values of a call it is an [`Operand`]: the request of an ioctl is
//! looked up, a count is found. [`Operand::pieces`] goes over all memory that it leads to, in the order in which Linux does, through the
//! pointers inside of structures. What is done about a piece is the visitor's: the QK marks what Linux wrote, bounces what
//! lies in windows and copies for a trace; the proxy replaces operands one by one.
//!
//! Addresses and lengths are the program's, unchecked. Where a structure cannot be read the walk goes on behind it: Linux
//! refuses such a call, or ends it there.

#[cfg(test)]
mod tests;

use core::ops::ControlFlow;

use super::layout::{
    CONTROL, CONTROL_LEN, COUNT, HEADER_BYTES, Header, MAP_NAME, MAP_NAME_LEN, MAP_QUERY_BYTES,
    MAX_RW_BYTES, MAX_VECTORS, MESSAGE_BYTES, MapQuery, NAME, NAME_LEN, STRING_BYTES, VECTOR_BYTES,
    VECTORS, interfaces_bytes,
};
use super::{Arg, Call, Dir, Len, request};

/// More than an ethtool structure ever holds: its length is the device's affair.
const ETHTOOL_BYTES: u64 = 1 << 20;
/// sizeof(sigset_t) of the kernel: _NSIG / 8.
const MASK_BYTES: u64 = 8;

/// Reads a program's memory.
pub trait Reader {
    /// `N` words of 64 bits; `None` unless all can be read.
    fn words<const N: usize>(&self, at: u64) -> Option<[u64; N]>;
    /// An unsigned int.
    fn int(&self, at: u64) -> Option<u32>;
}

/// An argument of one call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operand {
    /// A number, or nothing.
    Number,
    /// A descriptor.
    Fd,
    /// The argument of a request that does not exist: nothing is known of it.
    Unknown,
    /// A NUL-terminated string.
    String,
    /// Flat memory.
    Flat(Dir, Size),
    /// Array of struct iovec, and how many.
    Vectors(Dir, u64),
    /// struct msghdr.
    Message(Dir),
    /// Array of struct mmsghdr, how many Linux looks at, and the index of the argument that says so.
    Messages(Dir, u64, u8),
    /// A signal mask for the time of the call.
    Mask,
    /// Pointer to one, and its length.
    MaskPair,
    /// A process or group that is to get signals.
    Owner,
    /// The same behind a pointer: an int.
    OwnerAt,
    /// The same behind a pointer: struct f_owner_ex.
    OwnerEx,
    /// struct ifconf: length, and pointer to a list.
    Interfaces,
    /// struct ifreq that points to an ethtool structure.
    Ethtool,
    /// struct procmap_query: a question about a mapping, and where its name goes.
    MapQuery,
}

/// How long flat memory is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Size {
    /// So many bytes.
    Bytes(u64),
    /// As many as the argument with this index says.
    Counted(u64, u8),
    /// As many as the unsigned int at this address says.
    At(u64),
}

/// What a piece of memory is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A NUL-terminated string of at most so many bytes.
    String,
    /// A structure or an array of them.
    Structure,
    /// A buffer whose length an argument says; the call may return how much of it was filled.
    Counted,
    /// Another buffer.
    Buffer,
    /// An array of struct iovec.
    Vectors,
    /// The buffer of one of them; the call returns how much of all was filled.
    Vector,
    /// A struct msghdr.
    Message,
    /// Its control messages.
    Control,
    /// An array of struct mmsghdr.
    Messages,
}

/// Memory that a call names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// What it is.
    pub kind: Kind,
    /// Which way it moves.
    pub dir: Dir,
    /// Its address.
    pub at: u64,
    /// Its length, of which one call moves no more than [`MAX_RW_BYTES`].
    pub len_bytes: u64,
}

/// Whether a visitor wants to be shown more.
pub type Flow = ControlFlow<()>;

impl Size {
    /// In bytes; 0 where the number behind a pointer cannot be read.
    #[inline]
    pub fn bytes(self, memory: &impl Reader) -> u64 {
        match self {
            Size::Bytes(bytes) | Size::Counted(bytes, _) => bytes,
            Size::At(at) => memory.int(at).map_or(0, u64::from),
        }
    }
}

impl Len {
    #[inline]
    fn size(self, args: &[u64; 6]) -> Size {
        match self {
            Len::Bytes(bytes) => Size::Bytes(bytes.into()),
            Len::Arg(i) => Size::Counted(args[usize::from(i)], i),
            Len::Plus(i, more) => {
                // Linux refuses a negative length, once it has read what comes before.
                let length = Some(args[usize::from(i)]).filter(|length| *length as i64 >= 0);
                Size::Bytes(length.unwrap_or(0).saturating_add(more.into()))
            }
            Len::Most(i, most) => Size::Counted(args[usize::from(i)].min(most.into()), i),
            // Counts are ints to Linux, but those of process_vm_readv, which are refused if they are larger.
            Len::Times(i, bytes) => {
                Size::Bytes(u64::from(args[usize::from(i)] as u32) * u64::from(bytes))
            }
            Len::Bits(i) => Size::Bytes(u64::from(args[usize::from(i)] as u32).div_ceil(64) * 8),
            Len::AtPtr(i) => Size::At(args[usize::from(i)]),
        }
    }
}

impl Call {
    /// What argument `i` is, which the row has.
    #[inline(always)]
    #[must_use]
    pub fn operand(&self, i: usize, args: &[u64; 6]) -> Operand {
        let count = |i: u8| u64::from(args[usize::from(i)] as u32); // an unsigned int
        match self.args[i] {
            Arg::Int | Arg::Millis | Arg::Hex => Operand::Number,
            Arg::Fd | Arg::DirFd => Operand::Fd,
            Arg::Path | Arg::Str => Operand::String,
            Arg::Mem(dir, len) => Operand::Flat(dir, len.size(args)),
            Arg::Iovec(dir, i) => Operand::Vectors(dir, count(i)),
            Arg::Msghdr(dir) => Operand::Message(dir),
            Arg::Mmsghdr(dir, i) => Operand::Messages(dir, count(i).min(MAX_VECTORS), i),
            Arg::Ioctl => request::ioctl(args[i - 1]),
            Arg::Fcntl => request::fcntl(args[i - 1]),
            Arg::Semctl => request::semctl(args[i - 1]),
            Arg::Sysfs => request::sysfs(args[i - 1]),
            Arg::Prctl => request::prctl(args[i - 1]),
            Arg::Keyctl => request::keyctl(i, args),
            Arg::Sigset(_) => Operand::Mask,
            Arg::SigsetPair => Operand::MaskPair,
        }
    }

    /// Where the signal mask lies that the call sets while it waits, and the length that it is said to have. `None`: it sets
    /// none, or that cannot be read.
    #[inline]
    pub fn mask(&self, args: &[u64; 6], memory: &impl Reader) -> Option<(u64, u64)> {
        let i = usize::from(self.mask_at?.get());
        match self.args[i] {
            Arg::Sigset(len) => Some((args[i], args[usize::from(len)])),
            _ => memory.words(args[i]).map(|[at, len]| (at, len)),
        }
    }

    /// Shows `visit` all memory that the call's arguments lead to.
    #[inline]
    pub fn pieces(
        &self,
        args: &[u64; 6],
        memory: &impl Reader,
        visit: &mut impl FnMut(Piece) -> Flow,
    ) -> Flow {
        let mut walk = Walk { memory, visit };
        for (i, (arg, &at)) in self.args.iter().zip(args).enumerate() {
            if arg.may_lead() {
                walk.operand(self.operand(i, args), at)?;
            }
        }
        Flow::Continue(())
    }
}

impl Operand {
    /// The flat memory that it points to, if it does and nothing else.
    #[inline]
    #[must_use]
    pub const fn flat(self) -> Option<(Dir, Size)> {
        match self {
            Operand::Flat(dir, size) => Some((dir, size)),
            Operand::Mask => Some((Dir::In, Size::Bytes(MASK_BYTES))),
            Operand::OwnerAt => Some((Dir::In, Size::Bytes(4))),
            Operand::OwnerEx => Some((Dir::In, Size::Bytes(8))),
            _ => None,
        }
    }

    /// Shows `visit` all memory that it leads to when its value is `at`.
    #[inline]
    pub fn pieces(
        self,
        at: u64,
        memory: &impl Reader,
        visit: &mut impl FnMut(Piece) -> Flow,
    ) -> Flow {
        Walk { memory, visit }.operand(self, at)
    }
}

impl Piece {
    const fn new(kind: Kind, dir: Dir, at: u64, len_bytes: u64) -> Piece {
        Piece {
            kind,
            dir,
            at,
            len_bytes,
        }
    }
}

struct Walk<'a, R, V> {
    memory: &'a R,
    visit: &'a mut V,
}

impl<R: Reader, V: FnMut(Piece) -> Flow> Walk<'_, R, V> {
    #[inline]
    fn show(&mut self, kind: Kind, dir: Dir, at: u64, len_bytes: u64) -> Flow {
        (self.visit)(Piece::new(kind, dir, at, len_bytes))
    }

    /// A null pointer leads nowhere.
    #[inline]
    fn operand(&mut self, operand: Operand, at: u64) -> Flow {
        if at == 0 {
            return Flow::Continue(());
        }
        if let Some((dir, size)) = operand.flat() {
            let kind = match size {
                Size::Bytes(_) => Kind::Structure,
                Size::Counted(..) => Kind::Counted,
                Size::At(_) => Kind::Buffer,
            };
            return self.show(kind, dir, at, size.bytes(self.memory).min(MAX_RW_BYTES));
        }
        match operand {
            Operand::String => self.show(Kind::String, Dir::In, at, STRING_BYTES)?,
            Operand::Vectors(dir, count) => self.vectors(dir, at, count)?,
            Operand::Message(dir) => drop(self.message(dir, at)?),
            Operand::Messages(dir, count, _) => self.messages(dir, at, count)?,
            Operand::MaskPair => {
                if let Some([mask, _]) = self.structure(Dir::In, at)? {
                    self.show(Kind::Structure, Dir::In, mask, MASK_BYTES)?;
                }
            }
            Operand::Interfaces => {
                if let Some([len, list]) = self.structure(Dir::InOut, at)? {
                    self.show(Kind::Buffer, Dir::Out, list, interfaces_bytes(len))?;
                }
            }
            Operand::Ethtool => {
                // struct ifreq: name (16 bytes), pointer, padding
                if let Some([_, _, data, _, _]) = self.structure(Dir::In, at)? {
                    self.show(Kind::Buffer, Dir::InOut, data, ETHTOOL_BYTES)?;
                }
            }
            Operand::MapQuery => self.map_query(at)?,
            _ => {}
        }
        Flow::Continue(())
    }

    /// A structure that says how long it is, and a buffer for the mapping's name (uapi/linux/fs.h).
    fn map_query(&mut self, at: u64) -> Flow {
        let (least, most) = MAP_QUERY_BYTES.into_inner();
        let len_bytes = self.memory.int(at).map_or(0, u64::from);
        let len_bytes = len_bytes.clamp(least, most);
        self.show(Kind::Structure, Dir::InOut, at, len_bytes)?;
        let words: Option<MapQuery> = self.memory.words(at);
        if let Some(words) = words {
            let room_bytes = u64::from(words[MAP_NAME_LEN] as u32).min(STRING_BYTES);
            self.show(Kind::Buffer, Dir::Out, words[MAP_NAME], room_bytes)?;
        }
        Flow::Continue(())
    }

    /// A structure of words, and what it holds.
    fn structure<const N: usize>(
        &mut self,
        dir: Dir,
        at: u64,
    ) -> ControlFlow<(), Option<[u64; N]>> {
        self.show(Kind::Structure, dir, at, 8 * N as u64)?;
        ControlFlow::Continue(self.memory.words(at))
    }

    /// As many of the bytes of all as one call moves.
    #[inline]
    fn vectors(&mut self, dir: Dir, at: u64, count: u64) -> Flow {
        let count = count.min(MAX_VECTORS);
        self.show(Kind::Vectors, Dir::In, at, count * VECTOR_BYTES)?;
        let mut left_bytes = MAX_RW_BYTES;
        for i in 0..count {
            let vector = self.memory.words(at.wrapping_add(i * VECTOR_BYTES));
            let Some([base, len_bytes]) = vector else {
                break;
            };
            let len_bytes = left_bytes.min(len_bytes);
            left_bytes -= len_bytes;
            self.show(Kind::Vector, dir, base, len_bytes)?;
        }
        Flow::Continue(())
    }

    /// Whether it could be read.
    fn message(&mut self, dir: Dir, at: u64) -> ControlFlow<(), bool> {
        let of_header = if dir == Dir::In { dir } else { Dir::InOut };
        self.show(Kind::Message, of_header, at, HEADER_BYTES)?;
        let header: Option<Header> = self.memory.words(at);
        let Some(header) = header else {
            return ControlFlow::Continue(false);
        };
        let name_bytes = u64::from(header[NAME_LEN] as u32);
        let control_bytes = header[CONTROL_LEN].min(MAX_RW_BYTES);
        self.show(Kind::Buffer, dir, header[NAME], name_bytes)?;
        self.show(Kind::Control, dir, header[CONTROL], control_bytes)?;
        self.vectors(dir, header[VECTORS], header[COUNT])?;
        ControlFlow::Continue(true)
    }

    /// Linux ends the array where it cannot be read, and says in each how long it is.
    fn messages(&mut self, dir: Dir, at: u64, count: u64) -> Flow {
        self.show(Kind::Messages, Dir::InOut, at, count * MESSAGE_BYTES)?;
        for i in 0..count {
            if !self.message(dir, at.wrapping_add(i * MESSAGE_BYTES))? {
                break;
            }
        }
        Flow::Continue(())
    }
}
