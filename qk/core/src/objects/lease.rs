//! What the node pool has lent to mappings: values that are made when something is lent, kept by the address space that maps it
//! as one of its regions, and taken back with a receipt ([`crate::aspace::Lender`]). They cannot be copied or made elsewhere, so
//! what is lent is what is mapped.

use super::Run;
use abi::addr::Phys;

/// Bytes of an object, lent to a mapping.
#[must_use = "the object stays until it is given back"]
#[derive(Debug, PartialEq, Eq)]
pub struct Lease {
    object: u32,
    len_bytes: u64,
}

impl Lease {
    pub(crate) fn new(object: u32, len_bytes: u64) -> Lease {
        Lease { object, len_bytes }
    }

    /// The object's number.
    pub fn object(&self) -> u32 {
        self.object
    }

    /// Bytes that are lent.
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// A region of the object takes over its bytes.
    pub(crate) fn pass_on(&mut self, len_bytes: u64) {
        debug_assert!(len_bytes <= self.len_bytes, "more is mapped than was lent");
        self.len_bytes -= len_bytes;
    }

    /// It is over: the object, and the bytes.
    pub(crate) fn end(mut self) -> (u32, u64) {
        (self.object, core::mem::take(&mut self.len_bytes))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        debug_assert!(self.len_bytes == 0, "{self:?} was not given back");
    }
}

/// Adjacent frames of text, lent to a mapping.
#[must_use = "the text stays until it is given back"]
#[derive(Debug, PartialEq, Eq)]
pub struct TextLease {
    pa: Phys,
    len_bytes: u64,
}

impl TextLease {
    /// Of text that is not mapped any more.
    pub(crate) fn of(run: Run) -> TextLease {
        let Run { pa, len_bytes, .. } = run;
        TextLease { pa, len_bytes }
    }

    /// Bytes that are lent.
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// It is over: the frames.
    pub(crate) fn end(mut self) -> (Phys, u64) {
        (self.pa, core::mem::take(&mut self.len_bytes))
    }
}

impl Drop for TextLease {
    fn drop(&mut self) {
        debug_assert!(self.len_bytes == 0, "{self:?} was not given back");
    }
}
