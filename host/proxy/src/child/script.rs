//! What a child has to do before the program goes on in it, written down before the fork.

use std::ptr::from_ref;

use abi::Errno;
use abi::ident::NSIG;
use abi::map::{PAGE, USER_BASE, USER_TOP, VDSO_AREA};
use rustix::fd::AsRawFd;
use wire::child::{Child, STACK_BYTES, how};

use super::page;
use super::shared::Shared;
use super::stage::{Must, Step};
use crate::fds;
use crate::gpa::Place;
use crate::memory::{Memory, RamFiles, RankMemory};
use crate::objects::Lent;
use crate::rank::Rank;
use crate::regions::{Region, Regions};
use crate::special;

/// uapi/linux/prctl.h
const PR_SET_MM: u64 = 35;
const PR_SET_MM_MAP: u64 = 14;
/// asm/prctl.h
const ARCH_SET_GS: u64 = 0x1001;
const ARCH_SET_FS: u64 = 0x1002;
/// IOPRIO_WHO_PROCESS (uapi/linux/ioprio.h)
const IOPRIO_WHO_PROCESS: u64 = 1;
/// Bytes of struct rseq as programs of today register it.
const RSEQ_BYTES: u64 = 32;
const SIGSET_BYTES: u64 = 8;
/// Bytes that one pread is asked for: it makes no more than 2 GiB at a time.
const PIECE_BYTES: u64 = 1 << 30;
/// Bytes of a thread's name with its NUL (TASK_COMM_LEN, include/linux/sched.h).
const NAME_BYTES: usize = 16;

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
    /// The stack that a child of vfork shares.
    stack: Option<Stack>,
    _page: Box<[u8; page::BYTES]>,
    _actions: Box<[[u64; 4]]>,
    _name: Box<[u8; NAME_BYTES]>,
    _mm: Box<MmMap>,
    _auxv: Vec<u8>,
    _lent: [Option<Lent>; 2],
}

/// The piece of the parent thread's stack that child and parent share.
#[derive(Debug)]
struct Stack {
    at: u64,
    shared: Shared,
    /// As it was.
    before: Vec<u8>,
}

impl Script {
    /// Writes the steps of a child that begins as `child` says, with `memory` as it is.
    ///
    /// # Errors
    /// ENOMEM, or what Linux says of the RAM's file.
    pub fn write(rank: &Rank, memory: &Memory, child: &Child) -> Result<Script, Errno> {
        let regions = memory.regions();
        let page_at = page_place(regions).ok_or(Errno::ENOMEM)?;
        let dumpable = child.dumpable.peek() != 0;
        let page = page::make(page_at, child, dumpable);
        let stack = shared_stack(memory, child.stack_at.peek())?;
        let mut steps = Steps::default();
        steps.depend_on(rank.pid);
        let actions = steps.dispositions(child);
        if let Some(rules) = &rank.children.rules {
            let args = [rules.as_raw_fd() as u64, 0];
            steps.call(libc::SYS_landlock_restrict_self, &args, Must::Succeed);
        }
        steps.memory(rank, memory)?;
        if let Some(stack) = &stack {
            steps.share(stack, regions);
        }
        let name = steps.thread(regions, child);
        for fd in u64::from(rank.first_own_fd)..rank.raised_fds {
            steps.call(libc::SYS_close, &[fd], Must::Return);
        }
        let auxv = special::auxv(rank, memory).unwrap_or_default();
        let mm = Box::new(mm_map(rank, regions, child, &auxv));
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
        steps.call(
            libc::SYS_prctl,
            &[libc::PR_SET_PDEATHSIG as u64, 0],
            Must::Return,
        );
        Ok(Script {
            steps: steps.all,
            page_at,
            stack,
            _page: page,
            _actions: actions,
            _name: name,
            _mm: mm,
            _auxv: auxv,
            _lent: steps.lent,
        })
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

/// Where the child's own page goes: in the place of the clock, which the log does not tell of, or, if the program has something
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

fn mm_map(rank: &Rank, regions: &Regions, child: &Child, auxv: &[u8]) -> MmMap {
    let code = regions.iter().find(|region| region.exec);
    let [start_code, end_code] = code.map_or([USER_BASE, USER_TOP], |code| [code.start, code.end]);
    let heap = rank.words.area.node.heap_start.load();
    let strings = rank.strings_at.load(std::sync::atomic::Ordering::Relaxed);
    let bytes = |strings: &[std::ffi::CString]| -> u64 {
        let lengths = strings.iter().map(|string| string.count_bytes() as u64 + 1);
        lengths.sum()
    };
    let program = rank.program();
    let env = strings + bytes(&program.argv);
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
        env_end: env + bytes(&program.env),
        auxv: auxv.as_ptr().addr() as u64,
        auxv_size: auxv.len() as u32,
        exe_fd: u32::MAX,
    }
}

/// Steps so far.
#[derive(Default)]
struct Steps {
    all: Vec<Step>,
    /// What frames of the node pool are mapped by: to be read, to be written.
    lent: [Option<Lent>; 2],
}

impl Steps {
    fn call(&mut self, nr: i64, args: &[u64], must: Must) {
        let mut all = [0; 6];
        all[..args.len()].copy_from_slice(args);
        self.all.push(Step::Call {
            nr: nr as u64,
            args: all,
            must,
        });
    }

    /// A child that still reads guest RAM must not outlive the proxy: the RAM would become another's.
    fn depend_on(&mut self, parent: u32) {
        let kill = [libc::PR_SET_PDEATHSIG as u64, libc::SIGKILL as u64];
        self.call(libc::SYS_prctl, &kill, Must::Succeed);
        self.call(libc::SYS_getppid, &[], Must::Be(parent.into()));
    }

    /// All signals are blocked until the program is entered, so no handler runs here.
    fn dispositions(&mut self, child: &Child) -> Box<[[u64; 4]]> {
        let clear = child.how.peek() & how::CLEAR_HANDLERS != 0;
        let actions = child.actions.iter().map(|words| {
            let action = words.each_ref().map(|word| word.peek());
            let is_handler = action[0] > libc::SIG_IGN as u64;
            if clear && is_handler { [0; 4] } else { action }
        });
        let actions: Box<[[u64; 4]]> = actions.collect();
        for (signo, action) in (1..=u64::from(NSIG)).zip(&actions) {
            let args = [signo, action.as_ptr().addr() as u64, 0, SIGSET_BYTES];
            // SIGKILL and SIGSTOP have no other.
            self.call(libc::SYS_rt_sigaction, &args, Must::Return);
        }
        actions
    }

    /// Private copies of all regions but those that ranks share, and nothing between them.
    fn memory(&mut self, rank: &Rank, memory: &Memory) -> Result<(), Errno> {
        let mut free = USER_BASE;
        for region in memory.regions().iter() {
            self.unmap(free, region.start);
            free = region.end;
            match region.shared {
                true => self.shared_region(rank, memory.ram(), region)?,
                false => self.region(memory, region)?,
            }
        }
        self.unmap(free, USER_TOP);
        Ok(())
    }

    fn unmap(&mut self, start: u64, end: u64) {
        if start < end {
            self.call(libc::SYS_munmap, &[start, end - start], Must::Succeed);
        }
    }

    /// The same frames as the rank has.
    fn shared_region(&mut self, rank: &Rank, ram: &RamFiles, region: &Region) -> Result<(), Errno> {
        let len_bytes = region.end - region.start;
        let place = ram.layout.place(region.gpa, len_bytes);
        let Some(Place::Pool(offset)) = place else {
            return Err(Errno::EFAULT);
        };
        let lent = &mut self.lent[usize::from(region.write)];
        let lent = match lent {
            Some(lent) => lent,
            None => lent.insert(Lent::new(rank, ram, region.write)?),
        };
        lent.lock(offset, len_bytes)?;
        let (how, fd) = ((libc::MAP_SHARED | libc::MAP_FIXED) as u64, lent.raw());
        let args = [region.start, len_bytes, protection(region), how, fd, offset];
        self.call(libc::SYS_mmap, &args, Must::Be(region.start as i64));
        Ok(())
    }

    fn region(&mut self, memory: &Memory, region: &Region) -> Result<(), Errno> {
        const WRITABLE: u64 = (libc::PROT_READ | libc::PROT_WRITE) as u64;
        let len_bytes = region.end - region.start;
        self.map(region.start, len_bytes);
        for held in memory.held(region)? {
            let end = held.addr + held.len_bytes;
            for at in (held.addr..end).step_by(PIECE_BYTES as usize) {
                let len_bytes = (end - at).min(PIECE_BYTES);
                let offset = held.offset + (at - held.addr);
                let args = [fds::raw(&memory.ram().ram), at, len_bytes, offset];
                self.call(libc::SYS_pread64, &args, Must::Be(len_bytes as i64));
            }
        }
        let prot = protection(region);
        if prot != WRITABLE {
            let args = [region.start, len_bytes, prot];
            self.call(libc::SYS_mprotect, &args, Must::Succeed);
        }
        Ok(())
    }

    /// Maps memory of the child's own, readable and writable.
    fn map(&mut self, addr: u64, len_bytes: u64) {
        let prot = (libc::PROT_READ | libc::PROT_WRITE) as u64;
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED) as u64;
        let args = [addr, len_bytes, prot, flags, u64::MAX];
        self.call(libc::SYS_mmap, &args, Must::Be(addr as i64));
    }

    /// Puts the shared stack in its place.
    fn share(&mut self, stack: &Stack, regions: &Regions) {
        let (from, len_bytes) = (stack.shared.address(), stack.shared.len_bytes());
        let how = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) as u64;
        let args = [from, len_bytes, len_bytes, how, stack.at];
        self.call(libc::SYS_mremap, &args, Must::Be(stack.at as i64));
        if let Some(region) = regions.at(stack.at) {
            let args = [stack.at, len_bytes, protection(region)];
            self.call(libc::SYS_mprotect, &args, Must::Succeed);
        }
    }

    /// What is the thread's: its ids, restartable sequence, name and priorities, as the worker has them that this runs in.
    fn thread(&mut self, regions: &Regions, child: &Child) -> Box<[u8; NAME_BYTES]> {
        let clear_at = child.clear_tid_at.peek();
        self.call(libc::SYS_set_tid_address, &[clear_at], Must::Return);
        let to = child.set_tid_at.peek();
        if to != 0 && regions.allow(to, 4, true) {
            self.all.push(Step::ThreadId { to }); // Linux does not mind a bad pointer
        }
        let [area, signature] = child.rseq.each_ref().map(|word| word.peek());
        if area != 0 {
            let args = [area, RSEQ_BYTES, 0, signature];
            self.call(libc::SYS_rseq, &args, Must::Return);
        }
        let mut name = Box::new([0; NAME_BYTES]);
        if let Ok(own) = rustix::thread::name() {
            let own = own.to_bytes();
            let len = own.len().min(NAME_BYTES - 1);
            name[..len].copy_from_slice(&own[..len]);
        }
        let at = name.as_ptr().addr() as u64;
        self.call(
            libc::SYS_prctl,
            &[libc::PR_SET_NAME as u64, at],
            Must::Return,
        );
        if let Ok(nice) = rustix::process::getpriority_process(None) {
            let args = [libc::PRIO_PROCESS as u64, 0, nice as u64];
            self.call(libc::SYS_setpriority, &args, Must::Return);
        }
        if let Ok(priority) = u64::try_from(crate::heritage::io_priority()) {
            let args = [IOPRIO_WHO_PROCESS, 0, priority];
            self.call(libc::SYS_ioprio_set, &args, Must::Return);
        }
        name
    }

    /// The page by which the program is entered.
    fn page(&mut self, at: u64, page: &[u8; page::BYTES]) {
        self.map(at, PAGE);
        self.all.push(Step::Copy {
            from: page.as_ptr().addr() as u64,
            to: at,
            len_bytes: PAGE,
        });
        let prot = (libc::PROT_READ | libc::PROT_EXEC) as u64;
        self.call(libc::SYS_mprotect, &[at, PAGE, prot], Must::Succeed);
    }
}

fn protection(region: &Region) -> u64 {
    let [read, write, exec] = region.access();
    let bit = |set, bit: i32| if set { bit } else { 0 };
    let prot =
        bit(read, libc::PROT_READ) | bit(write, libc::PROT_WRITE) | bit(exec, libc::PROT_EXEC);
    prot as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_bytes_are_found_in_runs() {
        assert_eq!(changes(b"abcdef", b"abcdef"), []);
        assert_eq!(changes(b"abcdef", b"aXYdeZ"), [(1, 3), (5, 6)]);
    }

    /// The clock page was looked for in the log, where it is not: the vDSO of a child found nothing in its place.
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
        };
        assert_eq!(page_place(&regions), Some(VDSO_AREA));
        regions.map(region(VDSO_AREA, VDSO_AREA + PAGE));
        assert_eq!(page_place(&regions), Some(USER_TOP - PAGE));
        regions.map(region(USER_TOP - 4 * PAGE, USER_TOP));
        assert_eq!(page_place(&regions), Some(USER_TOP - 5 * PAGE));
    }
}
