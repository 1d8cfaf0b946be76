//! The notes of a core file: what a debugger reads of the process and its threads (include/uapi/linux/elfcore.h).

use object::elf;
use zerocopy::IntoBytes;

use crate::halt::Shown;

/// Bytes of FXSAVE's image, the front of XSAVE's.
const FXSAVE_BYTES: usize = 512;

/// What a core says of the process.
#[derive(Debug, Default)]
pub struct Process {
    /// pid, ppid, pgrp, sid.
    pub ids: [i32; 4],
    /// uid, gid.
    pub user: [u32; 2],
    /// The program's name and its arguments.
    pub name: Vec<u8>,
    /// See `name`.
    pub arguments: Vec<u8>,
    /// siginfo_t of the signal, in words.
    pub siginfo: [u64; 16],
    /// The auxiliary vector.
    pub auxv: Vec<u8>,
    /// What is mapped of files.
    pub files: Vec<Mapped>,
}

/// A part of a file that is mapped.
#[derive(Debug)]
pub struct Mapped {
    /// Addresses.
    pub start: u64,
    /// See `start`.
    pub end: u64,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// The file.
    pub path: Vec<u8>,
}

/// A thread: its Linux thread id and registers.
pub type Thread = (u32, Shown);

/// All notes, in Linux's order: `threads` begins with the one that took the signal.
pub fn all(process: &Process, threads: &[Thread]) -> Vec<u8> {
    let mut notes = Vec::new();
    for (i, (tid, registers)) in threads.iter().enumerate() {
        let status = status(process, *tid, registers);
        add(&mut notes, b"CORE\0", elf::NT_PRSTATUS, &status);
        if i == 0 {
            add(&mut notes, b"CORE\0", elf::NT_PRPSINFO, &info(process));
            add(
                &mut notes,
                b"CORE\0",
                elf::NT_SIGINFO,
                process.siginfo.as_bytes(),
            );
            add(&mut notes, b"CORE\0", elf::NT_AUXV, &process.auxv);
            add(&mut notes, b"CORE\0", elf::NT_FILE, &files(&process.files));
        }
        let fpu = &registers.fpu;
        let fxsave = &fpu[..fpu.len().min(FXSAVE_BYTES)];
        add(&mut notes, b"CORE\0", elf::NT_PRFPREG, fxsave);
        add(&mut notes, b"LINUX\0", elf::NT_X86_XSTATE, fpu);
    }
    notes
}

/// Adds a note; name and contents are each padded to four bytes.
fn add(notes: &mut Vec<u8>, name: &[u8], kind: u32, contents: &[u8]) {
    let head = [name.len() as u32, contents.len() as u32, kind];
    notes.extend(head.iter().flat_map(|word| word.to_le_bytes()));
    for bytes in [name, contents] {
        notes.extend(bytes);
        notes.resize(notes.len().next_multiple_of(4), 0);
    }
}

/// struct elf_prstatus.
fn status(process: &Process, tid: u32, registers: &Shown) -> Vec<u8> {
    /// pr_sigpend, pr_sighold.
    const SIGNALS_BYTES: usize = 16;
    /// pr_utime, pr_stime, pr_cutime, pr_cstime.
    const TIMES_BYTES: usize = 64;
    let siginfo = process.siginfo.as_bytes();
    let [signo, errno, code] = [0, 4, 8].map(|at| &siginfo[at..at + 4]);
    let [_, ppid, pgrp, sid] = process.ids;
    let ids = [tid as i32, ppid, pgrp, sid];
    [
        [signo, code, errno, signo].concat(),
        vec![0; SIGNALS_BYTES],
        ids.iter().flat_map(|id| id.to_le_bytes()).collect(),
        vec![0; TIMES_BYTES],
        registers
            .general
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect(),
        1u64.to_le_bytes().to_vec(), // pr_fpvalid and padding
    ]
    .concat()
}

/// struct elf_prpsinfo.
fn info(process: &Process) -> Vec<u8> {
    /// pr_fname, pr_psargs.
    const NAME_BYTES: usize = 16;
    const ARGUMENTS_BYTES: usize = 80;
    let cut = |text: &[u8], bytes: usize| {
        let mut text = text[..text.len().min(bytes - 1)].to_vec();
        text.resize(bytes, 0);
        text
    };
    let user = process.user.iter().flat_map(|id| id.to_le_bytes());
    let ids = process.ids.iter().flat_map(|id| id.to_le_bytes());
    [
        b"\0R\0\0\0\0\0\0".to_vec(), // pr_state, pr_sname, pr_zomb, pr_nice and padding
        vec![0; 8],                  // pr_flag
        user.collect(),
        ids.collect(),
        cut(&process.name, NAME_BYTES),
        cut(&process.arguments, ARGUMENTS_BYTES),
    ]
    .concat()
}

/// NT_FILE: how many, the unit of offsets, then start, end and offset of each, then their paths (Linux: fs/binfmt_elf.c).
fn files(files: &[Mapped]) -> Vec<u8> {
    const UNIT: u64 = abi::map::PAGE;
    let places = files
        .iter()
        .flat_map(|file| [file.start, file.end, file.offset / UNIT]);
    let words = [files.len() as u64, UNIT].into_iter().chain(places);
    let mut note: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    for file in files {
        note.extend(&file.path);
        note.push(0);
    }
    note
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_linuxs_sizes() {
        let registers = Shown {
            general: [3; 27],
            fpu: vec![1; 832],
        };
        let process = Process {
            name: b"a name of more than sixteen".to_vec(),
            ..Process::default()
        };
        let status = status(&process, 7, &registers);
        assert_eq!((status.len(), &status[32..36]), (336, &[7, 0, 0, 0][..]));
        assert_eq!(status[112], 3);
        let info = info(&process);
        assert_eq!(
            (info.len(), &info[40..56]),
            (136, &b"a name of more \0"[..])
        );
    }

    #[test]
    fn the_first_thread_brings_what_is_the_processs() {
        let registers = Shown {
            general: [0; 27],
            fpu: vec![0; 832],
        };
        let process = Process {
            files: vec![Mapped {
                start: 0x1000,
                end: 0x3000,
                offset: 0x2000,
                path: b"/lib/a".to_vec(),
            }],
            ..Process::default()
        };
        let notes = all(&process, &[(1, registers.clone()), (2, registers)]);
        let (mut kinds, mut rest) = (Vec::new(), &notes[..]);
        while !rest.is_empty() {
            let word = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().expect("four"));
            let (name, bytes, kind) = (word(0), word(4), word(8));
            let len = 12 + name.next_multiple_of(4) + bytes.next_multiple_of(4);
            kinds.push(kind);
            rest = &rest[len as usize..];
        }
        assert_eq!(
            kinds,
            [
                1,
                3,
                elf::NT_SIGINFO,
                6,
                elf::NT_FILE,
                2,
                elf::NT_X86_XSTATE,
                1,
                2,
                elf::NT_X86_XSTATE
            ]
        );
        assert_eq!(files(&process.files).len(), 16 + 24 + 7);
    }
}
