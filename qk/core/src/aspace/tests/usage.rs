//! What is used of the partition.

use super::*;

/// Frames that the proxy had not acknowledged counted as used: VmRSS and sysinfo stayed as they were after a munmap.
#[test]
fn what_is_given_back_is_not_used() {
    let mut a = space(1024);
    a.mmap(A, 1, RW, FIXED).unwrap();
    let before = a.usage();
    a.mmap(A + P, 200, RW, FIXED).unwrap();
    assert_eq!(a.usage().used, before.used + 200 * P);
    a.munmap(A + P, 200).unwrap();
    assert!(a.frames.retired_bytes() > 0, "it waits for the proxy");
    assert_eq!(a.usage().used, before.used);
    // It is there for whoever wants it, and was never there twice.
    a.mmap(A + P, 200, RW, FIXED).unwrap();
    a.munmap(A + P, 200).unwrap();
    a.mmap(A + P, 900, RW, FIXED).unwrap();
    a.munmap(A + P, 900).unwrap();
    assert!(a.usage().peak <= before.used + 910 * P);
    a.check();
}

/// VmHWM said of a program what the one before it had used.
#[test]
fn the_peak_is_the_present_programs() {
    let mut a = space(1024);
    a.mmap(A, 200, RW, FIXED).unwrap();
    let used = a.usage().used;
    a.munmap(A, 200).unwrap();
    assert!(a.usage().peak >= used);
    a.done(Aspace::clear).unwrap();
    assert_eq!(a.usage().peak, a.usage().used);
}
