//! The forker: threads that fork for the workers. They start before the filter is in force, and so do the threads that they start.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

use rustix::io;

use super::job::Job;
use crate::signals::{self, How};
use crate::stub;
use crate::sync::lock;

/// Bytes of a stack.
const STACK_BYTES: usize = 64 << 10;
/// uapi/linux/rseq.h; the C library registers at least 32 bytes, and at most what fits in a few cache lines.
const RSEQ_UNREGISTER: u64 = 1;
const RSEQ_SIGNATURE: u64 = 0x5305_3053;
const RSEQ_BYTES: std::ops::RangeInclusive<u64> = 32..=512;

/// The jobs, and the threads that wait for one.
#[derive(Debug, Default)]
pub struct Forker {
    queue: Mutex<Queue>,
    work: Condvar,
    there: AtomicBool,
}

#[derive(Debug, Default)]
struct Queue {
    jobs: VecDeque<Arc<Job>>,
    /// Threads that wait for a job.
    idle: usize,
}

impl Forker {
    /// Starts its first thread; the caller is not in the filter yet.
    ///
    /// # Errors
    /// What Linux says.
    pub fn start(&'static self) -> io::Result<()> {
        self.there.store(true, Ordering::SeqCst);
        start_thread(self)
    }

    /// Whether it has been started.
    pub fn is_there(&self) -> bool {
        self.there.load(Ordering::SeqCst)
    }

    /// Has a child made.
    pub fn begin(&self, job: Arc<Job>) {
        lock(&self.queue).jobs.push_back(job);
        self.work.notify_one();
    }

    fn next(&self) -> (Arc<Job>, bool) {
        let mut queue = lock(&self.queue);
        queue.idle += 1;
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                queue.idle -= 1;
                return (job, queue.idle == 0);
            }
            queue = self
                .work
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn start_thread(forker: &'static Forker) -> io::Result<()> {
    let builder = thread::Builder::new()
        .name("forker".into())
        .stack_size(STACK_BYTES);
    let started = builder.spawn(move || serve(forker));
    started.map(|_| ()).map_err(|_| io::Errno::AGAIN)
}

fn serve(forker: &'static Forker) {
    // A child starts with this mask, and has handlers before it has the program's memory.
    signals::mask(How::Set, signals::ALL);
    leave_restartable_sequences();
    loop {
        let (job, last) = forker.next();
        // A thread that waits for a vfork child does not fork meanwhile.
        if job.vfork && last {
            let _ = start_thread(forker);
        }
        job.carry_out();
    }
}

/// The C library has registered an area for this thread, which a child would inherit and Linux write to after it is gone.
fn leave_restartable_sequences() {
    // SAFETY: 1. The name is a C string. 2. The symbol, if there is one, is a ptrdiff_t that never changes.
    let offset = unsafe {
        let offset = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_offset".as_ptr());
        offset.cast::<isize>().as_ref().copied()
    };
    let Some(offset) = offset else {
        return; // nor an area
    };
    let thread_pointer: u64;
    // SAFETY: 1. On x86-64 the first word of the thread's control block is its own address (System V ABI, TLS).
    unsafe {
        std::arch::asm!("mov {}, fs:0", out(reg) thread_pointer, options(nostack, readonly, preserves_flags))
    };
    let area = thread_pointer.wrapping_add_signed(offset as i64);
    for len_bytes in RSEQ_BYTES.step_by(4) {
        let args = [area, len_bytes, RSEQ_UNREGISTER, RSEQ_SIGNATURE, 0, 0];
        // SAFETY: 1. Linux drops the area; the C library does not read it here.
        if unsafe { stub::syscall(libc::SYS_rseq as u64, &args) } == 0 {
            return;
        }
    }
}
