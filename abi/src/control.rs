//! Control calls: what the PCT, and only the PCT, may request of the QK.
//!
//! They use the `syscall` instruction with the numbers below, arguments in rdi, rsi, rdx, r10, r8, r9 and the
//! result in rax as Linux has it (negative: an [`Errno`](crate::Errno)). From any other process these numbers
//! are simply system calls that do not exist. Pointers are the PCT's own; the QK checks and copies.

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

/// What the QK may request of a proxy besides Linux system calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum HostOp {
    /// read_program(addr, len_bytes, offset) -> bytes read: from the program's file into the rank's memory.
    ReadProgram = 1,
    /// write_strings(addr, capacity_bytes) -> bytes: the rank's argv strings, then its environment strings, then the
    /// path the program was started by, each NUL-terminated, back to back, into the rank's memory.
    WriteStrings = 2,
    /// sync() -> 0: apply the region log and acknowledge it.
    Sync = 3,
    /// stop(limit_ns, signo) -> 0: the rank was stopped by this signal: stop the proxy too, until SIGCONT or until this time is over,
    /// when a timer of the rank continues it; u64::MAX: there is none; 0: it has been continued already. Nothing stops where the
    /// process group is orphaned, but by SIGSTOP.
    Stop = 4,
    /// read_interpreter(addr, len_bytes, offset) -> bytes read: as [`Self::ReadProgram`], from the file of the program's
    /// interpreter. ENOENT when it has none.
    ReadInterpreter = 5,
    /// describe_file(fd, offset, len_bytes) -> [`MappedFile::encode`]: what mmap needs of a descriptor.
    DescribeFile = 6,
    /// load_file(fd, addr, len_bytes, offset) -> bytes read: as [`Self::ReadProgram`], from a descriptor of the rank that
    /// is being mapped there.
    LoadFile = 7,
    /// grow_workers(wanted) -> workers there are now: at least as many as wanted, for as many threads. EAGAIN when Linux makes
    /// no more threads, or more than [`MAX_THREADS`](crate::map::MAX_THREADS) are wanted.
    GrowWorkers = 8,
    /// halted(why, with) -> [`Order::encode`](crate::halt::Order::encode): a thread has halted, see
    /// [`Halt`](crate::halt::Halt).
    Halted = 9,
    /// leave_out(start, end) -> 0: this memory is to be left out of a core file (MADV_DONTDUMP).
    LeaveOut = 10,
    /// write_core() -> 1 if there is a core file now: all threads have ended.
    WriteCore = 11,
    /// fork() -> process id: starts a child of the rank from its record (`wire::child`). As fork(2): EAGAIN, ENOMEM; EFAULT where
    /// the pidfd cannot be stored. EINTR: the rank ends. With [`FORK_OVER`] nothing is left to [await](Self::AwaitExec).
    Fork = 12,
    /// await_exec(pid) -> 0: blocks until a child that was started for vfork has called exec or ended, and takes over what it
    /// has written on the stack. EINTR: the rank ends, or is about to.
    AwaitExec = 13,
    /// child_signal(handler, flags) -> 0: what the program does with SIGCHLD, as struct sigaction says it. Linux looks at that when a
    /// child ends.
    ChildSignal = 14,
    /// is_with_child(gpa, len_bytes) -> 1 if a child of a rank maps any of these frames of the node pool, else 0.
    IsWithChild = 15,
    /// hold_file(fd, addr, len_bytes, offset) -> 1 if the descriptor may be written to, else 0, and the file's device and inode
    /// besides: keeps a regular file, which is being
    /// mapped there and shared, open until [`Self::ReleaseFile`]. ENODEV for anything but a regular file.
    HoldFile = 16,
    /// load_object(device, inode, gpa, len_bytes, offset) -> bytes read: from a file that is held into frames of the node pool.
    LoadObject = 17,
    /// write_object(device, inode, gpa, len_bytes, offset, told) -> bytes written: as much as lies before the file's end, from
    /// frames of the node pool. `told` is 1 when the program gets the error; else its user gets a line.
    WriteObject = 18,
    /// release_file(device, inode, last) -> 0: no call of this proxy uses frames of the file any more that the log has taken
    /// away, and no call of any proxy uses what the directory does not list any more. `last` is 1 when nothing of the
    /// file is mapped by the rank: it is closed.
    ReleaseFile = 19,
    /// file_bytes(device, inode) -> length of a file that is held.
    FileBytes = 20,
    /// hold_segment(id, flags) -> its bytes, and [`SEGMENTS`] and its id besides: attaches a segment of System V shared memory as
    /// shmat does, as a file is held; `flags` as shmat(2) has them.
    HoldSegment = 21,
    /// prepare_exec(dirfd, path, argv, envp, flags, stack_limit) -> 0: finds, opens and checks the program that is to replace the
    /// rank's, with its strings; execveat(2) says what the arguments are, `stack_limit` is the soft RLIMIT_STACK. Nothing
    /// changes yet. As execve(2): all its errors. EINTR also when it is given up while a file is being opened.
    PrepareExec = 22,
    /// commit_exec() -> 0: the rank runs the program that was prepared last: descriptors with O_CLOEXEC are closed, its name is
    /// the program's, and the rank's [`RankInfo`] describes it. The calling thread was the last; the first has its nice value
    /// from now on. EINVAL when none was prepared.
    CommitExec = 23,
    /// describe_text(fd, addr, len_bytes, offset) -> when a regular file, which is being mapped there and not to be written to, was last
    /// changed, in nanoseconds; its device and inode besides. EAGAIN where another change might not show in that, and where ranks
    /// share mappings of the file, which they may write to.
    DescribeText = 30,
    /// load_text(fd, gpa, len_bytes, offset) -> as [`Self::DescribeText`], after it has read the file into frames of the node pool,
    /// which are zero behind its end. EAGAIN when it has less than all of their pages.
    LoadText = 31,
    /// wake_children(addr, count) -> how many: wakes children that wait for a futex in memory that they share with the rank.
    WakeChildren = 40,
}

impl HostOp {
    /// The operation with this number.
    #[must_use]
    pub const fn from_nr(nr: u64) -> Option<HostOp> {
        match nr {
            1 => Some(HostOp::ReadProgram),
            2 => Some(HostOp::WriteStrings),
            3 => Some(HostOp::Sync),
            4 => Some(HostOp::Stop),
            5 => Some(HostOp::ReadInterpreter),
            6 => Some(HostOp::DescribeFile),
            7 => Some(HostOp::LoadFile),
            8 => Some(HostOp::GrowWorkers),
            9 => Some(HostOp::Halted),
            10 => Some(HostOp::LeaveOut),
            11 => Some(HostOp::WriteCore),
            12 => Some(HostOp::Fork),
            13 => Some(HostOp::AwaitExec),
            14 => Some(HostOp::ChildSignal),
            15 => Some(HostOp::IsWithChild),
            16 => Some(HostOp::HoldFile),
            17 => Some(HostOp::LoadObject),
            18 => Some(HostOp::WriteObject),
            19 => Some(HostOp::ReleaseFile),
            20 => Some(HostOp::FileBytes),
            21 => Some(HostOp::HoldSegment),
            22 => Some(HostOp::PrepareExec),
            23 => Some(HostOp::CommitExec),
            30 => Some(HostOp::DescribeText),
            31 => Some(HostOp::LoadText),
            40 => Some(HostOp::WakeChildren),
            _ => None,
        }
    }
}

/// Stands for a descriptor of the program's file ([`HostOp::DescribeText`], [`HostOp::LoadText`]): none has such a number.
pub const PROGRAM: u64 = 1 << 32;
/// Stands for a descriptor of the file of the program's interpreter.
pub const INTERPRETER: u64 = PROGRAM + 1;

/// The device of what is no file but a segment of System V shared memory, whose id stands for the inode.
pub const SEGMENTS: u64 = u64::MAX;

/// Set in the answer to [`HostOp::Fork`]: a child that was started for vfork has called exec or ended already.
pub const FORK_OVER: u64 = 1 << 32;

/// What mmap needs of a descriptor ([`HostOp::DescribeFile`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MappedFile {
    /// Number of the file, from 1, by which a rank's mappings are told apart. A file that has been changed has another one.
    pub object: u32,
    /// Pages of the range that begin before the end of the file.
    pub pages: u64,
    /// Open for reading.
    pub readable: bool,
    /// Open for writing.
    pub writable: bool,
    /// Of a kind that can be mapped (a directory or a pipe cannot).
    pub mappable: bool,
    /// Not on a file system mounted noexec.
    pub executable: bool,
}

impl MappedFile {
    /// Largest number of a file.
    pub const MAX_OBJECT: u32 = (1 << 28) - 1;
    const OBJECT_SHIFT: u32 = 4;
    const PAGES_SHIFT: u32 = 32;

    /// The value that crosses the call; not negative.
    #[must_use]
    pub const fn encode(&self) -> u64 {
        self.readable as u64
            | (self.writable as u64) << 1
            | (self.mappable as u64) << 2
            | (self.executable as u64) << 3
            | (self.object as u64) << Self::OBJECT_SHIFT
            | self.pages << Self::PAGES_SHIFT
    }

    /// The inverse of [`Self::encode`]; `None` without a number.
    #[must_use]
    pub const fn decode(value: u64) -> Option<MappedFile> {
        let object = (value >> Self::OBJECT_SHIFT) as u32 & Self::MAX_OBJECT;
        if object == 0 {
            return None;
        }
        Some(MappedFile {
            object,
            pages: value >> Self::PAGES_SHIFT,
            readable: value & 1 != 0,
            writable: value & 2 != 0,
            mappable: value & 4 != 0,
            executable: value & 8 != 0,
        })
    }
}

/// The job as the PCT sees it ([`Control::JobInfo`]); eight 64-bit words.
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

/// A rank as its proxy described it ([`Control::RankInfo`]); 64-bit words.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct RankInfo {
    /// Number of argument strings.
    pub argc: u64,
    /// Number of environment strings.
    pub envc: u64,
    /// Bytes of all strings of [`HostOp::WriteStrings`] together.
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
