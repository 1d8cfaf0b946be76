//! What a child has to do before the program goes on in it, written down before the fork.

use std::ptr::from_ref;
use std::sync::Mutex;

use abi::Errno;
use abi::ident::{ADDR_NO_RANDOMIZE, STICKY_TIMEOUTS};
use abi::map::{PAGE, USER_BASE, USER_TOP, VDSO_AREA};
use rustix::fd::AsRawFd;
use wire::child::{Child, STACK_BYTES, how};

use super::copies::Copies;
use super::lent::Lent;
use super::memory::{Whose, memory_steps};
use super::page;
use super::parent::Parent;
use super::shared::Shared;
use super::stage::{Must, Step};
use super::steps::{NAME_BYTES, Steps, Table};
use crate::memory::{Memory, RankMemory};
use crate::regions::Regions;
use crate::sync::lock;

/// uapi/linux/prctl.h
const PR_SET_MM: u64 = 35;
const PR_SET_MM_MAP: u64 = 14;
/// asm/prctl.h
const ARCH_SET_GS: u64 = 0x1001;
const ARCH_SET_FS: u64 = 0x1002;
/// struct prctl_mm_map (uapi/linux/prctl.h).
#[derive(Debug, Default)]
#[repr(C)]
struct MmMap {
    start_code: u64,
    end_code: u64,
    start_data: u64,
    end_data: u64,
    start_brk: u64,
    brk: u64,
    start_stack: u64,
    arg_start: u64,
    arg_end: u64,
    env_start: u64,
    env_end: u64,
    auxv: u64,
    auxv_size: u32,
    exe_fd: u32,
}

/// The steps, and all that they point to.
#[derive(Debug)]
pub struct Script {
    /// The steps.
    pub steps: Vec<Step>,
    /// Where the page is by which the program is entered.
    pub page_at: u64,
    /// Which descriptors the child begins with.
    pub table: Table,
    /// How late its timers may be.
    pub timer_slack_ns: u64,
    /// The stack that a child of vfork shares.
    stack: Option<Stack>,
    copies: Mutex<Option<Copies>>,
    _page: Box<[u8; page::BYTES]>,
    _actions: Box<[[u64; 4]]>,
    _name: Box<[u8; NAME_BYTES]>,
    _limits: Vec<[u64; 2]>,
    _mm: Box<MmMap>,
    _auxv: Vec<u8>,
    _lent: Option<Box<Lent>>,
}

/// The piece of the parent thread's stack that child and parent share.
#[derive(Debug)]
struct Stack {
    at: u64,
    shared: Shared,
    /// As it was.
    before: Vec<u8>,
}

impl Stack {
    /// Puts the shared stack in its place.
    fn enter(&self, steps: &mut Steps, regions: &Regions) {
        let (from, len_bytes) = (self.shared.address(), self.shared.len_bytes());
        steps.move_to(from, len_bytes, self.at);
        if let Some(region) = regions.at(self.at) {
            let args = [self.at, len_bytes, region.protection()];
            steps.call(libc::SYS_mprotect, &args, Must::Succeed);
        }
    }
}

impl Script {
    /// Writes the steps of a child that begins as `child` says, with `memory` as it is.
    ///
    /// # Errors
    /// ENOMEM, or what Linux says of the RAM's file.
    pub fn write(parent: Parent<'_>, memory: &Memory, child: &Child) -> Result<Script, Errno> {
        let regions = memory.regions();
        let page_at = page_place(regions).ok_or(Errno::ENOMEM)?;
        let dumpable = child.dumpable.peek() != 0;
        let page = page::make(page_at, child, dumpable);
        let stack = shared_stack(memory, child.stack_at.peek())?;
        let mut steps = Steps::default();
        steps.depend_on(parent.pid);
        let actions = steps.dispositions(child);
        if let Some(rules) = parent.rules {
            let args = [rules.as_raw_fd() as u64, 0];
            steps.call(libc::SYS_landlock_restrict_self, &args, Must::Succeed);
        }
        let whose = match &stack {
            Some(_) => Whose::Rank,
            None => Whose::Child,
        };
        let (lent, copies) = memory_steps(&mut steps, &parent, memory, whose)?;
        if let Some(stack) = &stack {
            stack.enter(&mut steps, regions);
        }
        let name = steps.thread(regions, child);
        let table = Table::of(lent.is_some() || child.how.peek() & how::PIDFD != 0);
        steps.close(parent.own_fds.clone(), table);
        let mm = Box::new(mm_map(&parent, regions, child));
        let args = [
            PR_SET_MM,
            PR_SET_MM_MAP,
            from_ref(&*mm).addr() as u64,
            size_of::<MmMap>() as u64,
        ];
        steps.call(libc::SYS_prctl, &args, Must::Return);
        for (code, base) in [ARCH_SET_FS, ARCH_SET_GS].into_iter().zip(&child.bases) {
            steps.call(libc::SYS_arch_prctl, &[code, base.peek()], Must::Succeed);
        }
        steps.page(page_at, &page);
        let inherited = parent.personality & !ADDR_NO_RANDOMIZE;
        let own = ADDR_NO_RANDOMIZE | STICKY_TIMEOUTS;
        let personality = inherited | child.personality.peek() & own;
        steps.call(libc::SYS_personality, &[personality], Must::Succeed);
        let limits = steps.limits(&parent.limits); // RLIMIT_AS, and nothing is mapped afterwards
        steps.call(
            libc::SYS_prctl,
            &[libc::PR_SET_PDEATHSIG as u64, 0],
            Must::Return,
        );
        Ok(Script {
            steps: steps.all,
            page_at,
            table,
            timer_slack_ns: rustix::thread::current_timer_slack().unwrap_or(0),
            stack,
            copies: Mutex::new(copies),
            _page: page,
            _actions: actions,
            _name: name,
            _limits: limits,
            _mm: mm,
            _auxv: parent.auxv,
            _lent: lent,
        })
    }

    /// There is a child, or there will be none: this process needs the copy of the rank's memory no more.
    pub fn drop_copies(&self) {
        drop(lock(&self.copies).take());
    }

    /// What a child of vfork has changed on the shared stack: addresses and bytes.
    pub fn stack_changes(&self) -> Vec<(u64, Vec<u8>)> {
        let Some(stack) = &self.stack else {
            return Vec::new();
        };
        let now = stack.shared.copy();
        changes(&stack.before, &now)
            .into_iter()
            .map(|(start, end)| (stack.at + start as u64, now[start..end].to_vec()))
            .collect()
    }
}

/// The ranges in which two equally long pieces of memory differ.
fn changes(before: &[u8], now: &[u8]) -> Vec<(usize, usize)> {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for (at, _) in before
        .iter()
        .zip(now)
        .enumerate()
        .filter(|(_, (a, b))| a != b)
    {
        match ranges.last_mut() {
            Some((_, end)) if *end == at => *end += 1,
            _ => ranges.push((at, at + 1)),
        }
    }
    ranges
}

/// Where the child's own page goes: in the place of the clock, which the log does not show, or, if the program has something
/// else there, where nothing is.
fn page_place(regions: &Regions) -> Option<u64> {
    let pages = (USER_TOP - USER_BASE) / PAGE;
    let from_the_top = (1..=pages).map(|page| USER_TOP - page * PAGE);
    let mut places = std::iter::once(VDSO_AREA).chain(from_the_top);
    places.find(|at| regions.at(*at).is_none())
}

/// Copies the stack from the page of `sp` on.
fn shared_stack(memory: &Memory, sp: u64) -> Result<Option<Stack>, Errno> {
    let at = sp & !(PAGE - 1);
    let Some(region) = memory
        .regions()
        .at(at)
        .filter(|region| sp != 0 && region.write)
    else {
        return Ok(None);
    };
    let len_bytes = (region.end - at).min(STACK_BYTES);
    let mut shared = Shared::new(len_bytes as usize).map_err(|_| Errno::ENOMEM)?;
    let mut before = vec![0; len_bytes as usize];
    memory.read(at, &mut before)?;
    shared.fill(&before);
    Ok(Some(Stack { at, shared, before }))
}

fn mm_map(parent: &Parent<'_>, regions: &Regions, child: &Child) -> MmMap {
    let code = regions.iter().find(|region| region.exec);
    let [start_code, end_code] = code.map_or([USER_BASE, USER_TOP], |code| [code.start, code.end]);
    let (heap, strings) = (parent.heap_start, parent.strings_at);
    let bytes = |strings: &[std::ffi::CString]| -> u64 {
        let lengths = strings.iter().map(|string| string.count_bytes() as u64 + 1);
        lengths.sum()
    };
    let env = strings + bytes(&parent.program.argv);
    MmMap {
        start_code,
        end_code,
        start_data: start_code,
        end_data: end_code,
        start_brk: heap,
        brk: child.heap_end.peek().max(heap),
        start_stack: strings,
        arg_start: strings,
        arg_end: env,
        env_start: env,
        env_end: env + bytes(&parent.program.env),
        auxv: parent.auxv.as_ptr().addr() as u64,
        auxv_size: parent.auxv.len() as u32,
        exe_fd: u32::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::regions::Region;

    #[test]
    fn changed_bytes_are_found_in_runs() {
        assert_eq!(changes(b"abcdef", b"abcdef"), []);
        assert_eq!(changes(b"abcdef", b"aXYdeZ"), [(1, 3), (5, 6)]);
    }

    /// The clock page was searched for in the log, where it is not: the vDSO of a child found nothing in its place.
    #[test]
    fn the_page_goes_where_the_clock_was_or_where_nothing_is() {
        let mut regions = Regions::default();
        let region = |start, end| Region {
            start,
            end,
            gpa: 0x10_0000,
            read: true,
            write: false,
            exec: false,
            shared: false,
            laid: false,
        };
        assert_eq!(page_place(&regions), Some(VDSO_AREA));
        regions.map(region(VDSO_AREA, VDSO_AREA + PAGE));
        assert_eq!(page_place(&regions), Some(USER_TOP - PAGE));
        regions.map(region(USER_TOP - 4 * PAGE, USER_TOP));
        assert_eq!(page_place(&regions), Some(USER_TOP - 5 * PAGE));
    }
}
