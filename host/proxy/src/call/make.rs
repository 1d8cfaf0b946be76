//! The call itself, once its arguments have been prepared.

use crate::stub;

/// Makes a call of the rank, whose arguments have been prepared.
pub fn linux(nr: u16, args: &[u64; 6]) -> i64 {
    // SAFETY: 1. Only calls that the table ships or relays are made; none of them maps, unmaps or protects memory, creates a
    // thread, or changes how this process executes. 2. `prepare` has clamped every pointer Linux writes through, so that it
    // reaches only memory of the rank and what has no memory (module `memory`), or has replaced it by one into the
    // caller's `Scratch`, which is large enough for what the call writes and is not otherwise used meanwhile.
    // 3. Descriptors of the proxy cannot be named.
    unsafe { stub::syscall(u64::from(nr), args) }
}
