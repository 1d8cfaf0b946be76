//! Page faults by their error code (AMD APM vol. 2 §8.4.2).

use crate::regions::Prot;

/// Of the error code: the access was a write.
const WRITE: u64 = 1 << 1;
/// An entry on the way had a reserved bit set.
const RESERVED: u64 = 1 << 3;
/// The access was a fetch of an instruction.
const FETCH: u64 = 1 << 4;

/// Why an access to another rank's memory faulted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowFault {
    /// Nothing is mapped there.
    Unmapped,
    /// What is mapped there does not allow it.
    Denied,
    /// It is allowed by now: its owner made it so meanwhile. The access is to be repeated.
    Settled,
}

/// Whether the access that faulted with this error code is allowed by `prot`. On x86 what can be accessed at all can be read.
pub fn allows(prot: Prot, error: u64) -> bool {
    if error & FETCH != 0 {
        prot.contains(Prot::EXEC)
    } else if error & WRITE != 0 {
        prot.contains(Prot::WRITE)
    } else {
        !prot.is_empty()
    }
}

/// What a page fault in a window was, by what its owner has there at one instant (`None`: nothing). The owner may map and unmap
/// meanwhile: put together from two looks, the answer would be one that is true at no time.
pub fn window_fault(found: Option<Prot>, error: u64) -> WindowFault {
    match found {
        None => WindowFault::Unmapped,
        // No window allows to execute.
        Some(prot) if error & (FETCH | RESERVED) == 0 && allows(prot, error) => {
            WindowFault::Settled
        }
        Some(_) => WindowFault::Denied,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: u64 = 0;

    #[test]
    fn a_fault_in_a_window_is_what_the_owner_has_there() {
        use WindowFault::{Denied, Settled, Unmapped};
        let (read_only, writable) = (Prot::READ, Prot::READ | Prot::WRITE);
        for (found, error, fault) in [
            (None, READ, Unmapped),
            (None, WRITE, Unmapped),
            (None, FETCH, Unmapped),
            (Some(Prot::empty()), READ, Denied),
            (Some(read_only), READ, Settled),
            (Some(read_only), WRITE, Denied),
            (Some(writable), WRITE, Settled),
            (Some(Prot::EXEC), READ, Settled),
            (Some(Prot::all()), FETCH, Denied),
            (Some(Prot::all()), RESERVED, Denied),
        ] {
            // Ring 3, and whether an entry was present when it faulted, change nothing.
            for besides in [0b000, 0b001, 0b100, 0b101] {
                assert_eq!(
                    window_fault(found, error | besides),
                    fault,
                    "{found:?}, {error}"
                );
            }
        }
    }

    #[test]
    fn own_code_can_be_fetched() {
        assert!(allows(Prot::READ | Prot::EXEC, FETCH) && !allows(Prot::READ, FETCH));
        assert!(!allows(Prot::READ | Prot::EXEC, WRITE));
    }
}
