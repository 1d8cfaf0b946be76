//! Access that is taken away.

use super::*;

/// A core that has stored to a page may not go on to after mprotect(PROT_READ | PROT_EXEC): of all that mprotect takes, tests had
/// looked at memory that becomes read-only.
#[test]
fn an_access_that_goes_is_dropped_by_the_cores() {
    const ALL: [u64; 5] = [0, 1, RW, READ_EXEC, RW | READ_EXEC];
    for from in ALL {
        for to in ALL {
            let mut a = space(16);
            let own = a.mmap(A, 2, from, FIXED).unwrap();
            let range = VaRange::new(own, 2 * P);
            let before = Node::flushes_of(range);
            a.mprotect(own, 2, to).unwrap();
            let flushed = Node::flushes_of(range) > before;
            assert!(flushed || from & !to == 0, "from {from} to {to}");
        }
    }
}
