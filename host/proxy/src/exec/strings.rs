//! Path, arguments and environment of an execve, out of the rank's memory.

use std::ffi::{CStr, CString};

use abi::Errno;

use crate::memory::RankMemory;

/// Bytes of the longest path with its NUL (PATH_MAX, uapi/linux/limits.h).
const PATH_BYTES: usize = 4096;
/// Bytes of the longest other string with its NUL (MAX_ARG_STRLEN, uapi/linux/binfmts.h).
const STRING_BYTES: usize = 32 * 4096;
/// What all strings and the pointers to them may take at least (ARG_MAX, uapi/linux/limits.h), and at most: three quarters of
/// _STK_LIM (fs/exec.c, bprm_stack_limits).
const LEAST_BYTES: u64 = 128 << 10;
const MOST_BYTES: u64 = 6 << 20;
const POINTER_BYTES: u64 = 8;

/// The path.
///
/// # Errors
/// EFAULT, ENAMETOOLONG.
pub fn path(memory: &impl RankMemory, at: u64) -> Result<CString, Errno> {
    string(memory, at, &mut [0; PATH_BYTES])
}

/// Arguments and environment of a program that is called `name`. Without an argument there is one that is empty.
///
/// # Errors
/// EFAULT, E2BIG.
pub fn read(
    memory: &impl RankMemory,
    name: &CStr,
    vectors: [u64; 2],
    stack_limit: u64,
) -> Result<[Vec<CString>; 2], Errno> {
    let limit = (stack_limit / 4).clamp(LEAST_BYTES, MOST_BYTES);
    let [argv, envp] = vectors.map(|at| pointers(memory, at, limit));
    let (argv, envp) = (argv?, envp?);
    let pointers = argv.len().max(1) + envp.len();
    let used = pointers as u64 * POINTER_BYTES + name.count_bytes() as u64 + 1;
    let mut left = limit.checked_sub(used).ok_or(Errno::E2BIG)?;
    let mut buffer = vec![0; STRING_BYTES];
    let mut strings = |pointers: Vec<u64>| -> Result<Vec<CString>, Errno> {
        let strings = pointers.into_iter().map(|at| {
            let string = string(memory, at, &mut buffer).map_err(|errno| match errno {
                Errno::ENAMETOOLONG => Errno::E2BIG,
                errno => errno,
            })?;
            let bytes = string.count_bytes() as u64 + 1;
            left = left.checked_sub(bytes).ok_or(Errno::E2BIG)?;
            Ok(string)
        });
        strings.collect()
    };
    let env = strings(envp)?;
    let mut argv = strings(argv)?;
    if argv.is_empty() {
        argv.push(CString::default());
    }
    Ok([argv, env])
}

/// The pointers of a vector, up to its null pointer; of none, none.
fn pointers(memory: &impl RankMemory, at: u64, limit_bytes: u64) -> Result<Vec<u64>, Errno> {
    let mut pointers = Vec::new();
    if at == 0 {
        return Ok(pointers);
    }
    loop {
        let offset = pointers.len() as u64 * POINTER_BYTES;
        if offset > limit_bytes {
            return Err(Errno::E2BIG);
        }
        let mut bytes = [0; POINTER_BYTES as usize];
        let from = at.checked_add(offset).ok_or(Errno::EFAULT)?;
        memory.read(from, &mut bytes)?;
        match u64::from_ne_bytes(bytes) {
            0 => return Ok(pointers),
            pointer => pointers.push(pointer),
        }
    }
}

fn string(memory: &impl RankMemory, at: u64, buffer: &mut [u8]) -> Result<CString, Errno> {
    let len = memory.read_string(at, buffer)?;
    CString::new(&buffer[..len]).map_err(|_| Errno::EFAULT)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory from `BASE` on.
    struct Bytes(Vec<u8>);

    const BASE: u64 = 0x1_0000;

    impl RankMemory for Bytes {
        fn read(&self, addr: u64, into: &mut [u8]) -> Result<(), Errno> {
            let start = addr.checked_sub(BASE).ok_or(Errno::EFAULT)? as usize;
            let bytes = start
                .checked_add(into.len())
                .and_then(|end| self.0.get(start..end));
            into.copy_from_slice(bytes.ok_or(Errno::EFAULT)?);
            Ok(())
        }

        fn write(&self, _: u64, _: &[u8]) -> Result<(), Errno> {
            Err(Errno::EFAULT)
        }
    }

    /// A vector of pointers to these strings, and the strings behind it, up to the end of a page.
    fn memory(strings: &[&[u8]]) -> Bytes {
        let mut words = Vec::new();
        let mut text = Vec::new();
        let text_at = BASE + 8 * (strings.len() as u64 + 1);
        for string in strings {
            words.extend((text_at + text.len() as u64).to_ne_bytes());
            text.extend(*string);
            text.push(0);
        }
        words.extend([0; 8]);
        words.extend(text);
        words.resize(words.len().next_multiple_of(4096), 0);
        Bytes(words)
    }

    const STACK: u64 = 8 << 20;

    #[test]
    fn vectors_and_their_strings_are_copied() {
        let memory = memory(&[b"a", b"", b"bc"]);
        let strings = read(&memory, c"x", [BASE, 0], STACK).expect("sound");
        assert_eq!(
            strings,
            [
                vec![c"a".into(), c"".into(), c"bc".into()],
                Vec::<CString>::new()
            ]
        );
        // As Linux since 5.18.
        let strings = read(&memory, c"x", [0, BASE + 16], STACK).expect("sound");
        assert_eq!(strings, [vec![CString::default()], vec![c"bc".into()]]);
    }

    #[test]
    fn what_cannot_be_read_is_a_fault() {
        let memory = memory(&[b"a"]);
        for at in [8, BASE - 8, BASE + 4096, u64::MAX, u64::MAX - 7] {
            assert_eq!(
                read(&memory, c"x", [at, 0], STACK),
                Err(Errno::EFAULT),
                "{at:#x}"
            );
            assert_eq!(path(&memory, at), Err(Errno::EFAULT), "{at:#x}");
        }
        let mut wild = Bytes(vec![0xff; 4096]);
        assert_eq!(read(&wild, c"x", [BASE, 0], STACK), Err(Errno::EFAULT));
        wild.0[8..16].fill(0);
        assert_eq!(read(&wild, c"x", [BASE, 0], STACK), Err(Errno::EFAULT));
    }

    #[test]
    fn limits_are_those_of_linux() {
        let string = |bytes: usize| vec![b'x'; bytes - 1];
        let read =
            |strings: &[&[u8]], stack| read(&memory(strings), c"x", [BASE, 0], stack).map(drop);
        assert_eq!(read(&[&string(STRING_BYTES)], STACK), Ok(()));
        assert_eq!(read(&[&string(STRING_BYTES + 1)], STACK), Err(Errno::E2BIG));
        let longest = string(STRING_BYTES);
        let all = [&longest[..]; 16];
        assert_eq!(read(&all[..15], STACK), Ok(()));
        assert_eq!(read(&all, STACK), Err(Errno::E2BIG));
        assert_eq!(read(&all, u64::MAX), Ok(()));
        assert_eq!(read(&[&[b'x'; 100]], 0), Ok(()));
        let many = vec![&b""[..]; 20_000];
        assert_eq!(read(&many, 0), Err(Errno::E2BIG));
        assert_eq!(
            path(&Bytes(vec![b'x'; 8192]), BASE),
            Err(Errno::ENAMETOOLONG)
        );
    }
}
