//! Control calls: what the PCT, and only the PCT, may request of the QK.
//!
//! They use the `syscall` instruction with the numbers below, arguments in rdi, rsi, rdx, r10, r8, r9 and the
//! result in rax as Linux has it (negative: an [`Errno`](crate::Errno)). From any other process these numbers
//! are simply system calls that do not exist. Pointers are the PCT's own; the QK checks and copies.

mod host_op;
mod info;

pub use host_op::{FORK_OVER, HostOp, INTERPRETER, MappedFile, NO_FILE, PROGRAM, SEGMENTS};
pub use info::{JobInfo, RankInfo};

/// Numbers of the control calls; far above Linux's, so that none is ever mistaken for the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum Control {
    /// log(text, len_bytes): one line into the kernel log.
    Log = 0x4d00,
    /// job_info(out: *mut JobInfo, len_bytes).
    JobInfo = 0x4d01,
    /// wait_event() -> event code (see [`Event`]): blocks until something happens in the job.
    WaitEvent = 0x4d02,
    /// aspace_create(rank, partition_base, partition_len_bytes): an empty address space over a partition of memory.
    AspaceCreate = 0x4d03,
    /// region_create(rank, start, len_bytes, prot, kind): backed and mapped at once. `prot` as PROT_*, `kind` a [`RegionKind`].
    RegionCreate = 0x4d04,
    /// region_protect(rank, start, len_bytes, prot).
    RegionProtect = 0x4d05,
    /// aspace_write(rank, to, from: *const u8, len_bytes).
    AspaceWrite = 0x4d06,
    /// aspace_read(rank, to: *mut u8, from, len_bytes).
    AspaceRead = 0x4d07,
    /// host_call(rank, op, a0, a1, a2) -> result: has the rank's proxy carry out a [`HostOp`].
    HostCall = 0x4d08,
    /// rank_start(rank, cores: *const [`CoreWords`], len_bytes, entry, stack_pointer, heap_start): the rank gets these cores,
    /// and its first task becomes runnable on the lowest of them. One whose program was replaced keeps its cores, and goes on
    /// on that which it had last.
    RankStart = 0x4d09,
    /// rank_refuse(rank, status, text, len_bytes): the program cannot be loaded; its proxy prints the line and exits with `status`.
    /// A rank whose program was to be replaced ends by SIGSEGV, as on Linux.
    RankRefuse = 0x4d0a,
    /// rank_info(rank, out: *mut RankInfo, len_bytes): what the proxy said of the rank.
    RankInfo = 0x4d0b,
    /// rank_reap(rank): gives the memory of an exited rank back to the node.
    RankReap = 0x4d0c,
    /// memory_range(index, out: *mut [u64; 2]) -> 1 or 0 when there are no more: free physical ranges (base, len_bytes).
    MemoryRange = 0x4d0d,
    /// text_create(rank, start, len_bytes, prot, file, offset): a region of [`RegionKind::Image`] with what the file holds, in frames
    /// that other ranks show, too. `file` is [`PROGRAM`] or [`INTERPRETER`]. EAGAIN where it cannot be shared: then it is to be
    /// made and read as others are.
    TextCreate = 0x4d0e,
}

impl Control {
    /// First number of the control calls.
    pub const FIRST: u64 = 0x4d00;

    /// The call with this number.
    #[must_use]
    pub const fn from_nr(nr: u64) -> Option<Control> {
        use Control::*;
        const ALL: [Control; 15] = [
            Log,
            JobInfo,
            WaitEvent,
            AspaceCreate,
            RegionCreate,
            RegionProtect,
            AspaceWrite,
            AspaceRead,
            HostCall,
            RankStart,
            RankRefuse,
            RankInfo,
            RankReap,
            MemoryRange,
            TextCreate,
        ];
        if nr >= Self::FIRST && nr < Self::FIRST + ALL.len() as u64 {
            Some(ALL[(nr - Self::FIRST) as usize])
        } else {
            None
        }
    }
}

/// A set of cores of the node ([`Control::RankStart`]): bit `n % 64` of word `n / 64` is core `n`, as in Linux's cpu_set_t.
pub type CoreWords = [u64; crate::cores::MAX_CPUS / 64];

/// What [`Control::WaitEvent`] returns: the kind in the upper half, the rank in the lower 32 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// The proxy of this rank is there and waits for its program to be loaded.
    Attached(u32),
    /// This rank has ended; its memory can be reaped.
    Exited(u32),
    /// This rank's program is to be replaced by another (execve): nothing is mapped any more, no thread runs, and
    /// [`Control::RankInfo`] describes the new one.
    Exec(u32),
}

impl Event {
    /// The value that crosses the call.
    #[must_use]
    pub const fn encode(self) -> u64 {
        match self {
            Event::Attached(rank) => 1 << 32 | rank as u64,
            Event::Exited(rank) => 2 << 32 | rank as u64,
            Event::Exec(rank) => 3 << 32 | rank as u64,
        }
    }

    /// The event in a returned value.
    #[must_use]
    pub const fn decode(value: u64) -> Option<Event> {
        match value >> 32 {
            1 => Some(Event::Attached(value as u32)),
            2 => Some(Event::Exited(value as u32)),
            3 => Some(Event::Exec(value as u32)),
            _ => None,
        }
    }
}

/// What a region of a starting program is for; says how it is backed and what it may become.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum RegionKind {
    /// A segment of the program.
    Image = 1,
    /// The main thread's stack: 4 KB pages.
    Stack = 2,
    /// The vDSO's code, filled by the PCT.
    Vdso = 3,
    /// The clock page, read-only, shared by the node.
    Vvar = 4,
    /// The rank's information page, read-only.
    Info = 5,
}

impl RegionKind {
    /// The kind with this number.
    #[must_use]
    pub const fn from_nr(nr: u64) -> Option<RegionKind> {
        match nr {
            1 => Some(RegionKind::Image),
            2 => Some(RegionKind::Stack),
            3 => Some(RegionKind::Vdso),
            4 => Some(RegionKind::Vvar),
            5 => Some(RegionKind::Info),
            _ => None,
        }
    }
}
