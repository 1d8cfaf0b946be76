//! The clock page: what is read was written at once.

use loom::thread;
use margay_wire::clock::{ClockPage, ClockParams};

use crate::{shared, try_all};

fn params(n: u64) -> ClockParams {
    ClockParams {
        tsc_base: n,
        mono_ns: n,
        real_ns: n,
        mult: n,
        shift: n as u32,
    }
}

#[test]
fn parameters_are_read_whole_and_never_go_back() {
    try_all(|| {
        let page = shared::<ClockPage>();
        page.write(&params(1));
        let writer = thread::spawn({
            let page = page.clone();
            move || (2..=3).for_each(|n| page.write(&params(n)))
        });
        let mut last = 1;
        for _ in 0..2 {
            if let Some(read) = page.read() {
                assert_eq!(read, params(read.tsc_base), "torn");
                assert!(read.tsc_base >= last, "back in time");
                last = read.tsc_base;
            }
        }
        writer.join().expect("the writer ends");
        assert_eq!(page.read(), Some(params(3)));
    });
}
