//! Frames that hold something of a file.

use abi::addr::Phys;

/// What a file is told apart by on the host: device and inode.
pub type File = [u64; 2];

/// How the host lays a file over frames.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Laid {
    /// Not yet.
    No = 0,
    /// So that it can be read.
    ToRead = 1,
    /// So that it can be written to as well.
    ToWrite = 2,
}

/// Adjacent frames that hold something of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// Offset in the file of the first byte.
    pub offset: u64,
    /// Address of the first byte.
    pub pa: Phys,
    /// Length in bytes.
    pub len_bytes: u64,
}

impl Run {
    /// Makes it longer by `next`; `false`: that is not adjacent both ways.
    pub fn append(&mut self, next: &Run) -> bool {
        let (end, end_pa) = (self.offset + self.len_bytes, self.pa + self.len_bytes);
        let is_adjacent = next.offset == end && next.pa == end_pa;
        if is_adjacent {
            self.len_bytes += next.len_bytes;
        }
        is_adjacent
    }
}

/// Bytes of an object in adjacent frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// Offset in the file of the first byte; a multiple of 4 KiB.
    pub offset: u64,
    /// Length in bytes; a multiple of 4 KiB.
    pub len_bytes: u64,
    /// Address of the first byte.
    pub pa: Phys,
    /// Known to hold zeros, when it is new.
    pub zero: bool,
    /// How the file is laid over it.
    pub laid: Laid,
    /// Some of its pages may be zeros, for the file did not have them.
    pub is_lost: bool,
}

impl Piece {
    /// End of it in the file.
    pub const fn end(&self) -> u64 {
        self.offset + self.len_bytes
    }

    /// Its frames.
    pub const fn run(&self) -> Run {
        Run {
            offset: self.offset,
            pa: self.pa,
            len_bytes: self.len_bytes,
        }
    }

    /// Offset in the file of what a frame holds; `None`: it is none of these.
    pub fn offset_of(&self, frame: Phys) -> Option<u64> {
        let inside = frame.0.checked_sub(self.pa.0)?;
        (inside < self.len_bytes).then(|| self.offset + inside)
    }

    /// The part in `from .. to` of the file, which must overlap.
    #[must_use]
    pub fn clip(&self, from: u64, to: u64) -> Piece {
        let start = self.offset.max(from);
        Piece {
            offset: start,
            len_bytes: self.end().min(to) - start,
            pa: self.pa + (start - self.offset),
            ..*self
        }
    }
}
