//! The classes of the kernel's locks, in the one order in which they are taken: under a lock only those may be taken that stand
//! after it here. docs/concurrency.md says what each guards, and what may be done under it; tests/source/locks.rs holds that a lock's
//! declaration, this list and the chapter agree.
//!
//! The list knows the kernel's locks too: the layer's own come last, but the order is one.

/// A class of locks: a type without values.
pub trait Class {
    /// Its place in the order.
    const RANK: Rank;
}

impl Rank {
    /// Whether locks of the class spin: who holds one neither waits nor lets interrupts in.
    #[must_use]
    pub fn is_spin(self) -> bool {
        self >= FIRST_SPIN
    }

    /// Whether several of the class may be held: those of one array, in the order of their numbers, which is that of their addresses.
    #[must_use]
    pub fn is_array(self) -> bool {
        self == Rank::Futexes
    }
}

macro_rules! order {
    ($($(#[$doc:meta])* $class:ident,)*) => {
        /// Places in the order, the first to be taken first.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum Rank {
            $($(#[$doc])* $class,)*
        }

        impl Rank {
            /// All, in their order.
            pub const ALL: &[Rank] = &[$(Rank::$class,)*];
        }

        $(
            $(#[$doc])*
            pub enum $class {}

            impl Class for $class {
                const RANK: Rank = Rank::$class;
            }
        )*
    };
}

/// The locks before it are sleep locks.
const FIRST_SPIN: Rank = Rank::Collecting;

order! {
    /// `fork_lock` of a rank
    ForkLock,
    /// `execs` of a rank
    Execs,
    /// `aspace` of a rank
    Aspace,
    /// `gates` of the node
    Gates,
    /// `reclaiming` of the node
    Reclaiming,
    /// `MEMBERS`
    Members,
    /// `table` of the node
    Objects,
    /// `making` of a rank's threads
    Making,
    /// `collecting` of a rank
    Collecting,
    /// `timers` of a rank
    Timers,
    /// `signals` of a rank
    RankSignals,
    /// `signals` of a thread
    ThreadSignals,
    /// `free` of a rank's threads
    Numbers,
    /// `alarm` of a thread
    Alarm,
    /// `deadlines` of a core
    Deadlines,
    /// buckets of `FUTEXES`
    Futexes,
    /// `waiters` of a core
    Waiters,
    /// `caller` of a thread
    Caller,
    /// `limits` of a rank
    Limits,
    /// `memory_policy` of a thread
    MemoryPolicy,
    /// `reload` of a rank
    Reload,
    /// `tracing` of a rank
    Tracing,
    /// `segments` of a rank
    Segments,
    /// `permits` of a rank
    Permits,
    /// `aio` of a rank
    Aio,
    /// `QUEUE`
    Events,
    /// `MEMORY`
    Memory,
    /// `PARTITIONS`
    Partitions,
    /// `gate` of a sleep lock
    Gate,
    /// `behind` of a task
    Behind,
    /// `queue` of a core
    RunQueue,
    /// `left` of a core
    Left,
    /// `WINDOW`
    Window,
    /// `PORTS`
    Ports,
    /// `FREE`
    Stacks,
    /// `CLAIMED`
    Claimed,
    /// `ARENA`
    Arena,
    /// `HEAP`
    Heap,
    /// `PORT`
    Console,
}
