//! Why a thread halts for its proxy, and what the proxy orders it to do.
//!
//! A thread halts on its way back to ring 3: when its rank is dumped, when a debugger stops all threads, and when
//! something happens to it that a debugger is to know. It reports this by [`HostOp::Halted`](crate::control::HostOp::Halted),
//! carries out the [`Order`] that is the answer, says that it is [done](Halt::Done), and so on until it is to
//! [go](Order::Go). So a debugger needs nothing of the kernel but threads that have halted.

/// Why a thread says that it has halted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum Halt {
    /// It has carried out the last order.
    Done = 0,
    /// It ends with its rank, which is dumped.
    Ends = 1,
    /// The debugger stops all threads.
    Asked = 2,
    /// A breakpoint instruction; rip is behind it.
    Break = 3,
    /// A debug exception: a step, or what the debug registers watch. With DR6.
    Debug = 4,
    /// It is about to act on a signal. With the signal's number.
    Signal = 5,
}

impl Halt {
    /// The reason with this number.
    #[must_use]
    pub const fn from_nr(nr: u64) -> Option<Halt> {
        match nr {
            0 => Some(Halt::Done),
            1 => Some(Halt::Ends),
            2 => Some(Halt::Asked),
            3 => Some(Halt::Break),
            4 => Some(Halt::Debug),
            5 => Some(Halt::Signal),
            _ => None,
        }
    }
}

/// What a thread that has halted is to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Go on, with this signal instead of the one that it was about to act on; 0: with none.
    Go(u8),
    /// As [`Self::Go`], for one instruction.
    Step(u8),
    /// Copy its registers to the rank's record. One thread at a time is told to.
    Show,
    /// Take its registers from the proxy's record.
    Load,
    /// Write the page of the rank's memory with this frame number once more, as it is: the proxy has changed code in it, of
    /// which emulators do not notice what the node does not do itself.
    Rewrite(u64),
    /// Give the rank a copy of its own of the page with this number in its memory, if that shows text that ranks share: the proxy is
    /// about to change it.
    Own(u64),
}

impl Order {
    const ARGUMENT_SHIFT: u32 = 8;

    /// As one word, not negative.
    #[must_use]
    pub const fn encode(self) -> u64 {
        let (number, argument) = match self {
            Order::Go(signo) => (0, signo as u64),
            Order::Step(signo) => (1, signo as u64),
            Order::Show => (2, 0),
            Order::Load => (3, 0),
            Order::Rewrite(frame) => (4, frame << 9 >> 9),
            Order::Own(page) => (5, page << 9 >> 9),
        };
        number | argument << Self::ARGUMENT_SHIFT
    }

    /// The order with this encoding.
    #[must_use]
    pub const fn decode(word: u64) -> Option<Order> {
        let argument = word >> Self::ARGUMENT_SHIFT;
        match word & 0xff {
            0 => Some(Order::Go(argument as u8)),
            1 => Some(Order::Step(argument as u8)),
            2 => Some(Order::Show),
            3 => Some(Order::Load),
            4 => Some(Order::Rewrite(argument)),
            5 => Some(Order::Own(argument)),
            _ => None,
        }
    }
}

/// Bits of what a proxy says of its debugger.
pub mod debugger {
    /// There is one: threads halt for breakpoints and signals.
    pub const ATTACHED: u64 = 1;
    /// All threads are to halt.
    pub const STOP: u64 = 2;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_words() {
        for order in [
            Order::Go(0),
            Order::Go(64),
            Order::Step(5),
            Order::Show,
            Order::Load,
            Order::Rewrite(0xf_ffff_ffff),
            Order::Own(0x7ff_ffff),
        ] {
            assert_eq!(Order::decode(order.encode()), Some(order));
            assert!(order.encode() as i64 >= 0);
        }
        assert_eq!(Order::decode(6), None);
    }
}
