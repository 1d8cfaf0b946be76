//! RAM of a node: a sorted list of ranges of guest-physical addresses, and where the host has each of them.
//!
//! ```text
//! guest-physical   | range 0 ........ |  a hole: no RAM  | range 1 ............ | range 2 .... |
//! on the host      | RAM file, 0 .... |                  | RAM file, behind it  | pool file, 0 |
//! ```
//!
//! The machine lays RAM out, once; all others are handed the list and know nothing else of it. Two files are behind RAM: one for
//! the ranks' partitions and all that the kernel needs, one for the node pool.

use core::fmt;

use abi::map::PAGE;

/// Most ranges. A PC has two or three, a host with several memory controllers a few per controller; memory that Linux gives up in
/// contiguous pieces is asked for in few of them.
pub const MAX_RANGES: usize = abi::map::MAX_RAM_RANGES;

/// No physical address has more bits (AMD APM vol. 2, 5.3).
const PHYSICAL_BITS: u32 = 52;

/// A file behind RAM, and an offset in it in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// All but the node pool.
    Ram(u64),
    /// The node pool, and what lies at its end for firmware and loader.
    Pool(u64),
}

impl Place {
    /// The offset in the file.
    #[must_use]
    pub const fn offset(self) -> u64 {
        match self {
            Place::Ram(offset) | Place::Pool(offset) => offset,
        }
    }

    /// Bytes from another place to this one; `None` when that is in another file, or lies behind.
    #[must_use]
    const fn since(self, other: Place) -> Option<u64> {
        match (self, other) {
            (Place::Ram(to), Place::Ram(from)) | (Place::Pool(to), Place::Pool(from)) => {
                to.checked_sub(from)
            }
            _ => None,
        }
    }

    /// `bytes` further in the same file.
    #[must_use]
    const fn behind(self, bytes: u64) -> Place {
        match self {
            Place::Ram(offset) => Place::Ram(offset + bytes),
            Place::Pool(offset) => Place::Pool(offset + bytes),
        }
    }
}

/// RAM in one piece, in guest-physical memory and in its file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RamRange {
    /// Guest-physical address; a multiple of the page size.
    pub gpa: u64,
    /// Bytes; whole pages, at least one.
    pub len_bytes: u64,
    /// Where its first byte lies; a multiple of the page size.
    pub place: Place,
}

impl RamRange {
    const NONE: RamRange = RamRange {
        gpa: 0,
        len_bytes: 0,
        place: Place::Ram(0),
    };

    /// The first address behind it.
    const fn end(&self) -> u64 {
        self.gpa + self.len_bytes
    }

    /// Whether this range goes on where `before` ends, in memory and in the file.
    fn continues(&self, before: &RamRange) -> bool {
        self.gpa == before.end() && self.place == before.place.behind(before.len_bytes)
    }

    /// Whether a byte of a file is in both.
    const fn shares_bytes(&self, other: &RamRange) -> bool {
        match (self.place.since(other.place), other.place.since(self.place)) {
            (Some(behind), _) => behind < other.len_bytes,
            (None, Some(before)) => before < self.len_bytes,
            (None, None) => false,
        }
    }

    fn check(&self) -> Result<(), Bad> {
        let words = [self.gpa, self.len_bytes, self.place.offset()];
        if self.len_bytes == 0 || words.iter().any(|word| !word.is_multiple_of(PAGE)) {
            return Err(Bad::Unaligned);
        }
        let ends = [self.gpa, self.place.offset()].map(|start| start.checked_add(self.len_bytes));
        let inside = |end: &Option<u64>| end.is_some_and(|end| end <= 1 << PHYSICAL_BITS);
        if ends.iter().all(inside) {
            Ok(())
        } else {
            Err(Bad::Beyond)
        }
    }
}

/// Why a list of ranges is not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bad {
    /// No ranges.
    Empty,
    /// More than [`MAX_RANGES`].
    TooMany,
    /// A range does not consist of whole pages.
    Unaligned,
    /// A range ends beyond the last physical address.
    Beyond,
    /// A range lies below the one before it, or overlaps it.
    Order,
    /// Two ranges have the same bytes of a file.
    Shared,
}

impl fmt::Display for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bad::Empty => f.write_str("the machine has no memory"),
            Bad::TooMany => write!(
                f,
                "the machine's memory is in more than {MAX_RANGES} pieces: a node takes at most so many"
            ),
            Bad::Unaligned => f.write_str("a piece of the machine's memory is not whole pages"),
            Bad::Beyond => write!(
                f,
                "a piece of the machine's memory ends beyond {PHYSICAL_BITS} bits of address"
            ),
            Bad::Order => f.write_str("pieces of the machine's memory overlap or are not sorted"),
            Bad::Shared => f.write_str("two pieces of the machine's memory are the same"),
        }
    }
}

impl core::error::Error for Bad {}

/// RAM of a node: ranges by ascending guest-physical address, which share neither addresses nor bytes of a file.
#[derive(Clone, PartialEq, Eq)]
pub struct Ram {
    ranges: [RamRange; MAX_RANGES],
    count: usize,
}

impl Ram {
    /// RAM of these ranges, sorted by address. Those that continue each other are made one.
    ///
    /// # Errors
    /// [`Bad`]; no range is ever left out.
    pub fn new(ranges: impl IntoIterator<Item = RamRange>) -> Result<Ram, Bad> {
        let mut ram = Ram {
            ranges: [RamRange::NONE; MAX_RANGES],
            count: 0,
        };
        for range in ranges {
            ram.push(range)?;
        }
        if ram.count == 0 {
            return Err(Bad::Empty);
        }
        Ok(ram)
    }

    fn push(&mut self, range: RamRange) -> Result<(), Bad> {
        range.check()?;
        let known = self.ranges();
        if known.last().is_some_and(|last| range.gpa < last.end()) {
            return Err(Bad::Order);
        }
        if known.iter().any(|known| range.shares_bytes(known)) {
            return Err(Bad::Shared);
        }
        if let Some(last) = self.ranges[..self.count].last_mut()
            && range.continues(last)
        {
            last.len_bytes += range.len_bytes;
            return Ok(());
        }
        let free = self.ranges.get_mut(self.count).ok_or(Bad::TooMany)?;
        *free = range;
        self.count += 1;
        Ok(())
    }

    /// The ranges; at least one.
    #[must_use]
    pub fn ranges(&self) -> &[RamRange] {
        &self.ranges[..self.count]
    }

    /// The lowest address. Where the kernel lies is counted from here.
    #[must_use]
    pub const fn base(&self) -> u64 {
        self.ranges[0].gpa
    }

    /// Bytes of all ranges.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.ranges().iter().map(|range| range.len_bytes).sum()
    }

    /// Where all of `gpa .. gpa + len_bytes` lies; `None` unless all of it is RAM and one piece of a file. Of no bytes: where
    /// the byte at `gpa` lies.
    #[must_use]
    pub fn place(&self, gpa: u64, len_bytes: u64) -> Option<Place> {
        let above = self.ranges().partition_point(|range| range.gpa <= gpa);
        let range = self.ranges().get(above.checked_sub(1)?)?;
        let from = gpa - range.gpa;
        let inside = from < range.len_bytes && len_bytes <= range.len_bytes - from;
        inside.then(|| range.place.behind(from))
    }

    /// The guest-physical address of `len_bytes` of a file at `place`; `None` unless all of it is RAM in one piece. Of no bytes:
    /// that of the byte there.
    #[must_use]
    pub fn gpa(&self, place: Place, len_bytes: u64) -> Option<u64> {
        self.ranges().iter().find_map(|range| {
            let from = place.since(range.place)?;
            let inside = from < range.len_bytes && len_bytes <= range.len_bytes - from;
            inside.then(|| range.gpa + from)
        })
    }
}

impl fmt::Debug for Ram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.ranges()).finish()
    }
}
