//! The way to the tables: root pointer, root table, headers, and the list of entries that three of them have.
//!
//! BOUND: at boot only, no more than the tables have bytes.

use super::{Memory, Remark, Remarks, TableFault, push};
use crate::addr::Phys;
use crate::firmware::memory::{le, number};

/// Bytes of a description header; a table's own fields follow.
pub(super) const HEADER_BYTES: u64 = 36;
/// No sane table is larger.
const MAX_TABLE_BYTES: u64 = 1 << 20;

/// The tables that are read: of each kind the first.
pub(super) struct Tables<'a, M> {
    pub madt: Option<Table<'a, M>>,
    pub srat: Option<Table<'a, M>>,
    pub fadt: Option<Table<'a, M>>,
    pub mcfg: Option<Table<'a, M>>,
    pub hpet: Option<Table<'a, M>>,
}

impl<'a, M: Memory> Tables<'a, M> {
    /// Finds them from the root pointer at `rsdp` (0: there is none).
    pub(super) fn find(memory: &'a M, rsdp: Phys, remarks: &mut Remarks) -> Self {
        let mut found = Self {
            madt: None,
            srat: None,
            fadt: None,
            mcfg: None,
            hpet: None,
        };
        let Some((root, entry_bytes)) = root(memory, rsdp, remarks) else {
            return found;
        };
        for index in 0..(root.len_bytes - HEADER_BYTES) / entry_bytes {
            let offset = HEADER_BYTES + index * entry_bytes;
            let at = match entry_bytes {
                8 => root.number::<8>(offset),
                _ => root.number::<4>(offset),
            };
            let Some(table) = at.map(Phys).and_then(|at| Table::open(memory, at)) else {
                continue;
            };
            let place = match &table.signature {
                b"APIC" => &mut found.madt,
                b"SRAT" => &mut found.srat,
                b"FACP" => &mut found.fadt,
                b"MCFG" => &mut found.mcfg,
                b"HPET" => &mut found.hpet,
                _ => continue,
            };
            if place.is_none() {
                *place = table.checked(remarks);
            }
        }
        found
    }
}

/// The root table and the bytes of its entries: XSDT (8), else RSDT (4).
fn root<'a, M: Memory>(
    memory: &'a M,
    rsdp: Phys,
    remarks: &mut Remarks,
) -> Option<(Table<'a, M>, u64)> {
    const FIRST_BYTES: usize = 20;
    let mut pointer = [0u8; FIRST_BYTES];
    if rsdp.0 == 0 {
        return None;
    }
    let unreadable = |remarks: &mut Remarks, signature| {
        push(remarks, Remark::Table(signature, TableFault::Unreadable));
    };
    if !memory.read(rsdp, &mut pointer) || &pointer[..8] != b"RSD PTR " {
        unreadable(remarks, *b"RSDP");
        return None;
    }
    if pointer
        .iter()
        .fold(0, |sum: u8, &byte| sum.wrapping_add(byte))
        != 0
    {
        push(remarks, Remark::Table(*b"RSDP", TableFault::Checksum));
    }
    let rsdt = le(&pointer[16..]);
    let xsdt = if pointer[15] >= 2 {
        number::<8>(memory, rsdp, 24).unwrap_or(0)
    } else {
        0
    };
    // BOUND: two.
    for (at, signature, entry_bytes) in [(xsdt, *b"XSDT", 8), (rsdt, *b"RSDT", 4)] {
        let table = (at != 0).then(|| Table::open(memory, Phys(at)));
        match table {
            Some(Some(table)) if table.signature == signature => {
                if let Some(table) = table.checked(remarks) {
                    return Some((table, entry_bytes));
                }
            }
            Some(_) => unreadable(remarks, signature),
            None => {}
        }
    }
    None
}

/// One table.
pub(super) struct Table<'a, M> {
    memory: &'a M,
    at: Phys,
    len_bytes: u64,
    pub signature: [u8; 4],
}

impl<M> Clone for Table<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for Table<'_, M> {}

impl<'a, M: Memory> Table<'a, M> {
    /// The table at `at`; its length is not checked yet. `None`: there is no memory.
    fn open(memory: &'a M, at: Phys) -> Option<Self> {
        let mut header = [0u8; 8];
        if at.0 == 0 || !memory.read(at, &mut header) {
            return None;
        }
        let [a, b, c, d, ref len_bytes @ ..] = header;
        Some(Self {
            memory,
            at,
            len_bytes: le(len_bytes),
            signature: [a, b, c, d],
        })
    }

    /// Itself, when it can be read as a whole; the checksum is only remarked.
    fn checked(self, remarks: &mut Remarks) -> Option<Self> {
        let sum = (HEADER_BYTES..=MAX_TABLE_BYTES)
            .contains(&self.len_bytes)
            .then(|| self.sum())
            .flatten();
        let fault = match sum {
            Some(0) => return Some(self),
            Some(_) => TableFault::Checksum,
            None => TableFault::Unreadable,
        };
        self.remark(fault, remarks);
        sum.map(|_| self)
    }

    /// The sum of all bytes, 0 by the specification.
    fn sum(&self) -> Option<u8> {
        let mut sum = 0u8;
        let mut done = 0;
        let mut bytes = [0u8; 64];
        while done < self.len_bytes {
            let part = &mut bytes[..(self.len_bytes - done).min(64) as usize];
            let at = Phys(self.at.0.checked_add(done)?);
            if !self.memory.read(at, part) {
                return None;
            }
            sum = part.iter().fold(sum, |sum, &byte| sum.wrapping_add(byte));
            done += part.len() as u64;
        }
        Some(sum)
    }

    pub(super) fn remark(&self, fault: TableFault, remarks: &mut Remarks) {
        push(remarks, Remark::Table(self.signature, fault));
    }

    /// The little-endian number of `N` bytes at `offset`.
    pub(super) fn number<const N: usize>(&self, offset: u64) -> Option<u64> {
        let inside = offset.checked_add(N as u64)? <= self.len_bytes;
        if inside {
            number::<N>(self.memory, self.at, offset)
        } else {
            None
        }
    }

    /// Gives `each` the type and the offset of every entry of a list that begins at `offset`: type and length, a byte each, then the rest.
    pub(super) fn entries(
        &self,
        mut offset: u64,
        remarks: &mut Remarks,
        mut each: impl FnMut(u64, u64),
    ) {
        while offset < self.len_bytes {
            let head = self.number::<1>(offset).zip(self.number::<1>(offset + 1));
            match head {
                Some((kind, len)) if len >= 2 && offset + len <= self.len_bytes => {
                    each(kind, offset);
                    offset += len;
                }
                _ => return self.remark(TableFault::Entry, remarks),
            }
        }
    }
}
