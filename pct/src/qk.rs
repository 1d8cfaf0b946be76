//! The control calls as a trait, one method each: what `abi::control` numbers, with types.

use abi::Errno;
use abi::control::{CoreWords, Event, HostOp, JobInfo, RankInfo, RegionKind};

/// Bytes from an address on: physical memory, or addresses of a rank.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Range {
    /// First address.
    pub base: u64,
    /// Bytes.
    pub len_bytes: u64,
}

/// Bytes of a file that ranks share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Text {
    /// [`abi::control::PROGRAM`] or [`abi::control::INTERPRETER`].
    pub file: u64,
    /// Where they begin in it.
    pub offset: u64,
}

/// How a rank's first task begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Start {
    /// Cores of the rank; the task runs on the lowest.
    pub cores: CoreWords,
    /// Address of its first instruction.
    pub entry: u64,
    /// Its stack pointer, at argc.
    pub stack_pointer: u64,
    /// Where its heap (brk) starts.
    pub heap_start: u64,
}

/// The kernel, as the PCT sees it. Errors are those of the control calls.
#[allow(missing_docs, clippy::missing_errors_doc)] // Each is documented at its number in `abi::control::Control`.
pub trait Qk {
    fn log(&mut self, text: &str);
    fn job_info(&mut self) -> Result<JobInfo, Errno>;
    fn rank_info(&mut self, rank: u32) -> Result<RankInfo, Errno>;
    /// `None` after the last range.
    fn memory_range(&mut self, index: u64) -> Result<Option<Range>, Errno>;
    /// `None` for an event unknown to this PCT.
    fn wait_event(&mut self) -> Result<Option<Event>, Errno>;
    fn aspace_create(&mut self, rank: u32, partition: Range) -> Result<(), Errno>;
    fn aspace_write(&mut self, rank: u32, to: u64, bytes: &[u8]) -> Result<(), Errno>;
    fn aspace_read(&mut self, rank: u32, from: u64, bytes: &mut [u8]) -> Result<(), Errno>;
    fn region_create(
        &mut self,
        rank: u32,
        place: Range,
        prot: u64,
        kind: RegionKind,
    ) -> Result<(), Errno>;
    /// `false`: it cannot be shared.
    fn text_create(
        &mut self,
        rank: u32,
        place: Range,
        prot: u64,
        text: Text,
    ) -> Result<bool, Errno>;
    fn region_protect(&mut self, rank: u32, place: Range, prot: u64) -> Result<(), Errno>;
    fn host_call(&mut self, rank: u32, op: HostOp, args: [u64; 3]) -> Result<u64, Errno>;
    fn rank_start(&mut self, rank: u32, start: Start) -> Result<(), Errno>;
    fn rank_refuse(&mut self, rank: u32, status: u8, text: &str) -> Result<(), Errno>;
    fn rank_reap(&mut self, rank: u32) -> Result<(), Errno>;
}
