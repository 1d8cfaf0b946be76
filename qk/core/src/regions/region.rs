//! What one region of user memory is.

use abi::addr::{Va, VaRange};
use bitflags::bitflags;

bitflags! {
    /// Access to memory; the bits are Linux's PROT_* (include/uapi/asm-generic/mman-common.h).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Prot: u8 {
        /// PROT_READ
        const READ = 1;
        /// PROT_WRITE
        const WRITE = 2;
        /// PROT_EXEC
        const EXEC = 4;
    }
}

bitflags! {
    /// Properties that keep regions apart, besides access and kind.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct RegionFlags: u16 {
        /// MAP_SHARED
        const SHARED = 1;
        /// MAP_NORESERVE
        const NORESERVE = 2;
        /// MAP_GROWSDOWN
        const GROWSDOWN = 4;
        /// MAP_STACK, or the main stack: mapped with 4 KiB pages only.
        const SMALL_PAGES = 8;
        /// mlock'ed: madvise(DONTNEED) is refused. Memory is never paged out anyway.
        const LOCKED = 16;
        /// A mapping of a file on a file system mounted with noexec: mprotect may not add EXEC.
        const NO_EXEC = 32;
        /// A shared mapping of a file not open for writing: mprotect may not add WRITE.
        const READ_ONLY = 64;
        /// A mapping of what lies behind the file's last page: no frames, and an access that is allowed is SIGBUS.
        const PAST_END = 128;
        /// A private mapping of a file that has not been writable since it was read.
        const UNWRITTEN = 256;
        /// MADV_DONTDUMP: left out of a core file.
        const DONT_DUMP = 512;
        /// A private mapping of a file, or a part of a program, whose frames others may show, too: never written to.
        const TEXT = 1024;
        /// What mbind has set, as the kernel packs it; none: the policy of the calling thread.
        const POLICY = 0x1f << 11;
    }
}

/// What a region is for; /proc/self/maps names it accordingly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Anonymous mmap.
    Anon,
    /// The brk heap, `[heap]`.
    Heap,
    /// The main thread's stack, `[stack]`.
    Stack,
    /// A segment of the program's own file.
    Image,
    /// `[vdso]`
    Vdso,
    /// `[vvar]`
    Vvar,
    /// Addresses kept free by the kernel.
    Guard,
    /// A file mapping; `object` says of which file.
    File,
}

/// Whose frames a region shows, from which follows where they go when it does not any more, and what it may become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// The partition's: retired, and free when the proxy has let go of them.
    Own,
    /// An object's of the node pool ([`crate::objects`]): given back to it, with what was written.
    Object(u32),
    /// Text of the node pool: given back to it; copied before it can be written to.
    Text,
    /// A page that belongs to the kernel: nowhere.
    Foreign,
}

impl Backing {
    /// Whether the frames are the node pool's, which counts what it has lent.
    pub const fn is_lent(self) -> bool {
        match self {
            Backing::Own | Backing::Foreign => false,
            Backing::Object(_) | Backing::Text => true,
        }
    }
}

/// A range of user addresses that are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// First byte, page-aligned.
    pub start: Va,
    /// End, page-aligned, above `start`.
    pub end: Va,
    /// Offset in `object` of `start`, in bytes. Without an object it means nothing and stays 0.
    pub offset: u64,
    /// Which file or shared segment is mapped, as the kernel numbers them; 0 = none.
    pub object: u32,
    /// Allowed access; empty is PROT_NONE.
    pub prot: Prot,
    /// What it is for.
    pub kind: Kind,
    /// The rest.
    pub flags: RegionFlags,
}

impl Kind {
    /// The access that mprotect may give: Linux's VM_MAY* flags. The clock page is every rank's.
    pub const fn may_have(self) -> Prot {
        match self {
            Kind::Vvar => Prot::READ,
            _ => Prot::all(),
        }
    }
}

impl Region {
    /// A region without an object.
    pub const fn new(range: VaRange, prot: Prot, kind: Kind) -> Self {
        Self {
            start: range.start,
            end: range.end,
            offset: 0,
            object: 0,
            prot,
            kind,
            flags: RegionFlags::empty(),
        }
    }

    /// Where it lies.
    #[inline]
    pub const fn range(&self) -> VaRange {
        self.start.until(self.end)
    }

    /// Length in bytes.
    pub const fn len_bytes(&self) -> u64 {
        self.range().len_bytes()
    }

    /// Whether its pages have frames: all that may be accessed, but for what lies behind the end of a file.
    pub const fn is_backed(&self) -> bool {
        !self.prot.is_empty() && !self.flags.contains(RegionFlags::PAST_END)
    }

    /// Whether it is a reservation: addresses that may get frames by mprotect.
    pub const fn is_reservation(&self) -> bool {
        self.prot.is_empty() && !self.flags.contains(RegionFlags::PAST_END)
    }

    /// Whose frames it shows, or will show.
    pub const fn backing(&self) -> Backing {
        if self.is_text() {
            Backing::Text
        } else if self.is_object() {
            Backing::Object(self.object)
        } else if matches!(self.kind, Kind::Vvar) {
            Backing::Foreign
        } else {
            Backing::Own
        }
    }

    /// Whether it shows an object that ranks share ([`crate::objects`]).
    pub const fn is_object(&self) -> bool {
        self.object >= crate::objects::FIRST
    }

    /// Whether its frames are also other ranks' ([`crate::objects::TextKey`]).
    pub const fn is_text(&self) -> bool {
        self.flags.contains(RegionFlags::TEXT)
    }

    /// Whether it is mapped with 4 KiB pages only.
    pub const fn is_mapped_small(&self) -> bool {
        self.flags.contains(RegionFlags::SMALL_PAGES)
    }

    /// Whether madvise(DONTNEED) makes it read as zeros: private anonymous memory. Shared anonymous memory keeps what it
    /// holds, and of files the contents are not at hand any more.
    pub const fn is_discardable(&self) -> bool {
        matches!(self.kind, Kind::Anon | Kind::Heap | Kind::Stack)
            && !self.flags.contains(RegionFlags::SHARED)
    }

    /// Whether mremap may make it longer (not Linux's VM_DONTEXPAND).
    pub const fn may_grow(&self) -> bool {
        !matches!(self.kind, Kind::Vvar | Kind::Vdso)
    }

    /// Whether `addr` lies inside.
    pub const fn contains(&self, addr: Va) -> bool {
        self.range().contains(addr)
    }

    /// The part inside `range`, which must overlap.
    pub fn clip(&self, range: VaRange) -> Self {
        let start = range.start.max(self.start);
        Self {
            start,
            end: range.end.min(self.end),
            offset: self.offset_at(start),
            ..*self
        }
    }

    /// The object offset that belongs to `addr`.
    pub const fn offset_at(&self, addr: Va) -> u64 {
        if self.object == 0 {
            0
        } else {
            self.offset + self.start.until(addr).len_bytes()
        }
    }

    /// A region like this one at `range`, which begins with what this one shows at `first`.
    pub fn elsewhere(&self, range: VaRange, first: Va) -> Region {
        Region {
            start: range.start,
            end: range.end,
            offset: self.offset_at(first),
            ..*self
        }
    }

    /// Whether `next` continues this region, so that one entry can stand for both.
    pub fn joins(&self, next: &Self) -> bool {
        self.end == next.start
            && self.prot == next.prot
            && self.kind == next.kind
            && self.flags == next.flags
            && self.object == next.object
            && self.offset_at(self.end) == next.offset
    }
}
