//! The boot information of multiboot2 (Multiboot2 Specification 2.0, section 3.6), as GRUB passes it from BIOS, UEFI and network.
//!
//! A length, a word of 0, then tags: type, bytes, content; each begins at a multiple of 8, and one of type 0 ends them.
//!
//! BOUND: at boot only, and no more tags than [`MAX_INFO_BYTES`] holds.

use super::loader::{Loader, Map, module, read_cmdline};
use super::memory::{Memory, number};
use super::modules::Modules;
use crate::addr::Phys;
use arrayvec::ArrayString;

/// Longest information that is believed: a memory map of 2,048 entries is 48 KiB, section headers of a kernel come to some more.
const MAX_INFO_BYTES: u64 = 1 << 20;
/// Type and bytes of a tag.
const TAG_BYTES: u64 = 8;

/// Types of tags (section 3.6).
mod tag {
    pub const END: u64 = 0;
    pub const CMDLINE: u64 = 1;
    pub const MODULE: u64 = 3;
    pub const MEMORY_MAP: u64 = 6;
    pub const RSDP_1: u64 = 14;
    pub const RSDP_2: u64 = 15;
}

/// A tag: what follows type and bytes.
struct Tag {
    kind: u64,
    content: Phys,
    content_bytes: u64,
}

/// Reads the information at `at`.
pub(super) fn read(memory: &impl Memory, at: Phys) -> Result<Loader, &'static str> {
    let total = number::<4>(memory, at, 0).ok_or("boot information: not readable")?;
    let zero = number::<4>(memory, at, 4);
    if zero != Some(0) || !(2 * TAG_BYTES..=MAX_INFO_BYTES).contains(&total) {
        return Err("boot information: neither PVH's nor multiboot2's");
    }
    let mut loader = Loader {
        cmdline: ArrayString::new(),
        modules: Modules::new(),
        rsdp: Phys(0),
        map: Map {
            at: Phys(0),
            entries: 0,
            stride: 0,
        },
    };
    let mut offset = TAG_BYTES;
    while offset + TAG_BYTES <= total {
        let tag = Tag::read(memory, at, offset, total)?;
        if tag.kind == tag::END {
            break;
        }
        tag.keep(memory, &mut loader)?;
        offset += (TAG_BYTES + tag.content_bytes).next_multiple_of(TAG_BYTES);
    }
    if loader.map.entries == 0 {
        return Err("multiboot2: no memory map");
    }
    Ok(loader)
}

impl Tag {
    fn read(memory: &impl Memory, at: Phys, offset: u64, total: u64) -> Result<Tag, &'static str> {
        let half = |field| number::<4>(memory, at, offset + field);
        let (kind, bytes) = half(0).zip(half(4)).ok_or("multiboot2: not readable")?;
        let content_bytes = bytes
            .checked_sub(TAG_BYTES)
            .filter(|_| bytes <= total - offset)
            .ok_or("multiboot2: a tag of impossible length")?;
        Ok(Tag {
            kind,
            content: Phys(at.0 + offset + TAG_BYTES),
            content_bytes,
        })
    }

    /// Adds what it says to the loader's facts.
    fn keep(&self, memory: &impl Memory, loader: &mut Loader) -> Result<(), &'static str> {
        let half = |field| {
            let half = number::<4>(memory, self.content, field);
            let inside = field + 4 <= self.content_bytes;
            half.filter(|_| inside).ok_or("multiboot2: a tag too short")
        };
        match self.kind {
            tag::CMDLINE => loader.cmdline = read_cmdline(memory, self.content),
            // What is over the limit is left out, as with PVH.
            tag::MODULE => {
                let _ = loader.modules.try_push(module(half(0)?, Some(half(4)?))?);
            }
            tag::MEMORY_MAP => loader.map = self.map(half(0)?)?,
            // The content is a copy of the firmware's; the newer one names the XSDT.
            tag::RSDP_2 => loader.rsdp = self.content,
            tag::RSDP_1 if loader.rsdp == Phys(0) => loader.rsdp = self.content,
            _ => {}
        }
        Ok(())
    }

    /// Bytes of an entry, its version, then entries.
    fn map(&self, stride: u64) -> Result<Map, &'static str> {
        const HEAD_BYTES: u64 = 8;
        const LEAST_ENTRY_BYTES: u64 = 24;
        if stride < LEAST_ENTRY_BYTES || self.content_bytes < HEAD_BYTES {
            return Err("multiboot2: a memory map of impossible entries");
        }
        Ok(Map {
            at: Phys(self.content.0 + HEAD_BYTES),
            entries: (self.content_bytes - HEAD_BYTES) / stride,
            stride,
        })
    }
}
