//! The end of a rank is the end of its proxy, in the same way: shells and launchers see the truth.

use std::fmt::Write as _;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use rustix::process::{Resource, Rlimit, setrlimit};
use wire::rank::{Crash, state};

use crate::rank::Rank;
use crate::regions::{Region, Regions};
use crate::signals;

/// Exit code when the node's kernel says what cannot be (EX_SOFTWARE, sysexits.h).
const EXIT_BROKEN: i32 = 70;
/// Longest line a node may have printed for a refused program.
const MESSAGE_BYTES: usize = 256;
/// Most regions of a crash report.
const REGIONS_SHOWN: usize = 16;

/// Ends the process if the rank has ended.
pub fn if_over(rank: &Rank) {
    let node = &rank.words.area.node;
    match node.state.load() {
        state::EXITED => {
            only_once(rank);
            let status = node.wait_status.load() as i32;
            if node.crash.valid.load() == 1 {
                say(
                    rank,
                    &report(&rank.name, &node.crash, rank.memory().regions()),
                );
            }
            match status & 0x7f {
                0 => signals::exit(status >> 8 & 0xff),
                signo => die_without_core(signo),
            }
        }
        state::REFUSED => {
            only_once(rank);
            let mut bytes = [0; MESSAGE_BYTES];
            let message = String::from_utf8_lossy(node.message.get(&mut bytes));
            say(rank, &format!("{}: {message}\n", rank.name));
            signals::exit(node.wait_status.load() as i32 >> 8 & 0xff)
        }
        _ => {}
    }
}

/// Ends the process because the node's kernel broke the protocol.
pub fn broken(rank: &Rank, why: &str) -> ! {
    only_once(rank);
    say(rank, &format!("{}: {why}\n", rank.name));
    signals::exit(EXIT_BROKEN)
}

/// Ends the process by a signal.
pub fn die(rank: &Rank, signo: i32) -> ! {
    only_once(rank);
    die_without_core(signo)
}

/// A core file would hold the proxy, not the program.
fn die_without_core(signo: i32) -> ! {
    let _ = setrlimit(
        Resource::Core,
        Rlimit {
            current: Some(0),
            maximum: Some(0),
        },
    );
    signals::die(signo)
}

/// Worker and watcher may both see the end: the second waits for the first to finish.
fn only_once(rank: &Rank) {
    if rank.ending.swap(true, Ordering::SeqCst) {
        loop {
            std::thread::park();
        }
    }
}

/// Prints text as one block.
fn say(rank: &Rank, text: &str) {
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        match rustix::io::write(rank.stderr.as_fd(), rest) {
            Ok(written) => rest = &rest[written..],
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return, // nobody to tell
        }
    }
}

/// What is known of a fault: signal, address, registers, the region it hit, what was mapped.
fn report(name: &str, crash: &Crash, regions: &Regions) -> String {
    let signo = crash.signo.load() as i32;
    let (addr, code) = (crash.addr.load(), crash.code.load() as i32);
    let mut text = format!("{name}: {} at address {addr:#x}", what(signo));
    let [trap, error] = [crash.trap[0].load(), crash.trap[1].load()];
    if let Some(why) = why(signo, code, trap) {
        let _ = write!(text, ": {why}");
    }
    let _ = writeln!(text, "\n  exception {trap}, error code {error:#x}");
    for (names, values) in Crash::REGISTERS.chunks(3).zip(crash.regs.chunks(3)) {
        for (name, value) in names.iter().zip(values) {
            let _ = write!(text, "  {name:>6} {:016x}", value.load());
        }
        text.push('\n');
    }
    let [rip, rsp] = [crash.regs[0].load(), crash.regs[1].load()];
    for (what, addr) in [("the address", addr), ("rip", rip), ("rsp", rsp)] {
        let _ = writeln!(text, "  {what} lies in {}", place(regions, addr));
    }
    let all = regions.iter().count();
    let _ = writeln!(
        text,
        "  {all} regions can be read or written{}",
        if all > REGIONS_SHOWN {
            ", nearest:"
        } else {
            ":"
        }
    );
    for region in nearest(regions, addr) {
        let _ = writeln!(text, "    {region}");
    }
    text
}

/// Where an address lies.
fn place(regions: &Regions, addr: u64) -> String {
    let below = || regions.iter().rfind(|region| region.end <= addr);
    match (regions.at(addr), below()) {
        (Some(region), _) => region.to_string(),
        (None, Some(below)) => format!("no region, {:#x} bytes above {below}", addr - below.end),
        (None, None) => "no region".into(),
    }
}

/// The regions around an address.
fn nearest(regions: &Regions, addr: u64) -> impl Iterator<Item = &Region> {
    let below = regions.iter().filter(|region| region.end <= addr).count();
    regions
        .iter()
        .skip(below.saturating_sub(REGIONS_SHOWN / 2))
        .take(REGIONS_SHOWN)
}

/// A signal's meaning and name.
fn what(signo: i32) -> String {
    let (meaning, name) = match signo {
        libc::SIGILL => ("illegal instruction", "SIGILL"),
        libc::SIGTRAP => ("breakpoint", "SIGTRAP"),
        libc::SIGBUS => ("bus error", "SIGBUS"),
        libc::SIGFPE => ("arithmetic error", "SIGFPE"),
        libc::SIGSEGV => ("segmentation fault", "SIGSEGV"),
        _ => return format!("signal {signo}"),
    };
    format!("{meaning} ({name})")
}

/// What si_code adds (uapi/asm-generic/siginfo.h), and for SI_KERNEL the last exception: stack segment and general protection
/// (12, 13) are the program's doing, without them the kernel found the fault.
fn why(signo: i32, code: i32, trap: u64) -> Option<&'static str> {
    match (signo, code) {
        (libc::SIGSEGV, 128) if ![12, 13].contains(&trap) => {
            Some("a signal's frame cannot be written to the stack, or not be returned from")
        }
        (libc::SIGSEGV, 1) => Some("nothing is mapped there"),
        (libc::SIGSEGV, 2) => Some("the access is not permitted"),
        (libc::SIGSEGV, 128) => Some("the address or instruction is not allowed"),
        (libc::SIGFPE, 1) => Some("integer division by zero"),
        (libc::SIGFPE, 2) => Some("integer overflow"),
        (libc::SIGFPE, 3) => Some("floating-point division by zero"),
        (libc::SIGFPE, 4) => Some("floating-point overflow"),
        (libc::SIGFPE, 5) => Some("floating-point underflow"),
        (libc::SIGFPE, 6) => Some("inexact floating-point result"),
        (libc::SIGFPE, 7) => Some("invalid floating-point operation"),
        (libc::SIGBUS, 1) => Some("misaligned access"),
        (libc::SIGILL, 5) => Some("privileged instruction"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn regions(count: u64) -> Regions {
        let mut regions = Regions::default();
        for i in 1..=count {
            let (start, end) = (i * 0x10_0000, i * 0x10_0000 + 0x1000);
            regions.map(Region {
                start,
                end,
                gpa: start,
                read: true,
                write: i % 2 == 0,
            });
        }
        regions
    }

    #[test]
    fn a_report_names_signal_address_registers_and_regions() {
        let crash = Crash::default();
        crash.signo.put(11);
        crash.code.put(1);
        crash.addr.put(0x10_2000);
        crash.regs[0].put(0x20_0010);
        let text = report("yod: ./a.out", &crash, &regions(2));
        assert!(text.starts_with(
            "yod: ./a.out: segmentation fault (SIGSEGV) at address 0x102000: nothing is mapped there\n"
        ));
        assert!(text.contains("rip 0000000000200010"));
        assert!(text.contains(
            "the address lies in no region, 0x1000 bytes above 000000100000-000000101000 r- 4 KiB"
        ));
        assert!(text.contains("rip lies in 000000200000-000000201000 rw 4 KiB"));
        assert!(text.ends_with("\n"));
    }

    #[test]
    fn faults_that_the_kernel_found_are_told_from_the_programs() {
        let crash = Crash::default();
        crash.signo.put(11);
        crash.code.put(128);
        assert!(report("yod", &crash, &regions(1)).contains("a signal's frame"));
        crash.trap[0].put(13);
        assert!(report("yod", &crash, &regions(1)).contains("instruction is not allowed"));
    }

    #[test]
    fn a_long_map_is_cut_to_what_is_near() {
        let text = report("yod", &Crash::default(), &regions(100));
        assert_eq!(
            text.lines()
                .filter(|line| line.starts_with("    0"))
                .count(),
            REGIONS_SHOWN
        );
        let regions = regions(100);
        let near: Vec<_> = nearest(&regions, 50 * 0x10_0000).collect();
        assert!(near.iter().any(|r| r.start == 50 * 0x10_0000));
    }
}
