//! Reports of faults that were made up.

use super::text::printable;
use abi::Errno;
use abi::map::STACK_TOP;

use super::*;

/// Bytes of the program at an address; nothing else can be read.
struct Code(u64, &'static [u8]);

impl RankMemory for Code {
    fn read(&self, addr: u64, into: &mut [u8]) -> Result<(), Errno> {
        let from = addr.checked_sub(self.0).ok_or(Errno::EFAULT)? as usize;
        let bytes = self.1.get(from..from + into.len()).ok_or(Errno::EFAULT)?;
        into.copy_from_slice(bytes);
        Ok(())
    }

    fn write(&self, _: u64, _: &[u8]) -> Result<(), Errno> {
        Err(Errno::EFAULT)
    }
}

/// The report of a fault without a program's file; `code` is what lies where the page of `rip` ends.
fn report_of(crash: &Crash, code: &'static [u8], regions: &Regions) -> String {
    crash.regs[0].put(0x20_1000 - code.len() as u64);
    report(
        "yod: ./a.out",
        crash,
        None,
        &Code(0x20_1000 - code.len() as u64, code),
        regions,
        STACK_TOP,
    )
}

fn crash(signo: i32, code: i32, trap: u64, error: u64) -> Crash {
    let crash = Crash::default();
    crash.signo.put(signo as u64);
    crash.code.put(code as u64);
    crash.trap[0].put(trap);
    crash.trap[1].put(error);
    crash
}

fn head(text: &str) -> &str {
    text.lines().next().expect("a line")
}

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
            exec: false,
            shared: false,
            laid: false,
        });
    }
    regions
}

#[test]
fn a_report_names_signal_address_registers_and_regions() {
    let crash = crash(11, 1, 14, 6);
    crash.addr.put(0x10_2000);
    let text = report_of(&crash, b"\xc6\x00\x01", &regions(2));
    assert_eq!(
        head(&text),
        "yod: ./a.out: segmentation fault (SIGSEGV) at address 0x102000: written where nothing is mapped"
    );
    for part in [
        "  instruction c6 00 01  movb $1,(%rax)\n",
        "rip 0000000000200ffd",
        "the address lies in no region, 0x1000 bytes above 000000100000-000000101000 r-- 4 KiB",
        "rip lies in 000000200000-000000201000 rw- 4 KiB",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.ends_with('\n'));
}

#[test]
fn the_access_is_named() {
    for (error, code, text) in [
        (4, 1, "read where nothing is mapped"),
        (7, 2, "written where that is not permitted"),
        (0x15, 2, "executed where that is not permitted"),
    ] {
        let text_seen = report_of(&crash(11, code, 14, error), b"", &regions(1));
        assert!(head(&text_seen).ends_with(text), "{text_seen}");
    }
}

#[test]
fn faults_that_the_kernel_found_are_told_from_the_programs() {
    let said = |trap, code| report_of(&crash(11, 128, trap, 0), code, &regions(1));
    assert!(said(0, b"").contains("a signal's frame"));
    assert!(said(13, b"").contains("instruction is not allowed"));
    assert!(head(&said(13, b"\xfa")).ends_with(": privileged instruction"));
}

#[test]
fn an_address_that_is_none_is_worked_out() {
    // movb $1,8(%rbx,%rcx,2)
    let crash = crash(11, 128, 13, 0);
    let set = |name, value| {
        let at = Crash::REGISTERS.iter().position(|known| *known == name);
        crash.regs[at.expect("a register")].put(value);
    };
    set("rbx", 0x8000_0000_0000_0000);
    set("rcx", 0x10);
    let text = report_of(&crash, b"\xc6\x44\x4b\x08\x01", &regions(1));
    assert!(
        head(&text).ends_with(": 0x8000000000000028 is no address: it is not canonical"),
        "{text}"
    );
}

#[test]
fn what_the_node_lacks_is_named() {
    let said = |code| report_of(&crash(4, 2, 6, 0), code, &regions(1));
    // vaddps %zmm0,%zmm1,%zmm2
    let text = said(b"\x62\xf1\x74\x48\x58\xd0");
    assert!(
        text.contains(": the node has no AVX512F: compile with"),
        "{text}"
    );
    // ud2, and bytes that are no instruction, are not what the node lacks.
    assert!(!said(b"\x0f\x0b").contains("the node has no"));
    assert!(!said(b"\x06").contains("the node has no"));
}

#[test]
fn a_stack_that_is_used_up_is_told_from_other_faults() {
    let mut regions = Regions::default();
    for (start, end) in [
        (STACK_TOP - (8 << 20), STACK_TOP - PAGE),
        (STACK_TOP - PAGE, STACK_TOP),
    ] {
        regions.map(Region {
            start,
            end,
            gpa: 1 << 30,
            read: true,
            write: true,
            exec: false,
            shared: false,
            laid: false,
        });
    }
    let said = |addr: u64, rsp: u64| {
        let crash = crash(11, 1, 14, 6);
        crash.addr.put(addr);
        crash.regs[1].put(rsp);
        report_of(&crash, b"", &regions).contains("stack overflow")
    };
    let lowest = STACK_TOP - (8 << 20);
    assert!(said(lowest - 8, lowest));
    assert!(
        said(lowest - (1 << 20), lowest - (2 << 20)),
        "a large array"
    );
    assert!(
        !said(lowest - 8, lowest + (1 << 20)),
        "far from the stack pointer"
    );
    assert!(!said(0, lowest) && !said(0x1000, STACK_TOP - 64));
}

/// Whatever another thread than the main one touched below the main stack was that one's overflow, with the wrong advice; and of
/// a thread's own overflow the report said nothing.
#[test]
fn a_thread_s_guard_page_is_named() {
    const STACK: u64 = 0x20_0000;
    let mut regions = regions(2);
    regions.map(Region {
        start: STACK_TOP - (8 << 20),
        end: STACK_TOP,
        gpa: 1 << 30,
        read: true,
        write: true,
        exec: false,
        shared: false,
        laid: false,
    });
    let said = |code, addr: u64, rsp: u64| {
        let crash = crash(11, code, 14, 6);
        crash.addr.put(addr);
        crash.regs[1].put(rsp);
        let text = report_of(&crash, b"", &regions);
        assert!(!text.contains("stack overflow: it needs"), "{text}");
        head(&text).contains("written in the guard page below a thread's stack")
    };
    assert!(said(2, STACK - 8, STACK) && said(2, STACK - 4096, STACK - 4000));
    assert!(!said(1, STACK - 8, STACK), "nothing is reserved there");
    assert!(
        !said(2, STACK - 8, STACK + 0x10_0000),
        "far from the stack pointer"
    );
    assert!(!said(2, STACK + 8, STACK + 16), "the stack itself");
    assert!(!said(1, STACK_TOP / 2, STACK + 16), "anything else");
    assert!(
        !said(2, 0x10_0000 - 8, 0x10_0000),
        "read-only memory is no stack"
    );
}

/// Names come from a file that may hold anything.
#[test]
fn a_terminal_is_not_to_act_on_names() {
    assert_eq!(printable("f\u{1b}[2J\n\u{9b}x é"), "f?[2J??x é");
}

#[test]
fn a_long_map_is_cut_to_what_is_near() {
    let text = report_of(&Crash::default(), b"", &regions(100));
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

/// The address alone did not say that it was another rank's.
#[test]
fn an_address_in_a_window_names_its_rank() {
    let crash = crash(11, 1, 14, 4);
    crash.addr.put(abi::map::remote(2, 0x60_1000));
    let text = report_of(&crash, b"\xc6\x00\x01", &regions(1));
    assert!(
        head(&text).contains(
            "at address 0x18000601000 (rank 2's 0x601000): read where that rank has nothing mapped"
        ),
        "{text}"
    );
    let place = "the address lies in the window on rank 2, at that rank's 0x601000";
    assert!(text.contains(place), "{text}");
}
