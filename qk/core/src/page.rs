//! Page sizes of x86-64 long mode (AMD APM vol. 2 §5.3: 4-KByte, 2-MByte and 1-GByte translation).

/// Bytes in the smallest page.
pub const PAGE_BYTES: u64 = 1 << 12;

/// A page size the MMU can map with one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PageSize {
    /// 4 KiB, mapped by a page-table entry.
    Size4K,
    /// 2 MiB, mapped by a page-directory entry with PS set.
    Size2M,
    /// 1 GiB, mapped by a page-directory-pointer entry with PS set.
    Size1G,
}

impl PageSize {
    /// All sizes, largest first: the order in which mapping tries them.
    pub const DESCENDING: [Self; 3] = [Self::Size1G, Self::Size2M, Self::Size4K];

    /// log2 of the size in bytes.
    pub const fn shift(self) -> u32 {
        match self {
            Self::Size4K => 12,
            Self::Size2M => 21,
            Self::Size1G => 30,
        }
    }

    /// Size in bytes.
    pub const fn bytes(self) -> u64 {
        1 << self.shift()
    }

    /// Bits of an address inside a page of this size.
    pub const fn mask(self) -> u64 {
        self.bytes() - 1
    }

    /// The next smaller size.
    pub const fn smaller(self) -> Option<Self> {
        match self {
            Self::Size1G => Some(Self::Size2M),
            Self::Size2M => Some(Self::Size4K),
            Self::Size4K => None,
        }
    }

    /// The largest size, at most `max`, that can map `len_bytes` at `va`, disregarding physical
    /// alignment. Size4K when nothing larger fits.
    pub const fn largest(va: u64, len_bytes: u64, max: Self) -> Self {
        let mut size = max;
        // BOUND: the sizes of pages.
        loop {
            if va & size.mask() == 0 && len_bytes >= size.bytes() {
                return size;
            }
            match size.smaller() {
                Some(next) => size = next,
                None => return Self::Size4K,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn largest_respects_alignment_length_and_limit() {
        let g = PageSize::Size1G.bytes();
        let m = PageSize::Size2M.bytes();
        assert_eq!(PageSize::largest(g, g, PageSize::Size1G), PageSize::Size1G);
        assert_eq!(PageSize::largest(g, g, PageSize::Size2M), PageSize::Size2M);
        assert_eq!(
            PageSize::largest(g, g - 1, PageSize::Size1G),
            PageSize::Size2M
        );
        assert_eq!(
            PageSize::largest(m + 4096, g, PageSize::Size1G),
            PageSize::Size4K
        );
        assert_eq!(PageSize::largest(0, 1, PageSize::Size1G), PageSize::Size4K);
    }
}
