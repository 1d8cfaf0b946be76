//! What a kernel without `unsafe` could try to get at Rust objects, and what must end it: one way for each word of the command line.

use crate::run::{frame, table_frame};
use crate::{machine, programs};
use abi::pte::{A, P, PROT_NONE, PS, TABLE, U, W};
use qk_hal::addr::{Phys, PhysRange};
use qk_hal::tables::{Root, Table};
use qk_hal::task::{self, Context};
use qk_hal::vectors::FIRST_INTERRUPT;
use qk_hal::{aspace, cpu, heap, mem, tables};

const LINK: u64 = P | W | U | A | TABLE;

/// Dies if the command line says how; the heap begins at `heap_at`.
pub fn die_as_told(cmdline: &str, heap_at: Phys) {
    let table = |level| Table::new(table_frame(), level);
    match cmdline {
        // A page of a program that is the kernel's.
        "show-heap" => table(1).set(0, heap_at.0 | P | W | U),
        "show-heap-later" => table(1).set_leaves(0, 512, heap_at.0 - (1 << 20) | PROT_NONE | U),
        "show-heap-instead" => {
            let (table, shown) = (table(1), frame().0 | P | U);
            table.set(7, shown);
            let _ = table.exchange(7, shown, heap_at.0 | P | U);
        }
        "show-heap-to-host" => mem::show(PhysRange::new(heap_at, 4096)),
        "show-table" => {
            let frame = table_frame();
            let _ = Table::new(frame, 1);
            table(1).set(0, frame.0 | P | W | U);
        }
        // A table that a program can write, or of another level.
        "link-page" => table(2).set(0, frame().0 | LINK),
        "link-unused" => table(2).set(0, table_frame().0 | LINK),
        "link-level" => {
            let frame = table_frame();
            let _ = Table::new(frame, 1);
            table(3).set(0, frame.0 | LINK);
        }
        "page-as-table" => table(3).set(0, frame().0 | P | W | U),
        "large-root" => table(4).set(0, P | U | PS),
        // The kernel's half.
        "kernel-slot" => table(4).set(511, 0),
        "kernel-group" => table(4).clear_group(496),
        "kernel-take" => _ = table(4).take_groups(240, 2, 0),
        "kernel-note" => table(4).note(300, frame()),
        "kernel-window" => {
            let at = table_frame();
            let _ = Table::new(at, 4);
            Root::at(at).set_window(256, table(3).window());
        }
        "no-root" => {
            _ = Root::at({
                let at = table_frame();
                let _ = Table::new(at, 3);
                at
            })
        }
        "activate-page" => aspace::activate(frame()),
        "activate-table" => {
            let at = table_frame();
            let _ = Table::new(at, 3);
            aspace::activate(at);
        }
        // Frames of tables.
        "table-in-pool" => _ = Table::new(frame(), 1),
        "table-unused" => _ = Table::at(table_frame()),
        "table-twice" => {
            let at = table_frame();
            let _ = (Table::new(at, 1), Table::new(at, 4));
        }
        "table-level" => _ = table(5),
        "table-words" => mem::write_u64(table_frame(), heap_at.0 | LINK),
        "table-records" => mem::zero(Phys(table_frame().0 - 4096), 8),
        "table-bytes" => mem::copy(table_frame(), frame(), 8),
        // RAM for two things, or divided while others look.
        "heap-as-pool" => mem::add_to_pool(&[PhysRange::new(heap_at, 4096)]),
        "tables-as-heap" => heap::give(PhysRange::new(table_frame(), 1 << 16)),
        "tables-twice" => _ = tables::give(PhysRange::new(frame(), 4096)),
        "late-heap" | "late-pool" => {
            machine::start();
            let range = PhysRange::new(Phys(0), 0);
            match cmdline {
                "late-heap" => heap::give(range),
                _ => mem::add_to_pool(&[range]),
            }
        }
        // Interrupts and contexts.
        "exception" => cpu::send_ipi(0, FIRST_INTERRUPT - 1),
        "unbegun" => {
            let idle = task::adopt();
            if let Some(context) = Context::new_user() {
                task::switch(&idle, &context);
            }
        }
        "twice" => {
            let idle = task::adopt();
            task::switch(&Context::new_kernel(|| loop {}), &idle);
        }
        "begin-page" => programs::begin_in(frame()),
        _ => {}
    }
}
