//! Prints docs/syscalls.md, made from the table.

mod page;

fn main() {
    print!("{}", page::page());
}
