//! The vDSO's place and contents. Its source is C, in lib/vdso; build.rs makes the image.

use abi::map;

use crate::qk::Range;

/// The shared object, as it is mapped.
pub static IMAGE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/vdso.so"));

/// The clock page, which the QK backs.
pub const VVAR: Range = Range {
    base: map::VDSO_AREA,
    len_bytes: map::PAGE,
};

/// The information page, which the QK backs.
pub const INFO: Range = Range {
    base: map::INFO_PAGE,
    len_bytes: map::PAGE,
};

/// The image's pages, right above the clock page: it looks for the page there.
#[must_use]
pub const fn place() -> Range {
    Range {
        base: map::VDSO_AREA + map::PAGE,
        len_bytes: (IMAGE.len() as u64).next_multiple_of(map::PAGE),
    }
}

#[cfg(test)]
mod tests;
