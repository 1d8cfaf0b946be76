//! Page faults by their error code (AMD APM vol. 2 §8.4.2).

use crate::regions::Prot;

/// Of the error code: the entry that did not allow the access was present.
const PRESENT: u64 = 1 << 0;
/// The access was a write.
const WRITE: u64 = 1 << 1;
/// The access was ring 3's.
const USER: u64 = 1 << 2;
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

/// Whether a fault with this error code is one of an access that ring 3 made, or the kernel in its name, which is to be made again
/// where it is allowed by now. Not so one of the CPU's own to what it takes for the kernel's (under TCG the frame of IRET), or of a
/// reserved bit: it would fault for ever.
pub fn is_of_access(error: u64) -> bool {
    error & !(PRESENT | WRITE | FETCH) == USER
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
        Some(prot) if error & FETCH == 0 && is_of_access(error) && allows(prot, error) => {
            WindowFault::Settled
        }
        Some(_) => WindowFault::Denied,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: u64 = 0;
    const RESERVED: u64 = 1 << 3;

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
            // Whether an entry was present when it faulted changes nothing.
            for besides in [USER, USER | PRESENT] {
                assert_eq!(
                    window_fault(found, error | besides),
                    fault,
                    "{found:?}, {error}"
                );
            }
        }
    }

    /// The access that IRET makes to its frame was made again for ever: TCG makes it with the kernel's rights, against SMAP.
    #[test]
    fn an_access_of_the_cpu_itself_is_not_made_again() {
        let all = Some(Prot::all());
        for error in [READ, PRESENT, WRITE, PRESENT | WRITE] {
            assert!(!is_of_access(error) && is_of_access(error | USER));
            assert_eq!(window_fault(all, error), WindowFault::Denied);
        }
        // Reserved bits, protection keys, shadow stacks, SGX (AMD APM vol. 2 §8.4.2, Intel SDM vol. 3 §4.7).
        for other in [3, 5, 6, 15].map(|bit| 1 << bit) {
            assert!(!is_of_access(USER | other));
        }
        assert!(is_of_access(USER | FETCH));
    }

    #[test]
    fn own_code_can_be_fetched() {
        assert!(allows(Prot::READ | Prot::EXEC, FETCH) && !allows(Prot::READ, FETCH));
        assert!(!allows(Prot::READ | Prot::EXEC, WRITE));
    }
}
