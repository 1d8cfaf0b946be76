//! What a child of a rank begins with: the registers of the thread that forks, and what else the QK has of the process.
//!
//! The QK fills the record in and then has the proxy fork ([`abi::control::HostOp::Fork`]); one fork of a rank at a time.

use zerocopy::{FromBytes, KnownLayout};

use crate::word::Word;

/// Registers in the order of struct sigcontext_64 (arch/x86/include/uapi/asm/sigcontext.h).
pub const REGISTERS: usize = 18;
/// Signals there are.
pub const SIGNALS: usize = abi::ident::NSIG as usize;
/// Words of the FPU state that are passed on at most: the legacy region, the header and AVX, which lie alike on all CPUs
/// (Intel SDM vol. 1 §13.4). What comes behind them, the parts of AVX-512 for one, lies elsewhere on other CPUs.
pub const FPU_WORDS: usize = 832 / 8;

/// Resource limits that the node has for the rank and its children, and its proxy not: they would hit the proxy's own time, memory
/// and stack (RLIMIT_CPU, _DATA, _STACK, _RSS, _MEMLOCK, _AS of include/uapi/asm-generic/resource.h); and [`RLIMIT_FSIZE`].
pub const LIMITS: [usize; 7] = [0, RLIMIT_FSIZE, 2, 3, 5, 8, 9];
/// Of this the proxy has the soft limit only, and raises it for the files that stand for those of /proc.
pub const RLIMIT_FSIZE: usize = 1;
/// Of this too the proxy has the soft limit only: it has descriptors of its own above the rank's hard limit
/// (docs/adr/0009).
pub const RLIMIT_NOFILE: usize = 7;

/// Bytes from the page of the stack pointer on that a child of vfork shares with its parent.
pub const STACK_BYTES: u64 = 64 << 10;

/// Bits of [`Child::how`].
pub mod how {
    /// The parent thread sleeps until the child has called exec or ended.
    pub const VFORK: u64 = 1;
    /// The child begins with default actions in place of handlers (CLONE_CLEAR_SIGHAND).
    pub const CLEAR_HANDLERS: u64 = 2;
    /// The parent gets a descriptor for it (CLONE_PIDFD), which the proxy writes to [`super::Child::pidfd`].
    pub const PIDFD: u64 = 4;
}

/// The record; written by the QK, but for [`Child::pidfd`].
#[derive(FromBytes, KnownLayout, Debug)]
#[repr(C, align(64))]
pub struct Child {
    /// Bits of [`how`].
    pub how: Word,
    /// The signal that the parent gets when it ends; 0: none.
    pub exit_signal: Word,
    /// Its pidfd in the parent, if there is to be one.
    pub pidfd: Word,
    /// Where its thread id goes in its own memory; 0: nowhere.
    pub set_tid_at: Word,
    /// What is cleared in its memory when it ends; 0: nothing.
    pub clear_tid_at: Word,
    /// Where the stack begins whose bytes the parent gets as the child has changed them, up to [`STACK_BYTES`]; 0: it gets none.
    pub stack_at: Word,
    /// Registers.
    pub registers: [Word; REGISTERS],
    /// FS and GS base.
    pub bases: [Word; 2],
    /// Blocked signals.
    pub mask: Word,
    /// Alternate stack: ss_sp, ss_flags, ss_size.
    pub altstack: [Word; 3],
    /// The area of its restartable sequence (0: none) and the signature.
    pub rseq: [Word; 2],
    /// The break.
    pub heap_end: Word,
    /// Whether it is dumpable (prctl's PR_GET_DUMPABLE).
    pub dumpable: Word,
    /// What the program has set of its personality: of [`abi::ident::ADDR_NO_RANDOMIZE`] and [`abi::ident::STICKY_TIMEOUTS`].
    pub personality: Word,
    /// Words of [`Self::fpu`] that are filled in.
    pub fpu_words: Word,
    /// The FPU state as XSAVE has it in the standard format.
    pub fpu: [Word; FPU_WORDS],
    /// Dispositions: handler, flags, restorer, mask of signal `i + 1`.
    pub actions: [[Word; 4]; SIGNALS],
}

impl Default for Child {
    fn default() -> Child {
        fn words<const N: usize>() -> [Word; N] {
            core::array::from_fn(|_| Word::default())
        }
        Child {
            how: Word::default(),
            exit_signal: Word::default(),
            pidfd: Word::default(),
            set_tid_at: Word::default(),
            clear_tid_at: Word::default(),
            stack_at: Word::default(),
            registers: words(),
            bases: words(),
            mask: Word::default(),
            altstack: words(),
            rseq: words(),
            heap_end: Word::default(),
            dumpable: Word::default(),
            personality: Word::default(),
            fpu_words: Word::default(),
            fpu: words(),
            actions: core::array::from_fn(|_| words()),
        }
    }
}
