//! The vDSO's image, and its answers against those of crate `wire`: the C code and the clock's writer must agree on
//! the page's layout and on the arithmetic.

extern crate std;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::string::String;
use std::vec::Vec;
use std::{format, fs, str};

use wire::clock::{ClockPage, ClockParams};

use super::*;

#[test]
fn it_fits_its_pages_below_the_end_of_user_memory() {
    assert_eq!(
        place().len_bytes,
        map::PAGE,
        "the clock page and one page of code"
    );
    assert_eq!(place().base, VVAR.base + VVAR.len_bytes);
    assert!(place().base + place().len_bytes <= map::USER_TOP);
    assert!(IMAGE.starts_with(b"\x7fELF"));
}

/// A directory of this test's own, next to the image.
fn work_dir() -> PathBuf {
    let dir = Path::new(env!("OUT_DIR")).join("vdso-test");
    fs::create_dir_all(&dir).expect("a directory in OUT_DIR");
    dir
}

fn build_harness(dir: &Path) -> PathBuf {
    let source = Path::new("../lib/vdso/test/harness.c");
    let harness = dir.join("harness");
    let status = Command::new("gcc")
        .args(["-O1", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&harness)
        .arg(source)
        .status();
    assert!(status.expect("gcc runs").success());
    harness
}

/// The bytes of a page that its writer filled.
fn page_of(params: &ClockParams) -> Vec<u8> {
    let page = ClockPage::default();
    page.write(params);
    let words = [
        page.seq.load(),
        page.tsc_base.load(),
        page.mono_ns.load(),
        page.real_ns.load(),
        page.mult.load(),
        page.shift.load(),
    ];
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.resize(map::PAGE as usize, 0);
    bytes
}

/// CLOCK_REALTIME, CLOCK_REALTIME_COARSE, CLOCK_TAI (uapi/linux/time.h); the others count from boot.
const REAL_CLOCKS: [u64; 3] = [0, 5, 11];

fn check_clock_line(line: &str, params: &ClockParams) {
    let mut fields = line.split(' ');
    assert_eq!(fields.next(), Some("clock"), "{line}");
    let numbers: Vec<u64> = fields.map(|n| n.parse().expect("a number")).collect();
    let [clock, before, seconds, nanoseconds, after] = numbers[..] else {
        panic!("{line}");
    };
    let base = if REAL_CLOCKS.contains(&clock) {
        params.real_ns
    } else {
        params.mono_ns
    };
    let told = seconds * 1_000_000_000 + nanoseconds;
    let expected = base + params.since_base_ns(before)..=base + params.since_base_ns(after);
    assert!(expected.contains(&told), "{line}: not in {expected:?}");
}

#[test]
fn it_tells_the_time_that_the_page_says() {
    let dir = work_dir();
    let harness = build_harness(&dir);
    let image = dir.join("vdso.so");
    fs::write(&image, IMAGE).expect("writable");
    let typical = ClockParams {
        tsc_base: 1_000_000,
        mono_ns: 123_456_789_012,
        real_ns: 1_700_000_000_123_456_789,
        // 2.5 GHz: 0.4 ns per tick; the product with a TSC of days needs more than 64 bits.
        mult: 0x6666_6666,
        shift: 32,
    };
    let ahead = ClockParams {
        tsc_base: u64::MAX,
        ..typical
    };
    for (name, params) in [("typical", typical), ("ahead", ahead)] {
        let page = dir.join(format!("{name}.page"));
        fs::write(&page, page_of(&params)).expect("writable");
        let output = Command::new(&harness)
            .args([&image, &page])
            .output()
            .expect("it runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "{name}: {} {errors}",
            output.status
        );
        let lines = str::from_utf8(&output.stdout).expect("ASCII");
        assert_eq!(lines.lines().count(), 7, "{lines}");
        for line in lines.lines() {
            check_clock_line(line, &params);
        }
    }
}
