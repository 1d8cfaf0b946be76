//! The rank's memory, read and written for gdb.

use abi::halt::Order;
use abi::map::PAGE;

use super::Target;
use crate::memory::RankMemory;

/// The breakpoint instruction.
pub const INT3: u8 = 0xcc;

impl Target {
    /// Fills `into` from `addr` as far as that can be read; returns how far.
    pub fn peek(&self, addr: u64, into: &mut [u8]) -> usize {
        self.catch_up();
        let mut done = 0;
        while done < into.len() {
            let Some(at) = addr.checked_add(done as u64) else {
                break;
            };
            let len = ((PAGE - at % PAGE) as usize).min(into.len() - done);
            if self.rank.read(at, &mut into[done..done + len]).is_err() {
                break;
            }
            done += len;
        }
        done
    }

    /// As [`Self::peek`], without breakpoints: gdb would take them for the program's own.
    pub fn read_for_gdb(&self, addr: u64, into: &mut [u8]) -> usize {
        let read = self.peek(addr, into);
        let end = addr.saturating_add(read as u64);
        for (&at, &byte) in self.breakpoints.range(addr..end) {
            into[(at - addr) as usize] = byte;
        }
        read
    }

    /// As [`Self::poke`]; breakpoints stay.
    pub fn write_for_gdb(&mut self, addr: u64, bytes: &[u8]) -> Option<()> {
        let mut bytes = bytes.to_vec();
        let end = addr.checked_add(bytes.len() as u64)?;
        for (&at, byte) in self.breakpoints.range_mut(addr..end) {
            std::mem::swap(byte, &mut bytes[(at - addr) as usize]);
            bytes[(at - addr) as usize] = INT3;
        }
        self.poke(addr, &bytes)
    }

    /// Writes to the rank's memory, whatever the program may do there. `None`: not all of it is mapped.
    pub fn poke(&self, addr: u64, bytes: &[u8]) -> Option<()> {
        self.catch_up();
        let mut rest = bytes;
        let mut at = addr;
        while !rest.is_empty() {
            let len = ((PAGE - at % PAGE) as usize).min(rest.len());
            let (now, later) = rest.split_at(len);
            self.make_own(at)?;
            let region = self.rank.memory().poke(at, now).ok()?;
            if region.exec {
                let frame = (region.gpa + (at - region.start)) / PAGE;
                let any = self.rank.halted().waiting().into_keys().next()?;
                self.rank.halted().command(any, Order::Rewrite(frame));
            }
            at = at.checked_add(len as u64)?;
            rest = later;
        }
        Some(())
    }

    /// Has the rank have the page at `addr` for itself, if it shares that with other ranks.
    fn make_own(&self, addr: u64) -> Option<()> {
        if self.rank.memory().has_text_at(addr) {
            let any = self.rank.halted().waiting().into_keys().next()?;
            self.rank.halted().command(any, Order::Own(addr / PAGE));
            self.catch_up();
        }
        Some(())
    }

    /// Records every mapping that the halted threads have made.
    fn catch_up(&self) {
        let position = self.rank.words().log.position();
        if let Err(why) = self.rank.catch_up(position) {
            crate::end::broken(self.rank, &why);
        }
    }
}
