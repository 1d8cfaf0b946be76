//! A rank's area: what its proxy says of it, what the QK says of it, its signal mailbox, the record of a child, the list of its
//! children. Its threads have areas of their own ([`crate::thread`]).

use zerocopy::{FromBytes, KnownLayout};

use abi::control::RankInfo;
use abi::ident::RLIM_NLIMITS;
use abi::syscall::MAX_CALLS;

use crate::child::Child;
use crate::children::Children;
use crate::registers::Registers;
use crate::signal::{Mailbox, Outbox};
use crate::word::{Text, Word};

/// Values of [`FromHost::state`].
pub mod proxy {
    /// No proxy yet.
    pub const ABSENT: u64 = 0;
    /// The proxy has filled in everything and serves calls.
    pub const ATTACHED: u64 = 1;
}

/// Values of [`FromNode::state`].
pub mod state {
    /// Nothing happened yet.
    pub const EMPTY: u64 = 0;
    /// The PCT loads the program.
    pub const LOADING: u64 = 1;
    /// The program runs.
    pub const RUNNING: u64 = 2;
    /// The program cannot be loaded: `message` says why, `wait_status` what to exit with.
    pub const REFUSED: u64 = 3;
    /// The program ended; `wait_status` says how.
    pub const EXITED: u64 = 4;
}

/// What the proxy says. Everything but `state` is written before `state` becomes [`proxy::ATTACHED`]; only `workers`, what
/// is about debuggers, and `info` when the program is replaced ([`abi::control::HostOp::CommitExec`]) changes later.
#[derive(FromBytes, KnownLayout, Default, Debug)]
#[repr(C, align(64))]
pub struct FromHost {
    /// See [`proxy`].
    pub state: Word,
    /// The proxy's process id: the rank's pid, and the thread id of its first thread.
    pub pid: Word,
    /// Its parent's.
    pub ppid: Word,
    /// [`RankInfo::to_words`].
    pub info: [Word; RankInfo::WORDS],
    /// Resource limits, soft and hard, by RLIMIT_* number, as the rank is to see them.
    pub rlimits: [[Word; 2]; RLIM_NLIMITS],
    /// Signals ignored at start (bit signo - 1), inherited as across exec.
    pub ignored: Word,
    /// Signals blocked at start.
    pub blocked: Word,
    /// [`abi::ident::ADDR_NO_RANDOMIZE`], if yod was started with it.
    pub personality: Word,
    /// uname's nodename.
    pub nodename: Text<9>,
    /// uname's domainname.
    pub domainname: Text<9>,
    /// How many threads have a worker: those with the indices below. It only grows ([`abi::control::HostOp::GrowWorkers`]).
    pub workers: Word,
    /// What its debugger requests: bits of [`abi::halt::debugger`]. After a change a [`crate::signal::LOOK`] is posted.
    pub debugger: Word,
    /// DR0 to DR3 and DR7, written while all threads are halted; and how often they were.
    pub watches: [Word; 5],
    /// See `watches`.
    pub watch_version: Word,
    /// Registers for the thread that is told to [load](abi::halt::Order::Load) them.
    pub registers: Registers,
}

/// Why a rank was ended by a signal: for the crash report, when it was a fault, and for the core file.
#[derive(FromBytes, KnownLayout, Default, Debug)]
#[repr(C)]
pub struct Crash {
    /// The thread that took the signal: its index, and its siginfo_t in words, of which the others are zero. Filled in when
    /// a core file is due.
    pub thread: Word,
    /// See `thread`.
    pub info: [Word; 6],
    /// 1 when the fields below are filled in: it was a fault.
    pub valid: Word,
    /// The signal.
    pub signo: Word,
    /// si_code, sign-extended.
    pub code: Word,
    /// The faulting address (si_addr).
    pub addr: Word,
    /// The exception's number and error code.
    pub trap: [Word; 2],
    /// Registers in the order of [`Crash::REGISTERS`].
    pub regs: [Word; 18],
}

impl Crash {
    /// Names of [`Self::regs`].
    pub const REGISTERS: [&'static str; 18] = [
        "rip", "rsp", "rflags", "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "r8", "r9", "r10",
        "r11", "r12", "r13", "r14", "r15",
    ];
}

/// What a rank requested and did not get: yod names it when the rank ends badly.
#[derive(FromBytes, KnownLayout, Default, Debug)]
#[repr(C)]
pub struct Refusals {
    /// Calls that the table refuses, a bit per number.
    pub calls: [Word; MAX_CALLS / 64],
    /// Requests for memory that its partition had no room for.
    pub memory: Word,
    /// Shared mappings of files that the node pool had no room for.
    pub shared_maps: Word,
}

impl Refusals {
    /// Notes a refused call (QK only).
    pub fn note_call(&self, nr: u64) {
        if let Some(word) = self.calls.get(nr as usize / 64) {
            word.put(word.peek() | 1 << (nr % 64));
        }
    }

    /// The numbers of the refused calls.
    pub fn call_numbers(&self) -> impl Iterator<Item = u64> {
        let is_set = |nr: &u64| self.calls[*nr as usize / 64].load() >> (nr % 64) & 1 == 1;
        (0..MAX_CALLS as u64).filter(is_set)
    }
}

/// What the QK says.
#[derive(FromBytes, KnownLayout, Default, Debug)]
#[repr(C, align(64))]
pub struct FromNode {
    /// See [`state`].
    pub state: Word,
    /// How the rank ended, as wait(2) says it: exit code << 8, or the signal.
    pub wait_status: Word,
    /// First core of the rank (from boot on: the one its proxy rings when it attaches and for signals), and how many it has.
    pub cpus: [Word; 2],
    /// Physical base and bytes of its partition.
    pub partition: [Word; 2],
    /// Physical base and bytes of the node pool, which all ranks share.
    pub pool: [Word; 2],
    /// Resource limits, soft and hard, by RLIMIT_* number, as the rank has set or inherited them: /proc and children have these.
    pub rlimits: [[Word; 2]; RLIM_NLIMITS],
    /// Where its heap (brk) begins.
    pub heap_start: Word,
    /// What the node's processors can, as CPUID says it, two registers a word, the lower first: leaf 1 EDX and ECX; leaf 7
    /// EBX and ECX; leaf 7 EDX and leaf 7.1 EAX; leaf 0x8000_0001 EDX and ECX; leaf 0xd.1 EAX and leaf 0x8000_0008 EBX.
    pub features: [Word; 5],
    /// Which processor CPUID says they are, two registers a word, the lower first: leaf 0 EBX and EDX; leaf 0 ECX and leaf 1 EAX;
    /// and the name of leaves 0x8000_0002 to 0x8000_0004.
    pub identity: [Word; 8],
    /// Bytes of the partition in use, and the most that were while it ran the present program.
    pub used_bytes: Word,
    /// See `used_bytes`.
    pub peak_bytes: Word,
    /// The most that earlier programs had in use ([`FromNode::most_bytes`]).
    pub past_peak_bytes: Word,
    /// Bytes of mappings that are locked (mlock(2)).
    pub locked_bytes: Word,
    /// A line for the user ([`state::REFUSED`]).
    pub message: Text<32>,
    /// The program's MXCSR at its end: the exceptions that it unmasked, and those that happened.
    pub mxcsr: Word,
    /// Real-time signals of the host that the program has taken, of all that were posted: see [`crate::signal::QUEUED`].
    pub signals_taken: Word,
    /// Signals that wait in Linux (bit signo - 1): see [`RankArea::outbox`].
    pub left: Word,
    /// Highest index that a thread ever had, plus one: how far the proxy looks. Up to date before that thread's first
    /// request; 0 is as good as 1.
    pub threads: Word,
    /// Ranks that had windows when this one started, itself included, and the TSC ticks that it took to open them.
    pub windows: [Word; 2],
    /// How often its program was replaced by another (execve).
    pub execs: Word,
    /// How a signal ended it.
    pub crash: Crash,
    /// Those of the thread that was told to [show](abi::halt::Order::Show) them.
    pub registers: Registers,
    /// What it did not get.
    pub refusals: Refusals,
}

impl FromNode {
    /// The most bytes of the partition that were ever in use, by whichever of its programs.
    pub fn most_bytes(&self) -> u64 {
        self.past_peak_bytes.load().max(self.peak_bytes.load())
    }
}

/// All of a rank's shared words but its region log, its trace and those of its threads.
#[derive(FromBytes, KnownLayout, Default, Debug)]
#[repr(C, align(64))]
pub struct RankArea {
    /// Written by the proxy.
    pub host: FromHost,
    /// Written by the QK.
    pub node: FromNode,
    /// Signals from the host.
    pub mailbox: Mailbox,
    /// Signals of the node that are to wait in Linux.
    pub outbox: Outbox,
    /// What the child that it forks begins with; written by the QK.
    pub child: Child,
    /// The children that it has had; written by the proxy.
    pub children: Children,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_calls_are_told_by_number() {
        let refusals = Refusals::default();
        for nr in [56, 435, 0, 56, MAX_CALLS as u64, u64::MAX] {
            refusals.note_call(nr);
        }
        assert!(refusals.call_numbers().eq([0, 56, 435]));
    }
}
