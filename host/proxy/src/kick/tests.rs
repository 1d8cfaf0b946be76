//! Every moment at which a kick may come.

use super::*;
use crate::stub::syscall;
use std::os::fd::AsRawFd;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

use abi::Errno;

use crate::signals;

#[test]
fn a_call_is_kicked_until_it_is_over() {
    let kick = Kick::default();
    let mut kicks = 0;
    assert!(!kick.kick_if(|_| true, || kicks += 1));
    kick.begin(1);
    assert!(!kick.kick_if(|_| false, || kicks += 1));
    assert!(kick.kick_if(|seq| seq == 1, || kicks += 1));
    assert!(kick.kick_if(|seq| seq == 1, || kicks += 1));
    kick.finish();
    assert!(!kick.kick_if(|_| true, || kicks += 1));
    assert_eq!(kicks, 2);
}

#[test]
fn a_call_that_ends_meanwhile_is_not_kicked() {
    let kick = Kick::default();
    kick.begin(1);
    let finish = |_| {
        kick.finish();
        true
    };
    assert!(!kick.kick_if(finish, || unreachable!()));
}

/// A kick that is being sent when its call ends would interrupt the next one.
#[test]
fn a_call_is_not_over_while_it_is_being_kicked() {
    const TURNS: u32 = 1_000;
    let kick = Kick::default();
    let (begun, over) = (AtomicU32::new(0), AtomicU32::new(0));
    kick.begin(1);
    let kicked = std::thread::scope(|scope| {
        scope.spawn(|| {
            while begun.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            kick.finish();
            over.store(1, Ordering::SeqCst);
        });
        kick.kick_if(
            |_| true,
            || {
                begun.store(1, Ordering::SeqCst);
                for _ in 0..TURNS {
                    std::thread::yield_now();
                    assert_eq!(over.load(Ordering::SeqCst), 0, "the kick comes late");
                }
            },
        )
    });
    assert!(kicked && over.load(Ordering::SeqCst) == 1);
}

#[test]
fn arguments_arrive_in_order() {
    // The first four by what is read; the sixth by a flag that copy_file_range does not have.
    let mut buf = [0u8; 4];
    let file = std::fs::File::open("/proc/self/exe").unwrap();
    let fd = std::os::fd::AsRawFd::as_raw_fd(&file) as u64;
    let args = [fd, buf.as_mut_ptr() as u64, 3, 1, 0, 0];
    // SAFETY: the buffer is longer than what is read.
    let ret = unsafe { syscall(libc::SYS_pread64 as u64, &args) };
    assert_eq!((ret, &buf), (3, b"ELF\0"));
    // SAFETY: no memory is touched.
    let ret = unsafe { syscall(libc::SYS_copy_file_range as u64, &[fd, 0, fd, 0, 1, !0]) };
    assert_eq!(ret, Errno::EINVAL.ret());
}

/// A worker blocks in a read again and again, and is kicked as soon as it has begun, a little earlier or later each time:
/// before the instruction, in Linux, after it. Without further kicks a lost one would block it for good.
#[test]
fn a_kick_around_entry_is_never_lost() {
    const ROUNDS: u64 = 5000;
    let kick = Kick::default();
    Kick::install();
    let (read, write) = rustix::pipe::pipe().unwrap();
    let (worker, finished) = (AtomicU32::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let tid = rustix::thread::gettid().as_raw_pid() as u32;
            worker.store(tid, Ordering::SeqCst);
            let mut byte = 0u8;
            let args = [read.as_raw_fd() as u64, &raw mut byte as u64, 1, 0, 0, 0];
            for seq in 1..=ROUNDS {
                kick.begin(seq);
                for _ in 0..seq % 512 {
                    hint::spin_loop();
                }
                // SAFETY: 1. Linux writes one byte to `byte`.
                let ret = unsafe { syscall(libc::SYS_read as u64, &args) };
                kick.finish();
                if ret != Errno::EINTR.ret() {
                    return;
                }
                finished.store(seq, Ordering::SeqCst);
            }
        });
        let mut lost = None;
        'rounds: for seq in 1..=ROUNDS {
            let end = Instant::now() + Duration::from_secs(20);
            while finished.load(Ordering::SeqCst) < seq {
                let tid = worker.load(Ordering::SeqCst);
                let send = || signals::send_to_thread(std::process::id(), tid, KICK);
                if kick.kick_if(|at| at == seq, send) {
                    // Kicks without a pause would keep the worker from getting anywhere.
                    std::thread::sleep(Duration::from_micros(50));
                }
                if Instant::now() > end {
                    lost = Some(seq);
                    break 'rounds;
                }
            }
        }
        // Whatever happened, the worker must end.
        rustix::io::write(&write, b"x").unwrap();
        assert_eq!(lost, None, "this round's kick was lost");
    });
    assert_eq!(finished.into_inner(), ROUNDS);
}
