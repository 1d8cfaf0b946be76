//! What the QK tells the PCT of the job and of a rank, as words that cross the call.

/// The job as the PCT sees it ([`Control::JobInfo`](super::Control::JobInfo)); eight 64-bit words.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct JobInfo {
    /// Ranks of the job on this node.
    pub ranks: u64,
    /// Cores of this node.
    pub cpus: u64,
    /// Bytes of memory each rank is to get; 0: divide what there is evenly.
    pub partition_bytes: u64,
    /// Hardware capabilities for AT_HWCAP (CPUID 1 EDX) and AT_HWCAP2.
    pub hwcap: u64,
    /// See `hwcap`.
    pub hwcap2: u64,
    /// Smallest signal stack for AT_MINSIGSTKSZ (depends on the XSAVE area).
    pub min_sigstack_bytes: u64,
    /// Two words of room to grow; zero.
    pub reserved: [u64; 2],
}

/// A rank as its proxy described it ([`Control::RankInfo`](super::Control::RankInfo)); 64-bit words.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct RankInfo {
    /// Number of argument strings.
    pub argc: u64,
    /// Number of environment strings.
    pub envc: u64,
    /// Bytes of all strings of [`HostOp::WriteStrings`](super::HostOp::WriteStrings) together.
    pub strings_bytes: u64,
    /// Bytes of the program's file.
    pub file_bytes: u64,
    /// Soft RLIMIT_STACK in bytes (u64::MAX: unlimited).
    pub stack_limit: u64,
    /// User and group ids: real and effective.
    pub uid: u64,
    /// Effective user id.
    pub euid: u64,
    /// Real group id.
    pub gid: u64,
    /// Effective group id.
    pub egid: u64,
    /// 1 when privileges changed at exec (AT_SECURE).
    pub secure: u64,
    /// Sixteen random bytes for AT_RANDOM.
    pub random: [u64; 2],
    /// Bytes of the interpreter's file; 0: the program has none.
    pub interpreter_bytes: u64,
}

macro_rules! words {
    ($($type:ident: $n:literal,)*) => {$(
        impl $type {
            /// Number of 64-bit words that cross the call.
            pub const WORDS: usize = $n;
            const _SIZE: () = assert!(core::mem::size_of::<$type>() == 8 * $n);
        }
    )*};
}
words! { JobInfo: 8, RankInfo: 13, }

impl JobInfo {
    /// The words that cross the call, in the order of the fields.
    #[must_use]
    pub const fn to_words(&self) -> [u64; Self::WORDS] {
        let [r0, r1] = self.reserved;
        [
            self.ranks,
            self.cpus,
            self.partition_bytes,
            self.hwcap,
            self.hwcap2,
            self.min_sigstack_bytes,
            r0,
            r1,
        ]
    }

    /// The inverse of [`Self::to_words`].
    #[must_use]
    pub const fn from_words(w: &[u64; Self::WORDS]) -> Self {
        JobInfo {
            ranks: w[0],
            cpus: w[1],
            partition_bytes: w[2],
            hwcap: w[3],
            hwcap2: w[4],
            min_sigstack_bytes: w[5],
            reserved: [w[6], w[7]],
        }
    }
}

impl RankInfo {
    /// The words that cross the call, in the order of the fields.
    #[must_use]
    pub const fn to_words(&self) -> [u64; Self::WORDS] {
        let [r0, r1] = self.random;
        [
            self.argc,
            self.envc,
            self.strings_bytes,
            self.file_bytes,
            self.stack_limit,
            self.uid,
            self.euid,
            self.gid,
            self.egid,
            self.secure,
            r0,
            r1,
            self.interpreter_bytes,
        ]
    }

    /// The inverse of [`Self::to_words`].
    #[must_use]
    pub const fn from_words(w: &[u64; Self::WORDS]) -> Self {
        RankInfo {
            argc: w[0],
            envc: w[1],
            strings_bytes: w[2],
            file_bytes: w[3],
            stack_limit: w[4],
            uid: w[5],
            euid: w[6],
            gid: w[7],
            egid: w[8],
            secure: w[9],
            random: [w[10], w[11]],
            interpreter_bytes: w[12],
        }
    }
}
