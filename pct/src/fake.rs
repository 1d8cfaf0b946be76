//! A kernel made of vectors, for the tests: it checks what the real one would check and records the calls.

extern crate std;

use std::collections::{HashMap, VecDeque};
use std::string::{String, ToString};
use std::vec::Vec;
use std::{format, vec};

use abi::Errno;
use abi::control::{Event, HostOp, JobInfo, PROGRAM, RankInfo, RegionKind};
use abi::map::{PAGE, USER_TOP};

use crate::qk::{Qk, Range, Start, Text};
use crate::stack::Memory;

/// A region that the loader created.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Region {
    pub place: Range,
    pub prot: u64,
    pub kind: RegionKind,
}

/// One rank's memory, by pages; what is not in the map is zero.
#[derive(Default)]
pub struct Pages(pub HashMap<u64, Vec<u8>>);

impl Pages {
    fn each(&mut self, start: u64, len: usize, mut f: impl FnMut(&mut u8, usize)) {
        for i in 0..len {
            let addr = start + i as u64;
            let page = self
                .0
                .entry(addr / PAGE)
                .or_insert_with(|| vec![0; PAGE as usize]);
            f(&mut page[(addr % PAGE) as usize], i);
        }
    }

    pub fn word(&mut self, addr: u64) -> u64 {
        let mut bytes = [0; 8];
        self.read(addr, &mut bytes).expect("a fake reads all");
        u64::from_le_bytes(bytes)
    }

    pub fn string(&mut self, addr: u64) -> String {
        let mut out = Vec::new();
        loop {
            let mut byte = [0];
            self.read(addr + out.len() as u64, &mut byte)
                .expect("a fake reads all");
            if byte[0] == 0 {
                return String::from_utf8(out).expect("ASCII");
            }
            out.push(byte[0]);
        }
    }
}

impl Memory for Pages {
    fn read(&mut self, from: u64, bytes: &mut [u8]) -> Result<(), Errno> {
        let len = bytes.len();
        self.each(from, len, |byte, i| bytes[i] = *byte);
        Ok(())
    }

    fn write(&mut self, to: u64, bytes: &[u8]) -> Result<(), Errno> {
        self.each(to, bytes.len(), |byte, i| *byte = bytes[i]);
        Ok(())
    }
}

#[derive(Default)]
pub struct Rank {
    pub partition: Range,
    /// Address spaces that were made.
    pub spaces: usize,
    pub regions: Vec<Region>,
    pub pages: Pages,
    pub started: Option<Start>,
    pub refused: Option<String>,
    pub reaped: bool,
}

/// The kernel. Fields are what it answers; `ranks` records the calls.
pub struct Fake {
    pub job: JobInfo,
    pub info: RankInfo,
    pub memory: Vec<Range>,
    pub events: VecDeque<Option<Event>>,
    pub program: Vec<u8>,
    pub interpreter: Vec<u8>,
    pub strings: Vec<u8>,
    /// Most bytes a single read of the program gives.
    pub read_bytes: usize,
    /// Text of programs can be shared.
    pub shares_text: bool,
    /// Errors and odd results to give instead, by the number of the call from now; `Ok(n)` only for host calls.
    pub mishaps: HashMap<usize, Result<u64, Errno>>,
    pub calls: usize,
    pub log: Vec<String>,
    pub ranks: HashMap<u32, Rank>,
}

impl Fake {
    /// One rank with 256 MiB on one core, about to attach.
    pub fn new(program: Vec<u8>, args: &[&str], env: &[&str]) -> Fake {
        let mut strings = Vec::new();
        for string in args.iter().chain(env).chain(&["/bin/program"]) {
            strings.extend(string.as_bytes());
            strings.push(0);
        }
        Fake {
            job: JobInfo {
                ranks: 1,
                cpus: 1,
                hwcap: 0x1234,
                hwcap2: 2,
                min_sigstack_bytes: 3632,
                ..JobInfo::default()
            },
            info: RankInfo {
                argc: args.len() as u64,
                envc: env.len() as u64,
                strings_bytes: strings.len() as u64,
                file_bytes: program.len() as u64,
                stack_limit: 8 << 20,
                uid: 1000,
                euid: 1001,
                gid: 1002,
                egid: 1003,
                random: [0x0123_4567_89ab_cdef, 42],
                ..RankInfo::default()
            },
            memory: vec![Range {
                base: 16 << 20,
                len_bytes: 256 << 20,
            }],
            events: VecDeque::from([Some(Event::Attached(0))]),
            program,
            interpreter: Vec::new(),
            strings,
            read_bytes: usize::MAX,
            shares_text: false,
            mishaps: HashMap::new(),
            calls: 0,
            log: Vec::new(),
            ranks: HashMap::new(),
        }
    }

    /// Counts a call; the mishap it meets, if any.
    fn mishap(&mut self) -> Option<Result<u64, Errno>> {
        self.calls += 1;
        self.mishaps.get(&(self.calls - 1)).copied()
    }

    fn step(&mut self) -> Result<(), Errno> {
        match self.mishap() {
            Some(Err(errno)) => Err(errno),
            _ => Ok(()),
        }
    }

    fn rank(&mut self, rank: u32) -> &mut Rank {
        self.ranks.entry(rank).or_default()
    }

    /// That a range is within the rank's regions, and may be written when the program may not.
    fn check(&mut self, rank: u32, addr: u64, len: usize) -> Result<(), Errno> {
        let end = addr.checked_add(len as u64).ok_or(Errno::EFAULT)?;
        let regions = &self.rank(rank).regions;
        let covered = |a: u64| {
            regions
                .iter()
                .any(|r| a >= r.place.base && a < r.place.base + r.place.len_bytes)
        };
        let pages_covered = (addr / PAGE..end.div_ceil(PAGE)).all(|page| covered(page * PAGE));
        if pages_covered {
            Ok(())
        } else {
            Err(Errno::EFAULT)
        }
    }
}

impl Qk for Fake {
    fn log(&mut self, text: &str) {
        self.log.push(text.to_string());
    }

    fn job_info(&mut self) -> Result<JobInfo, Errno> {
        self.step()?;
        Ok(self.job)
    }

    fn rank_info(&mut self, _rank: u32) -> Result<RankInfo, Errno> {
        self.step()?;
        Ok(self.info)
    }

    fn memory_range(&mut self, index: u64) -> Result<Option<Range>, Errno> {
        self.step()?;
        Ok(self.memory.get(index as usize).copied())
    }

    fn wait_event(&mut self) -> Result<Option<Event>, Errno> {
        self.step()?;
        let event = self.events.pop_front().ok_or(Errno::ESRCH)?;
        if let Some(Event::Exec(rank)) = event {
            let rank = self.rank(rank);
            (rank.regions, rank.pages, rank.started) = Default::default();
        }
        Ok(event)
    }

    fn aspace_create(&mut self, rank: u32, partition: Range) -> Result<(), Errno> {
        self.step()?;
        self.rank(rank).spaces += 1;
        self.rank(rank).partition = partition;
        Ok(())
    }

    fn aspace_write(&mut self, rank: u32, to: u64, bytes: &[u8]) -> Result<(), Errno> {
        self.step()?;
        self.check(rank, to, bytes.len())?;
        self.rank(rank).pages.write(to, bytes)
    }

    fn aspace_read(&mut self, rank: u32, from: u64, bytes: &mut [u8]) -> Result<(), Errno> {
        self.step()?;
        self.check(rank, from, bytes.len())?;
        self.rank(rank).pages.read(from, bytes)
    }

    fn region_create(
        &mut self,
        rank: u32,
        place: Range,
        prot: u64,
        kind: RegionKind,
    ) -> Result<(), Errno> {
        self.step()?;
        let end = place
            .base
            .checked_add(place.len_bytes)
            .ok_or(Errno::EINVAL)?;
        let aligned = place.base.is_multiple_of(PAGE) && place.len_bytes.is_multiple_of(PAGE);
        if !aligned || place.len_bytes == 0 || end > USER_TOP || prot > 7 {
            return Err(Errno::EINVAL);
        }
        let regions = &mut self.rank(rank).regions;
        if regions
            .iter()
            .any(|r| place.base < r.place.base + r.place.len_bytes && r.place.base < end)
        {
            return Err(Errno::EEXIST);
        }
        let used: u64 = regions.iter().map(|r| r.place.len_bytes).sum();
        if used + place.len_bytes > self.rank(rank).partition.len_bytes {
            return Err(Errno::ENOMEM);
        }
        self.rank(rank).regions.push(Region { place, prot, kind });
        Ok(())
    }

    fn text_create(
        &mut self,
        rank: u32,
        place: Range,
        prot: u64,
        text: Text,
    ) -> Result<bool, Errno> {
        if !self.shares_text {
            self.step()?;
            return Ok(false);
        }
        self.region_create(rank, place, prot, RegionKind::Image)?;
        let file = match text.file {
            PROGRAM => &self.program,
            _ => &self.interpreter,
        };
        let bytes = part(file, [place.base, place.len_bytes, text.offset], usize::MAX);
        self.rank(rank).pages.write(place.base, &bytes)?;
        Ok(true)
    }

    fn region_protect(&mut self, rank: u32, place: Range, prot: u64) -> Result<(), Errno> {
        self.step()?;
        let regions = &mut self.rank(rank).regions;
        let region = regions
            .iter_mut()
            .find(|r| r.place == place)
            .ok_or(Errno::ENOMEM)?;
        region.prot = prot;
        Ok(())
    }

    fn host_call(&mut self, rank: u32, op: HostOp, args: [u64; 3]) -> Result<u64, Errno> {
        if let Some(mishap) = self.mishap() {
            return mishap;
        }
        let bytes = match op {
            HostOp::ReadProgram => part(&self.program, args, self.read_bytes),
            HostOp::ReadInterpreter => part(&self.interpreter, args, self.read_bytes),
            HostOp::WriteStrings => {
                let len = self.strings.len().min(args[1] as usize);
                self.strings[..len].to_vec()
            }
            other => panic!("{other:?} is not the PCT's to ask"),
        };
        self.check(rank, args[0], bytes.len())?;
        self.rank(rank).pages.write(args[0], &bytes)?;
        Ok(bytes.len() as u64)
    }

    fn rank_start(&mut self, rank: u32, start: Start) -> Result<(), Errno> {
        self.step()?;
        self.rank(rank).started = Some(start);
        Ok(())
    }

    fn rank_refuse(&mut self, rank: u32, status: u8, text: &str) -> Result<(), Errno> {
        self.step()?;
        self.rank(rank).refused = Some(format!("{status} {text}"));
        Ok(())
    }

    fn rank_reap(&mut self, rank: u32) -> Result<(), Errno> {
        self.step()?;
        self.rank(rank).reaped = true;
        Ok(())
    }
}

/// What one read of a file gives that gives at most `most_bytes`.
fn part(file: &[u8], [_, len_bytes, offset]: [u64; 3], most_bytes: usize) -> Vec<u8> {
    let from = (offset as usize).min(file.len());
    let len = (file.len() - from).min(len_bytes as usize).min(most_bytes);
    file[from..from + len].to_vec()
}

/// A segment: flags, file offset, address, bytes in the file, bytes in memory.
pub type Segment = (u32, u64, u64, u64, u64);

/// A static program of these segments. The file is `len` bytes long; byte i is i mod 251, but for the headers.
pub fn program(entry: u64, segments: &[Segment], len: usize) -> Vec<u8> {
    const ET_EXEC: u16 = 2;
    const PT_LOAD: u32 = 1;
    let loads: Vec<_> = segments.iter().map(|&s| (PT_LOAD, s)).collect();
    elf(ET_EXEC, entry, &loads, len)
}

/// As [`program`], of any type and with program headers of any type.
pub fn elf(kind: u16, entry: u64, headers: &[(u32, Segment)], len: usize) -> Vec<u8> {
    let mut file: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
    let mut head = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    head.extend(kind.to_le_bytes());
    head.extend([62, 0, 1, 0, 0, 0]);
    for word in [entry, 64, 0] {
        head.extend(word.to_le_bytes());
    }
    head.extend([0; 4]);
    for half in [64, 56, headers.len() as u16, 0, 0, 0] {
        head.extend(half.to_le_bytes());
    }
    for &(kind, (flags, offset, vaddr, file_bytes, mem_bytes)) in headers {
        head.extend(kind.to_le_bytes());
        head.extend(flags.to_le_bytes());
        for word in [offset, vaddr, vaddr, file_bytes, mem_bytes, PAGE] {
            head.extend(word.to_le_bytes());
        }
    }
    file[..head.len()].copy_from_slice(&head);
    file
}
