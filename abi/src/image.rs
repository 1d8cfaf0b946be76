//! What an executable must look like to be loaded.
//!
//! One parser serves three readers: yod refuses a program early and politely, the PCT loads it, the QK loads the PCT
//! itself. It looks at the file's first bytes only, takes no memory, and must hold against any bytes: what it accepts
//! can be laid out without further checks. Addresses in an [`Image`] are final: Margay does not randomise, so that
//! two runs are alike, and a position-independent program always goes to [`map::PIE_BASE`]. A program's interpreter
//! (PT_INTERP: the dynamic loader) is an executable as well and ends where the mmap area does.
//!
//! Followed here: the ELF-64 object file format (gABI 4.1, chapters 4 and 5) as Linux's fs/binfmt_elf.c reads it.
//! Stricter than Linux in one thing: segments may share a page but not a byte.

mod error;
#[cfg(test)]
mod tests;

use elf::abi as gabi;
use elf::endian::{AnyEndian, EndianParse, LittleEndian};
use elf::file::{Class, ELF64_EHDR_TAILSIZE, FileHeader, parse_ident};
use elf::parse::ParseAt;
use elf::segment::{ProgramHeader, SegmentTable};

use crate::map;
pub use error::{ImageError, SegmentFault};

/// Bytes of the file's beginning that hold all that is needed of nearly every program.
pub const HEAD_BYTES: usize = 4096;
/// Segments a program may have; linkers make four to six.
pub const MAX_SEGMENTS: usize = 16;
/// Bytes of an ELF-64 file header.
const HEADER_BYTES: usize = gabi::EI_NIDENT + ELF64_EHDR_TAILSIZE;
/// Most bytes of program headers: one page, as in Linux (load_elf_phdrs).
const MAX_HEADERS_BYTES: usize = map::PAGE as usize;
/// Bytes of an interpreter's path with its NUL, as Linux takes them (load_elf_binary; PATH_MAX of uapi/linux/limits.h).
const INTERPRETER_PATH_BYTES: core::ops::RangeInclusive<u64> = 2..=4096;

/// Pages may be read (PROT_READ, uapi/asm-generic/mman-common.h).
pub const PROT_READ: u64 = 1;
/// Pages may be written (PROT_WRITE).
pub const PROT_WRITE: u64 = 2;
/// Pages may be executed (PROT_EXEC).
pub const PROT_EXEC: u64 = 4;

/// A PT_LOAD segment: bytes of the file, then zeroes.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Where its first byte goes; congruent to `file_offset` modulo the page size.
    pub vaddr: u64,
    /// Where its bytes begin in the file.
    pub file_offset: u64,
    /// Bytes to take from the file.
    pub file_bytes: u64,
    /// Bytes in memory, at least `file_bytes`; the rest is zero.
    pub mem_bytes: u64,
    /// PROT_* bits.
    pub prot: u64,
}

impl Segment {
    /// First address of its first page.
    #[must_use]
    pub const fn first_page(&self) -> u64 {
        self.vaddr & !(map::PAGE - 1)
    }

    /// First address after its last byte.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.vaddr + self.mem_bytes
    }

    /// First address after its last page.
    #[must_use]
    pub const fn end_page(&self) -> u64 {
        self.end().next_multiple_of(map::PAGE)
    }

    /// Whether its memory is what the file holds, and the program does not write to it.
    #[must_use]
    pub const fn is_text(&self) -> bool {
        self.prot & PROT_WRITE == 0 && self.prot != 0 && self.file_bytes == self.mem_bytes
    }

    const fn contains(&self, addr: u64) -> bool {
        addr >= self.vaddr && addr < self.end()
    }
}

/// An executable that can be loaded. All addresses are those it will run at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Image {
    /// Address of the first instruction; inside an executable segment.
    pub entry: u64,
    /// Address of the program headers in memory (AT_PHDR); 0 when no segment holds them.
    pub phdr_vaddr: u64,
    /// Bytes of one program header (AT_PHENT).
    pub phent: u64,
    /// Number of program headers (AT_PHNUM).
    pub phnum: u64,
    /// True for a position-independent program: it, or its interpreter, relocates it.
    pub relocatable: bool,
    /// What was added to the addresses in the file; a multiple of the page size, 0 unless `relocatable`.
    pub bias: u64,
    /// The program requests an executable stack (PT_GNU_STACK).
    pub stack_exec: bool,
    /// Where the file has the path of its interpreter, with its NUL: offset and bytes. `None`: statically linked.
    pub interpreter: Option<(u64, u64)>,
    segments: [Segment; MAX_SEGMENTS],
    count: usize,
}

/// Where a position-independent executable goes.
#[derive(Clone, Copy)]
enum Place {
    /// Its first page is there.
    From(u64),
    /// Its last page ends there.
    UpTo(u64),
}

impl Image {
    /// Reads the headers of a program.
    ///
    /// `head` is the beginning of the file, [`HEAD_BYTES`] or more of it (or all), `file_bytes` the length of the file.
    ///
    /// # Errors
    /// [`ImageError`]; of these only [`ImageError::HeadTooShort`] is not final: try again with as many bytes as it says.
    pub fn parse(head: &[u8], file_bytes: u64) -> Result<Image, ImageError> {
        Image::parse_at(head, file_bytes, Place::From(map::PIE_BASE))
    }

    /// Reads the headers of a program's interpreter, as [`Self::parse`] those of a program. It ends at `top`, a multiple
    /// of the page size, unless it is linked for fixed addresses. What it names as its own interpreter has no meaning.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn parse_interpreter(head: &[u8], file_bytes: u64, top: u64) -> Result<Image, ImageError> {
        Image::parse_at(head, file_bytes, Place::UpTo(top))
    }

    fn parse_at(head: &[u8], file_bytes: u64, place: Place) -> Result<Image, ImageError> {
        let header = parse_header(head, file_bytes)?;
        let table = program_headers(&header, head, file_bytes)?;
        let interp = table.iter().find(|ph| ph.p_type == gabi::PT_INTERP);
        let interpreter = interp
            .map(|ph| interpreter_path(&ph, file_bytes))
            .transpose()?;
        if header.e_type == gabi::ET_DYN && header.e_entry == 0 {
            return Err(ImageError::NotExecutable("a shared library"));
        }
        let (mut segments, count) = load_segments(table, file_bytes)?;
        let loaded = &mut segments[..count];
        check_order(loaded)?;
        let relocatable = header.e_type == gabi::ET_DYN;
        let bias = if relocatable { bias(loaded, place)? } else { 0 };
        for segment in loaded.iter_mut() {
            segment.vaddr += bias; // Below 2 * USER_TOP: checked_segment has seen its end.
        }
        check_range(loaded)?;
        let entry = header
            .e_entry
            .checked_add(bias)
            .filter(|&entry| {
                let mut code = loaded.iter().filter(|s| s.prot & PROT_EXEC != 0);
                code.any(|s| s.contains(entry))
            })
            .ok_or(ImageError::BadEntry(header.e_entry))?;
        let phdr_vaddr = loaded
            .iter()
            .find(|s| {
                header.e_phoff >= s.file_offset && header.e_phoff - s.file_offset < s.file_bytes
            })
            .map_or(0, |s| header.e_phoff - s.file_offset + s.vaddr);
        Ok(Image {
            entry,
            phdr_vaddr,
            phent: header.e_phentsize.into(),
            phnum: header.e_phnum.into(),
            relocatable,
            bias,
            stack_exec: table
                .iter()
                .any(|ph| ph.p_type == gabi::PT_GNU_STACK && ph.p_flags & gabi::PF_X != 0),
            interpreter,
            segments,
            count,
        })
    }

    /// The segments, ascending by address, none sharing a byte with another.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        &self.segments[..self.count]
    }

    /// First address of the first page and first address after the last page of all segments. The heap starts at the
    /// latter.
    #[must_use]
    pub fn span(&self) -> (u64, u64) {
        match self.segments() {
            [] => (0, 0),
            [only] => (only.first_page(), only.end_page()),
            [first, .., last] => (first.first_page(), last.end_page()),
        }
    }
}

fn parse_header(head: &[u8], file_bytes: u64) -> Result<FileHeader<AnyEndian>, ImageError> {
    if !head.starts_with(&gabi::ELFMAGIC) {
        return Err(ImageError::NotElf);
    }
    let Some((ident, rest)) = head.split_at_checked(gabi::EI_NIDENT) else {
        return Err(too_short(HEADER_BYTES as u64, file_bytes));
    };
    let ident = parse_ident::<AnyEndian>(ident)
        .map_err(|_| ImageError::BadHeader("its identification is invalid"))?;
    let header = FileHeader::parse_tail(ident, rest)
        .map_err(|_| too_short(HEADER_BYTES as u64, file_bytes))?;
    match (header.e_machine, header.class) {
        (gabi::EM_X86_64, Class::ELF64) if header.endianness.is_little() => {}
        (gabi::EM_X86_64, Class::ELF64) => {
            return Err(ImageError::BadHeader("its byte order is not the machine's"));
        }
        (gabi::EM_X86_64 | gabi::EM_386, Class::ELF32) => return Err(ImageError::Not64Bit),
        (other, _) => return Err(ImageError::WrongMachine(other)),
    }
    match header.e_type {
        gabi::ET_EXEC | gabi::ET_DYN => Ok(header),
        gabi::ET_REL => Err(ImageError::NotExecutable(
            "an object file that was not linked",
        )),
        gabi::ET_CORE => Err(ImageError::NotExecutable("a core dump")),
        _ => Err(ImageError::NotExecutable("an ELF file of another kind")),
    }
}

/// The bytes up to `needed_bytes` are missing: from `head` or from the file itself.
fn too_short(needed_bytes: u64, file_bytes: u64) -> ImageError {
    if needed_bytes > file_bytes {
        ImageError::Truncated {
            needed_bytes,
            file_bytes,
        }
    } else {
        ImageError::HeadTooShort { needed_bytes }
    }
}

fn program_headers<'a>(
    header: &FileHeader<AnyEndian>,
    head: &'a [u8],
    file_bytes: u64,
) -> Result<SegmentTable<'a, LittleEndian>, ImageError> {
    if header.e_phnum == 0 {
        return Err(ImageError::NoSegments);
    }
    let size = ProgramHeader::size_for(Class::ELF64);
    if usize::from(header.e_phentsize) != size {
        return Err(ImageError::BadHeader(
            "its program headers have an unknown size",
        ));
    }
    let len = size * usize::from(header.e_phnum);
    if len > MAX_HEADERS_BYTES {
        return Err(ImageError::BadHeader("it has too many program headers"));
    }
    let end = header
        .e_phoff
        .checked_add(len as u64)
        .ok_or(ImageError::BadHeader("its program headers lie nowhere"))?;
    let bytes = usize::try_from(end)
        .ok()
        .and_then(|end| head.get(end - len..end))
        .ok_or_else(|| too_short(end, file_bytes))?;
    // The header's was checked: these need not be told apart at each word.
    Ok(SegmentTable::new(LittleEndian, Class::ELF64, bytes))
}

/// Where the path in a PT_INTERP segment lies, as Linux requires it.
fn interpreter_path(interp: &ProgramHeader, file_bytes: u64) -> Result<(u64, u64), ImageError> {
    let len_bytes = interp.p_filesz;
    if !INTERPRETER_PATH_BYTES.contains(&len_bytes) {
        return Err(ImageError::BadHeader(
            "the path of its interpreter is empty or too long",
        ));
    }
    match interp.p_offset.checked_add(len_bytes) {
        Some(end) if end <= file_bytes => Ok((interp.p_offset, len_bytes)),
        end => Err(ImageError::Truncated {
            needed_bytes: end.unwrap_or(u64::MAX),
            file_bytes,
        }),
    }
}

type Segments = ([Segment; MAX_SEGMENTS], usize);

/// The PT_LOAD segments that occupy memory, each sound by itself, at the addresses of the file.
fn load_segments(
    table: SegmentTable<'_, LittleEndian>,
    file_bytes: u64,
) -> Result<Segments, ImageError> {
    let mut segments = [Segment::default(); MAX_SEGMENTS];
    let mut count = 0;
    let loads = table
        .iter()
        .filter(|ph| ph.p_type == gabi::PT_LOAD && ph.p_memsz != 0);
    for ph in loads {
        let slot = segments.get_mut(count).ok_or(ImageError::TooManySegments)?;
        *slot = checked_segment(&ph, file_bytes)?;
        count += 1;
    }
    if count == 0 {
        return Err(ImageError::NoSegments);
    }
    Ok((segments, count))
}

fn checked_segment(ph: &ProgramHeader, file_bytes: u64) -> Result<Segment, ImageError> {
    let bad = |fault| ImageError::BadSegment {
        vaddr: ph.p_vaddr,
        fault,
    };
    if ph.p_filesz > ph.p_memsz {
        return Err(bad(SegmentFault::LongerInFile));
    }
    // So that neither rounding up to a page nor the bias can wrap later.
    match ph.p_vaddr.checked_add(ph.p_memsz) {
        Some(end) if end <= map::USER_TOP => {}
        _ => return Err(bad(SegmentFault::OutOfRange)),
    }
    if ph.p_vaddr % map::PAGE != ph.p_offset % map::PAGE {
        return Err(bad(SegmentFault::Misaligned));
    }
    let file_end = ph.p_offset.saturating_add(ph.p_filesz);
    if ph.p_filesz != 0 && file_end > file_bytes {
        return Err(ImageError::Truncated {
            needed_bytes: file_end,
            file_bytes,
        });
    }
    let prot_of = |flag, prot| if ph.p_flags & flag != 0 { prot } else { 0 };
    Ok(Segment {
        vaddr: ph.p_vaddr,
        file_offset: ph.p_offset,
        file_bytes: ph.p_filesz,
        mem_bytes: ph.p_memsz,
        prot: prot_of(gabi::PF_R, PROT_READ)
            | prot_of(gabi::PF_W, PROT_WRITE)
            | prot_of(gabi::PF_X, PROT_EXEC),
    })
}

/// Ascending, and no byte in two segments.
fn check_order(segments: &[Segment]) -> Result<(), ImageError> {
    match segments
        .windows(2)
        .find(|pair| pair[1].vaddr < pair[0].end())
    {
        Some(pair) => Err(bad_segment(&pair[1], SegmentFault::Overlap)),
        None => Ok(()),
    }
}

/// Where programs may be.
fn check_range(segments: &[Segment]) -> Result<(), ImageError> {
    let allowed = map::USER_BASE..=map::STACK_TOP - map::STACK_GAP;
    match segments
        .iter()
        .find(|s| !allowed.contains(&s.first_page()) || !allowed.contains(&s.end_page()))
    {
        Some(segment) => Err(bad_segment(segment, SegmentFault::OutOfRange)),
        None => Ok(()),
    }
}

/// What moves a position-independent executable to its place.
fn bias(segments: &[Segment], place: Place) -> Result<u64, ImageError> {
    let (first, last) = (segments.first(), segments.last());
    let (first, last) = first.zip(last).ok_or(ImageError::NoSegments)?;
    let bias = match place {
        Place::From(base) => base.checked_sub(first.first_page()),
        Place::UpTo(top) => top.checked_sub(last.end_page()),
    };
    bias.ok_or(bad_segment(first, SegmentFault::OutOfRange))
}

const fn bad_segment(segment: &Segment, fault: SegmentFault) -> ImageError {
    ImageError::BadSegment {
        vaddr: segment.vaddr,
        fault,
    }
}
