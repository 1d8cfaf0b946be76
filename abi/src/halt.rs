//! What a thread that halts tells its proxy, and what the proxy has it do.
//!
//! A thread halts on its way back to ring 3, when its rank is dumped. It says so by
//! [`HostOp::Halted`](crate::control::HostOp::Halted), carries out the [`Order`] that is the answer, says that it is
//! [done](Halt::Done), and so on until it is to [go](Order::Go).

/// Why a thread says that it has halted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum Halt {
    /// It has carried out the last order.
    Done = 0,
    /// It ends with its rank, which is dumped.
    Ends = 1,
}

impl Halt {
    /// The reason with this number.
    #[must_use]
    pub const fn from_nr(nr: u64) -> Option<Halt> {
        match nr {
            0 => Some(Halt::Done),
            1 => Some(Halt::Ends),
            _ => None,
        }
    }
}

/// What a thread that has halted is to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum Order {
    /// Go on.
    Go = 0,
    /// Copy its registers to the rank's record. One thread at a time is told to.
    Show = 1,
}

impl Order {
    /// The order with this number.
    #[must_use]
    pub const fn from_nr(nr: u64) -> Option<Order> {
        match nr {
            0 => Some(Order::Go),
            1 => Some(Order::Show),
            _ => None,
        }
    }
}
