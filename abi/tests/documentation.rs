//! The page about system calls is made from the table: it must not be older than it.

#[path = "../examples/syscall_table/page.rs"]
mod page;

use std::path::Path;

#[test]
fn the_page_about_system_calls_is_up_to_date() {
    // cargo runs tests in the folder of their package.
    let path = Path::new("../docs/syscalls.md");
    let there = std::fs::read_to_string(path).expect("docs/syscalls.md");
    assert!(
        there == page::page(),
        "cargo run -p margay-abi --example syscall_table > docs/syscalls.md"
    );
}
