//! The slowest obvious implementation: a queue for each signal of each thread and of the process.

use super::super::super::*;
use std::collections::{BTreeMap, VecDeque};
use std::vec::Vec;

/// What waits in one place, by signal number. `None`: one whose particulars are lost.
pub(super) type Queue = BTreeMap<u8, VecDeque<Option<SigInfo>>>;

pub(super) struct ModelThread {
    pub(super) blocked: u64,
    pub(super) saved: Option<u64>,
    pub(super) queue: Queue,
}

/// Process and threads as the manual pages describe them.
pub(super) struct Model {
    pub(super) actions: BTreeMap<u8, Action>,
    pub(super) queue: Queue,
    pub(super) threads: Vec<ModelThread>,
    pub(super) limit: usize,
}

pub(super) fn bit(signal: u8) -> u64 {
    1 << (signal - 1)
}

pub(super) fn number(signal: u8) -> Signal {
    Signal::new(signal.into()).unwrap()
}

/// SIGKILL and SIGSTOP.
pub(super) const UNSTOPPABLE: u64 = 1 << 8 | 1 << 18;

pub(super) fn forget(queue: &mut Queue, signals: &[u8]) {
    queue.retain(|signal, _| !signals.contains(signal));
}

impl ModelThread {
    pub(super) fn new(blocked: u64) -> Self {
        Self {
            blocked: blocked & !UNSTOPPABLE,
            saved: None,
            queue: Queue::new(),
        }
    }
}

impl Model {
    pub(super) fn action(&self, signal: u8) -> Action {
        self.actions
            .get(&signal)
            .copied()
            .unwrap_or(Action::DEFAULT)
    }

    pub(super) fn queues(&mut self) -> impl Iterator<Item = &mut Queue> {
        let own = self.threads.iter_mut().map(|thread| &mut thread.queue);
        core::iter::once(&mut self.queue).chain(own)
    }

    pub(super) fn set_action(&mut self, signal: u8, action: Action) {
        self.actions.insert(signal, action);
        if self.ignores(signal) {
            self.queues().for_each(|queue| forget(queue, &[signal]));
        }
    }

    pub(super) fn ignores(&self, signal: u8) -> bool {
        let does_nothing = matches!(signal, 17 | 18 | 23 | 28);
        let handler = self.action(signal).handler;
        handler == SIG_IGN || handler == SIG_DFL && does_nothing
    }

    /// `thread`: for that one alone. What is said is whether it waits now.
    ///
    /// Linux forgets what a SIGCONT cancels in all threads before it looks for room. Here those of the other threads still
    /// count, which costs at most the particulars of a SIGCONT or a stop signal of sigqueue.
    pub(super) fn send(&mut self, thread: Option<usize>, info: SigInfo) -> Result<bool, Errno> {
        let signal = info.signal.number();
        let cancelled: &[u8] = match signal {
            18 => &[19, 20, 21, 22],
            19..=22 => &[18],
            _ => &[],
        };
        forget(&mut self.queue, cancelled);
        if let Some(i) = thread {
            forget(&mut self.threads[i].queue, cancelled);
        }
        let blocked = self.threads[thread.unwrap_or(0)].blocked & bit(signal) != 0;
        let waits = !self.ignores(signal) || blocked;
        if waits {
            self.put(thread, info, false)?;
        }
        self.queues().for_each(|queue| forget(queue, cancelled));
        Ok(waits)
    }

    pub(super) fn put(
        &mut self,
        thread: Option<usize>,
        info: SigInfo,
        fault: bool,
    ) -> Result<(), Errno> {
        let signal = info.signal.number();
        let standard = signal < 32;
        let kept: usize = self
            .queues()
            .map(|queue| queue.values().flatten().flatten().count())
            .sum();
        let keeps = kept < self.limit || standard && info.code >= 0 || fault;
        let queue = match thread {
            Some(i) => &mut self.threads[i].queue,
            None => &mut self.queue,
        };
        let waiting = queue.entry(signal).or_default();
        match () {
            () if standard && !waiting.is_empty() => {}
            () if keeps => {
                waiting.retain(Option::is_some);
                waiting.push_back(Some(info));
            }
            () if !standard && info.code != code::USER => {
                queue.retain(|_, waiting| !waiting.is_empty());
                return Err(Errno::EAGAIN);
            }
            () if waiting.is_empty() => waiting.push_back(None),
            () => {}
        }
        Ok(())
    }

    pub(super) fn force(&mut self, i: usize, info: SigInfo) {
        let signal = info.signal.number();
        let blocks = self.threads[i].blocked & bit(signal) != 0;
        if blocks || self.action(signal).handler == SIG_IGN {
            let action = self.action(signal);
            self.actions.insert(
                signal,
                Action {
                    handler: SIG_DFL,
                    ..action
                },
            );
            self.threads[i].blocked &= !bit(signal);
        }
        self.put(Some(i), info, true).unwrap();
    }

    pub(super) fn take(&mut self, i: usize, wanted: u64) -> Option<SigInfo> {
        let queues = [&mut self.threads[i].queue, &mut self.queue];
        let faults = [4, 5, 7, 8, 11, 31];
        let rank = |signal: &u8| (*signal != 9, !faults.contains(signal), *signal);
        let mut found: Vec<(usize, u8)> = Vec::new();
        for (place, queue) in queues.iter().enumerate() {
            let wanted = queue.keys().filter(|signal| bit(**signal) & wanted != 0);
            found.extend(wanted.map(|signal| (place, *signal)));
        }
        let (place, signal) = found
            .into_iter()
            .min_by_key(|(place, signal)| (*signal != 9, *place, rank(signal)))?;
        let [own, process] = queues;
        let queue = if place == 0 { own } else { process };
        let waiting = queue.get_mut(&signal)?;
        let info = waiting.pop_front()?;
        if waiting.is_empty() {
            queue.remove(&signal);
        }
        Some(info.unwrap_or(SigInfo::new(number(signal), code::USER)))
    }

    pub(super) fn next(&mut self, i: usize) -> Option<Delivery> {
        let info = self.take(i, !self.threads[i].blocked)?;
        let signal = info.signal.number();
        let action = self.action(signal);
        match (action.handler, signal) {
            (SIG_IGN, _) | (SIG_DFL, 17 | 18 | 23 | 28) => return Some(Delivery::Ignored(info)),
            (SIG_DFL, 19..=22) => return Some(Delivery::Stop(info)),
            (SIG_DFL, _) => {
                let core = matches!(signal, 3..=8 | 11 | 24 | 25 | 31);
                return Some(Delivery::Terminate { info, core });
            }
            _ => {}
        }
        if action.flags & sa::RESETHAND != 0 {
            self.actions.insert(
                signal,
                Action {
                    handler: SIG_DFL,
                    ..action
                },
            );
        }
        let thread = &mut self.threads[i];
        let restore = SigSet(thread.saved.take().unwrap_or(thread.blocked));
        thread.blocked |= action.mask.0;
        if action.flags & sa::NODEFER == 0 {
            thread.blocked |= bit(signal);
        }
        thread.blocked &= !UNSTOPPABLE;
        Some(Delivery::Handler {
            info,
            action,
            restore,
        })
    }
}
