//! The kernel half of the address space, walked entry by entry.

use crate::run::check;
use abi::pte::{ADDRESS, NX, P, PS, U, W, span};
use qk_hal::addr::Phys;
use qk_hal::aspace;

/// What the walk counts.
#[derive(Default)]
struct Found {
    writable_and_executable: u64,
    user: u64,
    lower_half: u64,
    executable_bytes: u64,
}

/// No page is writable and executable, none is a program's, the lower half is empty, and only the image executes.
pub fn audit() {
    let mut found = Found::default();
    for slot in 0..512 {
        let entry = entry(aspace::kernel_root(), slot);
        if entry & P != 0 && slot < 256 {
            found.lower_half += 1;
        } else if entry & P != 0 {
            walk(Phys(entry & ADDRESS), 3, &mut found);
        }
    }
    check("kernel root has no lower half", found.lower_half == 0);
    check(
        "no page is writable and executable",
        found.writable_and_executable == 0,
    );
    check("no kernel page is a program's", found.user == 0);
    check(
        "only the image is executable",
        (1..2 << 20).contains(&found.executable_bytes),
    );
}

fn walk(table: Phys, level: u32, found: &mut Found) {
    for index in 0..512 {
        let entry = entry(table, index);
        if entry & P == 0 {
            continue;
        }
        found.user += u64::from(entry & U != 0);
        if level > 1 && entry & PS == 0 {
            walk(Phys(entry & ADDRESS), level - 1, found);
        } else if entry & NX == 0 {
            found.executable_bytes += span(level);
            found.writable_and_executable += u64::from(entry & W != 0);
        }
    }
}

fn entry(table: Phys, index: u64) -> u64 {
    // SAFETY: Page tables are RAM, which the direct map shows.
    unsafe { ((table.direct() + index * 8) as *const u64).read_volatile() }
}
