//! Loads a program into a rank's address space.
//!
//! Everything a program needs is there before its first instruction: its segments with their zeroes, those of its
//! interpreter if it is dynamically linked, its stack, the vDSO and the clock page. The interpreter (the host's own ld.so)
//! starts first and maps the libraries by system calls, as on Linux. The file is read by the rank's proxy straight into place; what the PCT itself reads
//! of it goes through the low end of the stack, which is unused yet. A program that cannot be loaded is refused with
//! one line, which its proxy prints after the program's name.

mod runs;
#[cfg(test)]
mod tests;

use abi::Errno;
use abi::areas::{self, Areas};
use abi::control::{HostOp, INTERPRETER, JobInfo, PROGRAM, RankInfo, RegionKind};
use abi::cores::Cores;
use abi::image::{HEAD_BYTES, Image, ImageError, PROT_EXEC, PROT_READ, PROT_WRITE, Segment};
use abi::map;
use abi::stack::{AUX_PAIRS, Contents, Plan};

use crate::line;
use crate::line::Line;
use crate::qk::{Qk, Range, Start, Text};
use crate::stack::{self, Memory, at};
use crate::vdso;
use runs::{Run, Runs};

/// Most bytes that one request to the proxy reads: below what one read(2) gives (MAX_RW_COUNT, just under 2 GiB).
const READ_BYTES: u64 = 1 << 30;
/// Reads that may return less than requested before the file is taken for broken.
const SHORT_READS: u32 = 64;
/// AT_CLKTCK: USER_HZ of Linux on x86 (uapi/asm-generic/param.h).
const CLOCK_TICKS: u64 = 100;

/// Access to a segment while its proxy fills it.
const WHILE_FILLED: u64 = PROT_READ | PROT_WRITE;

/// What a rank is to be loaded with.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The rank.
    pub rank: u32,
    /// Its memory.
    pub partition: Range,
    /// Its cores.
    pub cores: Cores,
}

/// Makes the rank's address space, loads its program and starts it.
///
/// # Errors
/// The line that says why it cannot be.
pub fn load(qk: &mut impl Qk, job: &JobInfo, place: Place) -> Result<(), Line> {
    qk.aspace_create(place.rank, place.partition)
        .map_err(|e| line!("no address space for it: {e}"))?;
    load_again(qk, job, place)
}

/// Loads the rank's program into its address space, which is empty, and starts it.
///
/// # Errors
/// The line that says why it cannot be.
pub fn load_again(qk: &mut impl Qk, job: &JobInfo, place: Place) -> Result<(), Line> {
    let rank = place.rank;
    let info = qk
        .rank_info(rank)
        .map_err(|e| line!("its proxy did not describe it: {e}"))?;
    let mut loader = Loader { qk, rank, info };
    let areas = Areas::of(rank as usize);
    let stack = loader.create_stack(areas, place.partition.len_bytes)?;
    let mmap_top = areas::mmap_top(stack.base);
    let images = loader.read_images(stack, mmap_top)?;
    loader.load_segments(File::Program, &images.program)?;
    if let Some(interpreter) = &images.interpreter {
        loader.load_segments(File::Interpreter, interpreter)?;
    }
    loader.map_vdso()?;
    let stack_pointer = loader.fill_stack(stack, job, &images)?;
    if images.program.stack_exec {
        loader.protect(stack, PROT_READ | PROT_WRITE | PROT_EXEC)?;
    }
    let start = Start {
        cores: place.cores.words(),
        entry: images.interpreter.unwrap_or(images.program).entry,
        stack_pointer,
        heap_start: areas.heap(images.program.span().1, mmap_top),
    };
    qk.rank_start(rank, start)
        .map_err(|e| line!("cannot start on {}: {e}", place.cores))
}

/// What is loaded from.
#[derive(Clone, Copy)]
enum File {
    Program,
    Interpreter,
}

impl File {
    /// How a line for the user goes on when this file is at fault.
    fn blame(self, why: Line) -> Line {
        match self {
            File::Program => why,
            File::Interpreter => line!("its interpreter: {}", why.as_str()),
        }
    }
}

/// What is loaded.
struct Images {
    program: Image,
    interpreter: Option<Image>,
}

struct Loader<'a, Q> {
    qk: &'a mut Q,
    rank: u32,
    info: RankInfo,
}

impl<Q: Qk> Loader<'_, Q> {
    fn create(&mut self, place: Range, prot: u64, kind: RegionKind) -> Result<(), Line> {
        self.qk
            .region_create(self.rank, place, prot, kind)
            .map_err(|e| {
                let Range { base, len_bytes } = place;
                let kib = len_bytes >> 10;
                line!("{} does not fit: {kib} KiB at {base:#x}: {e}", what(kind))
            })
    }

    fn protect(&mut self, place: Range, prot: u64) -> Result<(), Line> {
        self.qk
            .region_protect(self.rank, place, prot)
            .map_err(|e| line!("cannot protect its memory at {:#x}: {e}", place.base))
    }

    fn create_stack(&mut self, areas: Areas, partition_bytes: u64) -> Result<Range, Line> {
        let (base, len_bytes) = areas.stack(self.info.stack_limit, partition_bytes);
        let stack = Range { base, len_bytes };
        self.create(stack, PROT_READ | PROT_WRITE, RegionKind::Stack)?;
        Ok(stack)
    }

    /// Reads the headers of the program and its interpreter, which lie below `top`.
    fn read_images(&mut self, stack: Range, top: u64) -> Result<Images, Line> {
        let program = self.read_image(File::Program, stack, Image::parse)?;
        let (_, end) = program.span();
        if end > top {
            return Err(line!("its segments end at {end:#x}, within its stack"));
        }
        if program.interpreter.is_none() {
            return Ok(Images {
                program,
                interpreter: None,
            });
        }
        if self.info.interpreter_bytes == 0 {
            return Err(line!("it needs an interpreter, but its proxy has none"));
        }
        let parse = |head: &[u8], file_bytes| Image::parse_interpreter(head, file_bytes, top);
        let interpreter = self
            .read_image(File::Interpreter, stack, parse)
            .map_err(|why| File::Interpreter.blame(why))?;
        Ok(Images {
            program,
            interpreter: Some(interpreter),
        })
    }

    /// Reads a file's headers through the low end of the stack.
    fn read_image(
        &mut self,
        file: File,
        stack: Range,
        parse: impl Fn(&[u8], u64) -> Result<Image, ImageError>,
    ) -> Result<Image, Line> {
        let file_bytes = match file {
            File::Program => self.info.file_bytes,
            File::Interpreter => self.info.interpreter_bytes,
        };
        let mut head = [0; HEAD_BYTES];
        let wanted = file_bytes.min(HEAD_BYTES as u64);
        let got = self.read_file(file, stack.base, wanted, 0)?;
        let head = &mut head[..got.min(wanted) as usize];
        let lost = |e| line!("its headers are out of reach: {e}");
        self.read(stack.base, head).map_err(lost)?;
        self.write(stack.base, &[0; HEAD_BYTES]).map_err(lost)?;
        parse(head, file_bytes).map_err(|e| line!("{e}"))
    }

    /// One read of a file into the rank's memory: how many bytes.
    fn read_file(&mut self, file: File, to: u64, len_bytes: u64, offset: u64) -> Result<u64, Line> {
        let op = match file {
            File::Program => HostOp::ReadProgram,
            File::Interpreter => HostOp::ReadInterpreter,
        };
        self.qk
            .host_call(self.rank, op, [to, len_bytes, offset])
            .map_err(|e| line!("cannot be read: {e}"))
    }

    fn load_segments(&mut self, file: File, image: &Image) -> Result<(), Line> {
        let mut runs = Runs::of(image.segments());
        for run in runs.as_mut_slice() {
            run.shared = self.share(file, image, run)?;
            if !run.shared {
                self.create(run.place, WHILE_FILLED, RegionKind::Image)?;
            }
        }
        let runs = runs.as_slice();
        let is_shared = |segment: &Segment| {
            let is_of = |run: &Run| run.place.base == segment.first_page();
            runs.iter().any(|run| run.shared && is_of(run))
        };
        for segment in image.segments().iter().filter(|s| !is_shared(s)) {
            self.fill(file, segment).map_err(|why| file.blame(why))?;
        }
        let differs = |run: &&Run| !run.shared && run.prot != WHILE_FILLED;
        for run in runs.iter().filter(differs) {
            self.protect(run.place, run.prot)?;
        }
        Ok(())
    }

    /// Shows what other ranks show, too, where a run is all of a segment that is never written to.
    fn share(&mut self, file: File, image: &Image, run: &Run) -> Result<bool, Line> {
        let is_run = |segment: &&Segment| {
            segment.first_page() == run.place.base
                && segment.end_page() == run.place.base + run.place.len_bytes
                && segment.prot == run.prot
        };
        let segment = image.segments().iter().find(is_run);
        let Some(segment) = segment.filter(|segment| segment.is_text()) else {
            return Ok(false);
        };
        let text = Text {
            file: match file {
                File::Program => PROGRAM,
                File::Interpreter => INTERPRETER,
            },
            offset: segment.file_offset - (segment.vaddr - segment.first_page()),
        };
        let Range { base, len_bytes } = run.place;
        self.qk
            .text_create(self.rank, run.place, run.prot, text)
            .map_err(|e| {
                line!(
                    "its text does not fit: {} KiB at {base:#x}: {e}",
                    len_bytes >> 10
                )
            })
    }

    /// Reads a segment into place. What the file does not fill is zero, as new memory is.
    fn fill(&mut self, file: File, segment: &Segment) -> Result<(), Line> {
        let mut done = 0;
        let mut short_reads = 0;
        while done < segment.file_bytes {
            let wanted = (segment.file_bytes - done).min(READ_BYTES);
            let (to, from) = (segment.vaddr + done, segment.file_offset + done);
            let got = self.read_file(file, to, wanted, from)?;
            if got < wanted {
                short_reads += 1;
            }
            if got == 0 || got > wanted || short_reads > SHORT_READS {
                return Err(line!(
                    "cannot be read: it ended at byte {from}; was it changed meanwhile?"
                ));
            }
            done += got;
        }
        Ok(())
    }

    /// Maps the pages that are the node's: clock, information, vDSO.
    fn map_vdso(&mut self) -> Result<(), Line> {
        self.create(vdso::VVAR, PROT_READ, RegionKind::Vvar)?;
        self.create(vdso::INFO, PROT_READ, RegionKind::Info)?;
        let code = vdso::place();
        self.create(code, PROT_READ | PROT_EXEC, RegionKind::Vdso)?;
        self.write(code.base, vdso::IMAGE)
            .map_err(|e| line!("its vDSO cannot be written: {e}"))
    }

    /// Has the proxy write the strings and adds the rest; returns the stack pointer.
    fn fill_stack(&mut self, stack: Range, job: &JobInfo, images: &Images) -> Result<u64, Line> {
        let info = self.info;
        let contents = Contents {
            argc: info.argc,
            envc: info.envc,
            strings_bytes: info.strings_bytes,
            aux_pairs: AUX_PAIRS as u64,
        };
        let plan = Plan::new(stack.base + stack.len_bytes, stack.len_bytes, contents).map_err(|e| {
            let (bytes, stack) = (info.strings_bytes, stack.len_bytes >> 10);
            line!("arguments and environment of {bytes} bytes do not fit a quarter of its stack of {stack} KiB: {e}")
        })?;
        let capacity = contents.strings_bytes;
        let written = self
            .qk
            .host_call(self.rank, HostOp::WriteStrings, [plan.strings, capacity, 0])
            .map_err(|e| line!("its arguments are out of reach: {e}"))?;
        if written != capacity {
            return Err(line!(
                "its arguments are {written} bytes long instead of {capacity}"
            ));
        }
        stack::write(&plan, self, info.random, |plan, path| {
            auxiliary_vector(plan, path, job, &info, images)
        })
        .map_err(|e| line!("its arguments are broken: {e}"))?;
        Ok(plan.stack_pointer)
    }
}

impl<Q: Qk> Memory for Loader<'_, Q> {
    fn read(&mut self, from: u64, bytes: &mut [u8]) -> Result<(), Errno> {
        self.qk.aspace_read(self.rank, from, bytes)
    }

    fn write(&mut self, to: u64, bytes: &[u8]) -> Result<(), Errno> {
        self.qk.aspace_write(self.rank, to, bytes)
    }
}

const fn what(kind: RegionKind) -> &'static str {
    match kind {
        RegionKind::Image => "its image",
        RegionKind::Stack => "its stack",
        RegionKind::Vdso => "its vDSO",
        RegionKind::Vvar => "its clock page",
        RegionKind::Info => "its information page",
    }
}

/// In the order of Linux's create_elf_tables, and where the information page is.
fn auxiliary_vector(
    plan: &Plan,
    path: u64,
    job: &JobInfo,
    info: &RankInfo,
    images: &Images,
) -> [(u64, u64); AUX_PAIRS] {
    let image = &images.program;
    [
        (at::SYSINFO_EHDR, vdso::place().base),
        (at::MINSIGSTKSZ, job.min_sigstack_bytes),
        (at::HWCAP, job.hwcap),
        (at::PAGESZ, map::PAGE),
        (at::CLKTCK, CLOCK_TICKS),
        (at::PHDR, image.phdr_vaddr),
        (at::PHENT, image.phent),
        (at::PHNUM, image.phnum),
        (at::BASE, images.interpreter.map_or(0, |image| image.bias)),
        (at::FLAGS, 0),
        (at::ENTRY, image.entry),
        (at::UID, info.uid),
        (at::EUID, info.euid),
        (at::GID, info.gid),
        (at::EGID, info.egid),
        (at::SECURE, info.secure),
        (at::RANDOM, plan.random),
        (at::HWCAP2, job.hwcap2),
        (at::EXECFN, path),
        (at::PLATFORM, plan.platform),
        (map::AT_MARGAY, map::INFO_PAGE),
        (at::NULL, 0),
    ]
}
