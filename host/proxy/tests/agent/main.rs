//! The agent (host/agent/agent.c) in a program that maps a pool as QEMU does, by requests of this crate's and by others that are wrong.

mod lost;
mod machine;
mod wrong;

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::thread;

use machine::{How, Machine, OF_POOL, PAGE, file, pages, wait_for};
use proxy::agent::{Access, Agent};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, pread};
use rustix::net::{Shutdown, shutdown};

/// A second description of a file.
fn open_again(file: &OwnedFd, flags: OFlags) -> OwnedFd {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    open(path, flags | OFlags::CLOEXEC, Mode::empty()).expect("opened")
}

fn byte_of(file: &OwnedFd, page: u64) -> u8 {
    let mut byte = [0];
    assert_eq!(pread(file, &mut byte, page * PAGE), Ok(1));
    byte[0]
}

#[test]
fn a_file_is_the_memory_until_it_is_cleared() {
    let mut machine = Machine::new();
    let file = file(4, 1);
    rustix::io::pwrite(&file, &[2], 2 * PAGE).expect("written");
    assert_eq!(
        machine
            .agent()
            .lay(file.as_fd(), pages(10, 2), PAGE, Access::WRITE),
        Ok(())
    );
    let seen = [9, 10, 11, 12].map(|page| machine.byte(page));
    assert_eq!(seen, [OF_POOL, 1, 2, OF_POOL]);
    // What the machine stores is in the file at once, and the other way round.
    machine.number(&format!("write {} 3", 11 * PAGE));
    assert_eq!(byte_of(&file, 2), 3);
    rustix::io::pwrite(&file, &[4], PAGE).expect("written");
    assert_eq!(machine.byte(10), 4);
    // Another file in its place, and the pool's own pages.
    let other = self::file(1, 5);
    assert_eq!(
        machine
            .agent()
            .lay(other.as_fd(), pages(11, 1), 0, Access::WRITE),
        Ok(())
    );
    assert_eq!([10, 11].map(|page| machine.byte(page)), [4, 5]);
    assert_eq!(machine.agent().clear(pages(11, 1)), Ok(()));
    assert_eq!([10, 11].map(|page| machine.byte(page)), [4, 0]);
    assert_eq!((byte_of(&file, 2), byte_of(&other, 0)), (3, 5));
}

#[test]
fn a_file_is_laid_to_read_or_to_write() {
    let mut machine = Machine::new();
    let file = file(1, 1);
    let access = |machine: &Machine| {
        let maps = machine.maps();
        let line = maps
            .lines()
            .find(|line| line.contains("memfd:test") && line.contains("00000000 "));
        line.and_then(|line| line.split(' ').nth(1))
            .map(str::to_owned)
    };
    let reads = open_again(&file, OFlags::RDONLY);
    for (file, wanted, access_wanted) in [
        (&reads, Access::READ, "r--s"),
        (&file, Access::WRITE, "rw-s"),
        (&file, Access::READ, "r--s"),
    ] {
        let laid = machine.agent().lay(file.as_fd(), pages(0, 1), 0, wanted);
        assert_eq!(laid, Ok(()));
        assert_eq!(machine.byte(0), 1);
        assert_eq!(access(&machine).as_deref(), Some(access_wanted));
    }
    let laid = machine
        .agent()
        .lay(reads.as_fd(), pages(0, 1), 0, Access::WRITE);
    assert_eq!(laid, Err(Errno::ACCESS));
}

/// A segment of System V shared memory is laid like a file, up to its end; only what is laid stays attached.
#[test]
fn a_segment_is_laid() {
    const PAGES: u64 = 4;
    let mut machine = Machine::new();
    let segment = Segment::new(PAGES * PAGE - 100);
    let lay = |machine: &Machine, [page, offset, len]: [u64; 3], access| {
        let agent = machine.agent();
        agent.lay_segment(segment.0, pages(page, len), offset * PAGE, access)
    };
    assert_eq!(lay(&machine, [8, 1, 3], Access::WRITE), Ok(()));
    machine.number(&format!("write {} 3", 9 * PAGE));
    assert_eq!(segment.attached(), 1);
    assert_eq!(lay(&machine, [20, 2, 1], Access::READ), Ok(()));
    assert_eq!(
        [8, 9, 20, 11].map(|page| machine.byte(page)),
        [0, 3, 3, OF_POOL]
    );
    assert_eq!(segment.attached(), 2);
    for wrong in [[0, 0, 5], [0, 3, 2], [0, 4, 1], [0, 1 << 40, 1]] {
        assert_eq!(lay(&machine, wrong, Access::WRITE), Err(Errno::INVAL));
    }
    assert_eq!((machine.byte(0), segment.attached()), (OF_POOL, 2));
    assert_eq!(machine.agent().clear(pages(0, 32)), Ok(()));
    assert_eq!((machine.byte(9), segment.attached()), (0, 0));
    let gone = Agent::lay_segment(&machine.agent(), i32::MAX, pages(0, 1), 0, Access::READ);
    assert_eq!(gone, Err(Errno::INVAL));
}

/// A segment, removed when it is dropped.
struct Segment(i32);

impl Segment {
    fn new(len_bytes: u64) -> Segment {
        let how = libc::IPC_CREAT | 0o600;
        // SAFETY: 1. No memory is passed.
        Segment(unsafe { libc::shmget(libc::IPC_PRIVATE, len_bytes as usize, how) })
    }

    fn attached(&self) -> u64 {
        // SAFETY: 1. All zeros is a valid structure of numbers. 2. Linux writes no more than it.
        unsafe {
            let mut status: libc::shmid_ds = std::mem::zeroed();
            assert_eq!(libc::shmctl(self.0, libc::IPC_STAT, &raw mut status), 0);
            status.shm_nattch
        }
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: 1. No memory is passed.
        unsafe { libc::shmctl(self.0, libc::IPC_RMID, std::ptr::null_mut()) };
    }
}

/// Neither descriptors nor mappings become more.
#[test]
fn ten_thousand_requests_leave_nothing() {
    let mut machine = Machine::new();
    let descriptors = machine.descriptors();
    let file = file(2, 1);
    let agent = Agent::of(&machine.job);
    assert_eq!(agent.clear(pages(0, 1)), Ok(()));
    let mappings = machine.maps().lines().count();
    for i in 0..5000 {
        let place = pages(i * 7 % 60, 1 + i % 4);
        assert_eq!(agent.lay(file.as_fd(), place, 0, Access::WRITE), Ok(()));
        assert_eq!(agent.clear(place), Ok(()));
    }
    assert_eq!(machine.maps().lines().count(), mappings);
    wait_for(|| machine.descriptors() == descriptors);
    assert!((0..64).all(|page| [0, OF_POOL].contains(&machine.byte(page))));
}

#[test]
fn several_send_requests_at_once() {
    let mut machine = Machine::new();
    thread::scope(|scope| {
        for client in 0..4u8 {
            let agent = machine.agent();
            scope.spawn(move || {
                let file = file(1, client);
                for page in 0..8 {
                    for _ in 0..100 {
                        let place = pages(page * 4 + u64::from(client), 1);
                        assert_eq!(agent.lay(file.as_fd(), place, 0, Access::WRITE), Ok(()));
                        assert_eq!(agent.clear(place), Ok(()));
                        assert_eq!(agent.lay(file.as_fd(), place, 0, Access::WRITE), Ok(()));
                    }
                }
            });
        }
    });
    assert!((0..32).all(|page| u64::from(machine.byte(page)) == page % 4));
}

/// Bytes that were sent by this socket and not yet received.
fn unread_bytes(socket: &OwnedFd) -> i32 {
    let mut bytes = 0;
    // SAFETY: 1. The request writes one int, which lives through the call.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    assert_eq!(done, 0);
    bytes
}

#[test]
fn a_request_ends_with_the_machine() {
    let machine = Machine::new();
    machine.stop();
    thread::scope(|scope| {
        let waits = scope.spawn(|| machine.agent().clear(pages(0, 1)));
        wait_for(|| unread_bytes(&machine.job) > 0);
        machine.signal(libc::SIGKILL);
        assert_eq!(waits.join().expect("no panic"), Err(Errno::PIPE));
    });
    assert_eq!(machine.agent().clear(pages(0, 1)), Err(Errno::PIPE));
}

/// It would have used a processor from then on.
#[test]
fn the_agent_ends_with_the_job() {
    for how in [Shutdown::Both, Shutdown::Write] {
        let mut machine = Machine::new();
        assert!(machine.has_thread());
        shutdown(&machine.job, how).expect("connected");
        wait_for(|| !machine.has_thread());
        assert_eq!(machine.byte(0), OF_POOL);
    }
}

/// Linux has a limit on mappings (vm.max_map_count): what does not fit any more is said, and harms nothing.
#[test]
fn more_mappings_than_there_may_be_are_refused() {
    let limit = std::fs::read_to_string("/proc/sys/vm/max_map_count").expect("a limit");
    let limit: u64 = limit.trim().parse().expect("a number");
    let mut machine = Machine::start(&How {
        pages: Some(limit + 64),
        ..How::default()
    });
    let (file, agent) = (file(1, 1), Agent::of(&machine.job));
    let lay = |page| agent.lay(file.as_fd(), pages(page, 1), 0, Access::WRITE);
    let refused = (0..limit + 64).step_by(2).find(|&page| lay(page).is_err());
    let refused = refused.expect("a limit");
    assert_eq!(lay(refused), Err(Errno::NOMEM));
    assert_eq!(agent.clear(pages(0, limit + 64)), Ok(()));
    assert_eq!(lay(refused), Ok(()));
    assert_eq!([0, refused].map(|page| machine.byte(page)), [0, 1]);
}

/// A script that starts QEMU was taken for it, or commands of the script.
#[test]
fn the_environment_is_the_users_again() {
    for by_shell in [false, true] {
        for (preloaded, left) in [
            (None, "none"),
            (Some("libm.so.6:libc.so.6"), "libm.so.6:libc.so.6"),
        ] {
            let mut machine = Machine::start(&How {
                preloaded,
                by_shell,
                ..How::default()
            });
            assert_eq!(machine.text("variable LD_PRELOAD"), left);
            assert_eq!(machine.text("variable MARGAY_AGENT"), "none");
            assert_eq!(machine.agent().clear(pages(0, 1)), Ok(()));
        }
    }
}
