//! The kernel half of the address space, walked entry by entry.

use crate::run::{check, frame, table_frame};
use abi::pte::{A, ADDRESS, NX, P, PS, TABLE, U, W, span};
use qk_hal::addr::Phys;
use qk_hal::aspace;
use qk_hal::tables::{Root, Table};

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
    // SAFETY: 1. Page tables are RAM, which the direct map shows.
    unsafe { ((table.direct() + index * 8) as *const u64).read_volatile() }
}

/// What page tables of programs give out, and take.
pub fn tables_of_programs() {
    let [root, top, lowest] = [4, 3, 1].map(|level| {
        let frame = table_frame();
        let _ = Table::new(frame, level);
        frame
    });
    let table = Table::at(root);
    let kernels = (0..512).filter(|&slot| table.get(slot) != 0);
    check(
        "a root has the kernel's half",
        kernels.clone().count() > 0 && kernels.clone().all(|slot| slot >= 256),
    );
    check(
        "no table of the kernel's is given out",
        kernels.clone().all(|slot| table.below(slot).is_none()),
    );
    table.set(0, top.0 | P | W | U | A | TABLE);
    check(
        "a link leads to its table",
        table.below(0).is_some_and(|below| below.window().is_some()),
    );
    check(
        "only such a one is shown",
        Table::at(lowest).window().is_none(),
    );
    let windows = Root::at(root);
    windows.set_window(7, Table::at(top).window());
    check(
        "a window is not executable, nor used",
        table.get(7) == top.0 | P | W | U | NX && !windows.window_is_used(7),
    );
    table.set(7, top.0 | P | W | U | A | TABLE | NX);
    check(
        "its use is seen, and taken",
        windows.window_is_used(7)
            && windows.take_window_use(7)
            && !windows.take_window_use(7)
            && !windows.window_is_used(7),
    );
    windows.set_window(7, None);
    check("a window is closed", table.get(7) == 0);
    let (leaves, at) = (Table::at(lowest), frame());
    leaves.set_leaves(3, 40, at.0 | P | U | NX);
    check(
        "leaves follow one another",
        leaves.get(2) == 0
            && leaves.get(3) == at.0 | P | U | NX
            && leaves.get(42) == at.0 + 39 * 4096 | P | U | NX
            && leaves.get(43) == 0,
    );
    let taken = leaves.take_groups(20, 3, leaves.get(20));
    check(
        "leaves are taken",
        taken == 23 && leaves.get(42) == 0 && leaves.get(20) == 0 && leaves.get(19) != 0,
    );
    leaves.clear_group(3);
    check(
        "leaves are cleared",
        leaves.get(18) == 0 && leaves.get(19) != 0,
    );
}
