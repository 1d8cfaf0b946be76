//! A core that goes on with a task alone, while another one queues a task there.

use loom::sync::atomic::{AtomicBool, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;
use qk_core::sched::slice::Slice;

/// A core, as far as slices go.
struct Core {
    queued: Mutex<usize>,
    slice: Slice,
    interrupted: AtomicBool,
}

/// The core shares then, or is interrupted and will: once it looked at its queue first, and its task kept it.
#[test]
fn whoever_is_queued_gets_the_core() {
    loom::model(|| {
        let core = Arc::new(Core {
            queued: Mutex::new(0),
            slice: Slice::new(),
            interrupted: AtomicBool::new(false),
        });
        core.slice.begin(true, || unreachable!(), || 10);
        let other = {
            let core = core.clone();
            thread::spawn(move || {
                *core.queued.lock().unwrap() += 1;
                if !core.slice.is_shared() {
                    core.interrupted.store(true, Ordering::Relaxed);
                }
            })
        };
        let is_wanted = || *core.queued.lock().unwrap() > 0;
        core.slice.begin(false, is_wanted, || 20);
        other.join().unwrap();
        assert!(core.slice.is_shared() || core.interrupted.load(Ordering::Relaxed));
    });
}
