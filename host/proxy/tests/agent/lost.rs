//! Pages that a file does not have: SIGBUS in the machine, and what the agent makes of it.

use std::os::fd::AsFd;

use proxy::agent::Access;
use rustix::fs::ftruncate;
use rustix::io::Errno;

use super::machine::{How, Machine, OF_POOL, PAGE, file, pages, send};
use super::{Segment, byte_of};

/// Of a file that was cut, was shorter from the start, and by threads that QEMU starts with the signal blocked, which Linux then kills.
#[test]
fn pages_that_a_file_has_not_are_zeros_and_said() {
    let mut machine = Machine::new();
    let file = file(4, 1);
    assert_eq!(
        machine
            .agent()
            .lay(file.as_fd(), pages(8, 6), 0, Access::WRITE),
        Ok(())
    );
    ftruncate(&file, PAGE).expect("cut");
    assert_eq!(machine.number(&format!("as CPU_3/TCG {}", 9 * PAGE)), 0);
    assert_eq!(machine.notice(), [4, 9 * PAGE, 3]);
    assert_eq!(
        machine.number(&format!("as CPU_254/KVM {}", 13 * PAGE + 4095)),
        0
    );
    assert_eq!(machine.notice(), [4, 13 * PAGE, 254]);
    for name in ["CPU_x", "CPU", "ALL_CPUs/TCG"] {
        assert_eq!(
            machine
                .agent()
                .lay(file.as_fd(), pages(8, 6), 0, Access::WRITE),
            Ok(())
        );
        assert_eq!(machine.number(&format!("as {name} {}", 10 * PAGE)), 0);
        assert_eq!(machine.notice(), [4, 10 * PAGE, u64::MAX]);
    }
    // It is memory as other memory; the file is what it was.
    assert_eq!(machine.number(&format!("write {} 9", 10 * PAGE)), 9);
    assert_eq!([8, 10, 11].map(|page| machine.byte(page)), [1, 9, 0]);
    ftruncate(&file, 4 * PAGE).expect("grown");
    assert_eq!(byte_of(&file, 2), 0);
}

/// Zeros stayed for as long as the file was laid.
#[test]
fn a_lost_page_is_the_files_again() {
    let mut machine = Machine::new();
    let file = file(4, 1);
    for access in [Access::READ, Access::WRITE] {
        let laid = machine.agent().lay(file.as_fd(), pages(8, 4), 0, access);
        assert_eq!(laid, Ok(()));
        ftruncate(&file, PAGE).expect("cut");
        assert_eq!([9, 10].map(|page| machine.byte(page)), [0, 0]);
        let restore = |machine: &Machine, page: u64| {
            let words = [6, page * PAGE, PAGE, 0, 0].map(u64::to_ne_bytes);
            send(&machine.job, words.as_flattened(), &[]);
            // It has been carried out before what comes next.
            assert_eq!(machine.agent().clear(pages(40, 1)), Ok(()));
        };
        // The file does not have it yet.
        restore(&machine, 9);
        assert_eq!(machine.byte(9), 0);
        rustix::io::pwrite(&file, &[5; 4096 * 3], PAGE).expect("written");
        for page in [9, 10, 20] {
            restore(&machine, page);
        }
        assert_eq!(
            [8, 9, 10, 11, 20].map(|page| machine.byte(page)),
            [1, 5, 5, 5, OF_POOL]
        );
        if access.is_writable {
            ftruncate(&file, PAGE).expect("cut");
            assert_eq!([9, 10, 11].map(|page| machine.byte(page)), [0; 3]);
            rustix::io::pwrite(&file, &[5; 4096 * 3], PAGE).expect("written");
            assert_eq!(machine.agent().restore(pages(8, 4)), Ok(()));
            assert_eq!(machine.agent().restore(pages(20, 1)), Err(Errno::INVAL));
            assert_eq!([9, 10, 11].map(|page| machine.byte(page)), [5; 3]);
            machine.number(&format!("write {} 6", 10 * PAGE));
            assert_eq!(byte_of(&file, 2), 6);
        }
    }
    // What is cleared, or laid since, stays.
    assert_eq!(machine.agent().clear(pages(9, 1)), Ok(()));
    let segment = Segment::new(PAGE);
    let laid = machine
        .agent()
        .lay_segment(segment.0, pages(10, 1), 0, Access::WRITE);
    assert_eq!(laid, Ok(()));
    machine.number(&format!("write {} 8", 10 * PAGE));
    for page in [9, 10] {
        let words = [6, page * PAGE, PAGE, 0, 0].map(u64::to_ne_bytes);
        send(&machine.job, words.as_flattened(), &[]);
    }
    assert_eq!(machine.agent().clear(pages(40, 1)), Ok(()));
    assert_eq!([9, 10].map(|page| machine.byte(page)), [0, 8]);
}

/// A thread that had met the signal put zeros over what another had stored since.
#[test]
fn what_is_stored_in_lost_pages_stays() {
    let mut machine = Machine::start(&How {
        pages: Some(1024),
        ..How::default()
    });
    let empty = file(0, 0);
    for _ in 0..2 {
        assert_eq!(
            machine
                .agent()
                .lay(empty.as_fd(), pages(0, 1024), 0, Access::WRITE),
            Ok(())
        );
        assert_eq!(machine.number("storm 0 1024"), 0);
    }
}

/// A thread that had met the signal put zeros over a file that was laid since.
#[test]
fn what_is_laid_meanwhile_stays() {
    let mut machine = Machine::new();
    let (empty, full) = (file(0, 0), file(16, 1));
    machine.number("touch 0 16");
    for _ in 0..500 {
        assert_eq!(
            machine
                .agent()
                .lay(empty.as_fd(), pages(0, 16), 0, Access::WRITE),
            Ok(())
        );
        assert_eq!(
            machine
                .agent()
                .lay(full.as_fd(), pages(0, 16), 0, Access::WRITE),
            Ok(())
        );
        for page in 0..16 {
            assert_eq!(machine.byte(page), 1, "{page}");
        }
    }
}

#[test]
fn a_signal_for_another_reason_is_not_the_agents() {
    let (bus, killed) = ((None, Some(libc::SIGBUS)), "killed");
    for (handler, how, ended) in [
        (false, "bus", bus),
        (true, "bus", (Some(42), None)),
        (false, killed, bus),
        (true, killed, (Some(42), None)),
    ] {
        for has_laid in [false, true] {
            let mut machine = Machine::start(&How {
                handler,
                ..How::default()
            });
            if has_laid {
                assert_eq!(machine.agent().clear(pages(0, 1)), Ok(()));
            }
            match how {
                "bus" => machine.say("bus"),
                _ => machine.signal(libc::SIGBUS),
            }
            assert_eq!(machine.end(), ended, "{how}, {handler}, {has_laid}");
        }
    }
}
