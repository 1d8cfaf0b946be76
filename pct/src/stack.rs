//! What a program finds on its stack, exactly as Linux leaves it there. Where it lies is [`abi::stack`]'s.
//!
//! ```text
//!   top  ─►  8 zero bytes
//!            the path it was started by (AT_EXECFN)   ┐
//!            environment strings                      │ written by the proxy, back to back
//!            argument strings                         ┘
//!            "x86_64" (AT_PLATFORM)
//!            16 random bytes (AT_RANDOM)
//!            AT_NULL ... auxiliary vector, pairs of words
//!            NULL, envp[]
//!            NULL, argv[]
//!   rsp  ─►  argc                                       16-byte aligned
//! ```
//!
//! Sources: System V ABI AMD64 supplement 3.4.1 and 3.4.3 (process initialisation), create_elf_tables() of Linux's
//! fs/binfmt_elf.c for the order. Pointers are written as a stream through small buffers: there may be megabytes of
//! strings, and the PCT has no heap.

use core::ffi::CStr;

use abi::Errno;
use abi::stack::{PLATFORM, Plan};

/// Bytes of the buffers that strings are read and words are written through.
const CHUNK_BYTES: usize = 1024;
/// Entry types of the auxiliary vector (uapi/linux/auxvec.h, arch/x86/include/uapi/asm/auxvec.h).
#[allow(missing_docs)] // The names are Linux's own.
pub mod at {
    pub const NULL: u64 = 0;
    pub const PHDR: u64 = 3;
    pub const PHENT: u64 = 4;
    pub const PHNUM: u64 = 5;
    pub const PAGESZ: u64 = 6;
    pub const BASE: u64 = 7;
    pub const FLAGS: u64 = 8;
    pub const ENTRY: u64 = 9;
    pub const UID: u64 = 11;
    pub const EUID: u64 = 12;
    pub const GID: u64 = 13;
    pub const EGID: u64 = 14;
    pub const PLATFORM: u64 = 15;
    pub const HWCAP: u64 = 16;
    pub const CLKTCK: u64 = 17;
    pub const SECURE: u64 = 23;
    pub const RANDOM: u64 = 25;
    pub const HWCAP2: u64 = 26;
    pub const EXECFN: u64 = 31;
    pub const SYSINFO_EHDR: u64 = 33;
    pub const MINSIGSTKSZ: u64 = 51;
}

/// The memory of the rank.
pub trait Memory {
    /// Reads from an address of the rank.
    ///
    /// # Errors
    /// What the kernel says.
    fn read(&mut self, from: u64, bytes: &mut [u8]) -> Result<(), Errno>;
    /// Writes to an address of the rank.
    ///
    /// # Errors
    /// What the kernel says.
    fn write(&mut self, to: u64, bytes: &[u8]) -> Result<(), Errno>;
}

/// Writes everything but the strings, which must be there already.
///
/// `aux` gives the auxiliary vector, `Contents::aux_pairs` pairs without AT_NULL counted in; it is handed the
/// address of the program's path for AT_EXECFN.
///
/// # Errors
/// EINVAL when the strings are fewer than promised or not terminated; else what the kernel says.
pub fn write<const PAIRS: usize>(
    plan: &Plan,
    memory: &mut impl Memory,
    random: [u64; 2],
    aux: impl FnOnce(&Plan, u64) -> [(u64, u64); PAIRS],
) -> Result<(), Errno> {
    let mut strings = Strings::new(plan.strings, plan.contents.strings_bytes);
    let mut words = Words::new(plan.stack_pointer);
    words.push(memory, plan.contents.argc)?;
    for count in [plan.contents.argc, plan.contents.envc] {
        for _ in 0..count {
            let string = strings.next(memory)?;
            words.push(memory, string)?;
        }
        words.push(memory, 0)?;
    }
    let path = strings.next(memory)?;
    for (kind, value) in aux(plan, path) {
        words.push(memory, kind)?;
        words.push(memory, value)?;
    }
    while words.next() < plan.random {
        words.push(memory, 0)?;
    }
    for word in random {
        words.push(memory, word)?;
    }
    words.end(memory, PLATFORM)
}

/// Walks over NUL-terminated strings that lie back to back.
struct Strings {
    /// Where the next string begins.
    next: u64,
    end: u64,
    chunk: [u8; CHUNK_BYTES],
    /// The part of the strings that `chunk` holds.
    chunk_start: u64,
    chunk_end: u64,
}

impl Strings {
    fn new(start: u64, len_bytes: u64) -> Strings {
        Strings {
            next: start,
            end: start + len_bytes,
            chunk: [0; CHUNK_BYTES],
            chunk_start: start,
            chunk_end: start,
        }
    }

    /// The address of the next string.
    fn next(&mut self, memory: &mut impl Memory) -> Result<u64, Errno> {
        let string = self.next;
        let mut at = string;
        loop {
            if at == self.chunk_end {
                if at == self.end {
                    return Err(Errno::EINVAL);
                }
                let len = (self.end - at).min(CHUNK_BYTES as u64);
                memory.read(at, &mut self.chunk[..len as usize])?;
                (self.chunk_start, self.chunk_end) = (at, at + len);
            }
            let held = &self.chunk
                [(at - self.chunk_start) as usize..(self.chunk_end - self.chunk_start) as usize];
            // Words at a time: most of what is there is environment.
            if let Ok(rest) = CStr::from_bytes_until_nul(held) {
                self.next = at + rest.to_bytes_with_nul().len() as u64;
                return Ok(string);
            }
            at = self.chunk_end;
        }
    }
}

/// Writes words upwards, many at a time.
struct Words {
    at: u64,
    chunk: [u8; CHUNK_BYTES],
    filled: usize,
}

impl Words {
    fn new(at: u64) -> Words {
        Words {
            at,
            chunk: [0; CHUNK_BYTES],
            filled: 0,
        }
    }

    fn push(&mut self, memory: &mut impl Memory, word: u64) -> Result<(), Errno> {
        self.chunk[self.filled..self.filled + 8].copy_from_slice(&word.to_le_bytes());
        self.filled += 8;
        if self.filled == CHUNK_BYTES {
            self.flush(memory)?;
        }
        Ok(())
    }

    /// Where the next word goes.
    fn next(&self) -> u64 {
        self.at + self.filled as u64
    }

    /// Puts at most 8 bytes behind the last word, and writes all.
    fn end(mut self, memory: &mut impl Memory, bytes: &[u8]) -> Result<(), Errno> {
        self.chunk[self.filled..self.filled + bytes.len()].copy_from_slice(bytes);
        self.filled += bytes.len();
        self.flush(memory)
    }

    fn flush(&mut self, memory: &mut impl Memory) -> Result<(), Errno> {
        memory.write(self.at, &self.chunk[..self.filled])?;
        self.at += self.filled as u64;
        self.filled = 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
