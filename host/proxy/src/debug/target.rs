//! A rank as gdb's protocol sees it.

mod memory;
mod traits;

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use abi::halt::{Halt, Order, debugger};
use gdbstub::common::{Signal, Tid};
use gdbstub::stub::MultiThreadStopReason;
use wire::rank::state;

use super::arch::RIP;
use super::numbers::{from_gdb, to_gdb};
use super::request::{RETRY, announce};
use super::watch::Watches;
use crate::halt::Shown;
use crate::rank::Rank;

/// DR6: the exception is a step.
const STEPPED: u64 = 1 << 14;

/// What a thread is to do when the rank goes on.
#[derive(Clone, Copy)]
struct Action {
    step: bool,
    signo: u8,
}

/// The rank, all of whose threads are halted while gdb is served.
pub struct Target {
    rank: &'static Rank,
    /// Instructions that breakpoints have replaced the first byte of.
    breakpoints: BTreeMap<u64, u8>,
    watches: Watches,
    actions: BTreeMap<usize, Action>,
    /// Threads without an action stay halted.
    locked: bool,
    /// Threads whose reason to halt was reported to gdb.
    reported: Vec<usize>,
    /// How often the program had been replaced when gdb was last served.
    execs: u64,
    /// gdb can only look: what a node that was not started for debugging allows.
    pub(super) looks_only: bool,
}

impl Target {
    pub fn new(rank: &'static Rank) -> Target {
        Target {
            rank,
            looks_only: !rank.debug().is_full.load(Ordering::SeqCst),
            breakpoints: BTreeMap::new(),
            watches: Watches::default(),
            actions: BTreeMap::new(),
            locked: false,
            reported: Vec::new(),
            execs: 0,
        }
    }

    /// How the rank has ended, as wait(2) says it.
    pub fn end(&self) -> Option<i32> {
        self.rank.debug().end()
    }

    /// Signalled when a thread halts or the rank ends.
    pub fn doorbell(&self) -> BorrowedFd<'static> {
        self.rank.halted().doorbell()
    }

    /// See [`crate::halt::Halted::clear`].
    pub fn clear_doorbell(&self) {
        self.rank.halted().clear();
    }

    /// What the node gets to know of a debugger that lets all threads run.
    fn attached(&self) -> u64 {
        match self.looks_only {
            true => 0,
            false => debugger::ATTACHED,
        }
    }

    /// Stops all threads of a rank that runs, if they halt within `limit`; else they go on.
    pub fn attach(&mut self, limit: Duration) -> bool {
        self.execs = self.rank.words().area.node.execs.load();
        announce(self.rank, self.attached() | debugger::STOP);
        let halted = self.wait_until_halted(Some(Instant::now() + limit));
        if halted.is_none() {
            self.detach_from(self.rank.halted().waiting());
        }
        halted.is_some()
    }

    /// Stops all threads. `None`: the rank has ended.
    fn stop(&mut self) -> Option<()> {
        announce(self.rank, self.attached() | debugger::STOP);
        self.wait_until_halted(None)?;
        let execs = self.rank.words().area.node.execs.load();
        if self.execs != execs {
            // Breakpoints went with the old program's memory.
            self.breakpoints.clear();
            self.execs = execs;
        }
        Some(())
    }

    /// Waits until every thread has halted. `None`: the rank has ended, or they have not until `due`.
    pub fn wait_until_halted(&self, due: Option<Instant>) -> Option<()> {
        loop {
            let over = [state::EXITED, state::REFUSED];
            let is_late = due.is_some_and(|due| Instant::now() > due);
            if is_late || over.contains(&self.rank.words().area.node.state.load()) {
                return None;
            }
            let waiting = self.rank.halted().waiting();
            if self.live().all(|index| waiting.contains_key(&index)) && !waiting.is_empty() {
                return Some(());
            }
            // Threads end without a word.
            std::thread::sleep(RETRY);
        }
    }

    /// Indices of the threads that live.
    fn live(&self) -> impl Iterator<Item = usize> {
        let threads = self.rank.threads().iter().enumerate();
        threads
            .filter(|(_, area)| area.node.life().is_on())
            .map(|(index, _)| index)
    }

    fn tid(&self, index: usize) -> Tid {
        let tid = self.rank.workers().at(index).tid();
        Tid::new(tid as usize).unwrap_or(Tid::MIN)
    }

    fn index(&self, tid: Tid) -> Option<usize> {
        self.live().find(|&index| self.tid(index) == tid)
    }

    /// Why the rank has stopped, if it has: all its threads are halted then.
    pub fn stop_reason(&mut self) -> Option<MultiThreadStopReason<u64>> {
        if let Some(status) = self.end() {
            return Some(match status & 0x7f {
                0 => MultiThreadStopReason::Exited((status >> 8) as u8),
                signo => MultiThreadStopReason::Terminated(to_gdb(signo as u8)),
            });
        }
        if self.event().is_none() {
            self.free_the_last();
            return None;
        }
        self.stop()?;
        self.take_event()
    }

    /// What is to be reported to gdb of the threads, which are all halted.
    fn take_event(&mut self) -> Option<MultiThreadStopReason<u64>> {
        let (index, why) = self.event()?;
        self.reported = vec![index];
        self.take_back_others(index);
        Some(self.explain(index, why))
    }

    /// Whether gdb lets only some threads run.
    pub fn holds_some(&self) -> bool {
        !self.reported.is_empty()
    }

    /// When the threads that gdb let run have all ended, nothing would happen any more; perhaps they have ended the rank.
    fn free_the_last(&mut self) {
        let waiting = self.rank.halted().waiting();
        if self.holds_some() && self.live().all(|index| waiting.contains_key(&index)) {
            self.reported.clear();
            for index in waiting.into_keys() {
                self.rank.halted().release(index, Order::Go(0));
            }
        }
    }

    /// A thread that has halted by itself, not yet reported to gdb.
    fn event(&self) -> Option<(usize, (Halt, u64))> {
        let waiting = self.rank.halted().waiting().into_iter();
        let unknown = waiting.filter(|(index, _)| !self.reported.contains(index));
        unknown
            .filter(|(_, (why, _))| !matches!(why, Halt::Asked | Halt::Done | Halt::Ends))
            .min_by_key(|(index, _)| *index)
    }

    /// Threads that came to a breakpoint at the same time come to it again, if it is still there then.
    fn take_back_others(&mut self, shown: usize) {
        for (index, (why, _)) in self.rank.halted().waiting() {
            if why == Halt::Break && index != shown && !self.reported.contains(&index) {
                self.step_back(index);
                self.reported.push(index);
            }
        }
    }

    /// Sets a thread behind a breakpoint in front of it; `false`: it is none of gdb's.
    fn step_back(&mut self, index: usize) -> bool {
        let mut registers = self.registers(index);
        let at = registers.general[RIP].wrapping_sub(1);
        let ours = self.breakpoints.contains_key(&at);
        if ours {
            registers.general[RIP] = at;
            self.set_registers(index, &registers);
        }
        ours
    }

    fn explain(&mut self, index: usize, why: (Halt, u64)) -> MultiThreadStopReason<u64> {
        let tid = self.tid(index);
        let signal = match why {
            (Halt::Break, _) if self.step_back(index) => {
                return MultiThreadStopReason::SwBreak(tid);
            }
            (Halt::Debug, status) => match self.watches.hit(status) {
                Some(watch) => {
                    return match watch.kind {
                        Some(kind) => MultiThreadStopReason::Watch {
                            tid,
                            kind,
                            addr: watch.addr,
                        },
                        None => MultiThreadStopReason::HwBreak(tid),
                    };
                }
                None => Signal::SIGTRAP,
            },
            (Halt::Signal, signo) => to_gdb(signo as u8),
            _ => Signal::SIGTRAP,
        };
        MultiThreadStopReason::SignalWithThread { tid, signal }
    }

    /// gdb's Ctrl-C.
    pub fn interrupt(&mut self) -> MultiThreadStopReason<u64> {
        if self.stop().is_none() {
            // The end comes next.
            return MultiThreadStopReason::Signal(Signal::SIGINT);
        }
        self.take_event().unwrap_or_else(|| {
            let first = self.rank.halted().waiting().into_keys().next();
            MultiThreadStopReason::SignalWithThread {
                tid: self.tid(first.unwrap_or(0)),
                signal: Signal::SIGINT,
            }
        })
    }

    fn registers(&self, index: usize) -> Shown {
        self.rank.halted().command(index, Order::Show);
        Shown::of(&self.rank.words().area.node.registers)
    }

    fn set_registers(&self, index: usize, registers: &Shown) {
        registers.put(&self.rank.words().area.host.registers);
        self.rank.halted().command(index, Order::Load);
    }

    /// Lets the threads go on as gdb has said, unless one has halted for a reason not yet reported to gdb.
    fn go_on(&mut self) {
        if self.event().is_some() {
            self.rank.halted().signal();
            return;
        }
        // Threads must not stop at once; those that stay halted do so anyway.
        let attached = self.attached();
        self.rank.words().area.host.debugger.store(attached);
        self.reported.clear();
        let actions = std::mem::take(&mut self.actions);
        for (index, (why, status)) in self.rank.halted().waiting() {
            let action = actions.get(&index).copied();
            let Some(action) = action.or((!self.locked).then_some(Action {
                step: false,
                signo: 0,
            })) else {
                // Why it halted was reported to gdb.
                self.reported.push(index);
                continue;
            };
            // A step that ends in SIGTRAP is none of the program's signals.
            let stepped = why == Halt::Debug && status & STEPPED != 0;
            let signo = if stepped && i32::from(action.signo) == libc::SIGTRAP {
                0
            } else {
                action.signo
            };
            let order = if action.step {
                Order::Step(signo)
            } else {
                Order::Go(signo)
            };
            self.rank.halted().release(index, order);
        }
    }

    /// gdb leaves: what it has put into the program is taken out, and all threads go on.
    pub fn detach(&mut self) {
        if self.stop().is_none() {
            return;
        }
        let breakpoints = std::mem::take(&mut self.breakpoints);
        let waiting = self.rank.halted().waiting();
        for (&index, &(why, _)) in &waiting {
            if why == Halt::Break && !self.reported.contains(&index) {
                self.breakpoints = breakpoints.clone();
                self.step_back(index);
            }
        }
        self.breakpoints.clear();
        for (addr, byte) in breakpoints {
            let _ = self.poke(addr, &[byte]);
        }
        self.watches = Watches::default();
        self.publish_watches();
        self.detach_from(waiting);
    }

    fn detach_from(&self, waiting: BTreeMap<usize, (Halt, u64)>) {
        self.rank.words().area.host.debugger.store(0);
        for (index, (why, with)) in waiting {
            let signo = match why {
                Halt::Signal if !self.reported.contains(&index) => with as u8,
                _ => 0,
            };
            self.rank.halted().release(index, Order::Go(signo));
        }
    }

    fn publish_watches(&self) {
        let host = &self.rank.words().area.host;
        for (to, from) in host.watches.iter().zip(self.watches.registers()) {
            to.put(from);
        }
        host.watch_version.add(1);
    }

    fn act(&mut self, tid: Tid, step: bool, signal: Option<Signal>) {
        if let Some(index) = self.index(tid) {
            let signo = signal.map_or(0, from_gdb);
            self.actions.insert(index, Action { step, signo });
        }
    }
}
