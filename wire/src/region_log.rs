//! The region log: by which a rank's proxy follows what is mapped where.
//!
//! The QK appends a record for every change of the rank's mappings; the proxy applies records in order, at the latest
//! before it carries out a request that names their position ([`crate::ship::Request::log_position`]), and says how far
//! it got. The QK reuses a frame only after the removal of its last mapping has been acknowledged, and never overwrites a
//! record that was not: when the log is full it has the proxy catch up (`HostOp::Sync`). So there is no overflow.

use zerocopy::{FromBytes, KnownLayout};

use crate::word::Word;

/// Records in the ring; a power of two.
pub const RECORDS: usize = if cfg!(loom) { 2 } else { 512 };

/// One shared record; see [`Change`].
#[derive(FromBytes, KnownLayout, Default, Debug)]
#[repr(C)]
pub struct Record {
    /// Page-aligned address, with the kind of change in bits 0..=3 and bits of [`prot`] in bits 4..=7.
    addr: Word,
    len_bytes: Word,
    gpa: Word,
    reserved: Word,
}

/// The log in shared memory.
#[derive(FromBytes, KnownLayout, Debug)]
#[repr(C)]
pub struct RegionLog {
    /// Records ever appended; written by the QK.
    head: Word,
    _pad0: [Word; 7],
    /// Records ever applied; written by the proxy.
    applied: Word,
    _pad1: [Word; 7],
    ring: [Record; RECORDS],
}

/// Bits of an access, as mmap(2) has them (uapi/asm-generic/mman-common.h), and one of ours.
pub mod prot {
    /// PROT_READ
    pub const READ: u8 = 1;
    /// PROT_WRITE
    pub const WRITE: u8 = 2;
    /// PROT_EXEC
    pub const EXEC: u8 = 4;
    /// Not access, but what the memory is: other ranks show the same frames, and they are never written to.
    pub const TEXT: u8 = 8;
    /// All of them.
    pub const ALL: u8 = 15;
}

/// A change of a rank's mappings. Addresses and lengths are multiples of 4 KiB in slot 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// `addr` .. `addr + len_bytes` now shows guest-physical memory from `gpa`.
    Map {
        /// First byte.
        addr: u64,
        /// Length.
        len_bytes: u64,
        /// Guest-physical address behind it.
        gpa: u64,
        /// What the program may do there: bits of [`prot`]. (Shipped calls may read and write just as it may.)
        prot: u8,
    },
    /// Nothing is there any more.
    Unmap {
        /// First byte.
        addr: u64,
        /// Length.
        len_bytes: u64,
    },
    /// It is mapped without access: nothing is shown there.
    Reserve {
        /// First byte.
        addr: u64,
        /// Length.
        len_bytes: u64,
        /// Whether it is MAP_SHARED.
        shared: bool,
    },
    /// Something else comes to be there, by records that follow. Until then it shows what it did, but that is no file's any more.
    Forget {
        /// First byte.
        addr: u64,
        /// Length.
        len_bytes: u64,
    },
}

/// A record that cannot be: the reader does not trust the writer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadRecord;

const KIND_MAP: u64 = 1;
const KIND_UNMAP: u64 = 2;
const KIND_FORGET: u64 = 3;
const KIND_RESERVE: u64 = 4;
const KIND_RESERVE_SHARED: u64 = 5;
const PROT_SHIFT: u32 = 4;
/// Bits below the address that mean something.
const LOW_BITS: u64 = (prot::ALL as u64) << PROT_SHIFT | 0xf;

impl Change {
    fn put(&self, record: &Record) {
        let (addr, len_bytes, gpa, low) = match *self {
            Change::Map {
                addr,
                len_bytes,
                gpa,
                prot,
            } => (
                addr,
                len_bytes,
                gpa,
                KIND_MAP | u64::from(prot) << PROT_SHIFT,
            ),
            Change::Unmap { addr, len_bytes } => (addr, len_bytes, 0, KIND_UNMAP),
            Change::Forget { addr, len_bytes } => (addr, len_bytes, 0, KIND_FORGET),
            Change::Reserve {
                addr,
                len_bytes,
                shared,
            } => {
                let kind = if shared {
                    KIND_RESERVE_SHARED
                } else {
                    KIND_RESERVE
                };
                (addr, len_bytes, 0, kind)
            }
        };
        record.addr.put(addr | low);
        record.len_bytes.put(len_bytes);
        record.gpa.put(gpa);
    }

    fn get(record: &Record) -> Result<Change, BadRecord> {
        let (word, len_bytes, gpa) = (
            record.addr.peek(),
            record.len_bytes.peek(),
            record.gpa.peek(),
        );
        let (addr, low) = (word & !0xfff, word & 0xfff);
        let aligned = len_bytes % abi::map::PAGE == 0 && gpa % abi::map::PAGE == 0;
        let memory = gpa.checked_add(len_bytes).is_some();
        let inside = addr
            .checked_add(len_bytes)
            .is_some_and(|end| end <= abi::map::USER_TOP)
            && addr >= abi::map::USER_BASE;
        if !aligned || !inside || !memory || len_bytes == 0 || low & !LOW_BITS != 0 {
            return Err(BadRecord);
        }
        match low & 0xf {
            KIND_MAP => Ok(Change::Map {
                addr,
                len_bytes,
                gpa,
                prot: (low >> PROT_SHIFT) as u8,
            }),
            KIND_UNMAP => Ok(Change::Unmap { addr, len_bytes }),
            KIND_FORGET => Ok(Change::Forget { addr, len_bytes }),
            kind @ (KIND_RESERVE | KIND_RESERVE_SHARED) => Ok(Change::Reserve {
                addr,
                len_bytes,
                shared: kind == KIND_RESERVE_SHARED,
            }),
            _ => Err(BadRecord),
        }
    }
}

/// Records that are not applied yet; `None` when there cannot be so many.
fn behind(head: u64, applied: u64) -> Option<usize> {
    let behind = usize::try_from(head.checked_sub(applied)?).ok()?;
    (behind <= RECORDS).then_some(behind)
}

impl RegionLog {
    /// Appends a change (QK only); `None` when the proxy has to catch up first. Returns the new position.
    pub fn append(&self, change: &Change) -> Option<u64> {
        let head = self.head.peek();
        if self.room() == 0 {
            return None;
        }
        change.put(&self.ring[head as usize % RECORDS]);
        let position = head.wrapping_add(1);
        self.head.store(position);
        Some(position)
    }

    /// Changes that can be appended before the proxy must catch up.
    #[must_use]
    pub fn room(&self) -> usize {
        // A proxy that claims to be ahead of the log is as good as one that is far behind.
        behind(self.head.peek(), self.applied.load()).map_or(0, |behind| RECORDS - behind)
    }

    /// The position after the last change.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.head.load()
    }

    /// How far the proxy got; 0 when it claims a position that it cannot have.
    #[must_use]
    pub fn applied(&self) -> u64 {
        // In this order: what is applied was in the log before.
        let applied = self.applied.load();
        if behind(self.head.load(), applied).is_some() {
            applied
        } else {
            0
        }
    }

    /// Hands every change up to `position` that is not applied yet to `apply`, then acknowledges (proxy only).
    ///
    /// # Errors
    /// [`BadRecord`] for a record that cannot be, or a position that was never reached.
    pub fn catch_up(&self, position: u64, mut apply: impl FnMut(Change)) -> Result<(), BadRecord> {
        let (head, applied) = (self.head.load(), self.applied.peek());
        // `applied` too lies where the node can write.
        if position > head || behind(head, applied).is_none() {
            return Err(BadRecord);
        }
        for at in applied..position {
            apply(Change::get(&self.ring[at as usize % RECORDS])?);
        }
        self.applied.store(applied.max(position));
        Ok(())
    }
}
