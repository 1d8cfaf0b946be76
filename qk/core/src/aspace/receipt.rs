//! What a change has let go of that is not the partition's. The address space takes it out of its tables and hands a receipt
//! to whom the frames belong: the node pool, which counts, and makes them free.
//!
//! A change that meets such memory is done in steps, since there may be more of it than a receipt has room for: it ends with
//! [`Unfinished::Owes`], and goes on when it is called again. [`Aspace::complete`] does both, and nothing else takes a receipt;
//! an [`Unfinished`] does not become an [`Errno`] by itself, so a caller that forgets does not compile:
//!
//! ```compile_fail
//! use abi::Errno;
//! use abi::addr::{Va, VaRange};
//! use qk_core::aspace::{Aspace, Machine};
//!
//! fn forgets<M: Machine>(aspace: &mut Aspace<M>) -> Result<(), Errno> {
//!     aspace.unmap(VaRange::new(Va(0x1000), 0x1000))?;
//!     Ok(())
//! }
//! ```

use super::{Aspace, Machine, OutOfMemory};
use crate::objects::{Lease, Run, TextLease};
use abi::Errno;
use alloc::vec::Vec;
use core::mem;

/// Runs in a receipt. The proxy is waited for once for all of them.
pub(super) const RUNS: usize = 32;

/// Whose frames address spaces show besides their own: the node pool.
pub trait Lender {
    /// Text is not mapped any more, also by the proxy.
    fn text_left(&mut self, text: impl Iterator<Item = TextLease>);

    /// A mapping of an object is gone. The proxy may still show it.
    fn object_left(&mut self, lease: Lease);
}

/// Why a change is not done.
#[derive(Debug)]
pub enum Unfinished {
    /// It cannot be done.
    Failed(Errno),
    /// First [`Aspace::complete`] has to hand over what it has let go of.
    Owes(Receipt),
}

impl From<Errno> for Unfinished {
    fn from(errno: Errno) -> Unfinished {
        Unfinished::Failed(errno)
    }
}

impl From<OutOfMemory> for Unfinished {
    fn from(error: OutOfMemory) -> Unfinished {
        Unfinished::Failed(error.into())
    }
}

impl From<Receipt> for Unfinished {
    fn from(receipt: Receipt) -> Unfinished {
        Unfinished::Owes(receipt)
    }
}

/// What a change has let go of.
#[must_use = "frames stay in use until their owner has the receipt"]
#[derive(Debug)]
pub struct Receipt {
    /// Until it is handed over.
    of: Option<Of>,
}

#[derive(Debug)]
enum Of {
    /// Text, in at most [`RUNS`] runs.
    Text(Vec<Run>),
    /// A mapping of an object.
    Object(Lease),
}

impl Receipt {
    /// For text.
    pub(super) fn of_text(runs: Vec<Run>) -> Receipt {
        Receipt {
            of: Some(Of::Text(runs)),
        }
    }

    /// For a mapping of an object.
    pub(super) fn of_object(lease: Lease) -> Receipt {
        Receipt {
            of: Some(Of::Object(lease)),
        }
    }

    /// Hands it to whom the frames belong; of text the room for the next.
    fn hand_over<M: Machine>(mut self, machine: M, lender: &mut impl Lender) -> Option<Vec<Run>> {
        match self.of.take()? {
            Of::Text(mut runs) => {
                machine.sync();
                lender.text_left(runs.drain(..).map(TextLease::of));
                Some(runs)
            }
            Of::Object(lease) => {
                lender.object_left(lease);
                None
            }
        }
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        debug_assert!(self.of.is_none(), "a receipt was not handed over");
    }
}

impl<M: Machine> Aspace<M> {
    /// Carries out `change`, calling it until it is done, and hands what it lets go of to `lender`.
    ///
    /// # Errors
    /// Those of `change`; what was handed over before has gone.
    #[inline]
    pub fn complete<T>(
        &mut self,
        lender: &mut impl Lender,
        mut change: impl FnMut(&mut Self) -> Result<T, Unfinished>,
    ) -> Result<T, Errno> {
        // POINT: aspace::evict::looked_at
        loop {
            match change(self) {
                Ok(done) => return Ok(done),
                Err(Unfinished::Failed(errno)) => return Err(errno),
                Err(Unfinished::Owes(receipt)) => self.hand_over(receipt, lender),
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn hand_over(&mut self, receipt: Receipt, lender: &mut impl Lender) {
        if let Some(runs) = receipt.hand_over(self.machine, lender) {
            self.runs = runs;
        }
    }

    /// The room for a receipt of text, empty.
    ///
    /// # Errors
    /// ENOMEM: the last one was not handed over, so nothing more may be let go of.
    pub(super) fn take_runs(&mut self) -> Result<Vec<Run>, Errno> {
        let runs = mem::take(&mut self.runs);
        match runs.capacity() {
            0 => Err(Errno::ENOMEM),
            _ => Ok(runs),
        }
    }

    /// Sets the room for a receipt of text aside, before there is any.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub(super) fn reserve_receipt(&mut self) -> Result<(), OutOfMemory> {
        match self.runs.capacity() {
            0 => self.runs.try_reserve_exact(RUNS).map_err(|_| OutOfMemory),
            _ => Ok(()),
        }
    }
}
