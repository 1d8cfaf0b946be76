//! What the QK may request of a proxy besides Linux system calls ([`Control::HostCall`](super::Control::HostCall)).

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
    /// lay_file(device, inode, gpa, len_bytes, offset, access) -> 0: what the rank is shown of these frames of the node pool are pages
    /// of a file that is held, from now on. `access` is 0, or what the node itself is to have them for there: 1 to read, 2 also to write.
    LayFile = 17,
    /// clear_frames(gpa, len_bytes) -> 0: these frames are the pool's memory again, and no file's pages.
    ClearFrames = 18,
    /// release_file(device, inode, last) -> 0: this proxy has let go of what the log has taken away. `last` is 1 when nothing of the
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
    /// the program's, and the rank's [`RankInfo`](super::RankInfo) describes it. The calling thread was the last; the first has its nice value
    /// from now on. EINVAL when none was prepared.
    CommitExec = 23,
    /// write_back(addr, len_bytes, flags) -> 0: as msync(2), of memory that shows pages of a file.
    WriteBack = 24,
    /// restore_frames(gpa, len_bytes) -> 0: these frames, of one piece of a file, are its pages again where it has them again.
    RestoreFrames = 25,
    /// hold_text(fd, addr, len_bytes, offset) -> when a regular file was last changed, in nanoseconds, or 0 where another change might not
    /// show in that; its device and inode besides: keeps it open for as long as the rank maps any of it so, for it is being mapped there,
    /// privately and not to be written to. ENODEV for anything else.
    HoldText = 30,
    /// lay_text(device, inode, gpa, len_bytes, offset, access) -> 0: as [`Self::LayFile`], of a file that is held as text, to be read.
    LayText = 31,
    /// wake_children(addr, count, moved, to) -> how many: wakes children that wait for a futex in memory that they share with the rank,
    /// and has so many more wait for the one at `to`, as FUTEX_REQUEUE.
    WakeChildren = 40,
    /// wait_with_children(addr, expected, bits, left_ns) -> 0: waits for a futex in such memory, as FUTEX_WAIT_BITSET, for at most so
    /// long; u64::MAX: for ever. As futex(2): EAGAIN, ETIMEDOUT, EINTR.
    WaitWithChildren = 41,
    /// leave_signals() -> 0: which signals wait in Linux has changed (`wire::rank::FromNode::left`), or some are to wait there. Those
    /// that have come meanwhile and do not are posted.
    LeaveSignals = 42,
    /// left_pending() -> those that wait there for the process or the calling thread (bit signo - 1).
    LeftPending = 43,
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
            17 => Some(HostOp::LayFile),
            18 => Some(HostOp::ClearFrames),
            19 => Some(HostOp::ReleaseFile),
            20 => Some(HostOp::FileBytes),
            21 => Some(HostOp::HoldSegment),
            22 => Some(HostOp::PrepareExec),
            23 => Some(HostOp::CommitExec),
            24 => Some(HostOp::WriteBack),
            25 => Some(HostOp::RestoreFrames),
            30 => Some(HostOp::HoldText),
            31 => Some(HostOp::LayText),
            40 => Some(HostOp::WakeChildren),
            41 => Some(HostOp::WaitWithChildren),
            42 => Some(HostOp::LeaveSignals),
            43 => Some(HostOp::LeftPending),
            _ => None,
        }
    }
}

/// Stands for a descriptor of the program's file ([`HostOp::HoldText`]): none has such a number.
pub const PROGRAM: u64 = 1 << 32;
/// Stands for a descriptor of the file of the program's interpreter.
pub const INTERPRETER: u64 = PROGRAM + 1;

/// The device of what is no file but a segment of System V shared memory, whose id stands for the inode.
pub const SEGMENTS: u64 = u64::MAX;

/// The device of memory that ranks share without a file: its frames are the pool's own ([`HostOp::LayFile`]).
pub const NO_FILE: u64 = SEGMENTS - 1;

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
    /// Sealed against writing (a memfd).
    pub sealed: bool,
    /// Holds nothing but zeros: a shared mapping of it is anonymous memory.
    pub zeros: bool,
}

impl MappedFile {
    /// Largest number of a file.
    pub const MAX_OBJECT: u32 = (1 << 26) - 1;
    const OBJECT_SHIFT: u32 = 6;
    const PAGES_SHIFT: u32 = 32;

    /// The value that crosses the call; not negative.
    #[must_use]
    pub const fn encode(&self) -> u64 {
        self.readable as u64
            | (self.writable as u64) << 1
            | (self.mappable as u64) << 2
            | (self.executable as u64) << 3
            | (self.sealed as u64) << 4
            | (self.zeros as u64) << 5
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
            sealed: value & 16 != 0,
            zeros: value & 32 != 0,
        })
    }
}
