//! Threads of a rank: what each has of its own, and where they come from.
//!
//! A rank's threads are numbered; thread 0 is the main thread. A number that is free again is used again, and with it its
//! place in the port to the host, its worker on the host, whose id is the thread's, and its record here, which is never
//! freed: so a reference to a thread stays good, and at worst speaks of a later thread with the same number.

mod debugged;
mod numbers;
mod pending;
pub mod policy;
mod program;

pub use debugged::Debugged;
pub use numbers::{Threads, heap_bytes, set_room};
pub use pending::Pending;
use policy::Policy;
pub use program::OfProgram;

use core::sync::atomic::{AtomicU64, Ordering};

use abi::Errno;
use hal::cpu::PerCpu;
use hal::sync::{Mutex, MutexGuard, class};
use hal::traps::Trap;
use qk_core::futex::Place;
use qk_core::signals::{self, SigSet, Signal};

use crate::cpu_clock::CpuClock;
use crate::host::ThreadPort;
use crate::rank::Rank;
use crate::sched::Task;
use crate::{clock, sched, stats};

/// Particulars of pending signals kept for a thread.
const QUEUE: usize = 256;
/// Bytes of kernel heap that a thread takes at most besides its stack and its FPU state: its record, its pending signals, its
/// places in lists, above all as a waiter for many futexes.
const RECORD_BYTES: usize = 26 << 10;

/// A thread.
pub struct Thread {
    /// Its rank.
    rank: &'static Rank,
    /// Its number there.
    index: usize,
    /// Its end of the port to the host.
    host: ThreadPort,
    /// The scheduler's part of it.
    task: Task,
    /// Its mask, alternate stack and own pending signals. Locked after the rank's.
    signals: Mutex<Own, class::ThreadSignals>,
    /// Signals that the thread waits for in sigtimedwait, blocked or not.
    awaits: AtomicU64,
    /// What it is to do before it goes back to ring 3.
    pending: Pending,
    /// What holds until it ends, or its program is replaced.
    program: OfProgram,
    /// set_mempolicy's mode and nodes.
    memory_policy: Mutex<Policy, class::MemoryPolicy>,
    /// Where it waits for a futex.
    futex: Place,
    /// What its debugger requests.
    debugged: Debugged,
    /// Its processor time.
    clock: CpuClock,
    /// Its end of a sleep, as the core that keeps it has it: core and TSC.
    alarm: Mutex<Option<(usize, u64)>, class::Alarm>,
    /// Its Linux thread id; 0 while the number is unused.
    tid: AtomicU64,
}

/// Signal state of a thread.
pub struct Own {
    /// As signal(7) has it.
    pub thread: signals::Thread,
    /// The last exception: what sigcontext says of it.
    pub trap: Trap,
}

impl Own {
    const NO_TRAP: Trap = Trap {
        vector: 0,
        error: 0,
        cr2: 0,
    };

    fn new() -> Own {
        Own {
            thread: signals::Thread::new(SigSet::EMPTY, QUEUE),
            trap: Own::NO_TRAP,
        }
    }

    /// Of another thread from now on, which blocks `blocked`.
    fn begin(&mut self, blocked: SigSet) {
        self.thread.begin(blocked, QUEUE);
        self.trap = Own::NO_TRAP;
    }
}

/// The thread whose program runs on each core.
static CURRENT: PerCpu<Thread> = PerCpu::new();

/// The thread whose program runs on this core; `None`: the PCT does, or none.
#[inline]
pub fn current() -> Option<&'static Thread> {
    CURRENT.get()
}

/// The thread whose program runs on core `cpu`.
pub fn on_core(cpu: usize) -> Option<&'static Thread> {
    CURRENT.of(cpu)
}

/// Says whose program now runs on this core.
#[inline]
pub fn set_current(thread: Option<&'static Thread>) {
    CURRENT.set(thread);
}

impl Thread {
    /// Its rank.
    #[inline]
    pub fn rank(&self) -> &'static Rank {
        self.rank
    }

    /// Its number there.
    #[inline]
    pub fn index(&self) -> usize {
        self.index
    }

    /// Its end of the port to the host.
    #[inline]
    pub fn host(&self) -> &ThreadPort {
        &self.host
    }

    /// The scheduler's part of it.
    #[inline]
    pub fn task(&self) -> &Task {
        &self.task
    }

    /// Its Linux thread id; 0: the number is unused.
    #[inline]
    pub fn tid(&self) -> u64 {
        self.tid.load(Ordering::Relaxed)
    }

    /// What it is to do before it goes back to ring 3.
    #[inline]
    pub fn pending(&self) -> &Pending {
        &self.pending
    }

    /// What holds until it ends, or its program is replaced.
    #[inline]
    pub fn program(&self) -> &OfProgram {
        &self.program
    }

    /// What it has of its debugger.
    pub fn debugged(&self) -> &Debugged {
        &self.debugged
    }

    /// Whether it has begun and not ended.
    pub fn is_live(&self) -> bool {
        self.tid() != 0
    }

    /// A call of the thread ends early with `errno` ([`crate::result::RESTART`] or its kin): what it becomes is settled on
    /// the way back to ring 3.
    pub fn interrupted(&self, errno: Errno) -> Errno {
        self.pending.note_own_work();
        errno
    }

    /// Whether it would act on a signal now: it does not block it, or waits for it.
    pub fn takes(&self, signal: Signal) -> bool {
        let awaits = SigSet(self.awaits.load(Ordering::SeqCst));
        awaits.contains(signal) || !self.signals.lock().thread.blocked().contains(signal)
    }

    /// The signals that it would act on now: see [`Self::takes`].
    pub fn lets_in(&self) -> SigSet {
        let awaits = SigSet(self.awaits.load(Ordering::SeqCst));
        SigSet(!self.signals.lock().thread.blocked().0).union(awaits)
    }

    /// Runs `wait` as the thread waits for the signals `set`, blocked or not (sigtimedwait(2)).
    pub fn awaiting<R>(&self, set: SigSet, wait: impl FnOnce() -> R) -> R {
        self.awaits.store(set.0, Ordering::SeqCst);
        let result = wait();
        self.awaits.store(0, Ordering::SeqCst);
        result
    }

    /// Its mask, alternate stack and own pending signals. Locked after the rank's.
    #[inline]
    pub fn signals(&self) -> MutexGuard<'_, Own, class::ThreadSignals> {
        self.signals.lock()
    }

    /// Its end of a sleep, as the core that keeps it has it: core and TSC.
    pub fn alarm(&self) -> MutexGuard<'_, Option<(usize, u64)>, class::Alarm> {
        self.alarm.lock()
    }

    /// What set_mempolicy(2) has set.
    pub fn memory_policy(&self) -> Policy {
        *self.memory_policy.lock()
    }

    /// Sets it.
    pub fn set_memory_policy(&self, policy: Policy) {
        *self.memory_policy.lock() = policy;
    }

    /// Where it waits for a futex.
    #[inline]
    pub fn futex_place(&self) -> &Place {
        &self.futex
    }

    /// Whether its processor time counts now.
    #[inline]
    pub fn is_timed(&self) -> bool {
        self.clock.runs()
    }

    /// TSC ticks of its processor time that its rank's does not have yet.
    pub fn running_ticks(&self) -> u64 {
        self.clock.running()
    }

    /// Its processor time, in ns.
    pub fn cpu_ns(&self) -> u64 {
        clock::ticks_to_ns(self.clock.ticks())
    }

    /// Whether it is to end: its rank's end is decided, or another thread replaces the program.
    #[inline]
    pub fn must_end(&self) -> bool {
        self.rank.ending().ends(self.index)
    }

    /// Whether it is to come back from what it waits for: it is to end, or a debugger stops the rank.
    #[inline]
    pub fn is_called_back(&self) -> bool {
        self.rank.ending().calls_back() && (self.must_end() || self.rank.is_to_halt())
    }

    /// Runs `wait`, which counts as waiting, not as processor time.
    pub fn waiting<R>(&self, wait: impl FnOnce() -> R) -> R {
        self.clock.begin_wait();
        let from = self.stop_clock();
        let result = wait();
        self.clock.end_wait();
        stats::waited(self.clock.start() - from);
        if self.rank.cpu_time().has_deadline() {
            sched::rearm();
        }
        result
    }

    /// Its processor time stands still. Returns the time.
    fn stop_clock(&self) -> u64 {
        let (now, ran) = self.clock.stop();
        self.rank.cpu_time().add(ran);
        now
    }

    /// The thread leaves its core.
    pub fn switched_out(&self) {
        if !self.clock.is_waiting() {
            self.stop_clock();
        }
    }

    /// The thread has a core again.
    pub fn switched_in(&self) {
        if !self.clock.is_waiting() {
            self.clock.start();
        }
    }

    /// Begins a life: `tid` is its worker's, `blocked` its mask.
    pub fn begin(&self, tid: u64, creator: usize, blocked: SigSet, policy: Policy) {
        self.signals.lock().begin(blocked);
        self.pending.reset();
        self.program.forget();
        self.set_memory_policy(policy);
        self.clock.reset();
        self.host.starts(creator);
        self.rank.threads().note_living(self.index, true);
        self.tid.store(tid, Ordering::Release);
    }

    /// Goes on as `thread`, which has replaced the rank's program, and is the first thread from now on if it was another.
    pub fn resume_as(&self, thread: &Thread) {
        if !core::ptr::eq(self, thread) {
            thread.end();
            let signals = thread.signals.lock().thread.take();
            self.signals.lock().thread = signals;
            self.clock.take_over(&thread.clock);
            self.set_memory_policy(thread.memory_policy());
            self.host.starts(thread.index);
            self.rank.threads().note_living(self.index, true);
            self.tid.store(self.rank.identity().pid, Ordering::Release);
        }
        self.program.forget();
    }

    /// Ends it: from here on it is not found among the rank's threads.
    pub fn end(&self) {
        self.tid.store(0, Ordering::Release);
        self.rank.threads().note_living(self.index, false);
        self.host.ends();
    }
}

fn record(rank: &'static Rank, index: usize) -> Thread {
    Thread {
        rank,
        index,
        host: ThreadPort::new(rank.id(), index),
        task: Task::new(),
        signals: Mutex::new(Own::new()),
        awaits: AtomicU64::new(0),
        pending: Pending::default(),
        program: OfProgram::default(),
        memory_policy: Mutex::new(Policy::DEFAULT),
        futex: Place::default(),
        debugged: Debugged::default(),
        clock: CpuClock::default(),
        alarm: Mutex::new(None),
        tid: AtomicU64::new(0),
    }
}
