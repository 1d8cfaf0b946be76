//! What gdbstub requires of a target.

use gdbstub::common::{Pid, Signal, Tid};
use gdbstub::target::ext::auxv::{Auxv, AuxvOps};
use gdbstub::target::ext::base::BaseOps;
use gdbstub::target::ext::base::multithread::{
    MultiThreadBase, MultiThreadResume, MultiThreadResumeOps, MultiThreadSchedulerLocking,
    MultiThreadSchedulerLockingOps, MultiThreadSingleStep, MultiThreadSingleStepOps,
};
use gdbstub::target::ext::breakpoints::{
    Breakpoints, BreakpointsOps, HwBreakpoint, HwBreakpointOps, HwWatchpoint, HwWatchpointOps,
    SwBreakpoint, SwBreakpointOps, WatchKind,
};
use gdbstub::target::ext::exec_file::{ExecFile, ExecFileOps};
use gdbstub::target::{TargetError, TargetResult};

use super::Target;
use super::memory::INT3;
use crate::debug::arch::X86;
use crate::debug::watch::Watch;
use crate::halt::Shown;
use crate::special::content;

/// ESRCH: there is no such thread.
const NO_THREAD: TargetError<&'static str> = TargetError::Errno(3);

impl gdbstub::target::Target for Target {
    type Arch = X86;
    type Error = &'static str;

    fn base_ops(&mut self) -> BaseOps<'_, X86, &'static str> {
        BaseOps::MultiThread(self)
    }

    fn support_breakpoints(&mut self) -> Option<BreakpointsOps<'_, Self>> {
        if self.looks_only {
            return None;
        }
        Some(self)
    }

    /// gdb may write memory, but a rank that it only looks into does not stop there.
    fn guard_rail_implicit_sw_breakpoints(&self) -> bool {
        self.looks_only
    }

    fn support_auxv(&mut self) -> Option<AuxvOps<'_, Self>> {
        Some(self)
    }

    fn support_exec_file(&mut self) -> Option<ExecFileOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadBase for Target {
    fn read_registers(&mut self, registers: &mut Shown, tid: Tid) -> TargetResult<(), Self> {
        *registers = self.registers(self.index(tid).ok_or(NO_THREAD)?);
        Ok(())
    }

    fn write_registers(&mut self, registers: &Shown, tid: Tid) -> TargetResult<(), Self> {
        if self.looks_only {
            return Err(TargetError::NonFatal);
        }
        self.set_registers(self.index(tid).ok_or(NO_THREAD)?, registers);
        Ok(())
    }

    fn read_addrs(&mut self, addr: u64, data: &mut [u8], _: Tid) -> TargetResult<usize, Self> {
        match self.read_for_gdb(addr, data) {
            0 => Err(TargetError::NonFatal),
            read => Ok(read),
        }
    }

    fn write_addrs(&mut self, addr: u64, data: &[u8], _: Tid) -> TargetResult<(), Self> {
        self.write_for_gdb(addr, data).ok_or(TargetError::NonFatal)
    }

    fn list_active_threads(&mut self, active: &mut dyn FnMut(Tid)) -> Result<(), &'static str> {
        self.live().for_each(|index| active(self.tid(index)));
        Ok(())
    }

    fn support_resume(&mut self) -> Option<MultiThreadResumeOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadResume for Target {
    fn resume(&mut self) -> Result<(), &'static str> {
        self.go_on();
        Ok(())
    }

    fn clear_resume_actions(&mut self) -> Result<(), &'static str> {
        self.actions.clear();
        self.locked = false;
        Ok(())
    }

    fn set_resume_action_continue(
        &mut self,
        tid: Tid,
        signal: Option<Signal>,
    ) -> Result<(), &'static str> {
        self.act(tid, false, signal);
        Ok(())
    }

    fn support_single_step(&mut self) -> Option<MultiThreadSingleStepOps<'_, Self>> {
        if self.looks_only {
            return None;
        }
        Some(self)
    }

    fn support_scheduler_locking(&mut self) -> Option<MultiThreadSchedulerLockingOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadSingleStep for Target {
    fn set_resume_action_step(
        &mut self,
        tid: Tid,
        signal: Option<Signal>,
    ) -> Result<(), &'static str> {
        self.act(tid, true, signal);
        Ok(())
    }
}

impl MultiThreadSchedulerLocking for Target {
    fn set_resume_action_scheduler_lock(&mut self) -> Result<(), &'static str> {
        self.locked = true;
        Ok(())
    }
}

impl Breakpoints for Target {
    fn support_sw_breakpoint(&mut self) -> Option<SwBreakpointOps<'_, Self>> {
        Some(self)
    }

    fn support_hw_breakpoint(&mut self) -> Option<HwBreakpointOps<'_, Self>> {
        Some(self)
    }

    fn support_hw_watchpoint(&mut self) -> Option<HwWatchpointOps<'_, Self>> {
        Some(self)
    }
}

impl SwBreakpoint for Target {
    fn add_sw_breakpoint(&mut self, addr: u64, _: usize) -> TargetResult<bool, Self> {
        let mut byte = [0];
        if self.breakpoints.contains_key(&addr) {
            return Ok(true);
        }
        if self.peek(addr, &mut byte) == 0 || self.poke(addr, &[INT3]).is_none() {
            return Ok(false);
        }
        self.breakpoints.insert(addr, byte[0]);
        Ok(true)
    }

    fn remove_sw_breakpoint(&mut self, addr: u64, _: usize) -> TargetResult<bool, Self> {
        // What went with a program that was replaced needs nothing.
        let byte = self.breakpoints.remove(&addr);
        Ok(byte.is_none_or(|byte| self.poke(addr, &[byte]).is_some()))
    }
}

impl Target {
    fn watch(&mut self, watch: Watch) -> bool {
        let added = self.watches.add(watch);
        self.publish_watches();
        added
    }

    fn unwatch(&mut self, watch: Watch) -> bool {
        let removed = self.watches.remove(watch);
        self.publish_watches();
        removed
    }
}

impl HwBreakpoint for Target {
    fn add_hw_breakpoint(&mut self, addr: u64, _: usize) -> TargetResult<bool, Self> {
        Ok(self.watch(instruction(addr)))
    }

    fn remove_hw_breakpoint(&mut self, addr: u64, _: usize) -> TargetResult<bool, Self> {
        Ok(self.unwatch(instruction(addr)))
    }
}

/// Instruction breakpoints have a length of 1.
fn instruction(addr: u64) -> Watch {
    Watch {
        addr,
        len_bytes: 1,
        kind: None,
    }
}

impl HwWatchpoint for Target {
    fn add_hw_watchpoint(
        &mut self,
        addr: u64,
        len_bytes: u64,
        kind: WatchKind,
    ) -> TargetResult<bool, Self> {
        let kind = Some(kind);
        Ok(self.watch(Watch {
            addr,
            len_bytes,
            kind,
        }))
    }

    fn remove_hw_watchpoint(
        &mut self,
        addr: u64,
        len_bytes: u64,
        kind: WatchKind,
    ) -> TargetResult<bool, Self> {
        let kind = Some(kind);
        Ok(self.unwatch(Watch {
            addr,
            len_bytes,
            kind,
        }))
    }
}

impl Auxv for Target {
    fn get_auxv(&self, offset: u64, len: usize, buf: &mut [u8]) -> TargetResult<usize, Self> {
        let auxv = content::auxv(self.rank, self.rank).unwrap_or_default();
        Ok(copy_part(&auxv, offset, len, buf))
    }
}

impl ExecFile for Target {
    fn get_exec_file(
        &self,
        _: Option<Pid>,
        offset: u64,
        len: usize,
        buf: &mut [u8],
    ) -> TargetResult<usize, Self> {
        let program = self.rank.program();
        Ok(copy_part(program.real_path.to_bytes(), offset, len, buf))
    }
}

/// Copies at most `len` bytes from `offset` on.
fn copy_part(all: &[u8], offset: u64, len: usize, buf: &mut [u8]) -> usize {
    let offset = usize::try_from(offset).unwrap_or(usize::MAX);
    let rest = all.get(offset..).unwrap_or_default();
    let count = rest.len().min(len).min(buf.len());
    buf[..count].copy_from_slice(&rest[..count]);
    count
}
