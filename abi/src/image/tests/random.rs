//! Bytes, headers and segments at random.

use proptest::prelude::*;

use super::*;

/// Everything the loaders rely on.
fn assert_sound(image: &Image, file_bytes: u64) {
    let (low, high) = image.span();
    assert!(low >= map::USER_BASE && low < high && high <= map::STACK_TOP);
    assert!(
        [low, high, image.bias]
            .iter()
            .all(|a| a.is_multiple_of(map::PAGE))
    );
    let mut end = 0;
    for s in image.segments() {
        assert!(s.vaddr >= end && s.mem_bytes > 0 && s.file_bytes <= s.mem_bytes);
        assert!(s.first_page() >= low && s.end_page() <= high && s.prot < 8);
        assert!(s.file_bytes == 0 || s.file_offset + s.file_bytes <= file_bytes);
        end = s.end();
    }
    assert!(
        image
            .segments()
            .iter()
            .any(|s| s.contains(image.entry) && s.prot & PROT_EXEC != 0)
    );
}

proptest! {
    #[test]
    fn any_bytes_are_refused_or_sound(bytes: Vec<u8>, file_bytes: u64) {
        let _ = Image::parse(&bytes, file_bytes);
    }

    #[test]
    fn mutated_headers_are_refused_or_sound(
        dynamic: bool,
        edits in prop::collection::vec((16usize..64 + 4 * 56, any::<u8>()), 0..6),
        words in prop::collection::vec((2usize..36, prop_oneof![any::<u64>(), 0u64..0x80_0000]), 0..4),
        cut in 0usize..400,
        file_bytes in prop_oneof![any::<u64>(), Just(FILE_BYTES)],
    ) {
        let kind = if dynamic { gabi::ET_DYN } else { gabi::ET_EXEC };
        let mut file = elf(kind, 0x40_1000, &TYPICAL);
        for (index, word) in words {
            file[index * 8..][..8].copy_from_slice(&word.to_le_bytes());
        }
        for (at, byte) in edits {
            file[at] = byte;
        }
        file.truncate(cut.max(200));
        match Image::parse(&file, file_bytes) {
            Ok(image) => assert_sound(&image, file_bytes),
            Err(error) => prop_assert!(!error.to_string().contains('\n')),
        }
    }

    #[test]
    fn any_segments_are_refused_or_sound(
        entry in 0u64..0x20_0000,
        dynamic: bool,
        loads in prop::collection::vec(
            (0u32..8, 0u64..0x4000, 0u64..0x20, 0u64..0x3000, 0u64..0x4000), 1..6),
    ) {
        let headers: Vec<Ph> = loads
            .iter()
            .map(|&(flags, offset, page, file_bytes, more)| {
                load(flags, offset, page * 0x10000 + offset % 0x1000, file_bytes, file_bytes + more)
            })
            .collect();
        let kind = if dynamic { gabi::ET_DYN } else { gabi::ET_EXEC };
        if let Ok(image) = Image::parse(&elf(kind, entry, &headers), 0x7000) {
            assert_sound(&image, 0x7000);
        }
    }
}
