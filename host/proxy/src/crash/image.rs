//! The program's file as a crash report needs it: names for addresses, and the tables to walk its stack by.

use std::fmt;
use std::os::fd::{AsRawFd, OwnedFd};

use abi::map::PIE_BASE;
use addr2line::Loader;
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, FrameAddress, Module, Unwinder};
use object::{Object, ObjectKind, ObjectSection, ObjectSegment};

use super::text::printable;
use crate::memory::RankMemory;

/// Most frames of a report: of an endless recursion the innermost are enough.
const MOST_FRAMES: usize = 24;

/// A program that can be looked up.
pub struct Image {
    names: Loader,
    /// What was added to the file's addresses.
    bias: u64,
    unwinder: UnwinderX86_64<Vec<u8>>,
    /// Addresses that hold its code or data.
    addresses: std::ops::Range<u64>,
}

/// A line of the report: who was executing what.
pub struct Frame {
    depth: usize,
    address: u64,
    /// A function that was inlined into the next line's.
    inlined: bool,
    function: String,
    place: String,
}

impl Image {
    /// The program in an open file; `None` when it cannot be parsed.
    pub fn of(file: &OwnedFd) -> Option<Image> {
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let bytes = std::fs::read(&path).ok()?;
        Image::new(&bytes, Loader::new(&path).ok()?)
    }

    fn new(bytes: &[u8], names: Loader) -> Option<Image> {
        let file = object::File::parse(bytes).ok()?;
        let bias = match file.kind() {
            ObjectKind::Dynamic => PIE_BASE,
            _ => 0,
        };
        let first = file.segments().map(|segment| segment.address()).min()?;
        let last = file
            .segments()
            .map(|segment| segment.address() + segment.size())
            .max()?;
        let addresses = first + bias..last + bias;
        let section = |name| {
            let section = file.section_by_name(name)?;
            let range = section.address()..section.address() + section.size();
            Some((range, section.data().ok()?.to_vec()))
        };
        let (text, eh_frame, eh_frame_hdr) = (
            section(".text"),
            section(".eh_frame"),
            section(".eh_frame_hdr"),
        );
        let got = section(".got");
        let sections = ExplicitModuleSectionInfo {
            base_svma: first,
            text_svma: text.as_ref().map(|(range, _)| range.clone()),
            text: text.map(|(_, bytes)| bytes),
            got_svma: got.map(|(range, _)| range),
            eh_frame_svma: eh_frame.as_ref().map(|(range, _)| range.clone()),
            eh_frame: eh_frame.map(|(_, bytes)| bytes),
            eh_frame_hdr_svma: eh_frame_hdr.as_ref().map(|(range, _)| range.clone()),
            eh_frame_hdr: eh_frame_hdr.map(|(_, bytes)| bytes),
            ..Default::default()
        };
        let mut unwinder = UnwinderX86_64::new();
        unwinder.add_module(Module::new(
            "program".into(),
            addresses.clone(),
            addresses.start,
            sections,
        ));
        Some(Image {
            names,
            bias,
            unwinder,
            addresses,
        })
    }

    /// The function at `rip` and its callers, innermost first.
    pub fn frames(&self, rip: u64, rsp: u64, rbp: u64, memory: &dyn RankMemory) -> Vec<Frame> {
        let mut read_stack = |addr: u64| {
            let mut word = [0; 8];
            memory.read(addr, &mut word).map_err(drop)?;
            Ok(u64::from_le_bytes(word))
        };
        let mut addresses = Vec::new();
        let (mut pc, mut sp) = (rip, rsp);
        if !self.addresses.contains(&rip)
            && let Ok(caller) = read_stack(rsp)
            && self.addresses.contains(&caller)
        {
            // A call to where no function is: it has only pushed its return address.
            addresses.push(FrameAddress::InstructionPointer(rip));
            (pc, sp) = (caller, rsp.wrapping_add(8));
        }
        let mut cache = CacheX86_64::<_>::new();
        let registers = UnwindRegsX86_64::new(pc, sp, rbp);
        let mut callers = self
            .unwinder
            .iter_frames(pc, registers, &mut cache, &mut read_stack);
        // Tables that make no sense end the walk.
        while addresses.len() < MOST_FRAMES
            && let Ok(Some(address)) = callers.next()
        {
            let is_caller = !addresses.is_empty();
            addresses.push(match FrameAddress::from_return_address(address.address()) {
                Some(caller) if is_caller => caller,
                _ => address,
            });
        }
        let lines = addresses.iter().enumerate();
        lines
            .flat_map(|(depth, address)| self.lines(depth, *address))
            .collect()
    }

    /// An address with its names; more than one line where functions were inlined.
    fn lines(&self, depth: usize, address: FrameAddress) -> Vec<Frame> {
        let lookup = address.address_for_lookup().wrapping_sub(self.bias);
        let line = |function: &str, place: &str| Frame {
            depth,
            address: address.address(),
            inlined: false,
            function: printable(function),
            place: printable(place),
        };
        // The nearest symbol of what lies outside says nothing.
        if !self.addresses.contains(&address.address_for_lookup()) {
            return vec![line("", "")];
        }
        let mut lines = Vec::new();
        if let Ok(mut frames) = self.names.find_frames(lookup) {
            while let Ok(Some(frame)) = frames.next() {
                let name = frame
                    .function
                    .as_ref()
                    .and_then(|name| name.demangle().ok());
                let place = frame
                    .location
                    .and_then(|at| Some(format!("{}:{}", at.file?, at.line?)));
                if let Some(name) = name {
                    lines.push(line(&name, &place.unwrap_or_default()));
                }
            }
        }
        if lines.is_empty() {
            let symbol = self.names.find_symbol(lookup).unwrap_or_default();
            let name = addr2line::demangle_auto(symbol.into(), None).into_owned();
            lines.push(line(&name, ""));
        }
        let outer = lines.len() - 1;
        lines[..outer]
            .iter_mut()
            .for_each(|line| line.inlined = true);
        lines
    }
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{:<2} {:#x}", self.depth, self.address)?;
        match self.function.as_str() {
            "" => write!(f, " in no known function")?,
            name => write!(f, " {name}")?,
        }
        if !self.place.is_empty() {
            write!(f, " ({})", self.place)?;
        }
        f.write_str(if self.inlined { " [inlined]" } else { "" })
    }
}
