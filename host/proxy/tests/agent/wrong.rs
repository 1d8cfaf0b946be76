//! Requests that are wrong: each gets its error, and nothing else happens.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use proxy::agent::Access;
use rustix::fs::{CWD, Mode, OFlags, SealFlags, fcntl_add_seals, openat};
use rustix::io::Errno;
use rustix::pipe::pipe;

use super::machine::{Machine, OF_POOL, PAGE, POOL_PAGES, file, pages, pair, send, wait_for};
use super::open_again;

const LAY: u64 = 1;
const CLEAR: u64 = 2;
const SEGMENT: u64 = 5;
const RESTORE: u64 = 6;
/// The last multiple of a page that is an offset of a file.
const LAST: u64 = i64::MAX as u64 & !(PAGE - 1);

fn bytes(words: [u64; 5]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn opened(path: &str, flags: OFlags) -> OwnedFd {
    openat(CWD, path, flags | OFlags::CLOEXEC, Mode::empty()).expect("opened")
}

/// Whether the first pages show what the pool has, and the agent's next request is carried out.
fn is_as_before(machine: &mut Machine) -> bool {
    let done = machine.agent().clear(pages(POOL_PAGES - 1, 1)) == Ok(());
    done && (0..4).all(|page| machine.byte(page) == OF_POOL)
}

#[test]
fn wrong_words_are_refused() {
    let mut machine = Machine::new();
    let file = file(4, 1);
    let pool = POOL_PAGES * PAGE;
    let of_command = |command, fds: &[BorrowedFd<'_>], words: &[[u64; 3]]| {
        for &[offset, len_bytes, file_offset] in words {
            let request = bytes([command, offset, len_bytes, file_offset, 0]);
            let words = (command, offset, len_bytes, file_offset);
            assert_eq!(
                machine.request(&request, fds),
                Ok(libc::EINVAL),
                "{words:x?}"
            );
        }
    };
    let ranges = [
        [0, 0, 0],
        [0, 1, 0],
        [0, PAGE - 1, 0],
        [0, PAGE + 1, 0],
        [1, PAGE, 0],
        [PAGE - 1, PAGE, 0],
        [pool, PAGE, 0],
        [pool - PAGE, 2 * PAGE, 0],
        [0, pool + PAGE, 0],
        [PAGE, 0u64.wrapping_sub(PAGE), 0],
        [0u64.wrapping_sub(PAGE), PAGE, 0],
        [0u64.wrapping_sub(PAGE), 2 * PAGE, 0],
        [1 << 63, PAGE, 0],
    ];
    let in_file = [
        [0, PAGE, 1],
        [0, PAGE, PAGE - 1],
        [0, PAGE, LAST],
        [0, 2 * PAGE, LAST - PAGE],
        [0, PAGE, 1 << 63],
        [0, PAGE, 0u64.wrapping_sub(PAGE)],
    ];
    of_command(LAY, &[file.as_fd()], &ranges);
    of_command(LAY, &[file.as_fd()], &in_file);
    of_command(CLEAR, &[], &ranges);
    of_command(CLEAR, &[], &[[0, PAGE, PAGE]]);
    for command in [0, 3, 4, 6, 1 << 32 | LAY, u64::MAX] {
        of_command(command, &[], &[[0, PAGE, 0]]);
        of_command(command, &[file.as_fd()], &[[0, PAGE, 0]]);
    }
    // To restore is not answered.
    for [offset, len_bytes, file_offset] in ranges
        .into_iter()
        .chain([[0, 2 * PAGE, 0], [0, PAGE, PAGE]])
    {
        let request = bytes([RESTORE, offset, len_bytes, file_offset, 0]);
        send(&machine.job, &request, &[]);
    }
    // How it is to be laid.
    for (command, how) in [
        (LAY, 2),
        (LAY, 1 << 32),
        (LAY, u64::MAX),
        (CLEAR, 1),
        (SEGMENT, 2),
    ] {
        let file = [file.as_fd()];
        let fds = &file[..usize::from(command == LAY)];
        let request = bytes([command, 0, PAGE, 0, how]);
        assert_eq!(machine.request(&request, fds), Ok(libc::EINVAL), "{how:#x}");
    }
    assert!(is_as_before(&mut machine));
}

/// Descriptors and lengths of messages; none of the descriptors stays.
#[test]
fn wrong_messages_are_refused() {
    let mut machine = Machine::new();
    let file = file(4, 1);
    let fd = file.as_fd();
    let (lay, clear) = (bytes([LAY, 0, PAGE, 0, 0]), bytes([CLEAR, 0, PAGE, 0, 0]));
    let before = machine.descriptors();
    for fds in [vec![], vec![fd; 2], vec![fd; 3], vec![fd; 4], vec![fd; 15]] {
        let count = fds.len();
        assert_eq!(machine.request(&lay, &fds), Ok(libc::EINVAL), "{count}");
    }
    for fds in [vec![fd], vec![fd; 2], vec![fd; 15]] {
        assert_eq!(machine.request(&clear, &fds), Ok(libc::EINVAL));
    }
    let longer = [&lay[..], &[0]].concat();
    let long = [&lay[..], &lay].concat();
    for request in [&[][..], &lay[..1], &lay[..39], &longer, &long] {
        let len_bytes = request.len();
        assert_eq!(
            machine.request(request, &[fd]),
            Ok(libc::EINVAL),
            "{len_bytes}"
        );
    }
    // No answer can be given: without a socket, by something else, by one that is gone.
    send(&machine.job, &lay, &[]);
    send(&machine.job, &[], &[]);
    send(&machine.job, &clear, &[fd]);
    send(&machine.job, &lay, &[fd, fd, fd]);
    let (other, gone) = pair();
    drop(other);
    send(&machine.job, &clear, &[gone.as_fd(), fd]);
    assert!(is_as_before(&mut machine));
    wait_for(|| machine.descriptors() == before);
}

/// Only regular files can be laid. One that Linux does not map leaves the pool's pages there, also where it had unmapped them.
#[test]
fn wrong_files_are_refused() {
    let mut machine = Machine::new();
    let regular = file(4, 1);
    let sealed = file(4, 2);
    fcntl_add_seals(&sealed, SealFlags::WRITE).expect("sealed");
    let laid = file(4, 3);
    let (reads, writes) = pipe().expect("a pipe");
    let (socket, _other) = pair();
    let wrong = [
        (opened("/", OFlags::RDONLY), libc::EINVAL),
        (opened("/dev/null", OFlags::RDWR), libc::EINVAL),
        (opened("/dev/zero", OFlags::RDWR), libc::EINVAL),
        (reads, libc::EINVAL),
        (writes, libc::EINVAL),
        (socket, libc::EINVAL),
        (open_again(&regular, OFlags::WRONLY), libc::EACCES),
        (open_again(&regular, OFlags::PATH), libc::EBADF),
        (sealed.try_clone().expect("a descriptor"), libc::EPERM),
        (opened("/proc/version", OFlags::RDONLY), libc::EACCES),
        (opened("/proc/self/maps", OFlags::RDONLY), libc::EACCES),
    ];
    let request = bytes([LAY, 0, 4 * PAGE, 0, 1]);
    for (i, (file, errno)) in wrong.iter().enumerate() {
        assert_eq!(
            machine
                .agent()
                .lay(laid.as_fd(), pages(0, 4), 0, Access::WRITE),
            Ok(())
        );
        assert_eq!(
            machine.request(&request, &[file.as_fd()]),
            Ok(*errno),
            "{i}"
        );
        let shown = if *errno == libc::EINVAL { 3 } else { 0 };
        assert!((0..4).all(|page| machine.byte(page) == shown), "{i}");
    }
    for (path, errno) in [
        ("/proc/version", Errno::IO),
        ("/proc/self/maps", Errno::NODEV),
    ] {
        let file = opened(path, OFlags::RDONLY);
        let laid = machine
            .agent()
            .lay(file.as_fd(), pages(0, 4), 0, Access::READ);
        assert_eq!(laid, Err(errno), "{path}");
    }
    let laid = machine
        .agent()
        .lay(sealed.as_fd(), pages(0, 4), 0, Access::READ);
    assert_eq!(laid, Ok(()));
    assert_eq!(machine.byte(3), 2);
}
