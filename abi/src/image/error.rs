//! Why a file cannot be loaded, in sentences that a user can act on.
//!
//! Each reads on after the name of the file and a colon.

use core::fmt;

use elf::abi as gabi;

/// Why a file cannot be loaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ImageError {
    /// Not an error of the file: the parser was given too little of it.
    HeadTooShort {
        /// How many of the file's first bytes it needs.
        needed_bytes: u64,
    },
    /// No ELF file at all.
    NotElf,
    /// An x86 program, but not for 64 bits.
    Not64Bit,
    /// For another processor: its ELF machine number.
    WrongMachine(u16),
    /// ELF, but not a program: what it is.
    NotExecutable(&'static str),
    /// The file ends before what it promises.
    Truncated {
        /// How long it should be at least.
        needed_bytes: u64,
        /// How long it is.
        file_bytes: u64,
    },
    /// The header contradicts itself or the machine: how.
    BadHeader(&'static str),
    /// Nothing to load.
    NoSegments,
    /// More than [`super::MAX_SEGMENTS`] segments.
    TooManySegments,
    /// A segment that cannot be laid out.
    BadSegment {
        /// Its address.
        vaddr: u64,
        /// What is wrong with it.
        fault: SegmentFault,
    },
    /// The entry point is not in an executable segment.
    BadEntry(u64),
}

/// What is wrong with a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SegmentFault {
    /// It overlaps the segment before it or lies below it.
    Overlap,
    /// It is not within the addresses of a program.
    OutOfRange,
    /// Address and file offset differ modulo the page size.
    Misaligned,
    /// More bytes in the file than in memory.
    LongerInFile,
}

impl fmt::Display for SegmentFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SegmentFault::Overlap => "overlaps the one before it",
            SegmentFault::OutOfRange => "lies outside the addresses a program may use",
            SegmentFault::Misaligned => "is not aligned with its place in the file",
            SegmentFault::LongerInFile => "is longer in the file than in memory",
        })
    }
}

/// Names of the machines that an HPC user is likely to have a program for.
fn machine_name(machine: u16) -> Option<&'static str> {
    Some(match machine {
        gabi::EM_386 => "32-bit x86",
        gabi::EM_AARCH64 => "64-bit ARM",
        gabi::EM_ARM => "32-bit ARM",
        gabi::EM_IA_64 => "Itanium",
        gabi::EM_LOONGARCH => "LoongArch",
        gabi::EM_MIPS => "MIPS",
        gabi::EM_PPC => "32-bit PowerPC",
        gabi::EM_PPC64 => "64-bit PowerPC",
        gabi::EM_RISCV => "RISC-V",
        gabi::EM_S390 => "IBM Z",
        gabi::EM_SPARC | gabi::EM_SPARCV9 => "SPARC",
        _ => return None,
    })
}

impl fmt::Display for ImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            ImageError::HeadTooShort { needed_bytes } => {
                write!(
                    f,
                    "its program headers end at byte {needed_bytes}, too far into the file"
                )
            }
            ImageError::NotElf => f.write_str("not an ELF program"),
            ImageError::Not64Bit => {
                f.write_str("a 32-bit program: only 64-bit programs are supported")
            }
            ImageError::WrongMachine(machine) => match machine_name(machine) {
                Some(name) => write!(f, "built for {name}, not for x86-64"),
                None => write!(
                    f,
                    "built for another processor (ELF machine {machine}), not for x86-64"
                ),
            },
            ImageError::NotExecutable(what) => write!(f, "not a program but {what}"),
            ImageError::Truncated {
                needed_bytes,
                file_bytes,
            } => write!(
                f,
                "truncated: {file_bytes} bytes long, but its headers speak of at least {needed_bytes}"
            ),
            ImageError::BadHeader(why) => write!(f, "invalid ELF header: {why}"),
            ImageError::NoSegments => f.write_str("has no segments to load"),
            ImageError::TooManySegments => {
                write!(f, "has more than {} segments to load", super::MAX_SEGMENTS)
            }
            ImageError::BadSegment { vaddr, fault } => {
                write!(f, "its segment at {vaddr:#x} {fault}")
            }
            ImageError::BadEntry(entry) => {
                write!(
                    f,
                    "its entry point {entry:#x} is not in an executable segment"
                )
            }
        }
    }
}

impl core::error::Error for ImageError {}
