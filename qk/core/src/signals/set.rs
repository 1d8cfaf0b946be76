//! Signal numbers, sets of them, and what each does by default (signal(7), "Standard signals").

/// A signal number, 1..=64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Signal(u8);

/// The first real-time signal as the kernel sees it (glibc keeps the lowest two to itself).
const REAL_TIME: u8 = 32;

#[allow(missing_docs)] // The names are signal(7)'s.
impl Signal {
    pub const HUP: Self = Self(1);
    pub const INT: Self = Self(2);
    pub const QUIT: Self = Self(3);
    pub const ILL: Self = Self(4);
    pub const TRAP: Self = Self(5);
    pub const ABRT: Self = Self(6);
    pub const BUS: Self = Self(7);
    pub const FPE: Self = Self(8);
    pub const KILL: Self = Self(9);
    pub const USR1: Self = Self(10);
    pub const SEGV: Self = Self(11);
    pub const USR2: Self = Self(12);
    pub const PIPE: Self = Self(13);
    pub const ALRM: Self = Self(14);
    pub const TERM: Self = Self(15);
    pub const CHLD: Self = Self(17);
    pub const CONT: Self = Self(18);
    pub const STOP: Self = Self(19);
    pub const TSTP: Self = Self(20);
    pub const TTIN: Self = Self(21);
    pub const TTOU: Self = Self(22);
    pub const URG: Self = Self(23);
    pub const XCPU: Self = Self(24);
    pub const XFSZ: Self = Self(25);
    pub const VTALRM: Self = Self(26);
    pub const PROF: Self = Self(27);
    pub const WINCH: Self = Self(28);
    pub const SYS: Self = Self(31);
}

/// What happens when a signal without a handler is delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultAction {
    /// The process ends.
    Terminate,
    /// The process ends and reports like a core dump.
    Core,
    /// Nothing.
    Ignore,
    /// The process stops.
    Stop,
    /// A stopped process continues.
    Continue,
}

impl Signal {
    /// The signal numbered `n`; None outside 1..=64.
    pub const fn new(n: u64) -> Option<Self> {
        if n >= 1 && n <= 64 {
            Some(Self(n as u8))
        } else {
            None
        }
    }

    /// Its number.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// Index 0..64.
    pub(super) const fn index(self) -> usize {
        self.0 as usize - 1
    }

    /// Whether each instance is queued.
    pub const fn is_real_time(self) -> bool {
        self.0 >= REAL_TIME
    }

    /// SIGKILL and SIGSTOP: never blocked, caught or ignored.
    pub const fn is_unstoppable(self) -> bool {
        SigSet::UNSTOPPABLE.contains(self)
    }

    /// What it does without a handler.
    pub const fn default_action(self) -> DefaultAction {
        match self {
            Self::CHLD | Self::URG | Self::WINCH => DefaultAction::Ignore,
            Self::CONT => DefaultAction::Continue,
            Self::STOP | Self::TSTP | Self::TTIN | Self::TTOU => DefaultAction::Stop,
            Self::QUIT | Self::ILL | Self::TRAP | Self::ABRT | Self::BUS | Self::FPE => {
                DefaultAction::Core
            }
            Self::SEGV | Self::XCPU | Self::XFSZ | Self::SYS => DefaultAction::Core,
            _ => DefaultAction::Terminate,
        }
    }
}

/// A set of signals in sigset_t's layout: bit n-1 stands for signal n.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SigSet(pub u64);

impl SigSet {
    /// No signal.
    pub const EMPTY: Self = Self(0);
    /// SIGKILL and SIGSTOP.
    pub const UNSTOPPABLE: Self = Self(1 << (Signal::KILL.0 - 1) | 1 << (Signal::STOP.0 - 1));
    /// The signals that stop a process by default; SIGCONT and they cancel each other.
    pub const STOPPING: Self = Self(
        1 << (Signal::STOP.0 - 1)
            | 1 << (Signal::TSTP.0 - 1)
            | 1 << (Signal::TTIN.0 - 1)
            | 1 << (Signal::TTOU.0 - 1),
    );
    /// Those of them that a process gets for using its terminal from the background.
    pub const BACKGROUND: Self = Self(1 << (Signal::TTIN.0 - 1) | 1 << (Signal::TTOU.0 - 1));
    /// Raised by the program's own instructions: delivered before all others (Linux:
    /// SYNCHRONOUS_MASK), so that the handler sees the fault where it happened.
    pub const SYNCHRONOUS: Self = Self(
        1 << (Signal::SEGV.0 - 1)
            | 1 << (Signal::BUS.0 - 1)
            | 1 << (Signal::ILL.0 - 1)
            | 1 << (Signal::TRAP.0 - 1)
            | 1 << (Signal::FPE.0 - 1)
            | 1 << (Signal::SYS.0 - 1),
    );

    /// The set of one.
    pub const fn of(signal: Signal) -> Self {
        Self(1 << (signal.0 - 1))
    }

    /// The members, in the order of their numbers.
    pub fn iter(self) -> impl Iterator<Item = Signal> {
        let mut left = self.0;
        core::iter::from_fn(move || {
            let signal = Signal::new(u64::from(left.trailing_zeros()) + 1)?;
            left &= left - 1;
            Some(signal)
        })
    }

    /// Whether `signal` is a member.
    pub const fn contains(self, signal: Signal) -> bool {
        self.0 & Self::of(signal).0 != 0
    }

    /// Members of either.
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Members of both.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Members of this but not of `other`.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether there is no member.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The member to deliver first: synchronous ones, then by number.
    pub const fn first(self) -> Option<Signal> {
        let urgent = self.and(Self::SYNCHRONOUS);
        let set = if urgent.is_empty() { self } else { urgent };
        Signal::new(set.0.trailing_zeros() as u64 + 1)
    }
}
